//! Mistakes of a stage's settings, at the place of the setting; and the one way in which stages plan
//! queries and expressions before they run, so that no function that one calls is forgotten.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use indexmap::IndexMap;
use proofmill_settings::options::OptionError;

use crate::graph::Stage;
use crate::session::policy::Calls;
use crate::session::{self, Engine, PlanError, Planned};
use crate::sqltext::Query;
use crate::stages::tables::vectors;
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::diagnostic::{Diagnostic, Severity};
use proofmill_pipeline::models::Model;
use proofmill_pipeline::node::Node;
use proofmill_pipeline::source::Sources;
use proofmill_pipeline::validate::join;

/// Collects the diagnostics of one stage, and the functions that it calls.
pub struct Diagnostics<'a> {
    stage: &'a Stage,
    sources: &'a Sources,
    models: &'a Models,
    out: &'a mut Vec<Diagnostic>,
    calls: Calls,
}

/// The models of a pipeline with their nodes.
pub type Models = IndexMap<String, (Model, Node)>;

impl<'a> Diagnostics<'a> {
    /// For `stage`, whose file is in `sources`.
    pub fn new(
        stage: &'a Stage,
        sources: &'a Sources,
        models: &'a Models,
        out: &'a mut Vec<Diagnostic>,
    ) -> Self {
        Self { stage, sources, models, out, calls: Calls::default() }
    }

    /// To be called when the stage cannot be prepared: some diagnostic must say why.
    pub fn expect_error(&mut self) {
        let is_error = |it: &Diagnostic| it.severity == Severity::Error;
        if !self.out.iter().any(is_error) {
            let message = "this stage cannot be prepared, and no diagnostic says why".to_owned();
            let help = "this is a bug in proofmill: please report it with the file".to_owned();
            self.error(&[], Code::SqlPlan, message, Some(help));
        }
    }

    /// Plans a query over the tables it names. What it calls counts for the stage.
    pub fn query(
        &mut self,
        query: &Query,
        tables: HashMap<String, Arc<dyn TableProvider>>,
        engine: &Engine,
    ) -> Result<Planned, PlanError> {
        let planned = session::query(engine.planning(), query, tables)?;
        self.note(&planned.calls);
        Ok(planned)
    }

    /// Plans an expression over the columns of `scope`: it and its type. What it calls counts for the
    /// stage.
    pub fn expression(
        &mut self,
        text: &str,
        scope: &DFSchema,
        engine: &Engine,
    ) -> Result<(Expr, DataType), PlanError> {
        let planned = session::planned_expression(engine.planning(), text, scope)?;
        self.note(&planned.calls);
        Ok((planned.expr, planned.kind))
    }

    /// Notes what a plan calls that was made without a text.
    pub fn note(&mut self, calls: &Calls) {
        self.calls.extend(calls);
    }

    /// The functions that the stage calls, whatever setting calls them.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// An error in the setting at `steps`.
    pub fn error(&mut self, steps: &[&str], code: Code, message: String, help: Option<String>) {
        let span = self.stage.spec.node.at(steps).span;
        let diagnostic = Diagnostic::error(code, span, self.path(steps), message);
        self.out.push(diagnostic.with_help(help));
    }

    /// An error if the options at `steps` cannot be followed.
    pub fn options(&mut self, steps: &[&str], checked: Result<(), OptionError>) -> Option<()> {
        let Err(error) = checked else { return Some(()) };
        let steps = [steps, &[error.field]].concat();
        self.error(&steps, Code::WrongValue, error.to_string(), error.help);
        None
    }

    /// Something in the setting at `steps` that somebody should look at; the pipeline runs.
    pub fn warning(&mut self, steps: &[&str], code: Code, message: String, help: Option<String>) {
        let span = self.stage.spec.node.at(steps).span;
        let diagnostic = Diagnostic::error(code, span, self.path(steps), message);
        self.out.push(diagnostic.as_warning().with_help(help));
    }

