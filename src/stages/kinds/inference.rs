//! `generate`, `score`, `embed`: a table whose rows a model answers. Rows that have no answer
//! become error rows.

mod plan;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlanBuilder;
use proofmill_engine::options::OptionError;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::session::policy::inspect;
use crate::stages::kind::{Kind, Outcome, Preparing, Traits};
use crate::stages::queries::answers::InferencePlan;
use crate::stages::queries::sql_kind::is_texts;
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::embed::Embed;
use proofmill_pipeline::kinds::generate::Generate;
use proofmill_pipeline::kinds::score::Score;

/// The column that says why a row has no answer: the last one of the plan, not of the table.
pub const ERROR: &str = "error";
/// The column that identifies a row.
pub const ROW_ID: &str = "row_id";
/// Position of a choice, from 0.
const CHOICE: &str = "choice";

/// What the three kinds have in common.
#[derive(Clone, Debug)]
pub struct InferenceStage {
    kind: &'static str,
    function: &'static str,
    model: String,
    id: String,
    keep: Vec<String>,
    from: String,
    /// Setting, which is also the column, and expression of each argument behind the model.
    arguments: Vec<(&'static str, String)>,
    options: Json,
    checked: Result<(), OptionError>,
    shape: Shape,
}

/// How answers become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
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
    fn shown(&self) -> impl Iterator<Item = &'static str> + Clone {
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

/// What is true of all three.
const TRAITS: Traits =
    Traits { version: 1, rows_can_fail: true, has_partitions: true, is_result: false };

impl Kind for Generate {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Outcome> {
        prepare(&InferenceStage::generate(self), self, context)
    }
}

impl Kind for Score {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Outcome> {
        prepare(&InferenceStage::score(self)?, self, context)
    }
}

impl Kind for Embed {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Outcome> {
        prepare(&InferenceStage::embed(self), self, context)
    }
}

/// Checks model, columns and expressions, and plans the query.
fn prepare(
    asked: &InferenceStage,
    settings: &impl Serialize,
    context: &mut Preparing<'_>,
) -> Option<Outcome> {
    let Preparing { inputs, engine, components, diagnostics, .. } = context;
    let table = inputs.table("from")?;
    let input = table.schema();
    let mut sound = diagnostics.column(&[asked.kind, "id"], &asked.id, &input).is_some();
    let models = engine.models();
    if !models.names().any(|name| name == asked.model) {
        let message = format!("there is no model `{}`", asked.model);
        let help = suggest::help(&asked.model, models.names());
        let declare = || Some("declare it under `models:`".to_owned());
        diagnostics.error(
            &[asked.kind, "model"],
            Code::UnknownModel,
            message,
            help.or_else(declare),
        );
        sound = false;
    }
    for (i, column) in asked.keep.iter().enumerate() {
        let steps = [asked.kind, "keep", &i.to_string()];
        sound &= diagnostics.column(&steps, column, &input).is_some();
        let mut own =
            [ROW_ID].into_iter().chain(asked.shown()).chain(asked.shape.columns().iter().copied());
        if own.any(|own| own == column) || asked.keep[..i].contains(column) {
            let message = format!("the table has a column `{column}` already");
            let help = Some("rename it in a stage before".to_owned());
            diagnostics.error(&steps, Code::Duplicate, message, help);
            sound = false;
        }
    }
    // Several are compared, and one is not.
    if asked.shape == Shape::Score && asked.options.get("normalize").is_some() {
        let message = "`normalize` means nothing beside `continuation`".to_owned();
        diagnostics.error(&[asked.kind, "options", "normalize"], Code::UnknownKey, message, None);
        sound = false;
    }
    sound &= diagnostics.options(&[asked.kind, "options"], asked.checked.clone()).is_some();
    let name = TableReference::parse_str(&asked.from);
    let scope = DFSchema::try_from_qualified_schema(name.clone(), &input).ok()?;
    let mut arguments = Vec::new();
    for (key, text) in &asked.arguments {
        let wanted = if *key == "choices" { "a list of texts" } else { "a text" };
        match diagnostics.expression(text, &scope, engine) {
            Ok((expr, kind)) if is_wanted(*key == "choices", &kind) => arguments.push((*key, expr)),
            Ok((_, kind)) => {
                let message = format!("`{key}` is {kind}, and {wanted} is needed");
                diagnostics.error(&[asked.kind, key], Code::SqlType, message, None);
            }
            Err(error) => diagnostics.sql(&[asked.kind, key], error),
        }
    }
    if !sound || arguments.len() < asked.arguments.len() {
        return None;
    }
    let scan = LogicalPlanBuilder::scan(name, provider_as_source(table), None).ok()?;
    let plan = match plan::plan(asked, scan, &arguments, engine) {
        Ok(plan) => plan,
        Err(error) => {
            let message = error.find_root().strip_backtrace();
            let message = message.trim_start_matches("Error during planning: ");
            let message = message.to_owned();
            diagnostics.error(&[asked.kind], Code::WrongValue, message, None);
            return None;
        }
    };
    diagnostics.note(&inspect(&plan).ok()?);
    components.set_settings(settings);
    // Its name in the file is no part of what it is.
    components.set_model("model", &asked.model, engine, diagnostics)?;
    let mut fields: Vec<_> = plan.schema().fields().iter().cloned().collect();
    fields.pop();
    Some(Outcome::new(Arc::new(arrow::datatypes::Schema::new(fields)), InferencePlan(plan)))
}

fn is_wanted(list: bool, kind: &DataType) -> bool {
    if list { is_texts(kind) } else { kind.is_string() }
}
