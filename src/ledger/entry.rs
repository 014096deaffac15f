//! An answer of a model, and the request that it answers.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::de::IgnoredAny;

use crate::LedgerError;
use crate::error::Result;
use proofmill_base::digest::Digest;
use proofmill_base::ids::RunId;

/// JSON texts that say nothing: no answer to replay.
const EMPTY_ANSWERS: [&str; 4] = ["null", "\"\"", "{}", "[]"];

/// An answer that is to be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    key: Digest,
    model: Arc<str>,
    kind: Arc<str>,
    request: Box<str>,
    answer: Box<str>,
    run: RunId,
}

/// What a request is about, beside its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Digest over what the model is: weights, tokenizer, configuration, engine; not its name.
    pub model: Arc<str>,
    /// Kind of the request, such as `generate`.
    pub kind: Arc<str>,
    pub run: RunId,
}

impl NewEntry {
    /// The `answer`, a JSON text, to the complete `request`, a canonical JSON text. The `key` is a
    /// SHA-256 over model and request; nothing that could change the answer is missing from those two.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Refused`] when the answer is empty or no JSON. Failures are not answers: do not
    /// record them.
    pub fn new(key: Digest, origin: Origin, request: &str, answer: &str) -> Result<Self> {
        let refused = |reason: &str| LedgerError::Refused { request: key, reason: reason.into() };
        let answer = answer.trim();
        if answer.is_empty() || EMPTY_ANSWERS.contains(&answer) {
            return Err(refused("it is empty"));
        }
        if let Err(error) = serde_json::from_str::<IgnoredAny>(answer) {
            return Err(refused(&format!("it is not JSON ({error})")));
        }
        let Origin { model, kind, run } = origin;
        Ok(Self { key, model, kind, request: request.into(), answer: answer.into(), run })
    }

    /// Digest of model and request.
    pub fn key(&self) -> Digest {
        self.key
    }
}

/// An answer in the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Digest of model and request.
    pub key: Digest,
    pub answer: Box<str>,
    /// The model, the kind of the request, and the run that sent it.
    pub origin: Origin,
    /// The process that recorded it.
    pub writer: Arc<str>,
    /// When it was recorded, to the microsecond.
    pub created_at: DateTime<Utc>,
}

/// A row of a segment: an answer with the text of its request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub answer: Arc<Answer>,
    /// The request, a canonical JSON text.
    pub request: Box<str>,
}

impl Row {
    /// The row for an answer that `writer` records at `created_at`.
    pub fn new(entry: NewEntry, writer: Arc<str>, created_at: DateTime<Utc>) -> Self {
        let NewEntry { key, model, kind, request, answer, run } = entry;
        let origin = Origin { model, kind, run };
        Self { answer: Arc::new(Answer { key, answer, origin, writer, created_at }), request }
    }

    /// Digest of model and request.
    pub fn key(&self) -> Digest {
        self.answer.key
    }

    /// Bytes that the row takes in memory, approximately.
    pub fn bytes(&self) -> usize {
        ROW_BYTES + self.request.len() + self.answer.answer.len()
    }
}

/// Bytes of a row without its texts, and of its place in the buffer.
const ROW_BYTES: usize = 320;
