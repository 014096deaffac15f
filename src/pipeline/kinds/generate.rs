//! Settings of `generate`: a text for every row, written by a model.

use proofmill_settings::options::GenerateOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{Expression, ModelRef, StageRef};

/// Writes a text for every row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["prompt"]}, {"required": ["messages"]}]))]
pub struct Generate {
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
    /// Column that identifies a row and becomes `row_id`.
    #[serde(default = "row_id_column")]
    pub id: String,
    /// Other columns of the table that every row keeps.
    #[serde(default)]
    pub keep: Vec<String>,
    /// How the model generates text.
    #[serde(default)]
    pub options: GenerateOptions,
    /// Required format of the answers; for a model on this machine, or with `api: chat`.
    pub response_format: Option<AnswerFormat>,
}

/// The format of an answer, as in OpenAI's protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerFormat {
    /// `json_object`, `json_schema` for JSON of a schema, or `regex` for a text.
    #[serde(rename = "type")]
    pub kind: AnswerType,
    /// The schema, for `json_schema`.
    pub json_schema: Option<AnswerSchema>,
    /// The regular expression of the whole answer, for `regex`; only for models on this machine.
    #[schemars(length(min = 1))]
    pub regex: Option<String>,
}

/// Type of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerType {
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema,
    /// Text that matches a regular expression as a whole.
    Regex,
}

/// A JSON Schema: here or in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["schema"]}, {"required": ["file"]}]))]
pub struct AnswerSchema {
    /// Name of the schema at the endpoint: letters, digits, `_` and `-`.
    #[serde(default = "answer")]
    pub name: String,
    /// The schema itself.
    pub schema: Option<serde_json::Value>,
    /// A file that holds the schema as JSON, relative to the working directory. The fingerprint covers its content,
    /// not its name.
    pub file: Option<String>,
    /// Whether the endpoint must enforce the schema.
    pub strict: Option<bool>,
}

fn answer() -> String {
    "answer".to_owned()
}

/// One turn of a chat.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Role of the speaker.
    pub role: Role,
    /// Content of the message: an SQL expression over the columns of the table that gives a text.
    #[schemars(length(min = 1))]
    pub content: Expression,
}

/// Role of a speaker in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions for the model.
    System,
    /// The same, for newer models of OpenAI.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Its name in a file and in a request.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// The column that every source has.
pub(super) fn row_id_column() -> String {
    "row_id".to_owned()
}