    /// A model that cannot be used because of its setting `key`: said where the model is declared,
    /// and so only once, however many stages ask it.
    pub fn unreadable(
        &mut self,
        model: &str,
        key: &str,
        (message, help): (String, Option<String>),
    ) {
        let Some((_, node)) = self.models.get(model) else { return };
        let path = join(&join("models", model), key);
        let span = node.at(&[key]).span;
        let diagnostic = Diagnostic::error(Code::ModelUnreadable, span, path, message);
        self.out.push(diagnostic.with_help(help));
    }

    /// A model that was trained on chats and is given plain texts: said where it is declared, and so only
    /// once, however many stages ask it.
    pub fn raw_prompt(&mut self, model: &str) {
        let Some((_, node)) = self.models.get(model) else { return };
        let (path, span) = (join(&join("models", model), "path"), node.at(&["path"]).span);
        let message =
            format!("`{model}` has a chat template, but stages give it prompts without one");
        let help = "write the turns as `messages`; a `prompt` is passed verbatim, which an instruct model \
                    was not trained on";
        let remark = Diagnostic::error(Code::RawPrompt, span, path, message).as_warning();
        self.out.push(remark.with_help(help.to_owned()));
    }

    /// The settings of a model that is an endpoint.
    pub fn endpoint(&self, model: &str) -> Option<&'a Model> {
        self.models.get(model).map(|(model, _)| model).filter(|model| model.url.is_some())
    }

    /// A diagnostic inside the SQL text at `steps`.
    pub fn sql(&mut self, steps: &[&str], error: PlanError) {
        let span = self.stage.spec.node.at(steps).place_in_text(self.sources, error.range);
        let diagnostic = Diagnostic::error(error.code, span, self.path(steps), error.message);
        self.out.push(diagnostic.with_help(error.help));
    }

    /// Something inside the SQL text at `steps`: a diagnostic, or else what somebody should look at.
    pub fn remark(&mut self, steps: &[&str], error: PlanError, is_error: bool) {
        let said = self.out.len();
        self.sql(steps, error);
        if !is_error {
            self.out[said..].iter_mut().for_each(|said| said.severity = Severity::Warning);
        }
    }

    /// The position of `column` in `schema`; a diagnostic in the setting at `steps` if it has none.
    pub fn column(&mut self, steps: &[&str], column: &str, schema: &SchemaRef) -> Option<usize> {
        if let Ok(position) = schema.index_of(column) {
            return Some(position);
        }
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let help = suggest::help(column, names);
        let message = format!("the input has no column `{column}`");
        self.error(steps, Code::UnknownColumn, message, help);
        None
    }

    /// As [`Self::column`], of text.
    pub fn text_column(
        &mut self,
        steps: &[&str],
        column: &str,
        schema: &SchemaRef,
    ) -> Option<usize> {
        self.typed_column(steps, column, schema, ("a string", DataType::is_string, None))
    }

    /// As [`Self::column`], of vectors.
    pub fn vector_column(
        &mut self,
        steps: &[&str],
        column: &str,
        schema: &SchemaRef,
    ) -> Option<usize> {
        let help =
            "a vector is a list of numbers with a fraction, such as `List(Float32)`".to_owned();
        self.typed_column(steps, column, schema, ("a vector", vectors::is_vector, Some(help)))
    }

    /// As [`Self::column`], of a type that fits what is expected; the help says how it would.
    pub fn typed_column(
        &mut self,
        steps: &[&str],
        column: &str,
        schema: &SchemaRef,
        (expected, fits, help): (&str, fn(&DataType) -> bool, Option<String>),
    ) -> Option<usize> {
        let position = self.column(steps, column, schema)?;
        let found = schema.field(position).data_type();
        if fits(found) {
            return Some(position);
        }
        let message = mismatch(&format!("column `{column}`"), expected, found);
        self.error(steps, Code::ColumnType, message, help);
        None
    }

    fn path(&self, steps: &[&str]) -> String {
        steps.iter().fold(self.stage.spec.path.clone(), |path, step| join(&path, step))
    }
}

/// The message about a value of another type than expected.
pub fn mismatch(what: &str, expected: &str, found: &DataType) -> String {
    format!("{what}: expected {expected}, found {found}")
}
