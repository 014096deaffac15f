//! Settings of `generate`: a text for every row, written by a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{Expression, ModelRef, StageRef};

/// Writes a text for every row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generate {
    /// Table of the prompts.
    pub from: StageRef,
    /// A model of `models:`.
    pub model: ModelRef,
    /// What the model reads: an SQL expression over the columns of the table.
    #[schemars(length(min = 1))]
    pub prompt: Expression,
    /// Column that identifies a row and becomes `row_id`.
    #[serde(default = "row_id_column")]
    pub id: String,
    /// Other columns of the table that every row keeps.
    #[serde(default)]
    pub keep: Vec<String>,
    /// How the model writes.
    #[serde(default)]
    pub options: GenerateOptions,
}

/// The column that every source has.
pub(super) fn row_id_column() -> String {
    "row_id".to_owned()
}

/// How a model writes; `docs/specs/functions-model.md` has the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GenerateOptions {
    /// Most new tokens; 128 when absent.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// No end before so many new tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_tokens: Option<u32>,
    /// Divides the logits; 0 takes the likeliest token.
    #[schemars(range(min = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Only the likeliest so many tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Only the likeliest tokens whose probabilities reach this sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Seed of the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Answers for each row, each a row of its own.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u32>,
    /// Beam search with so many hypotheses.
    #[schemars(range(min = 2))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beams: Option<u32>,
    /// The best so many of a beam search, each a row of its own.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<u32>,
    /// Exponent of the length in the score of a beam search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_penalty: Option<f64>,
    /// Ends a beam search as soon as all hypotheses are complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<bool>,
    /// The answer ends before the first of these texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Vec<String>>,
    /// Text that the answer is made to begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The answer is one of these texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub among: Option<Vec<String>>,
    /// Most tokens of a prompt; a longer one is cut instead of refused.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate: Option<u32>,
    /// Which end of a long prompt is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate_keep: Option<Keep>,
}

/// An end of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The beginning.
    Start,
    /// The end.
    End,
}
