//! What `measure` and `compare` have in common: metrics planned as columns, read back as numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast as cast_expr, ident};
use indexmap::IndexMap;

use crate::session::{Engine, execute};
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use proofmill_base::natural::Natural;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::statistics::{ACCURACY, Metrics};
use proofmill_pipeline::settings::Expression;

/// A metric: its name, and whether its values are only 0 and 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    pub name: String,
    /// True for the value of a boolean.
    pub boolean: bool,
}

/// A table's rows as far as statistics need them: texts that group, numbers that count.
pub struct Columns {
    /// Texts by column, one a row; NULL where the table has none.
    pub texts: Vec<StringArray>,
    /// Values by metric, one a row.
    pub values: Vec<Float64Array>,
}

/// Builds the plan that gives [`Columns`].
pub struct Selection<'a> {
    engine: &'a Engine,
    table: Arc<dyn TableProvider>,
    scope: DFSchema,
    name: TableReference,
    texts: Vec<Expr>,
    values: Vec<Expr>,
    excluded: Option<Expr>,
}

impl<'a> Selection<'a> {
    /// Over `table`, which the settings call `name`.
    pub fn new(engine: &'a Engine, name: &str, table: Arc<dyn TableProvider>) -> Option<Self> {
        let name = TableReference::parse_str(name);
        let scope = DFSchema::try_from_qualified_schema(name.clone(), &table.schema()).ok()?;
        Some(Self {
            engine,
            table,
            scope,
            name,
            texts: Vec::new(),
            values: Vec::new(),
            excluded: None,
        })
    }

    /// Columns of the table.
    pub fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    /// Adds a column whose values group rows.
    pub fn text(&mut self, column: &str) {
        let n = self.texts.len();
        self.texts.push(cast_expr(ident(column), DataType::Utf8).alias(format!("text_{n}")));
    }

    /// Adds the metrics; each diagnostic is reported at its expression.
    pub fn metrics(
        &mut self,
        metrics: &Metrics,
        steps: &[&str],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Vec<Metric>> {
        let mut all = Vec::new();
        let mut valid = true;
        for (name, text) in metrics {
            // `correct` stands for the metric of this name.
            let own: Vec<&str> = match name.as_str() {
                ACCURACY => vec!["correct"],
                name => vec!["metrics", name],
            };
            let steps: Vec<&str> = steps.iter().copied().chain(own).collect();
            match self.value(text, &steps, diagnostics) {
                Some(boolean) => all.push(Metric { name: name.clone(), boolean }),
                None => valid = false,
            }
        }
        valid.then_some(all)
    }

    fn value(
        &mut self,
        text: &str,
        steps: &[&str],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<bool> {
        let (expr, kind) = self.expression(text, steps, diagnostics)?;
        if !(kind.is_numeric() || kind == DataType::Boolean || kind == DataType::Null) {
            let message = format!("a metric must be a number or a boolean, found {kind}");
            diagnostics.error(steps, Code::SqlType, message, None);
            return None;
        }
        let n = self.values.len();
        self.values.push(cast_expr(expr, DataType::Float64).alias(format!("value_{n}")));
        Some(kind == DataType::Boolean)
    }

    /// Marks rows for which an expression is true: one more value column, after the metrics.
    pub fn exclude(
        &mut self,
        text: &str,
        steps: &[&str],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<()> {
        let (expr, kind) = self.expression(text, steps, diagnostics)?;
        if kind != DataType::Boolean {
            let message = format!("a condition must be a boolean, found {kind}");
            diagnostics.error(steps, Code::SqlType, message, None);
            return None;
        }
        self.excluded = Some(cast_expr(expr.is_true(), DataType::Float64).alias("excluded"));
        Some(())
    }

    fn expression(
        &self,
        text: &str,
        steps: &[&str],
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<(Expr, DataType)> {
        match diagnostics.expression(text, &self.scope, self.engine) {
            Ok(expression) => Some(expression),
            Err(error) => {
                diagnostics.sql(steps, error);
                None
            }
        }
    }

    pub fn plan(self) -> Option<LogicalPlan> {
        let source = provider_as_source(self.table);
        let scan = LogicalPlanBuilder::scan(self.name, source, None).ok()?;
        let columns = self.texts.into_iter().chain(self.values).chain(self.excluded);
        scan.project(columns).ok()?.build().ok()
    }
}

/// A diagnostic if `correct` stands beside a metric of the name it stands for.
pub fn check_names(
    correct: &Option<Expression>,
    metrics: &Option<Metrics>,
    kind: &str,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let both = correct.is_some() && metrics.as_ref().is_some_and(|all| all.contains_key(ACCURACY));
    if both {
        let message = format!("`correct` already defines the metric `{ACCURACY}`");
        diagnostics.error(&[kind, "metrics", ACCURACY], Code::Duplicate, message, None);
    }
    (!both).then_some(())
}

/// Runs the plan of a [`Selection`] with `texts` text columns.
pub async fn read(
    plan: &LogicalPlan,
    texts: usize,
    state: &SessionState,
) -> Result<Columns, StageError> {
    let batches = execute::collected(plan, state).await?;
    let schema = match batches.first() {
        Some(batch) => batch.schema(),
        None => Arc::new(plan.schema().as_arrow().clone()),
    };
    let all = arrow::compute::concat_batches(&schema, &batches)?;
    let column = |i: usize, kind: &DataType| cast(all.column(i), kind);
    let text = |i| Ok::<_, StageError>(text_array(&column(i, &DataType::Utf8)?));
    let value = |i| Ok::<_, StageError>(float_array(&column(i, &DataType::Float64)?));
    Ok(Columns {
        texts: (0..texts).map(text).collect::<Result<_, _>>()?,
        values: (texts..all.num_columns()).map(value).collect::<Result<_, _>>()?,
    })
}

fn text_array(array: &ArrayRef) -> StringArray {
    array
        .as_any()
        .downcast_ref::<StringArray>()
        .cloned()
        .unwrap_or_else(|| StringArray::new_null(array.len()))
}

fn float_array(array: &ArrayRef) -> Float64Array {
    array
        .as_any()
        .downcast_ref::<Float64Array>()
        .cloned()
        .unwrap_or_else(|| Float64Array::new_null(array.len()))
}

/// What tells groups or items apart: texts, or NULL.
pub type Key = Vec<Option<String>>;

/// The rows of each combination of the given text columns, in the order of the combinations: NULL first, numbers by
/// value.
pub fn groups(texts: &[StringArray], rows: usize) -> Vec<(Key, Vec<usize>)> {
    let mut groups: IndexMap<Key, Vec<usize>> = IndexMap::new();
    for row in 0..rows {
        let key = texts.iter().map(|column| text_at(column, row)).collect();
        groups.entry(key).or_default().push(row);
    }
    if texts.is_empty() && rows == 0 {
        // Nothing was attempted, and that is worth a line.
        groups.insert(Vec::new(), Vec::new());
    }
    groups.sort_unstable_by(|a, _, b, _| {
        a.iter()
            .map(|text| text.as_deref().map(Natural::of))
            .cmp(b.iter().map(|text| text.as_deref().map(Natural::of)))
    });
    groups.into_iter().collect()
}

/// The text of a row; `None` for NULL.
pub fn text_at(column: &StringArray, row: usize) -> Option<String> {
    column.is_valid(row).then(|| column.value(row).to_owned())
}

pub fn table(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch, StageError> {
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
