//! What a run's log records: the closed set of events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use proofmill_base::digest::Digest;
use proofmill_store::{Machine, Outcome, PipelineRef, SourceRefs, StageOutcome, Trigger};

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "few are held at a time")]
pub enum Event {
    /// The run began.
    Started {
        pipeline: PipelineRef,
        /// Parameters after resolution, by name.
        params: BTreeMap<String, Json>,
        /// Versions of the code that takes part, and the build of the program.
        code: BTreeMap<String, String>,
        /// Templates that the pipeline uses, with the digests of their texts.
        #[serde(default)]
        templates: BTreeMap<String, Digest>,
        /// The texts that it was made of.
        #[serde(default)]
        sources: SourceRefs,
        #[serde(default)]
        trigger: Trigger,
        #[serde(default)]
        machine: Machine,
        /// Number of stages that take part.
        stages: usize,
    },
    /// Stages ended; one entry for all that ended while the last one was written.
    Stages(Vec<StageOutcome>),
    /// Stages failed.
    Failed {
        /// Each with its reason.
        failures: Vec<StageFailure>,
    },
    /// The run ended.
    Finished { outcome: Outcome },
}

/// A stage that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageFailure {
    pub stage: String,
    pub message: String,
    /// What it gave: its artifact is the table that failed its checks, if it came so far. Older programs did
    /// not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<StageOutcome>,
    /// A query over the tables of the run that gives the rows at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
}
