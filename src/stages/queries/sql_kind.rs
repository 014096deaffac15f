//! Kinds that are queries of ours over the tables that a stage names: what they share.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::DFSchema;

use crate::session::Engine;
use crate::sqltext;
use crate::stages::diagnostics::{Diagnostics, mismatch};
use crate::stages::fingerprint::Components;
use crate::stages::kind::Preparation;
use crate::stages::queries::answers::{InferencePlan, Requests};
use crate::stages::queries::query::QueryPlan;
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;

/// The column that says why a row failed, where rows can: the last of the query, not of the table.
pub const ERROR: &str = "error";

/// The tables of a query by the names that it uses.
pub type Named = HashMap<String, Arc<dyn TableProvider>>;

/// A query of ours.
pub struct SqlKind<'a> {
    pub kind: &'a str,
    /// The query. If its last column is [`ERROR`], rows can fail.
    pub sql: &'a str,
    pub tables: Named,
    /// The models that it asks, each with the name of its component: what a model is called in the
    /// file is no part of what it is.
    pub models: &'a [(&'a str, &'a str)],
}

impl SqlKind<'_> {
    /// Plans it: what breaks it is a column of another type than the kind needs.
    pub fn prepare(
        self,
        engine: &Engine,
        components: &mut Components,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Preparation> {
        let planned = match sqltext::parse(self.sql) {
            Ok(query) => diagnostics
                .query(&query, self.tables, engine)
                .map_err(|error| (error.message, error.help)),
            Err(error) => Err((error.message, error.help)),
        };
        let planned = match planned {
            Ok(planned) => planned,
            Err((message, help)) => {
                diagnostics.error(&[self.kind], Code::SqlPlan, message, help);
                return None;
            }
        };
        for (model, component) in self.models {
            components.set_model(component, model, engine, diagnostics)?;
        }
        let fails = planned.schema.fields().last().is_some_and(|field| field.name() == ERROR);
        let shown = planned.schema.fields().len() - usize::from(fails);
        let fields: Vec<_> = planned.schema.fields().iter().take(shown).cloned().collect();
        let schema = Arc::new(Schema::new(fields));
        Some(match fails {
            true => {
                let (plan, requests) = (planned.plan, Requests::Any);
                let asking = Some(plan.clone());
                Preparation { asking, ..Preparation::new(schema, InferencePlan { plan, requests }) }
            }
            false => Preparation::new(schema, QueryPlan(planned.plan)),
        })
    }
}

/// An SQL expression of a file as it can stand inside a query: a comment at its end goes no further.
pub fn inside(text: &str) -> String {
    format!("({text}\n)")
}

/// The type of the SQL expression in the setting at `steps`, over the columns of `schema`; a diagnostic
/// if it has none.
pub fn expression(
    steps: &[&str],
    text: &str,
    schema: &SchemaRef,
    engine: &Engine,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<DataType> {
    let scope = DFSchema::try_from(schema.as_ref().clone()).ok()?;
    match diagnostics.expression(text, &scope, engine) {
        Ok((_, kind)) => Some(kind),
        Err(error) => {
            diagnostics.sql(steps, error);
            None
        }
    }
}

/// As [`expression`], of text.
pub fn text(
    steps: &[&str],
    text: &str,
    schema: &SchemaRef,
    engine: &Engine,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let kind = expression(steps, text, schema, engine, diagnostics)?;
    if kind.is_string() {
        return Some(());
    }
    let message = mismatch(&format!("`{}`", steps.last().unwrap_or(&"")), "a string", &kind);
    diagnostics.error(steps, Code::SqlType, message, None);
    None
}

/// Whether values of a type are lists of texts.
pub fn is_texts(kind: &DataType) -> bool {
    match kind {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            item.data_type().is_string()
        }
        _ => false,
    }
}

/// Each column that the kind needs of `table` is there; a diagnostic in `[kind, key]` if one is not.
pub fn expect_columns(
    (kind, key): (&str, &str),
    columns: &[&str],
    table: &SchemaRef,
    help: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let missing = columns.iter().find(|column| table.index_of(column).is_err());
    let Some(column) = missing else { return Some(()) };
    let message = format!("the table has no column `{column}`, which `{kind}` needs");
    diagnostics.error(&[kind, key], Code::UnknownColumn, message, Some(help.to_owned()));
    None
}

/// The columns that rows keep are there, once, and none is one of the kind's `own` or [`ERROR`].
pub fn keep(
    kind: &str,
    columns: &[String],
    own: &[&str],
    table: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let mut valid = Some(());
    for (i, column) in columns.iter().enumerate() {
        let steps = [kind, "keep", &i.to_string()];
        if diagnostics.column(&steps, column, table).is_none() {
            valid = None;
        } else if column == ERROR || own.contains(&column.as_str()) || columns[..i].contains(column)
        {
            let message = format!("the table already has a column `{column}`");
            let help = Some("rename it in an upstream stage".to_owned());
            diagnostics.error(&steps, Code::Duplicate, message, help);
            valid = None;
        }
    }
    valid
}

/// There is a model of this name; a diagnostic at `steps` if not.
pub fn model(
    steps: &[&str],
    name: &str,
    engine: &Engine,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let models = engine.models();
    if models.names().any(|known| known == name) {
        return Some(());
    }
    let help = suggest::help(name, models.names());
    let declare = || Some("declare it under `models:`".to_owned());
    let message = format!("there is no model `{name}`");
    diagnostics.error(steps, Code::UnknownModel, message, help.or_else(declare));
    None
}

/// There is a model of this name, and it can give beliefs; diagnostics in the stage of this kind
/// if not.
pub fn verifier(
    kind: &str,
    (name, include_eos): (&str, bool),
    engine: &Engine,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    model(&[kind, "model"], name, engine, diagnostics)?;
    let Some(endpoint) = diagnostics.endpoint(name) else { return Some(()) };
    let mut valid = Some(());
    if !endpoint.capabilities.as_ref().is_some_and(|capabilities| capabilities.scores) {
        let message = format!("`{name}` does not offer scores, which beliefs need");
        let help =
            format!("if it does, write `capabilities: {{ scores: true }}` at `models.{name}`");
        diagnostics.error(&[kind, "model"], Code::WrongValue, message, Some(help));
        valid = None;
    }
    if include_eos {
        let message = "an endpoint cannot score the end of an output".to_owned();
        let help = "write `include_eos: false`".to_owned();
        diagnostics.error(&[kind, "include_eos"], Code::WrongValue, message, Some(help));
        valid = None;
    }
    valid
}

/// A name as SQL quotes it.
pub fn name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL quotes it.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A column as SQL names it.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Names for a list of columns, each after a comma.
pub fn after_comma(columns: &[String], from: &str) -> String {
    columns.iter().map(|column| format!(", {from}{}", name(column))).collect()
}
