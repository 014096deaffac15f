//! Operators that the engine's own check refuses, made once more. A column that is constant counts as sorted; where a later look
//! does not find it constant any more, as behind two joins over several partitions, a sort is missing. Then they are made as if
//! nothing were constant.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::session::rules::Fences;
use crate::session::wording::UNORDERED;

/// Makes operators, and once more where that gives none.
#[derive(Debug)]
pub(super) struct Replanned;

#[async_trait]
impl QueryPlanner for Replanned {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::default();
        let made = planner.create_physical_plan(plan, state).await;
        match (made, state.as_any().downcast_ref::<SessionState>()) {
            (Err(error), Some(state)) if lacks_sort(&error) => {
                planner.create_physical_plan(plan, &fenced(state)).await
            }
            (made, _) => made,
        }
    }
}

/// Whether the check of operators misses a sort.
fn lacks_sort(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::Plan(message) if message.contains(UNORDERED))
}

/// The same state, whose operators know of no constants.
fn fenced(state: &SessionState) -> SessionState {
    let mut rules = state.physical_optimizers().to_vec();
    for rule in rules.iter_mut().filter(|rule| rule.name() == Fences::NAME) {
        *rule = Arc::new(Fences::Everywhere);
    }
    SessionStateBuilder::new_from_existing(state.clone())
        .with_physical_optimizer_rules(rules)
        .build()
}
