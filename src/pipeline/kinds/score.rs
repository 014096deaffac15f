//! Settings of `score`: how likely texts are after a prompt, by a model.

use proofmill_settings::options::ScoreOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::generate::{Turn, row_id_column};
use crate::settings::{Expression, ModelRef, StageRef};

/// Scores how likely a continuation, or each of several choices, is for every row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("allOf" = [
    {"oneOf": [{"required": ["prompt"]}, {"required": ["messages"]}]},
    {"oneOf": [{"required": ["continuation"]}, {"required": ["choices"]}]},
]))]
pub struct Score {
    /// Table of the prompts.
    pub from: StageRef,
    /// A model of `models:`.
    pub model: ModelRef,
    /// What the model reads: an SQL expression over the columns of the table that gives a text, or a list
    /// of `struct(role, content)`.
    #[schemars(length(min = 1))]
    pub prompt: Option<Expression>,
    /// What the model reads: the turns of a chat.
    #[schemars(length(min = 1))]
    pub messages: Option<Vec<Turn>>,
    /// The continuation: an SQL expression that gives a text. One row for each row of the table.
    pub continuation: Option<Expression>,
    /// The choices: an SQL expression that gives a list of texts. One row for each choice.
    pub choices: Option<Expression>,
    /// Column that identifies a row and becomes `row_id`.
    #[serde(default = "row_id_column")]
    pub id: String,
    /// Other columns of the table that every row keeps.
    #[serde(default)]
    pub keep: Vec<String>,
    /// How texts are scored.
    #[serde(default)]
    pub options: ScoreOptions,
}
