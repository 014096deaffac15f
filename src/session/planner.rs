//! SQL to a logical plan over the tables that the caller offers, and its diagnostics with their places.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, DataFusionError, Result, SchemaError, TableReference,
    plan_datafusion_err,
};
use datafusion::datasource::provider_as_source;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, HigherOrderUDF, LogicalPlan, ScalarUDF, TableSource,
    WindowUDF,
};
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use indexmap::IndexSet;
use proofmill_udfs::exact;
use proofmill_udfs::model::CallError;
use proofmill_udfs::model::placement::asks_model;

use crate::session::order::OF_ORDER;
use crate::session::policy::{self, Calls};
use crate::session::rules::{self, Keyless};
use crate::session::wording::{self, Fact, Refused};
use crate::session::{correlated, runnable};
use crate::sqltext::{self, Called, Query, SqlErrorKind, Unobeyed};
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;

/// Aggregates whose value does not depend on an order, which is passed over.
const OF_NO_ORDER: [&str; 22] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "max",
    "mean",
    "median",
    "min",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var",
    "var_pop",
    "var_samp",
    "var_sample",
];

/// Why a text has no plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanError {
    pub code: Code,
    pub message: String,
    pub range: Range<usize>,
    pub help: Option<String>,
}

/// A planned query.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan, with all types settled.
    pub plan: LogicalPlan,
    pub schema: SchemaRef,
    pub calls: Calls,
}

/// Plans `query` over `tables`, by the names that it uses for them.
pub fn query(
    state: &SessionState,
    query: &Query,
    tables: HashMap<String, Arc<dyn TableProvider>>,
) -> Result<Planned, PlanError> {
    obeyed(&query.text, &query.statement, state)?;
    let provider = Provider::new(state, tables);
    let plan = || -> Result<_> {
        let planner = SqlToRel::new_with_options(&provider, options());
        let plan = planner.sql_statement_to_plan(query.statement.clone())?;
        if let Some(apart) = sqltext::replaced_apart(&query.text, &query.statement)
            && let Err(error) = planner.sql_statement_to_plan(apart)
            // Other columns may not fit where they have moved.
            && matches!(error.find_root(), DataFusionError::SchemaError(..))
        {
            return Err(error);
        }
        let calls = policy::inspect(&plan)?;
        let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
        Ok((rules::forget_keys(plan)?, calls))
    };
    let (plan, calls) =
        plan().map_err(|error| describe(&query.text, Some(query), &error, state))?;
    if let Some(unjoined) = correlated::without_join(state, &plan) {
        return Err(not_joined(&query.text, unjoined.column.as_ref()));
    }
    if let Some(error) = runnable::refused(state, &plan) {
        return Err(describe(&query.text, Some(query), &error, state));
    }
    let schema = result_schema(plan.schema(), query)?;
    Ok(Planned { plan, schema, calls })
}

/// The error of a subquery that is no join, over `column` outside it if it reads one.
fn not_joined(text: &str, column: Option<&Column>) -> PlanError {
    let name = column.map(Column::flat_name);
    let range = name.as_ref().and_then(|name| last_name(text, name));
    let subquery = match name {
        Some(name) => format!("a correlated subquery over `{name}`"),
        None => "a subquery".to_owned(),
    };
    PlanError {
        code: Code::SqlPlan,
        message: format!("{subquery} that cannot be rewritten as a join is not supported"),
        range: range.unwrap_or_else(|| first_line(text)),
        help: Some("write it as a join, with `GROUP BY` where it aggregates".to_owned()),
    }
}

/// Where the name `table.column` stands last: subqueries mostly come behind what the query selects.
fn last_name(text: &str, name: &str) -> Option<Range<usize>> {
    // `a.id` is not the end of `data.id`.
    let inside = |at: usize| text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let at = text.rmatch_indices(name).map(|(at, _)| at).find(|at| !inside(*at))?;
    Some(at..at + name.len())
}

