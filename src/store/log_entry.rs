//! An entry of the log of a run.

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use proofmill_base::digest::Digest;
use proofmill_base::ids::RunId;

use crate::sealed::{Extensions, Record};

/// The version of entries that this program writes and the newest that it reads.
pub const LOG_VERSION: u32 = 2;

/// One entry of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry<E> {
    pub v: u32,
    pub run: RunId,
    /// Number of the entry, from 0 without gaps.
    pub seq: u64,
    /// Digest of the stored bytes of the entry before; none for the first.
    pub prev: Option<Digest>,
    /// Number of the owner, from 1; each fence raises it by one.
    pub epoch: u64,
    /// The process that wrote the entry.
    pub writer: String,
    /// Makes the bytes unique, so that a writer recognises its own.
    pub nonce: String,
    /// When the entry was written, for people.
    pub t_utc: DateTime<Utc>,
    pub body: Body<E>,
    /// None in version 1.
    #[serde(default = "Extensions::new", skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
}

/// What an entry records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body<E> {
    /// A new owner took the run over.
    Fence,
    Event(E),
}

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Number of the entry.
    pub seq: u64,
    /// Digest of its stored bytes.
    pub sha256: Digest,
}

impl<E> Entry<E> {
    /// The event, unless this is a fence.
    pub fn event(&self) -> Option<&E> {
        match &self.body {
            Body::Fence => None,
            Body::Event(event) => Some(event),
        }
    }
}

impl<E: DeserializeOwned> Record for Entry<E> {
    const VERSION: u32 = LOG_VERSION;
    const OLDEST: u32 = 1;
}
