//! `generate`, `score`, `embed`: a table whose rows a model answers. Rows that have no answer
//! become error rows.

mod format;
mod plan;
mod stage;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlanBuilder;
use proofmill_settings::endpoint::Api;
use proofmill_udfs::definition::is_list_of;
use proofmill_udfs::model::canonical_format;
use serde_json::json;

use crate::session::Engine;
use crate::session::policy::inspect;
use crate::stages::diagnostics::{Diagnostics, mismatch};
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::kinds::inference::format::answer_format;
use crate::stages::kinds::inference::stage::{InferenceStage, ROW_ID, Shape};
use crate::stages::queries::answers::{InferencePlan, Requests};
use crate::stages::queries::sql_kind::is_texts;
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::embed::Embed;
use proofmill_pipeline::kinds::generate::Generate;
use proofmill_pipeline::kinds::score::Score;

/// What is true of all three.
const TRAITS: Traits = Traits {
    version: 1,
    rows_can_fail: true,
    has_partitions: true,
    settings: Counted::All,
    repeats: Repeats::Set,
};

impl Kind for Generate {
    fn traits(&self) -> Traits {
        Traits { settings: Counted::ByTheKind, ..TRAITS }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let mut inference = InferenceStage::generate(self)?;
        if let Some(format) =
            answer_format(self, context.from_store, &mut context.diagnostics, &mut context.files)?
        {
            // Of a schema everything counts, also the order of its keys, and not where it lies.
            context.components.set("settings.response_format", canonical_format(&format));
            inference.options["response_format"] = json!(format);
        }
        context.components.set_settings(&Self { response_format: None, ..self.clone() });
        prepare(&inference, context)
    }
}

impl Kind for Score {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        prepare(&InferenceStage::score(self)?, context)
    }
}

impl Kind for Embed {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        prepare(&InferenceStage::embed(self), context)
    }
}

