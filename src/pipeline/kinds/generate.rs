//! Settings of `generate`: a text for every row, written by a model.

use proofmill_engine::options::GenerateOptions;
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
