//! `sql`: a query over the tables of other stages.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::graph::{Role, Stage};
use crate::session::Engine;
use crate::sqltext::{self, Query};
use crate::stages::components::Components;
use crate::stages::error::StageError;
use crate::stages::place::Place;
use crate::stages::prepare::{Outcome, Tables};
use crate::stages::prepared::Body;
use crate::stages::sink::{Computed, Sink, Written};
use crate::stages::task::task;
use proofmill_pipeline::kinds::sql::Sql;

/// Plans the query.
pub fn prepare(
    stage: &Stage,
    query: &Query,
    settings: &Sql,
    tables: &Tables,
    engine: &Engine,
    mut components: Components,
    place: &mut Place<'_>,
) -> Option<Outcome> {
    let mut named: HashMap<String, Arc<dyn TableProvider>> = HashMap::new();
    for input in &stage.inputs {
        if let Role::Table(written) = &input.role {
            named.insert(written.clone(), tables.get(&input.stage)?);
        }
    }
    match place.query(query, named, engine) {
        Ok(planned) => {
            components.set("settings.sql", sqltext::normalized(&settings.0));
            for model in &planned.calls.models {
                let prefix = format!("model.{model}");
                set_model(&prefix, model, engine, &mut components, place)?;
            }
            Some(Outcome {
                schema: planned.schema,
                body: Body::Query(planned.plan),
                components,
                rows_expected: None,
            })
        }
        Err(error) => {
            place.sql(&["sql"], error);
            None
        }
    }
}

/// Adds under `prefix` who a model is that a stage asks; a mistake if that cannot be told.
pub fn set_model(
    prefix: &str,
    model: &str,
    engine: &Engine,
    components: &mut Components,
    place: &mut Place<'_>,
) -> Option<()> {
    match engine.models().card(model)? {
        Ok(card) => {
            card.parts()
                .for_each(|(part, value)| components.set(format!("{prefix}.{part}"), value));
            Some(())
        }
        Err(error) => {
            place.unreadable(model, error.key(), error.parts());
            None
        }
    }
}

/// Runs a plan; each of its partitions becomes a part.
pub async fn compute(
    plan: &LogicalPlan,
    state: &SessionState,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let plan = state.create_physical_plan(plan).await?;
    let partitions = plan.output_partitioning().partition_count();
    let context = state.task_ctx();
    let pieces = (0..partitions).map(|i| {
        let (plan, context, sink) = (Arc::clone(&plan), Arc::clone(&context), sink.clone());
        async move {
            if partitions == 1 {
                piece(plan, context, &sink, i, partitions).await
            } else {
                // Partitions compute on several cores only as tasks of their own.
                task(async move { piece(plan, context, &sink, i, partitions).await }).await
            }
        }
    });
    let pieces: Vec<_> = stream::iter(pieces).buffered(partitions.max(1)).try_collect().await?;
    Ok(Computed::of(pieces))
}

async fn piece(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    sink: &Sink,
    number: usize,
    pieces: usize,
) -> Result<Written, StageError> {
    let mut rows = plan.execute(number, context)?;
    let mut part = sink.part(number, pieces);
    while let Some(batch) = rows.next().await {
        part.write(batch?).await?;
    }
    part.finish().await
}
