//! Settings of `embed`: a vector for every row, by a model.

use proofmill_settings::options::EmbedOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::generate::row_id_column;
use crate::settings::{Expression, ModelRef, StageRef};

/// Gives the vector of a text for every row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embed {
    /// Table of the texts.
    pub from: StageRef,
    /// A model of `models:`.
    pub model: ModelRef,
    /// The text: an SQL expression over the columns of the table.
    #[schemars(length(min = 1))]
    pub text: Expression,
    /// Column that identifies a row and becomes `row_id`.
    #[serde(default = "row_id_column")]
    pub id: String,
    /// Other columns of the table that every row keeps.
    #[serde(default)]
    pub keep: Vec<String>,
    /// How texts are read.
    #[serde(default)]
    pub options: EmbedOptions,
}