/// A diagnostic if a clause would not be obeyed.
fn obeyed(
    text: &str,
    parsed: &impl datafusion::sql::sqlparser::ast::Visit,
    state: &SessionState,
) -> Result<(), PlanError> {
    let called = |name: &str| {
        if OF_ORDER.contains(&name) || OF_NO_ORDER.contains(&name) {
            Called::Ordered
        } else if state.aggregate_functions().contains_key(name)
            || state.window_functions().contains_key(name)
        {
            Called::Folds
        } else if state.scalar_functions().contains_key(name) {
            Called::Scalar
        } else {
            Called::Unknown
        }
    };
    match sqltext::unobeyed(text, parsed, &called) {
        None => Ok(()),
        Some(Unobeyed { message, help, range }) => {
            Err(PlanError { code: Code::SqlNotAllowed, message, range, help: Some(help) })
        }
    }
}

#[derive(Clone, Debug)]
pub struct PlannedExpression {
    pub expr: Expr,
    pub kind: DataType,
    /// Functions it calls: [`Calls::volatile`] says whether its value can differ between runs.
    pub calls: Calls,
}

/// Plans an expression over the columns of `schema`; the expression and its type.
pub fn expression(
    state: &SessionState,
    text: &str,
    schema: &DFSchema,
) -> Result<(Expr, DataType), PlanError> {
    planned_expression(state, text, schema).map(|planned| (planned.expr, planned.kind))
}

/// As [`expression`], with the functions that it calls.
pub fn planned_expression(
    state: &SessionState,
    text: &str,
    schema: &DFSchema,
) -> Result<PlannedExpression, PlanError> {
    let parsed = sqltext::parse_expression(text).map_err(|error| PlanError {
        code: match error.kind {
            SqlErrorKind::Syntax => Code::SqlSyntax,
            SqlErrorKind::NotAllowed => Code::SqlNotAllowed,
            SqlErrorKind::TooLarge => Code::SqlTooLarge,
        },
        message: error.message,
        range: error.range,
        help: error.help,
    })?;
    obeyed(text, &parsed, state)?;
    let provider = Provider::new(state, HashMap::new());
    let plan = || -> Result<_> {
        let planner = SqlToRel::new_with_options(&provider, options());
        let expr = planner.sql_to_expr(parsed, schema, &mut PlannerContext::new())?;
        if let Some(name) = policy::folds_rows(&expr)? {
            return Ok(Err((name, "aggregates rows")));
        }
        // An expression has types only inside a plan, where the analyzer settles them.
        let empty = LogicalPlan::EmptyRelation(datafusion::logical_expr::EmptyRelation {
            produce_one_row: false,
            schema: Arc::new(schema.clone()),
        });
        let plan = datafusion::logical_expr::LogicalPlanBuilder::from(empty)
            .project([expr.clone().alias("value")])?
            .build()?;
        let calls = policy::inspect(&plan)?;
        let asks = |name: &&String| asks_model(name);
        if let Some(name) = calls.functions.iter().find(asks) {
            return Ok(Err((name.clone(), "calls a model")));
        }
        let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
        let kind = plan.schema().field(0).data_type().clone();
        Ok(Ok(PlannedExpression { expr, kind, calls }))
    };
    let planned = plan().map_err(|error| describe(text, None, &error, state))?;
    planned.map_err(|(name, does)| PlanError {
        code: Code::SqlType,
        message: format!("`{name}` {does}, but this expression is computed row by row"),
        range: sqltext::find_word(text, &name).unwrap_or_else(|| first_line(text)),
        help: Some("compute it in a stage of its own".to_owned()),
    })
}

fn options() -> ParserOptions {
    ParserOptions {
        collect_spans: true,
        map_string_types_to_utf8view: false,
        ..ParserOptions::default()
    }
}

/// The result's columns without qualifiers; a diagnostic if two have one name.
fn result_schema(schema: &DFSchemaRef, query: &Query) -> Result<SchemaRef, PlanError> {
    let mut seen = std::collections::HashSet::new();
    for field in schema.fields() {
        if !seen.insert(field.name()) {
            return Err(repeated(&query.text, Some(query), field.name()));
        }
    }
    let plain =
        |field: &Arc<arrow::datatypes::Field>| field.as_ref().clone().with_metadata(HashMap::new());
    Ok(Arc::new(arrow::datatypes::Schema::new(
        schema.fields().iter().map(plain).collect::<Vec<_>>(),
    )))
}

