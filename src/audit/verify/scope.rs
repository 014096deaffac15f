//! What to verify, and what is collected on the way.

use std::collections::{BTreeSet, HashSet};

use proofmill_base::ids::RunId;
use proofmill_store::{Key, StoreError};

use crate::checkpoint::Anchor;
use crate::finding::{Examined, Finding, Level};
use crate::note::Verifier;
use crate::verify::journal::Journal;

/// What to verify.
#[derive(Debug)]
pub struct Scope {
    pub level: Level,
    /// One run, and what it rests on; all of the store if there is none.
    pub run: Option<RunId>,
    /// Anchors that were kept elsewhere, by the names of their files.
    pub anchors: Vec<(String, Anchor)>,
    /// The key that signed them, and the checkpoints in the store.
    pub key: Option<Verifier>,
    /// What an earlier verification compared, and this one adds to.
    pub journal: Option<Journal>,
}

/// Follows how far a verification is.
pub trait Watcher: Send + Sync {
    fn step(&self, step: Step);
}

/// How far a verification is.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub phase: Phase,
    /// So many runs, objects or tables are done, of so many.
    pub done: u64,
    pub all: u64,
    /// So many bytes of objects, of so many.
    pub bytes: (u64, u64),
}

/// What a verification goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Runs,
    Objects,
    Tables,
}

/// What is collected on the way.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub examined: Examined,
    pub findings: Vec<Finding>,
    pub attested: Vec<String>,
    /// Objects with a finding: what was found once is not examined again.
    pub known: BTreeSet<String>,
    /// Records of tables that are what a run names.
    pub read: HashSet<Key>,
}

impl Collected {
    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.known.insert(finding.object.clone());
        self.findings.push(finding);
    }

    /// The value, or the finding that an error of the store is.
    ///
    /// # Errors
    ///
    /// If the store failed.
    pub fn take<T>(
        &mut self,
        key: &Key,
        result: Result<T, StoreError>,
        runs: &[RunId],
    ) -> Result<Option<T>, StoreError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                let finding = Finding::of(key, error)?.of_runs(runs.iter().cloned());
                self.add(finding);
                Ok(None)
            }
        }
    }
}
