//! An entry of the audit log, and the closed set of events that it records.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use proofmill_base::digest::Digest;
use proofmill_base::ids::{ChannelName, PipelineName, RunId};
use proofmill_base::merkle::{Tree, leaf_hash};
use proofmill_store::{
    Extensions, Head, LogRecord, Outcome, PipelineRef, Record, SourceRef, StoredEntry, Trigger,
};

/// The version of entries that this program writes and the newest that it reads.
pub const AUDIT_VERSION: u32 = 1;

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditEntry {
    pub v: u32,
    /// Number of the entry, from 0 without gaps.
    pub seq: u64,
    /// Digest of the stored bytes of the entry before; none for the first.
    pub prev: Option<Digest>,
    /// The hash tree of all entries before: the roots of its perfect subtrees, largest first.
    pub tree: Vec<Digest>,
    /// Runs that had begun and not ended before this entry, in the order in which they began.
    pub open: Vec<OpenRun>,
    /// The process that wrote the entry.
    pub writer: String,
    /// Makes the bytes unique, so that a writer recognises its own.
    pub nonce: String,
    /// When the entry was written, for people.
    pub t_utc: DateTime<Utc>,
    pub event: AuditEvent,
    #[serde(default, skip_serializing_if = "Extensions::is_empty")]
    pub extensions: Extensions,
}

/// A run that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRun {
    pub run: RunId,
    pub pipeline: PipelineName,
}

/// What an entry records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AuditEvent {
    /// The runs of a store that is older than its log, earliest first.
    Adopted {
        runs: Vec<AdoptedRun>,
    },
    /// A run is about to begin, or to be resumed: nothing is computed before this entry.
    RunBegan {
        run: RunId,
        pipeline: PipelineRef,
        trigger: Trigger,
    },
    RunEnded(RunEnd),
    /// Recorded answers of models count no more.
    Forgot {
        /// The forgetting in the log of the ledger.
        id: String,
        author: String,
        reason: String,
        answers: u64,
    },
    /// The root of a table whose record has none.
    RowsRoot {
        /// Digest of the stored bytes of the record.
        artifact: Digest,
        rows: u64,
        root: Digest,
    },
    /// A gate judged a run.
    Judged(Judged),
    /// People chose the run that others are compared with.
    Pinned {
        pipeline: PipelineName,
        run: RunId,
        /// Who answers for the choice.
        owner: String,
        reason: String,
        /// All channels of the pipeline after this.
        channels: Channels,
    },
    /// A key signs from here on, in the form of a signed note's verifier key. It is trusted by those only who
    /// were given it elsewhere.
    Key {
        verifier: String,
    },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    pub run: RunId,
    pub pipeline: PipelineName,
    pub how: Ending,
    /// Digest of the stored bytes of its manifest; none if it is not published.
    pub manifest: Option<Digest>,
    /// The last entry of its log; none if it has no log.
    pub log: Option<Head>,
    /// The last entries then of the logs that the run read or wrote: `ledger`, and `memories/NAME` of each memory.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub heads: BTreeMap<String, Head>,
    /// Whether another process entered this, after the run's own had ended without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

/// What a gate found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// The name of the gate.
    pub gate: PipelineName,
    /// The pipeline of the run that was judged.
    pub pipeline: PipelineName,
    pub candidate: RunId,
    /// The run that it was compared with; `None` if there was none.
    pub baseline: Option<RunId>,
    pub word: VerdictWord,
    /// The verdict with its evidence.
    pub verdict: SourceRef,
    /// All channels of the pipeline after this.
    pub channels: Channels,
}

/// Names for runs of one pipeline. [`BASELINE`] is what people pinned; each other one is the last run that passed a gate with
/// this channel.
pub type Channels = BTreeMap<ChannelName, RunId>;

/// The channel that people pin.
pub const BASELINE: &str = "baseline";

/// A verdict in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictWord {
    /// A drop that matters is excluded.
    Pass,
    /// A drop that matters is found, or another condition is broken.
    Fail,
    /// Neither: the questions are too few.
    CannotTell,
    /// The two runs do not measure the same.
    NotComparable,
    /// The candidate has no numbers.
    NotFinished,
}

impl VerdictWord {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::CannotTell => "cannot tell",
            Self::NotComparable => "not comparable",
            Self::NotFinished => "not finished",
        }
    }
}