/// The diagnostic that two columns of the result are called `name`.
fn repeated(text: &str, query: Option<&Query>, name: &str) -> PlanError {
    let range = query
        .and_then(|query| sqltext::output_place(query, name))
        .or_else(|| sqltext::find_word(text, name));
    PlanError {
        code: Code::SqlPlan,
        message: format!("two columns of the result are called `{name}`"),
        range: range.unwrap_or_else(|| first_line(text)),
        help: Some("give one of them another name with `AS`, or leave it out".to_owned()),
    }
}

fn first_line(text: &str) -> Range<usize> {
    0..text.trim_end().lines().next().map_or(0, str::len).max(1).min(text.len())
}

/// DataFusion's error as a diagnostic in the text.
fn describe(
    text: &str,
    query: Option<&Query>,
    error: &DataFusionError,
    state: &SessionState,
) -> PlanError {
    let place = error.diagnostic().and_then(|diagnostic| diagnostic.span).map(|span| {
        let at = |line, column| sqltext::offset(text, line, column);
        let range = at(span.start.line, span.start.column)..at(span.end.line, span.end.column);
        // Of `table.column`, the column is to blame.
        let last = text[range.clone()].rfind('.').map_or(range.start, |dot| range.start + dot + 1);
        (range, last)
    });
    let word = |word: &str| sqltext::find_word(text, word);
    let at = |name: &str| {
        let found = place.clone().map(|(range, last)| last..range.end).or_else(|| word(name));
        found.unwrap_or_else(|| first_line(text))
    };
    let root = error.find_root();
    if let DataFusionError::SchemaError(schema_error, _) = root {
        match schema_error.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                return unknown_column(field, valid_fields, &place, at(&field.name));
            }
            SchemaError::AmbiguousReference { field } if place.is_some() => {
                return PlanError {
                    code: Code::UnknownColumn,
                    message: format!("more than one table has a column `{}`", field.name),
                    range: at(&field.name),
                    help: Some(format!("write `table.{}`", field.name)),
                };
            }
            SchemaError::AmbiguousReference { field } => return repeated(text, query, &field.name),
            SchemaError::DuplicateQualifiedField { name, .. }
            | SchemaError::DuplicateUnqualifiedField { name } => {
                return repeated(text, query, name);
            }
        }
    }
    if let DataFusionError::External(external) = root
        && let Some(call) = external.downcast_ref::<CallError>()
    {
        let fact = wording::of_a_call(call);
        let range = place.map(|(range, _)| range).or_else(|| fact.place(text));
        let Fact { code, message, help, .. } = fact;
        return PlanError { code, message, range: range.unwrap_or_else(|| first_line(text)), help };
    }
    if let DataFusionError::External(external) = root
        && let Some(refused) = external.downcast_ref::<Refused>()
    {
        let Refused { message, help, blamed } = refused.clone();
        let range = blamed.iter().find_map(|name| last_name(text, name));
        let range = range.unwrap_or_else(|| first_line(text));
        return PlanError { code: Code::SqlPlan, message, range, help: Some(help) };
    }
    let message = wording::plain(&root.strip_backtrace());
    let error = |code, message: String, range| PlanError { code, message, range, help: None };
    if let Some(name) = quoted_after(&message, "Invalid function '") {
        if let Some(Err(error)) = Provider::new(state, HashMap::new()).cast(name) {
            return describe(text, query, &error, state);
        }
        let values = state.scalar_functions().keys().chain(state.aggregate_functions().keys());
        let tables = state.window_functions().keys().chain(state.table_functions().keys());
        let names = values.chain(tables).map(String::as_str);
        let help = suggest::nearest(name, names).map(|name| format!("did you mean `{name}`?"));
        let message = format!("there is no function `{name}`");
        return error(Code::UnknownFunction, message, at(name)).with_help(help);
    }
    if let Some(rest) = message.strip_prefix("Field ")
        && let Some((name, _)) = rest.split_once(" not found in struct")
    {
        let literal = sqltext::find_only(text, &format!("'{name}'")).or_else(|| word(name));
        let range = literal.unwrap_or_else(|| first_line(text));
        return error(Code::UnknownColumn, format!("the record has no field `{name}`"), range);
    }
    if let Some(name) =
        quoted_after(&message, "Projections require unique expression names but the expression \"")
    {
        return repeated(text, query, name.rsplit('.').next().unwrap_or(name));
    }
    let fact = wording::shorten(&message);
    let called = || {
        let words = message.split(|c: char| !c.is_alphanumeric() && c != '_');
        let function = |name: &&str| {
            state.scalar_functions().contains_key(*name)
                || state.aggregate_functions().contains_key(*name)
                || state.window_functions().contains_key(*name)
        };
        words.filter(function).find_map(word)
    };
    let range = place.map(|(range, _)| range).or_else(|| fact.place(text)).or_else(called);
    error(fact.code, fact.message, range.unwrap_or_else(|| first_line(text))).with_help(fact.help)
}

