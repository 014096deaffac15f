//! `generate`, `score`, `embed`: a table whose rows a model answers. Rows that have no answer
//! become error rows.

mod plan;
mod stage;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlanBuilder;
use serde::Serialize;

use crate::session::policy::inspect;
use crate::stages::diagnostics::mismatch;
use crate::stages::kind::{Kind, Preparation, Preparing, Traits};
use crate::stages::kinds::inference::stage::{InferenceStage, ROW_ID, Shape};
use crate::stages::queries::answers::InferencePlan;
use crate::stages::queries::sql_kind::is_texts;
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::embed::Embed;
use proofmill_pipeline::kinds::generate::Generate;
use proofmill_pipeline::kinds::score::Score;

/// What is true of all three.
const TRAITS: Traits =
    Traits { version: 1, rows_can_fail: true, has_partitions: true, is_result: false };

impl Kind for Generate {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        prepare(&InferenceStage::generate(self), self, context)
    }
}

impl Kind for Score {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        prepare(&InferenceStage::score(self)?, self, context)
    }
}

impl Kind for Embed {
    fn traits(&self) -> Traits {
        TRAITS
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        prepare(&InferenceStage::embed(self), self, context)
    }
}

/// Checks model, columns and expressions, and plans the query.
fn prepare(
    asked: &InferenceStage,
    settings: &impl Serialize,
    context: &mut Preparing<'_>,
) -> Option<Preparation> {
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
        let wanted = if *key == "choices" { "a list of strings" } else { "a string" };
        match diagnostics.expression(text, &scope, engine) {
            Ok((expr, kind)) if is_wanted(*key == "choices", &kind) => arguments.push((*key, expr)),
            Ok((_, kind)) => {
                let message = mismatch(&format!("`{key}`"), wanted, &kind);
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
    Some(Preparation::new(Arc::new(arrow::datatypes::Schema::new(fields)), InferencePlan(plan)))
}

fn is_wanted(list: bool, kind: &DataType) -> bool {
    if list { is_texts(kind) } else { kind.is_string() }
}
