//! What a verification found, and what it looked at.

use std::fmt;

use proofmill_base::ids::{RunId, StageName};
use proofmill_store::{Key, StoreError};
use serde::Serialize;

/// How deep a verification looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The audit log, the logs and records of runs and memories, signatures and anchors.
    Records = 1,
    /// Also the digest of every object.
    Digests = 2,
    /// Also rows, schemas and roots of tables, which are decoded for it.
    Rows = 3,
}

/// What is wrong with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It is not in the store.
    Missing,
    /// It is a record that does not parse, or whose checksum is wrong.
    Damaged,
    /// Its bytes are not those that were recorded.
    Changed,
    /// A newer program wrote it.
    Newer,
    /// It does not continue the record before it.
    ChainBroken,
    /// It contradicts another record.
    Contradicts,
    /// A run that no entry of the audit log names.
    NotLogged,
    /// The log is not the one that an anchor names.
    Rewritten,
    /// The log lacks entries that an anchor names.
    CutOff,
    /// An anchor is of the log of another store.
    OtherLog,
    /// A signature is missing or not valid.
    BadSignature,
    /// It holds other rows, or other columns, than its record says.
    WrongTable,
}

impl Fault {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Damaged => "damaged",
            Self::Changed => "changed",
            Self::Newer => "newer",
            Self::ChainBroken => "chain broken",
            Self::Contradicts => "contradicts",
            Self::NotLogged => "not logged",
            Self::Rewritten => "rewritten",
            Self::CutOff => "cut off",
            Self::OtherLog => "other log",
            Self::BadSignature => "bad signature",
            Self::WrongTable => "wrong table",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Something that is not as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The object, by its key; an anchor by its file.
    pub object: String,
    pub fault: Fault,
    /// Where and what, in a sentence.
    pub detail: String,
    /// Runs that rest on the object.
    pub runs: Vec<RunId>,
    /// Their stages with metrics that rest on it.
    pub metrics: Vec<RestingMetric>,
}

/// Metrics of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RestingMetric {
    pub run: RunId,
    pub stage: StageName,
}

impl Finding {
    /// A finding of which nothing is known to depend on it yet.
    pub fn new(object: impl Into<String>, fault: Fault, detail: impl Into<String>) -> Self {
        let (object, detail) = (object.into(), detail.into());
        Self { object, fault, detail, runs: Vec::new(), metrics: Vec::new() }
    }

    /// The same, of an object that runs rest on.
    pub fn of_runs(self, runs: impl IntoIterator<Item = RunId>) -> Self {
        Self { runs: runs.into_iter().collect(), ..self }
    }

    /// What an error of the store says of the object at `key`.
    ///
    /// # Errors
    ///
    /// The error itself, if the store failed: then nothing is known of the object.
    pub fn of(key: &Key, error: StoreError) -> Result<Self, StoreError> {
        let fault = match &error {
            StoreError::Missing { .. } | StoreError::LogMissing { .. } => Fault::Missing,
            StoreError::Damaged { .. } | StoreError::Decode { .. } => Fault::Damaged,
            StoreError::Corrupt { .. }
            | StoreError::WrongSize { .. }
            | StoreError::Replaced { .. } => Fault::Changed,
            StoreError::Newer { .. } => Fault::Newer,
            StoreError::LogGap { .. }
            | StoreError::ChainBroken { .. }
            | StoreError::WrongEntry { .. } => Fault::ChainBroken,
            StoreError::WrongRows { .. } => Fault::WrongTable,
            _ => return Err(error),
        };
        Ok(Self::new(key.as_str(), fault, error.to_string()))
    }
}

/// What a verification looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examined {
    /// Entries of the audit log.
    pub entries: u64,
    pub runs: u64,
    /// Records of tables.
    pub records: u64,
    /// Objects whose bytes were digested.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Rows that were decoded.
    pub rows: u64,
    /// Objects that no record names: leftovers of attempts, which prove nothing and harm nothing.
    pub unnamed: u64,
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    pub level: u8,
    pub examined: Examined,
    pub findings: Vec<Finding>,
    /// What the anchors and signatures that were given attest, in a line each.
    pub attested: Vec<String>,
}
