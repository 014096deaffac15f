//! What lies in the store between a process that asks and those that answer.

use proofmill_base::digest::{Digest, Hasher};
use proofmill_engine::request::RequestError;
use proofmill_pipeline::models::Model;
use proofmill_settings::endpoint::Budget;
use proofmill_store::Record;
use proofmill_udfs::model::{AskError, key};
use serde::{Deserialize, Serialize};

/// The version of these records.
pub const RELAY_VERSION: u32 = 1;

/// A model that requests go to: who it has to be, and how it is opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCard {
    pub v: u32,
    /// The name that a pipeline gives it.
    pub name: String,
    /// Everything that can change an answer, as keys of requests have it.
    pub identity: String,
    /// Its settings. Secrets are in the environment, by the names that these have.
    pub settings: Model,
}

impl ModelCard {
    /// The digest of the identity, by which the model is found.
    pub fn id(&self) -> Digest {
        Digest::of(self.identity.as_bytes())
    }
}

/// Requests to a model, in the order of the rows that ask them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSegment {
    pub v: u32,
    /// The digest of the identity of the model.
    pub model: Digest,
    pub requests: Vec<KeyedRequest>,
    /// What its answers may use, where the model has a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Budget>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyedRequest {
    pub key: Digest,
    /// Its canonical form.
    pub request: String,
}

impl RequestSegment {
    pub fn new(model: Digest, requests: Vec<KeyedRequest>, share: Option<Budget>) -> Self {
        Self { v: RELAY_VERSION, model, requests, share }
    }

    /// The digest of what it asks, which is its name: who publishes the same again publishes nothing new.
    pub fn id(&self) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(self.model.as_bytes());
        self.requests.iter().for_each(|it| hasher.update(it.key.as_bytes()));
        hasher.finish()
    }

    /// The first request whose key is not that of its text and the model, if there is one.
    pub fn wrong(&self, identity: &str) -> Option<&KeyedRequest> {
        let is_wrong = |it: &&KeyedRequest| Digest::from(key(identity, &it.request)) != it.key;
        self.requests.iter().find(is_wrong)
    }
}

/// The answers to a segment. The first record of a segment counts, from any worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerRecord {
    pub v: u32,
    /// The segment.
    pub segment: Digest,
    /// The process that answered.
    pub worker: String,
    /// One for each request, in their order.
    pub answers: Vec<AnsweredRequest>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredRequest {
    /// The answer as JSON.
    Answer(String),
    /// It has none.
    Refused(Refusal),
    /// It has none now, and may have one another time.
    Passing(Refusal),
    /// It was not sent: the share of its segment was used up.
    Unsent,
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    TooLong { tokens: u32, limit: u32 },
    Invalid(String),
    Failed(String),
    Cancelled,
}

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::TooLong { tokens, limit } => Self::TooLong { tokens, limit },
            RequestError::Invalid(text) => Self::Invalid(text),
            RequestError::Failed(text) => Self::Failed(text),
            RequestError::Cancelled => Self::Cancelled,
        }
    }
}

impl From<Refusal> for RequestError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TooLong { tokens, limit } => Self::TooLong { tokens, limit },
            Refusal::Invalid(text) => Self::Invalid(text),
            Refusal::Failed(text) => Self::Failed(text),
            Refusal::Cancelled => Self::Cancelled,
        }
    }
}

impl AnsweredRequest {
    /// What the process with the request gets.
    ///
    /// # Errors
    ///
    /// Why there is no answer; an answer that cannot be read.
    pub fn taken(self) -> Result<proofmill_engine::request::Answer, AskError> {
        match self {
            Self::Answer(json) => serde_json::from_str(&json).map_err(|error| {
                AskError::Row(RequestError::Failed(format!("the answer of a worker: {error}")))
            }),
            Self::Refused(refusal) => Err(AskError::Row(refusal.into())),
            Self::Passing(refusal) => Err(AskError::Passing(refusal.into())),
            Self::Unsent => Err(AskError::Passing(RequestError::Cancelled)),
        }
    }
}

/// Who answers a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentClaim {
    pub v: u32,
    pub worker: String,
}

impl Record for ModelCard {
    const VERSION: u32 = RELAY_VERSION;
}

impl Record for RequestSegment {
    const VERSION: u32 = RELAY_VERSION;
}

impl Record for AnswerRecord {
    const VERSION: u32 = RELAY_VERSION;
}

impl Record for SegmentClaim {
    const VERSION: u32 = RELAY_VERSION;
}