/// How a run ended, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Succeeded,
    Failed,
    /// Stopped by a signal or its budget.
    Stopped,
    /// Its process was gone before the run had ended.
    Killed,
    /// Nothing of it is in the store: its process was gone before it began.
    NotBegun,
}

/// A run of a store that is older than its audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdoptedRun {
    pub run: RunId,
    /// `None` if its records cannot be read.
    pub pipeline: Option<PipelineName>,
    /// How it ended; `None` if it had not, or its records cannot be read.
    pub how: Option<Ending>,
    /// Digest of the stored bytes of its manifest; none if it is not published.
    pub manifest: Option<Digest>,
}

impl Record for AuditEntry {
    const VERSION: u32 = AUDIT_VERSION;
}

impl LogRecord for AuditEntry {
    fn seq(&self) -> u64 {
        self.seq
    }

    fn prev(&self) -> Option<Digest> {
        self.prev
    }
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed => Self::Failed,
            Outcome::Interrupted => Self::Stopped,
        }
    }
}

impl Ending {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Killed => "killed",
            Self::NotBegun => "not begun",
        }
    }
}

impl AuditEvent {
    /// The event in a word or two, for people.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Adopted { .. } => "adopted",
            Self::RunBegan { trigger: Trigger::Resume, .. } => "resumed",
            Self::RunBegan { .. } => "began",
            Self::RunEnded(end) => end.how.word(),
            Self::Forgot { .. } => "forgot",
            Self::RowsRoot { .. } => "rows root",
            Self::Judged(judged) => judged.word.word(),
            Self::Pinned { .. } => "pinned",
            Self::Key { .. } => "key",
        }
    }

    /// The run that it is about.
    pub fn run(&self) -> Option<&RunId> {
        match self {
            Self::RunBegan { run, .. } => Some(run),
            Self::RunEnded(end) => Some(&end.run),
            Self::Judged(judged) => Some(&judged.candidate),
            Self::Pinned { run, .. } => Some(run),
            Self::Adopted { .. }
            | Self::Forgot { .. }
            | Self::RowsRoot { .. }
            | Self::Key { .. } => None,
        }
    }

    /// The pipeline that it is about.
    pub fn pipeline(&self) -> Option<&PipelineName> {
        match self {
            Self::RunBegan { pipeline, .. } => Some(&pipeline.name),
            Self::RunEnded(end) => Some(&end.pipeline),
            Self::Judged(judged) => Some(&judged.pipeline),
            Self::Pinned { pipeline, .. } => Some(pipeline),
            Self::Adopted { .. }
            | Self::Forgot { .. }
            | Self::RowsRoot { .. }
            | Self::Key { .. } => None,
        }
    }
}

/// What an entry says of all entries before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogState {
    pub tree: Tree,
    pub open: Vec<OpenRun>,
}

impl LogState {
    /// What `entry` says; `None` if its tree does not fit its number.
    pub fn before(entry: &AuditEntry) -> Option<Self> {
        let tree = Tree::of_peaks(entry.seq, entry.tree.clone())?;
        Some(Self { tree, open: entry.open.clone() })
    }

    /// The same of the entries up to this one.
    pub fn add(&mut self, stored: &StoredEntry<AuditEntry>) {
        self.tree.push(leaf_hash(&stored.bytes));
        match &stored.entry.event {
            AuditEvent::RunBegan { run, pipeline, .. } => self.begin(run, &pipeline.name),
            AuditEvent::RunEnded(end) => self.open.retain(|open| open.run != end.run),
            AuditEvent::Adopted { runs } => {
                for adopted in runs.iter().filter(|run| run.how.is_none()) {
                    if let Some(pipeline) = &adopted.pipeline {
                        self.begin(&adopted.run, pipeline);
                    }
                }
            }
            AuditEvent::Forgot { .. }
            | AuditEvent::RowsRoot { .. }
            | AuditEvent::Judged(_)
            | AuditEvent::Pinned { .. }
            | AuditEvent::Key { .. } => {}
        }
    }

    /// Whether a run has begun and not ended.
    pub fn is_open(&self, run: &RunId) -> bool {
        self.open.iter().any(|open| open.run == *run)
    }

    fn begin(&mut self, run: &RunId, pipeline: &PipelineName) {
        if !self.is_open(run) {
            self.open.push(OpenRun { run: run.clone(), pipeline: pipeline.clone() });
        }
    }
}
