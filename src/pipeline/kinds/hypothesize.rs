//! Settings of `hypothesize`: questions -> the hypotheses that their answers stand for.

use proofmill_settings::options::GenerateOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::generate::row_id_column;
use crate::settings::{Expression, ModelRef, StageRef};

/// Turns each question into one declarative hypothesis per possible answer (TeachMe, section 3):
/// from given choices, from a statement and its negation, or from candidates that a model samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["choices"]}, {"required": ["statement"]}, {"required": ["candidates"]},
]))]
pub struct Hypothesize {
    /// Table of the questions.
    pub from: StageRef,
    /// Column that identifies a question and becomes `question_id`.
    #[serde(default = "row_id_column")]
    pub id: String,
    /// The question: an SQL expression over the columns of the table.
    #[schemars(length(min = 1))]
    pub question: Expression,
    /// The possible answers: an SQL expression that is a list of texts.
    pub choices: Option<Expression>,
    /// Labels of the choices, a list of texts in SQL; `A`, `B`, … when absent.
    pub labels: Option<Expression>,
    /// A statement that is true or false, in SQL: it becomes two hypotheses, labelled `true` (the
    /// statement) and `false` (`negation`).
    pub statement: Option<Expression>,
    /// The opposite of `statement`, in SQL.
    pub negation: Option<Expression>,
    /// For open questions: answers that a model samples.
    pub candidates: Option<Candidates>,
    /// The hypotheses in the order of the choices: a list of texts in SQL.
    pub hypotheses: Option<Expression>,
    /// A hypothesis: an SQL expression over the columns of the table, `label` and `answer`.
    pub hypothesis: Option<Expression>,
    /// A model of `models:` that writes hypotheses (Entailer's angle `$hypothesis$`).
    pub model: Option<ModelRef>,
    /// How that model generates text.
    #[serde(default)]
    pub options: GenerateOptions,
    /// Other columns of the table that every row keeps.
    #[serde(default)]
    pub keep: Vec<String>,
}

/// Answers sampled from a model: the most frequent distinct texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Candidates {
    /// A model of `models:`.
    pub model: ModelRef,
    /// What the model reads: an SQL expression over the columns of the table.
    #[schemars(length(min = 1))]
    pub prompt: Expression,
    /// Maximum number of distinct answers to keep; not published, 4 here.
    #[serde(default = "four")]
    #[schemars(range(min = 1, max = 26))]
    pub keep: u32,
    /// How the model generates text; `samples` and a `temperature` above 0 are required.
    pub options: GenerateOptions,
}

fn four() -> u32 {
    4
}
