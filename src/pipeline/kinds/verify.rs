//! Settings of `verify`: what a model believes of proofs or of hypotheses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::prove::yes;
use crate::settings::{ModelRef, StageRef};

/// Asks a model what it believes (Entailer's verifiers): of every premise and of the hypothesis whether it is true,
/// of every proof whether it entails the hypothesis. Proofs are scored, and accepted or rejected with a reason. For
/// a table without `premises`, only the hypotheses are judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// Table of a `prove` stage, of a `hypothesize` stage, or one with their columns.
    pub from: StageRef,
    /// A model of `models:`.
    pub model: ModelRef,
    /// Probability from which a sentence is believed; not published, 0.5 here.
    #[serde(default = "half")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: f64,
    /// Definition of a probability: of the whole output as released, or normalized over true and false.
    #[serde(default)]
    pub probability: Probability,
    /// Whether the end of the output counts for a probability, as released; `false` for endpoints, which do not
    /// return it.
    #[serde(default = "yes")]
    pub include_eos: bool,
    /// Whether sentences of the memory are believed without asking the model.
    #[serde(default)]
    pub trust_memory: bool,
    /// Whether the direct belief in a hypothesis is requested with question and answer.
    #[serde(default)]
    pub question: bool,
    /// Table of entailments that users blocked: columns `hypothesis` and `premises`.
    pub blocked: Option<StageRef>,
    /// Table of what is known, a column `fact`: a proof with a premise that contradicts a fact is rejected without
    /// asking the model. With a column `query_id`, as of `retrieve`, a fact counts for the question of this id
    /// only.
    pub memory: Option<StageRef>,
    /// Maximum number of tokens of a prompt; a longer one is truncated instead of rejected.
    #[schemars(range(min = 1))]
    pub truncate: Option<u32>,
    /// Other columns of the table that every row keeps.
    #[serde(default)]
    pub keep: Vec<String>,
}

/// The threshold of belief when none is given.
pub(super) fn half() -> f64 {
    0.5
}

/// What the probability of `true` is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Probability {
    /// That of the likelier of the two outputs, as released; one minus it if that is `false`.
    #[default]
    Released,
    /// p(true) / (p(true) + p(false)).
    Renormalized,
}
