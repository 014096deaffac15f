//! SQL to a logical plan over the tables that the caller offers, and its mistakes with their places.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{
    DFSchema, DFSchemaRef, DataFusionError, Result, SchemaError, TableReference, plan_datafusion_err,
};
use datafusion::datasource::provider_as_source;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::sql::planner::{ParserOptions, SqlToRel};

use crate::session::policy::{self, Calls};
use crate::spec::code::Code;
use crate::spec::suggest;
use crate::sqltext::{self, Query};

/// Why a text has no plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanError {
    /// What kind of mistake.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// Where in the text.
    pub range: Range<usize>,
    /// What to do.
    pub help: Option<String>,
}

/// A planned query.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan, with all types settled.
    pub plan: LogicalPlan,
    /// Columns of the result.
    pub schema: SchemaRef,
    /// Functions it calls.
    pub calls: Calls,
}

/// Plans `query` over `tables`, by the names that it uses for them.
pub fn query(
    state: &SessionState,
    query: &Query,
    tables: HashMap<String, Arc<dyn TableProvider>>,
) -> Result<Planned, PlanError> {
    let provider = Provider { state, tables };
    let plan = || -> Result<_> {
        let planner = SqlToRel::new_with_options(&provider, options());
        let plan = planner.sql_statement_to_plan(query.statement.clone())?;
        let calls = policy::inspect(&plan)?;
        let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
        Ok((plan, calls))
    };
    let (plan, calls) = plan().map_err(|error| describe(&query.text, &error, state))?;
    let schema = result_schema(plan.schema(), &query.text)?;
    Ok(Planned { plan, schema, calls })
}

/// Plans an expression over the columns of `schema`; the expression and its type.
pub fn expression(
    state: &SessionState,
    text: &str,
    schema: &DFSchema,
) -> Result<(Expr, DataType), PlanError> {
    use datafusion::logical_expr::ExprSchemable;
    let plan = || {
        let expr = state.create_logical_expr(text, schema)?;
        // An expression has types only inside a plan, where the analyzer settles them.
        let empty = LogicalPlan::EmptyRelation(datafusion::logical_expr::EmptyRelation {
            produce_one_row: false,
            schema: Arc::new(schema.clone()),
        });
        let plan = datafusion::logical_expr::LogicalPlanBuilder::from(empty)
            .project([expr.clone().alias("value")])?
            .build()?;
        policy::inspect(&plan)?;
        let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
        let kind = plan.schema().field(0).data_type().clone();
        let _ = expr.get_type(schema);
        Ok((expr, kind))
    };
    plan().map_err(|error| describe(text, &error, state))
}

fn options() -> ParserOptions {
    ParserOptions {
        collect_spans: true,
        map_string_types_to_utf8view: false,
        ..ParserOptions::default()
    }
}

/// The result's columns without qualifiers; a mistake if two have one name.
fn result_schema(schema: &DFSchemaRef, text: &str) -> Result<SchemaRef, PlanError> {
    let mut seen = std::collections::HashSet::new();
    for field in schema.fields() {
        if !seen.insert(field.name()) {
            return Err(PlanError {
                code: Code::SqlPlan,
                message: format!("two columns of the result are called `{}`", field.name()),
                range: sqltext::find_word(text, field.name()).unwrap_or(0..0),
                help: Some("give one of them another name with `AS`".to_owned()),
            });
        }
    }
    let plain = |field: &Arc<arrow::datatypes::Field>| {
        field.as_ref().clone().with_metadata(HashMap::new())
    };
    Ok(Arc::new(arrow::datatypes::Schema::new(schema.fields().iter().map(plain).collect::<Vec<_>>())))
}

/// DataFusion's error as a mistake in the text.
fn describe(text: &str, error: &DataFusionError, state: &SessionState) -> PlanError {
    let whole = 0..text.trim_end().lines().next().map_or(0, str::len).max(1).min(text.len());
    let place = error.diagnostic().and_then(|diagnostic| diagnostic.span).map(|span| {
        let at = |line, column| sqltext::offset(text, line, column);
        at(span.start.line, span.start.column)..at(span.end.line, span.end.column)
    });
    let word = |word: &str| sqltext::find_word(text, word);
    let root = error.find_root();
    let message = root.strip_backtrace();
    let message = message
        .trim_start_matches("Error during planning: ")
        .trim_start_matches("This feature is not implemented: ")
        .to_owned();
    if let DataFusionError::SchemaError(schema_error, _) = root {
        match schema_error.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                let valid: Vec<_> = valid_fields.iter().map(|column| column.name()).collect();
                return PlanError {
                    code: Code::UnknownColumn,
                    message: format!("there is no column `{}`", field.name),
                    range: place.or_else(|| word(&field.name)).unwrap_or(whole),
                    help: suggest::help(&field.name, valid.iter().copied()),
                };
            }
            SchemaError::AmbiguousReference { field } => {
                return PlanError {
                    code: Code::UnknownColumn,
                    message: format!("more than one table has a column `{}`", field.name),
                    range: place.or_else(|| word(&field.name)).unwrap_or(whole),
                    help: Some(format!("write `table.{}`", field.name)),
                };
            }
            _ => {}
        }
    }
    if let Some(name) = quoted_after(&message, "Invalid function '") {
        let names = state.scalar_functions().keys().chain(state.aggregate_functions().keys());
        return PlanError {
            code: Code::UnknownFunction,
            message: format!("there is no function `{name}`"),
            range: place.or_else(|| word(name)).unwrap_or(whole),
            help: suggest::nearest(name, names.map(String::as_str))
                .map(|name| format!("did you mean `{name}`?")),
        };
    }
    let type_words = ["coerc", "argument type", "Cannot infer", "data type", "cast", "No function matches", "expects", "types", "Incorrect number"];
    let code = if message.contains("not allowed") {
        Code::SqlNotAllowed
    } else if type_words.iter().any(|part| message.contains(part)) {
        Code::SqlType
    } else {
        Code::SqlPlan
    };
    let called = message.split(['\'', '`', '(', ' ', '"']).find_map(|part| {
        let function = state.scalar_functions().contains_key(part) || state.aggregate_functions().contains_key(part);
        function.then(|| word(part)).flatten()
    });
    let message = message.lines().next().unwrap_or(&message).trim().to_owned();
    PlanError { code, message, range: place.or(called).unwrap_or(whole), help: None }
}

/// What stands in single quotes after `marker`.
fn quoted_after<'a>(message: &'a str, marker: &str) -> Option<&'a str> {
    message.split_once(marker)?.1.split('\'').next()
}

/// Names as a stage's query sees them.
struct Provider<'a> {
    state: &'a SessionState,
    tables: HashMap<String, Arc<dyn TableProvider>>,
}

impl ContextProvider for Provider<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let table = self.tables.get(&name.to_string());
        let table = table.ok_or_else(|| plan_datafusion_err!("there is no table `{name}`"))?;
        Ok(provider_as_source(Arc::clone(table)))
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        let function = self.state.table_functions().get(name);
        let function =
            function.ok_or_else(|| plan_datafusion_err!("Invalid function '{name}'"))?;
        let args = datafusion::catalog::TableFunctionArgs::new(&args, self.state);
        Ok(provider_as_source(function.create_table_provider_with_args(args)?))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}
