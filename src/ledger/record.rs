//! Records of the ledger: entries of its log, checkpoints, and the segments that they name.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use proofmill_base::digest::Digest;
use proofmill_store::{Key, LogFolder, LogRecord, OpenLog, Record};

/// The version of the ledger's records that this program writes and the newest that it reads.
pub const LEDGER_VERSION: u32 = 1;

/// A segment: an immutable Parquet object of rows sorted by key, each key once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Segment {
    pub key: Key,
    /// Digest of the stored bytes.
    pub sha256: Digest,
    /// Size of the stored object, in bytes.
    pub bytes: u64,
    pub rows: u64,
    /// Where its index begins; from there to the end of the object reaches what a look-up needs first.
    pub tail_at: u64,
    /// Digest of the bytes from there to the end.
    pub tail_sha256: Digest,
    /// How many of the log's forgettings, from the first, do not concern its rows: they came before
    /// these did, or the rows that they mean were left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub past: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One entry of the ledger's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogEntry {
    pub v: u32,
    /// Number of the entry, from 0 without gaps.
    pub seq: u64,
    /// Digest of the stored bytes of the entry before; none for the first.
    pub prev: Option<Digest>,
    /// The process that wrote the entry.
    pub writer: String,
    /// Makes the bytes unique, so that a writer recognises its own.
    pub nonce: String,
    /// When the entry was written, for people.
    pub t_utc: DateTime<Utc>,
    pub body: Body,
}

/// The log of the ledger, as all open logs are.
pub(crate) fn log() -> OpenLog<LogEntry> {
    OpenLog::new(LogFolder::of_ledger())
}

/// What an entry of the log records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Body {
    /// New answers. For keys that earlier segments hold, theirs stay.
    Append(Segment),
    /// Neighbours became one segment with the same answers.
    Merge {
        /// The neighbours, earliest first.
        from: Vec<Key>,
        into: Segment,
    },
    /// Answers in the segments before count no more.
    Forget(Forget),
}

/// Answers that are to count no more, and who said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forget {
    /// Its name, which no other has.
    pub id: String,
    pub what: Scope,
    pub author: String,
    pub reason: String,
    /// How many answers there were.
    pub answers: u64,
}

/// Answers that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All that models of these identities gave.
    Models(Vec<String>),
    Requests(Vec<Digest>),
}

impl Scope {
    /// Whether an answer is meant.
    pub fn covers(&self, key: &Digest, model: &str) -> bool {
        match self {
            Self::Models(models) => models.iter().any(|known| known == model),
            Self::Requests(requests) => requests.contains(key),
        }
    }
}

/// A forgetting, with when it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forgotten {
    pub t_utc: DateTime<Utc>,
    pub forget: Forget,
}

impl Record for LogEntry {
    const VERSION: u32 = LEDGER_VERSION;
}

impl LogRecord for LogEntry {
    fn seq(&self) -> u64 {
        self.seq
    }

    fn prev(&self) -> Option<Digest> {
        self.prev
    }
}

/// What the log up to an entry amounts to. Equal logs give equal bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    pub v: u32,
    /// Number of the last entry that it covers.
    pub seq: u64,
    /// Digest of the stored bytes of that entry.
    pub head: Digest,
    /// The segments, earliest first.
    pub live: Vec<Segment>,
    /// All forgettings, earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<Forgotten>,
}

impl Record for Checkpoint {
    const VERSION: u32 = LEDGER_VERSION;
}
