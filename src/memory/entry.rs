//! The record of an action: one object of the store, created once, naming the digest of the one before.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::memory::{Action, Lesson};
use proofmill_base::digest::Digest;
use proofmill_base::ids::{MemoryName, RunId};
use proofmill_store::{LogRecord, Record};

/// The version of entries that this program writes and the newest that it reads.
pub const ENTRY_VERSION: u32 = 1;

/// An entry of a memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalEntry {
    pub v: u32,
    pub memory: MemoryName,
    /// Number of the entry, from 1 without gaps.
    pub seq: u64,
    /// Digest of the stored bytes of the entry before; none for the first.
    pub prev: Option<Digest>,
    /// Makes the bytes unique, so that a writer recognises its own.
    pub nonce: String,
    /// When it was written, for people.
    pub t_utc: DateTime<Utc>,
    pub author: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The proof that prompted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// The run that has the proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub action: Action,
}

impl Record for JournalEntry {
    const VERSION: u32 = ENTRY_VERSION;
}

impl LogRecord for JournalEntry {
    fn seq(&self) -> u64 {
        self.seq
    }

    fn prev(&self) -> Option<Digest> {
        self.prev
    }
}

/// Where an entry stands: all that a lesson does not say.
#[derive(Debug)]
pub(crate) struct Place {
    pub memory: MemoryName,
    /// Number of the entry.
    pub seq: u64,
    /// Digest of the entry before.
    pub prev: Option<Digest>,
    /// Makes the bytes unique.
    pub nonce: String,
    pub t_utc: DateTime<Utc>,
}

impl JournalEntry {
    /// `lesson` as the entry at `place`.
    pub(crate) fn new(place: Place, lesson: &Lesson) -> Self {
        let Place { memory, seq, prev, nonce, t_utc } = place;
        let Lesson { action, author, reason, proof, run } = lesson.clone();
        Self {
            v: ENTRY_VERSION,
            memory,
            seq,
            prev,
            nonce,
            t_utc,
            author,
            reason,
            proof,
            run,
            action,
        }
    }
}