impl PlanError {
    fn with_help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }
}

fn unknown_column(
    field: &Column,
    valid: &[Column],
    place: &Option<(Range<usize>, usize)>,
    range: Range<usize>,
) -> PlanError {
    let is_known =
        |table: &TableReference| valid.iter().any(|v| v.relation.as_ref() == Some(table));
    if let Some(table) = field.relation.as_ref().filter(|table| !is_known(table)) {
        let same = valid.iter().find(|v| v.name == field.name);
        return PlanError {
            code: Code::UnknownColumn,
            message: format!("no table of the query is called `{table}`"),
            range: place.clone().map_or(range, |(range, _)| range),
            help: same.map(|column| format!("did you mean `{}`?", column.flat_name())),
        };
    }
    let names: IndexSet<&str> = valid.iter().map(Column::name).collect();
    let help = match names.get(field.name.to_lowercase().as_str()) {
        None => suggest::nearest(&field.name, names.iter().copied()).map_or_else(
            || suggest::help(&field.name, names.iter().copied()),
            |name| Some(format!("did you mean {}?", quoted(name))),
        ),
        Some(name) => Some(format!("did you mean {}?", quoted(name))),
    };
    PlanError {
        code: Code::UnknownColumn,
        message: format!("there is no column `{}`", field.name),
        range,
        help,
    }
}

/// A column's name as SQL wants it: with capitals only inside quotes.
fn quoted(name: &str) -> String {
    if name.chars().any(char::is_uppercase) { format!("`\"{name}\"`") } else { format!("`{name}`") }
}

/// What stands in quotes after `marker`, which ends in the first of them.
fn quoted_after<'a>(message: &'a str, marker: &str) -> Option<&'a str> {
    let quote = marker.chars().next_back()?;
    message.split_once(marker)?.1.split(quote).next()
}

/// Names as a stage's query sees them.
struct Provider<'a> {
    state: &'a SessionState,
    tables: HashMap<String, Arc<dyn TableProvider>>,
    relations: [Arc<dyn RelationPlanner>; 1],
}

impl<'a> Provider<'a> {
    fn new(state: &'a SessionState, tables: HashMap<String, Arc<dyn TableProvider>>) -> Self {
        Self { state, tables, relations: [Arc::new(Keyless::default())] }
    }

    /// The [cast](sqltext::cast_of) that a function of such a name is, or what is wrong with it; `None` for other functions.
    fn cast(&self, name: &str) -> Option<Result<Expr>> {
        let cast = sqltext::parse_expression(&sqltext::cast_of(name)?).ok()?;
        let planner = SqlToRel::new_with_options(self, options());
        Some(planner.sql_to_expr(cast, &DFSchema::empty(), &mut PlannerContext::new()))
    }
}

impl ContextProvider for Provider<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let table = self.tables.get(&name.to_string());
        let table = table.ok_or_else(|| plan_datafusion_err!("there is no table `{name}`"))?;
        Ok(provider_as_source(Arc::clone(table)))
    }

    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> Result<Arc<dyn TableSource>> {
        let function = self.state.table_functions().get(name);
        let function = function.ok_or_else(|| plan_datafusion_err!("Invalid function '{name}'"))?;
        let args = datafusion::catalog::TableFunctionArgs::new(&args, self.state);
        Ok(provider_as_source(function.create_table_provider_with_args(args)?))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let known = self.state.scalar_functions().get(name).cloned();
        known.or_else(|| {
            let cast = self.cast(name)?.ok()?;
            let may_fail = match cast {
                Expr::Cast(_) => true,
                Expr::TryCast(_) => false,
                _ => return None,
            };
            let kind = cast.get_type(&DFSchema::empty()).ok()?;
            Some(Arc::new(exact::named_cast(name.to_owned(), kind, may_fail)))
        })
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
