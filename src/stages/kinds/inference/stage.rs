//! What `generate`, `score` and `embed` have in common: a model, its request for each row, and the
//! columns that its answers become.

use proofmill_engine::options::strategy;
use proofmill_pipeline::kinds::embed::Embed;
use proofmill_pipeline::kinds::generate::{Generate, Turn};
use proofmill_pipeline::kinds::score::Score;
use proofmill_pipeline::settings::Expression;
use proofmill_settings::options::OptionError;
use serde_json::{Value as Json, json};

use crate::stages::queries::answers::REQUEST_DIGEST;
use crate::stages::queries::sql_kind::inside;

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
    /// The expressions of single messages, which are one argument together.
    pub turns: Vec<String>,
    pub options: Json,
    pub checked: Result<(), OptionError>,
    pub shape: Shape,
    /// Columns that only some options ask for, before the digest.
    pub optional_columns: Vec<&'static str>,
    /// Most rows that an answer becomes; `None` if its row decides.
    pub rows_each: Option<u64>,
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
    /// The columns after the request of a row; the last two are the digest and the error.
    fn columns(self) -> &'static [&'static str] {
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
                REQUEST_DIGEST,
                ERROR,
            ],
            Self::Score => {
                &["logprob", "tokens", "is_greedy", "prompt_tokens", REQUEST_DIGEST, ERROR]
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
                REQUEST_DIGEST,
                ERROR,
            ],
            Self::Vector => &["vector", "tokens", REQUEST_DIGEST, ERROR],
        }
    }
}

/// What the model reads: the setting, and its expression.
fn read(
    prompt: &Option<Expression>,
    messages: &Option<Vec<Turn>>,
) -> Option<(&'static str, String)> {
    let Some(turns) = messages else { return Some(("prompt", prompt.as_ref()?.to_string())) };
    // All contents of one type, so that the list has one.
    let turn = |Turn { role, content }: &Turn| {
        let content = inside(content);
        format!("named_struct('role', '{}', 'content', arrow_cast({content}, 'Utf8'))", role.name())
    };
    let turns: Vec<String> = turns.iter().map(turn).collect();
    Some(("messages", format!("make_array({})", turns.join(", "))))
}

fn contents(messages: &Option<Vec<Turn>>) -> Vec<String> {
    messages.iter().flatten().map(|turn| turn.content.to_string()).collect()
}

/// The options that ask for the tokens of an answer, which are also columns.
fn requested<const N: usize>(options: [(&'static str, bool); N]) -> Vec<&'static str> {
    options.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
}

impl InferenceStage {
    /// The columns after the request of a row; the last is not of the table.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> {
        // The digest and the error stand last.
        let (own, evidence) = self.shape.columns().split_at(self.shape.columns().len() - 2);
        own.iter().chain(&self.optional_columns).chain(evidence).copied()
    }

    /// The arguments that are columns of the table too: all but a list of choices.
    pub fn shown(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.arguments.iter().map(|(key, _)| *key).filter(|key| *key != "choices")
    }

    /// For `generate`; `None` if it has neither a prompt nor messages, which the schema rules out.
    pub fn generate(settings: &Generate) -> Option<Self> {
        let options = &settings.options;
        let (many, checked) = (options.is_counted(), options.check());
        Some(Self {
            kind: "generate",
            function: "generate",
            model: settings.model.to_string(),
            id: settings.id.clone(),
            keep: settings.keep.clone(),
            from: settings.from.to_string(),
            arguments: vec![read(&settings.prompt, &settings.messages)?],
            turns: contents(&settings.messages),
            options: json!(options),
            rows_each: checked.is_ok().then(|| strategy(options).answers().into()),
            checked,
            shape: if many { Shape::Texts } else { Shape::Text },
            optional_columns: requested([("logprobs", options.logprobs.is_some())]),
        })
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
            arguments: vec![read(&settings.prompt, &settings.messages)?, (key, text.to_string())],
            turns: contents(&settings.messages),
            options: json!(settings.options),
            checked: settings.options.check(),
            rows_each: (shape == Shape::Score).then_some(1),
            optional_columns: requested([
                ("logprobs", settings.options.logprobs.is_some()),
                ("prompt_logprobs", settings.options.prompt_logprobs.is_some()),
            ]),
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
            turns: Vec::new(),
            options: json!(settings.options),
            checked: settings.options.check(),
            shape: Shape::Vector,
            optional_columns: Vec::new(),
            rows_each: Some(1),
        }
    }
}
