//! Settings of `proof_search`: hypotheses -> trees of proofs, each premise proved in its turn.

use proofmill_settings::options::GenerateOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::prove::yes;
use crate::kinds::verify::{Probability, half};
use crate::settings::{ModelRef, StageRef};

/// Searches for proofs of several steps (Entailer's search): the best proof of a hypothesis, then of
/// each of its premises, and so on. A proof stays where it is stronger than what is believed without
/// it. One row for each proof that was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProofSearch {
    /// Table of a `hypothesize` stage, or one with its columns.
    pub from: StageRef,
    /// A model of `models:`: prover and verifier.
    pub model: ModelRef,
    /// Table of a `retrieve` stage whose queries are the questions. Its facts are the context of every
    /// proof of a question.
    pub context: Option<StageRef>,
    /// Maximum number of proofs on the path from a hypothesis down to a sentence without one.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 10))]
    pub depth: u32,
    /// Whether a proof is forced to begin with each fact of the context.
    #[serde(default = "yes")]
    pub forced: bool,
    /// Whether free proofs are written.
    #[serde(default = "yes")]
    pub free: bool,
    /// Whether the model reads question and answer beside a hypothesis; never beside a premise.
    #[serde(default = "yes")]
    pub question: bool,
    /// How free proofs are written; when absent, 6 samples with `top_p: 0.95`.
    #[serde(default = "sampled")]
    pub options: GenerateOptions,
    /// Probability from which a sentence is believed.
    #[serde(default = "half")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: f64,
    /// Definition of a probability.
    #[serde(default)]
    pub probability: Probability,
    /// Whether the end of the output counts for a probability; `false` for endpoints.
    #[serde(default = "yes")]
    pub include_eos: bool,
    /// Whether sentences of the context are believed without asking the model.
    #[serde(default)]
    pub trust_memory: bool,
    /// Table of entailments that users blocked: columns `hypothesis` and `premises`.
    pub blocked: Option<StageRef>,
    /// Table of what is known, a column `fact`: a proof with a premise that contradicts a fact is rejected without
    /// asking the model. With a column `query_id`, as of `retrieve`, a fact counts for the question of this id
    /// only.
    pub memory: Option<StageRef>,
    /// Maximum number of tokens of a verifier's prompt; a longer one is truncated instead of rejected.
    #[schemars(range(min = 1))]
    pub truncate: Option<u32>,
    /// Columns of `from` that every row keeps.
    #[serde(default)]
    pub keep: Vec<String>,
}

/// Nothing published; that of independent implementations.
fn three() -> u32 {
    3
}

/// Nucleus sampling; the numbers are those of independent implementations.
fn sampled() -> GenerateOptions {
    GenerateOptions {
        samples: Some(6),
        temperature: Some(1.0),
        top_p: Some(0.95),
        ..GenerateOptions::default()
    }
}
