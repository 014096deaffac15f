//! Settings of `prove`: hypotheses x recalled facts -> one-step proofs, not judged yet.

use proofmill_settings::options::GenerateOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{ModelRef, StageRef};

/// Generates one-step proofs with a model (Entailer's prover): for every hypothesis one that begins freely, and one
/// that is forced to begin with each recalled fact (TeachMe's forced generation).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prove {
    /// Table of a `hypothesize` stage, or one with its columns.
    pub from: StageRef,
    /// A model of `models:`.
    pub model: ModelRef,
    /// Table of a `retrieve` stage whose queries are the questions. Its facts are the context.
    pub context: Option<StageRef>,
    /// Whether a proof is forced to begin with each fact of the context.
    #[serde(default = "yes")]
    pub forced: bool,
    /// Whether each fact of the context is a whole proof, instead of the beginning of one that the model continues.
    /// No model is called for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub facts_alone: bool,
    /// Whether free proofs are written.
    #[serde(default = "yes")]
    pub free: bool,
    /// Whether the model reads question and answer beside the hypothesis.
    #[serde(default = "yes")]
    pub question: bool,
    /// How free proofs are written; `samples` writes several.
    #[serde(default)]
    pub options: GenerateOptions,
    /// Other columns of the table that every row keeps.
    #[serde(default)]
    pub keep: Vec<String>,
}

/// For settings that are on when absent.
pub(super) fn yes() -> bool {
    true
}
