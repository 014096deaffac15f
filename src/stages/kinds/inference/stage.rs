//! What `generate`, `score` and `embed` have in common: a model, what it is asked for each row, and the
//! columns that its answers become.

use proofmill_engine::options::OptionError;
use proofmill_pipeline::kinds::embed::Embed;
use proofmill_pipeline::kinds::generate::Generate;
use proofmill_pipeline::kinds::score::Score;
use serde_json::{Value as Json, json};

/// The column that says why a row has no answer: the last one of the plan, not of the table.
pub const ERROR: &str = "error";
/// The column that identifies a row.
pub const ROW_ID: &str = "row_id";
/// Position of a choice, from 0.
pub const CHOICE: &str = "choice";

/// What the three kinds have in common.
#[derive(Clone, Debug)]
pub struct InferenceStage {
    pub kind: &'static str,
    pub function: &'static str,
    pub model: String,
    pub id: String,
    pub keep: Vec<String>,
    pub from: String,
    /// Setting, which is also the column, and expression of each argument behind the model.
    pub arguments: Vec<(&'static str, String)>,
    pub options: Json,
    pub checked: Result<(), OptionError>,
    pub shape: Shape,
}

/// How answers become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Text,
    /// Several texts, a row each.
    Texts,
    Score,
    /// Several choices with scores, a row each.
    Choices,
    Vector,
}

impl Shape {
    /// The columns behind what a row was asked; the last is not of the table.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Text | Self::Texts => &[
                "text",
                "finish_reason",
                "prompt_tokens",
                "prompt_truncated",
                "output_tokens",
                "logprob",
                "score",
                "seed",
                "sample",
                "request_digest",
                ERROR,
            ],
            Self::Score => {
                &["logprob", "tokens", "is_greedy", "prompt_tokens", "request_digest", ERROR]
            }
            Self::Choices => &[
                CHOICE,
                "continuation",
                "logprob",
                "tokens",
                "is_greedy",
                "probability",
                "best",
                "prompt_tokens",
                "request_digest",
                ERROR,
            ],
            Self::Vector => &["vector", "tokens", "request_digest", ERROR],
        }
    }
}

impl InferenceStage {
    /// The arguments that are columns of the table too: all but a list of choices.
    pub fn shown(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.arguments.iter().map(|(key, _)| *key).filter(|key| *key != "choices")
    }

    /// For `generate`.
    pub fn generate(settings: &Generate) -> Self {
        let options = &settings.options;
        let many = options.is_counted();
        Self {
            kind: "generate",
            function: "generate",
            model: settings.model.to_string(),
            id: settings.id.clone(),
            keep: settings.keep.clone(),
            from: settings.from.to_string(),
            arguments: vec![("prompt", settings.prompt.to_string())],
            options: json!(options),
            checked: options.check(),
            shape: if many { Shape::Texts } else { Shape::Text },
        }
    }

    /// For `score`; `None` if it has neither a continuation nor choices, which the schema rules out.
    pub fn score(settings: &Score) -> Option<Self> {
        let (function, key, text, shape) = match (&settings.continuation, &settings.choices) {
            (Some(text), _) => ("score", "continuation", text, Shape::Score),
            (None, Some(text)) => ("score_choices", "choices", text, Shape::Choices),
            (None, None) => return None,
        };
        Some(Self {
            kind: "score",
            function,
            model: settings.model.to_string(),
            id: settings.id.clone(),
            keep: settings.keep.clone(),
            from: settings.from.to_string(),
            arguments: vec![("prompt", settings.prompt.to_string()), (key, text.to_string())],
            options: json!(settings.options),
            checked: settings.options.check(),
            shape,
        })
    }

    /// For `embed`.
    pub fn embed(settings: &Embed) -> Self {
        Self {
            kind: "embed",
            function: "embed",
            model: settings.model.to_string(),
            id: settings.id.clone(),
            keep: settings.keep.clone(),
            from: settings.from.to_string(),
            arguments: vec![("text", settings.text.to_string())],
            options: json!(settings.options),
            checked: settings.options.check(),
            shape: Shape::Vector,
        }
    }
}
