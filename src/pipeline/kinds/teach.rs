//! Settings of `teach`: a memory grows while questions are answered and corrected.

use proofmill_settings::options::GenerateOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::prove::yes;
use crate::kinds::select_answer::WithoutProof;
use crate::kinds::verify::{Probability, half};
use crate::settings::{Expression, ModelRef, StageRef};
use proofmill_settings::search::Analyzer;

/// Walks through questions, answers each with proofs over the memory so far, and has a simulated
/// user correct what is wrong (TeachMe, section 4.1). One row for each question: the lesson.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Teach {
    /// Table of a `hypothesize` stage: the hypotheses of the questions.
    pub from: StageRef,
    /// A model of `models:`: prover and verifier.
    pub model: ModelRef,
    /// Whether an answer is right: SQL over the columns of an answer (those of `select_answer`, and `keep`).
    #[schemars(length(min = 1))]
    pub correct: Expression,
    /// What the user says to correct an answer: SQL over the same columns.
    #[schemars(length(min = 1))]
    pub fact: Expression,
    /// When the user corrects.
    #[serde(default)]
    pub feedback: Feedback,
    /// Columns of `from` that every row keeps; they are the question's.
    #[serde(default)]
    pub keep: Vec<String>,
    /// Table of the initial facts: a column `fact`.
    pub memory: Option<StageRef>,
    /// Seed of the order of the questions; the order of the table when absent.
    pub order: Option<u64>,
    /// Questions that are answered before the memory grows by their corrections.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub round: u32,
    /// Facts that a question recalls.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 1000))]
    pub recall: u32,
    /// How questions and facts become terms.
    #[serde(default, skip_serializing_if = "Analyzer::is_default")]
    pub analyzer: Analyzer,
    /// Whether a proof is forced to begin with each recalled fact.
    #[serde(default = "yes")]
    pub forced: bool,
    /// Whether each recalled fact is a whole proof, instead of the beginning of one that the model continues. No
    /// model is called for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub facts_alone: bool,
    /// Whether free proofs are written.
    #[serde(default = "yes")]
    pub free: bool,
    /// Whether the prover reads question and answer beside the hypothesis.
    #[serde(default = "yes")]
    pub question: bool,
    /// How free proofs are written.
    #[serde(default)]
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
    /// Whether sentences of the memory are believed without asking the model.
    #[serde(default)]
    pub trust_memory: bool,
    /// Whether a proof with a premise that contradicts a fact of the memory so far is rejected without asking the
    /// model.
    #[serde(default)]
    pub reject_contradicted: bool,
    /// What happens to a question none of whose hypotheses has an accepted proof.
    #[serde(default)]
    pub without_proof: WithoutProof,
}

/// When the simulated user speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Feedback {
    /// When the answer is wrong.
    #[default]
    Wrong,
    /// Always: the upper bound.
    All,
}

fn one() -> u32 {
    1
}

fn five() -> u32 {
    5
}
