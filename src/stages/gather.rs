//! The union of one stage over all instances of a matrix, with the matrix values as first columns.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, Result, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union, lit};

use crate::graph::{Role, Stage};
use crate::session::Engine;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::stage::Gather;
use crate::stages::components::Components;
use crate::stages::place::Place;
use crate::stages::prepare::{Outcome, Tables};
use crate::stages::prepared::Body;

/// Plans the union.
pub fn prepare(
    stage: &Stage,
    settings: &Gather,
    tables: &Tables,
    engine: &Engine,
    mut components: Components,
    place: &mut Place<'_>,
) -> Option<Outcome> {
    let first = tables.get(stage.input(&Role::Instance(0))?)?.schema();
    let mut instances = Vec::with_capacity(settings.instances.len());
    for (i, (labels, name)) in settings.instances.iter().enumerate() {
        let table = tables.get(stage.input(&Role::Instance(i))?)?;
        if let Some(message) = difference(&settings.columns, name, &table.schema(), &first) {
            place.mistake(&[], Code::SqlPlan, message, None);
            return None;
        }
        instances.push(Arc::new(instance(&settings.columns, labels, table).ok()?));
    }
    let plan = match instances.as_slice() {
        [only] => only.as_ref().clone(),
        _ => LogicalPlan::Union(Union::try_new_by_name(instances).ok()?),
    };
    // Types that differ between instances are widened here, not when rows are there.
    let state = engine.planning();
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {}).ok()?;
    let plain = |field: &Arc<arrow::datatypes::Field>| Arc::clone(field);
    let schema =
        arrow::datatypes::Schema::new(plan.schema().fields().iter().map(plain).collect::<Vec<_>>());
    components.set_settings(settings);
    for (i, (labels, _)) in settings.instances.iter().enumerate() {
        components.set(format!("settings.instance[{i}]"), labels.join("\u{1f}"));
    }
    Some(Outcome {
        schema: Arc::new(schema),
        body: Body::Query(plan),
        components,
        rows_expected: None,
    })
}

/// The rows of one instance, its matrix values first.
fn instance(
    columns: &[String],
    labels: &[String],
    table: Arc<dyn TableProvider>,
) -> Result<LogicalPlan> {
    let name = TableReference::bare("instance");
    let values = columns.iter().zip(labels);
    let values = values.map(|(column, label)| lit(label.as_str()).alias(column));
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
            "`{name}` has a column `{column}`, which is also a name of its matrix"
        ));
    }
    let odd = own.symmetric_difference(&others).next()?;
    Some(format!("`{odd}` is not a column of all instances of the matrix that `{name}` is one of"))
}