/// Checks model, columns and expressions, and plans the query.
fn prepare(inference: &InferenceStage, context: &mut Preparing<'_>) -> Option<Preparation> {
    let Preparing { inputs, engine, components, diagnostics, .. } = context;
    let table = inputs.table("from")?;
    let input = table.schema();
    let mut valid = diagnostics.column(&[inference.kind, "id"], &inference.id, &input).is_some();
    let models = engine.models();
    if !models.names().any(|name| name == inference.model) {
        let message = format!("there is no model `{}`", inference.model);
        let help = suggest::help(&inference.model, models.names());
        let declare = || Some("declare it under `models:`".to_owned());
        diagnostics.error(
            &[inference.kind, "model"],
            Code::UnknownModel,
            message,
            help.or_else(declare),
        );
        valid = false;
    }
    for (i, column) in inference.keep.iter().enumerate() {
        let steps = [inference.kind, "keep", &i.to_string()];
        valid &= diagnostics.column(&steps, column, &input).is_some();
        let mut own = [ROW_ID].into_iter().chain(inference.shown()).chain(inference.columns());
        if own.any(|own| own == column) || inference.keep[..i].contains(column) {
            let message = format!("the table already has a column `{column}`");
            let help = Some("rename it in an upstream stage".to_owned());
            diagnostics.error(&steps, Code::Duplicate, message, help);
            valid = false;
        }
    }
    // Several are compared, and one is not.
    if inference.shape == Shape::Score && inference.options.get("normalize").is_some() {
        let message = "`normalize` has no effect with `continuation`".to_owned();
        diagnostics.error(
            &[inference.kind, "options", "normalize"],
            Code::UnknownKey,
            message,
            None,
        );
        valid = false;
    }
    for option in &inference.optional_columns {
        let steps = [inference.kind, "options", option];
        if inference.shape == Shape::Choices {
            let message = format!("`{option}` has no effect with `choices`");
            let help = Some("score one `continuation`, or leave it out".to_owned());
            diagnostics.error(&steps, Code::UnknownKey, message, help);
            valid = false;
        } else if diagnostics.endpoint(&inference.model).is_some() {
            let message = "endpoints do not return per-token log-probabilities".to_owned();
            let help = Some("leave it out, or use a model on this machine".to_owned());
            diagnostics.error(&steps, Code::WrongValue, message, help);
            valid = false;
        }
    }
    valid &= diagnostics.options(&[inference.kind, "options"], inference.checked.clone()).is_some();
    let name = TableReference::parse_str(&inference.from);
    let scope = DFSchema::try_from_qualified_schema(name.clone(), &input).ok()?;
    let mut arguments = Vec::new();
    let (mut reads_messages, mut turns_fit) = (false, true);
    for (i, text) in inference.turns.iter().enumerate() {
        let steps = [inference.kind, "messages", &i.to_string(), "content"];
        match diagnostics.expression(text, &scope, engine) {
            Ok((_, kind)) if kind.is_string() => {}
            Ok((_, kind)) => {
                let message = mismatch("`content`", "a string", &kind);
                diagnostics.error(&steps, Code::SqlType, message, None);
                turns_fit = false;
            }
            Err(error) => {
                diagnostics.sql(&steps, error);
                turns_fit = false;
            }
        }
    }
    for (key, text) in &inference.arguments {
        if *key == "messages" && !turns_fit {
            continue;
        }
        let wanted = if *key == "choices" { "a list of strings" } else { "a string" };
        match diagnostics.expression(text, &scope, engine) {
            Ok((expr, kind)) if is_wanted(key, &kind) => {
                reads_messages |= is_list_of(&kind, MESSAGE);
                arguments.push((*key, expr));
            }
            Ok((_, kind)) => {
                let message = mismatch(&format!("`{key}`"), wanted, &kind);
                diagnostics.error(&[inference.kind, key], Code::SqlType, message, None);
            }
            Err(error) => diagnostics.sql(&[inference.kind, key], error),
        }
    }
    if !valid || arguments.len() < inference.arguments.len() {
        return None;
    }
    if inference.shape != Shape::Vector {
        messages_fit(inference, reads_messages, engine, diagnostics)?;
    }
    let scan = LogicalPlanBuilder::scan(name, provider_as_source(table), None).ok()?;
    let plan = match plan::plan(inference, scan, &arguments, engine) {
        Ok(plan) => plan,
        Err(error) => {
            let message = error.find_root().strip_backtrace();
            let message = message.trim_start_matches("Error during planning: ");
            let message = message.to_owned();
            diagnostics.error(&[inference.kind], Code::WrongValue, message, None);
            return None;
        }
    };
    diagnostics.note(&inspect(&plan).ok()?);
    // Its name in the file is no part of what it is.
    components.set_model("model", &inference.model, engine, diagnostics)?;
    let mut fields: Vec<_> = plan.schema().fields().iter().cloned().collect();
    fields.pop();
    let requests = Requests::OneEach(inference.rows_each);
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let asking = Some(plan.clone());
    Some(Preparation { asking, ..Preparation::new(schema, InferencePlan { plan, requests }) })
}

/// The fields of a message.
const MESSAGE: [&str; 2] = ["role", "content"];

fn is_wanted(argument: &str, kind: &DataType) -> bool {
    match argument {
        "choices" => is_texts(kind),
        "prompt" | "messages" => kind.is_string() || is_list_of(kind, MESSAGE),
        _ => kind.is_string(),
    }
}

/// A diagnostic if the model cannot read messages; a warning if it can, and is given a text.
fn messages_fit(
    inference: &InferenceStage,
    reads_messages: bool,
    engine: &Engine,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let key = inference.arguments.first().map_or("prompt", |(key, _)| *key);
    let endpoint =
        diagnostics.endpoint(&inference.model).map(|model| model.api.unwrap_or_default());
    let template = engine.models().has_chat_template(&inference.model);
    let (message, help) = match (reads_messages, endpoint, template) {
        (true, Some(_), _) if inference.kind == "score" => {
            ("an endpoint cannot score a continuation of messages", "give a `prompt`")
        }
        (true, Some(Api::Completions), _) => {
            ("only a chat endpoint reads messages", "set `api: chat` for the model")
        }
        (true, None, Some(false)) => (
            "the model has no chat template for messages",
            "give a `prompt`, or a model with a chat_template.jinja, or `chat_template` in its tokenizer_config.json",
        ),
        (false, None, Some(true)) => {
            diagnostics.raw_prompt(&inference.model);
            return Some(());
        }
        _ => return Some(()),
    };
    diagnostics.error(
        &[inference.kind, key],
        Code::WrongValue,
        message.to_owned(),
        Some(help.to_owned()),
    );
    None
}
