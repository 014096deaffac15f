//! What a run reports to its observer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proofmill_udfs::model::Counts;

use crate::stages::checks::Verdict;
use crate::stages::progress::Progress;
use proofmill_base::ids::{RunId, StageName};
use proofmill_store::{Outcome, StageOutcome};

/// Something that happened in a run.
#[derive(Clone, Debug)]
pub enum Notice<'a> {
    /// The run began.
    Started {
        run: &'a RunId,
        stages: usize,
        /// Those whose table is in the store already.
        cached: usize,
        /// How long those that will run may take: a guess, to weigh them by.
        expected: &'a HashMap<StageName, Duration>,
    },
    /// Something that people should know.
    Remark {
        text: &'a str,
    },
    /// A stage could begin, and waits for a core.
    StageQueued {
        stage: &'a StageName,
    },
    /// A stage began.
    StageStarted {
        stage: &'a StageName,
        progress: Arc<Progress>,
    },
    /// A stage is tried again.
    StageRetried {
        stage: &'a StageName,
        /// Why the last attempt failed.
        message: &'a str,
        delay: Duration,
    },
    /// A stage ended well.
    StageFinished {
        outcome: &'a StageOutcome,
        notes: &'a [String],
        /// Requests to models; `None` if there were none.
        requests: Option<Counts>,
    },
    /// A check does not hold.
    CheckFailed {
        stage: &'a StageName,
        verdict: &'a Verdict,
    },
    StageFailed {
        stage: &'a StageName,
        message: &'a str,
    },
    /// The run ended.
    Finished {
        outcome: Outcome,
        wall: Duration,
    },
}

/// Watches a run.
pub trait Observer: Send + Sync {
    /// Takes note of something. Must not block.
    fn notice(&self, notice: &Notice<'_>);
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn notice(&self, _: &Notice<'_>) {}
}
