//! Statements of in-toto (v1) and the envelopes that sign them (DSSE v1).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::note::Signer;

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PAYLOAD: &str = "application/vnd.in-toto+json";

/// Something with a digest (`ResourceDescriptor`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Resource {
    pub name: String,
    digest: BTreeMap<&'static str, Digest>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    annotations: Map<String, Json>,
}

impl Resource {
    pub fn new(name: &str, sha256: Digest) -> Self {
        let digest = BTreeMap::from([("sha256", sha256)]);
        Self { name: name.to_owned(), digest, annotations: Map::new() }
    }

    pub fn sha256(&self) -> Option<&Digest> {
        self.digest.get("sha256")
    }

    pub fn annotated(mut self, name: &str, value: Json) -> Self {
        self.annotations.insert(name.to_owned(), value);
        self
    }
}

/// What is said of some resources.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Statement {
    #[serde(rename = "_type")]
    kind: &'static str,
    subject: Vec<Resource>,
    #[serde(rename = "predicateType")]
    predicate_type: &'static str,
    predicate: Json,
}

impl Statement {
    /// A statement about `subject`.
    ///
    /// # Errors
    ///
    /// If there is no subject.
    pub fn of(
        subject: Vec<Resource>,
        predicate_type: &'static str,
        predicate: Json,
    ) -> Result<Self> {
        match subject.is_empty() {
            false => Ok(Self { kind: STATEMENT, subject, predicate_type, predicate }),
            true => {
                Err(Error::new(ErrorKind::Usage, "the run has nothing with a digest to speak of")
                    .with_hint(
                        "runs of older programs did not keep their texts; OpenLineage needs none",
                    ))
            }
        }
    }
}

/// A signature over a payload.
#[derive(Serialize)]
struct Envelope<'a> {
    payload: String,
    #[serde(rename = "payloadType")]
    payload_type: &'static str,
    signatures: [EnvelopeSignature<'a>; 1],
}

#[derive(Serialize)]
struct EnvelopeSignature<'a> {
    keyid: &'a str,
    sig: String,
}

/// The statement as JSON: in an envelope if there is a key, alone otherwise.
///
/// # Errors
///
/// If it cannot be written as JSON.
pub(super) fn written(statement: &Statement, signer: Option<&Signer>) -> Result<String> {
    let json = |value: serde_json::Result<String>| {
        value.map(|text| text + "\n").map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the statement cannot be written: {error}"))
        })
    };
    let Some(signer) = signer else { return json(serde_json::to_string_pretty(statement)) };
    let payload = json(serde_json::to_string(statement))?;
    let (payload, keyid) = (payload.trim_end().as_bytes(), signer.verifier().id());
    let envelope = Envelope {
        payload: BASE64.encode(payload),
        payload_type: PAYLOAD,
        signatures: [EnvelopeSignature {
            keyid: &keyid,
            sig: BASE64.encode(signer.signature(&pre_authentication(payload))),
        }],
    };
    json(serde_json::to_string(&envelope))
}

/// The bytes that are signed: DSSE's encoding of payload and type.
fn pre_authentication(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD} {} ", PAYLOAD.len(), payload.len());
    [head.as_bytes(), payload].concat()
}
