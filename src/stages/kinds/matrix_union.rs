//! The union of one stage over all instances of a matrix, with the matrix values as first columns; or over all turns
//! of a repeated group, with the number of the turn.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, Result, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union, lit};

use crate::stages::kind::{Kind, Preparation, Preparing, Traits};
use crate::stages::queries::query::QueryPlan;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::{Instance, MatrixUnion};

impl Kind for MatrixUnion {
    fn traits(&self) -> Traits {
        Traits::of_query(2)
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, diagnostics, .. } = context;
        let first = inputs.table("instances[0].stage")?.schema();
        let mut instances = Vec::with_capacity(self.instances.len());
        for (i, Instance { labels, stage }) in self.instances.iter().enumerate() {
            let table = inputs.table(&format!("instances[{i}].stage"))?;
            if let Some(message) = difference(&self.columns, stage, &table.schema(), &first) {
                diagnostics.error(&[], Code::SqlPlan, message, None);
                return None;
            }
            instances.push(Arc::new(instance(self, labels, table).ok()?));
        }
        let plan = match instances.as_slice() {
            [only] => only.as_ref().clone(),
            _ => LogicalPlan::Union(Union::try_new_by_name(instances).ok()?),
        };
        // Types that differ between instances are widened here, not when rows are there.
        let state = engine.planning();
        let plan =
            state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {}).ok()?;
        let plain = |field: &Arc<arrow::datatypes::Field>| Arc::clone(field);
        let schema = arrow::datatypes::Schema::new(
            plan.schema().fields().iter().map(plain).collect::<Vec<_>>(),
        );
        let query = Some(plan.clone());
        Some(Preparation { query, ..Preparation::new(Arc::new(schema), QueryPlan(plan)) })
    }
}

/// The rows of one instance, its matrix values first.
fn instance(
    union: &MatrixUnion,
    labels: &[String],
    table: Arc<dyn TableProvider>,
) -> Result<LogicalPlan> {
    let name = TableReference::bare("instance");
    let value = |label: &String| match label.parse::<i64>() {
        Ok(number) if union.numbers => lit(number),
        _ => lit(label.as_str()),
    };
    let values = union.columns.iter().zip(labels);
    let values = values.map(|(column, label)| value(label).alias(column));
    let schema = table.schema();
    let fields = schema.fields().iter().map(|field| {
        Expr::Column(Column::new(Some(name.clone()), field.name())).alias(field.name())
    });
    let all: Vec<Expr> = values.chain(fields).collect();
    LogicalPlanBuilder::scan(name.clone(), provider_as_source(table), None)?.project(all)?.build()
}

/// Why an instance does not fit the union; `None` if it does.
fn difference(
    matrix: &[String],
    name: &str,
    table: &SchemaRef,
    first: &SchemaRef,
) -> Option<String> {
    let names = |schema: &SchemaRef| -> std::collections::BTreeSet<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    };
    let (own, others) = (names(table), names(first));
    if let Some(column) = matrix.iter().find(|column| own.contains(*column)) {
        return Some(format!(
            "`{name}` has a column `{column}`, which is also a parameter of its matrix"
        ));
    }
    let odd = own.symmetric_difference(&others).next()?;
    Some(format!("column `{odd}` is not in all instances of the matrix of `{name}`"))
}
