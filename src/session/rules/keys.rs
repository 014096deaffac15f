//! Keys that are none. DataFusion follows which columns determine others, and takes what a join has multiplied for a key
//! of the groups above it: it drops keys of `GROUP BY` and `ORDER BY`, rows of `DISTINCT`, and
//! joins. So keys are hidden from all: the SQL planner ([`Keyless`]) and every rule of the
//! optimizer ([`ForgetKeys`]). The cause is in [ADR 0033](../../../docs/decisions/0033-sql.md).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Distinct, LogicalPlan};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast::TableFactor;

/// The optimizer's rules that rely on keys. [`ForgetKeys`] runs before each.
pub const RELY_ON_KEYS: [&str; 4] = [
    "replace_distinct_aggregate",
    "eliminate_join",
    "eliminate_duplicated_expr",
    "optimize_projections",
];

/// Plans every table of a `FROM` without its keys, for the SQL planner relies on them before any rule runs.
#[derive(Debug, Default)]
pub struct Keyless {
    /// Whether the relation that comes next is to be planned as usual.
    as_usual: AtomicBool,
}

impl RelationPlanner for Keyless {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if self.as_usual.swap(false, Ordering::Relaxed) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        // The planner asks here first for whatever it plans: for this relation once more, and then for those inside it.
        self.as_usual.store(true, Ordering::Relaxed);
        let plan = without_keys(context.plan(relation)?)?.data;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// Takes the keys out of a whole plan, without a trace where there are none.
#[derive(Debug)]
pub struct ForgetKeys;

impl OptimizerRule for ForgetKeys {
    fn name(&self) -> &str {
        "forget_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        forget_keys(plan).map(Transformed::no)
    }
}

/// A plan none of whose nodes has keys.
pub fn forget_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_keys = false;
    plan.apply_with_subqueries(|node| {
        has_keys |= !node.schema().functional_dependencies().is_empty();
        Ok(if has_keys { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !has_keys {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(without_keys).data()
}

/// The node without the keys that its own schema says.
fn without_keys(mut plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = match &mut plan {
        LogicalPlan::Projection(node) => &mut node.schema,
        LogicalPlan::Window(node) => &mut node.schema,
        LogicalPlan::Aggregate(node) => &mut node.schema,
        LogicalPlan::Join(node) => &mut node.schema,
        LogicalPlan::Union(node) => &mut node.schema,
        LogicalPlan::SubqueryAlias(node) => &mut node.schema,
        LogicalPlan::TableScan(node) => &mut node.projected_schema,
        LogicalPlan::EmptyRelation(node) => &mut node.schema,
        LogicalPlan::Values(node) => &mut node.schema,
        LogicalPlan::Unnest(node) => &mut node.schema,
        LogicalPlan::Distinct(Distinct::On(node)) => &mut node.schema,
        // The others have the schema of what they read.
        _ => return Ok(Transformed::no(plan)),
    };
    if schema.functional_dependencies().is_empty() {
        return Ok(Transformed::no(plan));
    }
    *schema = keyless(schema)?;
    Ok(Transformed::yes(plan))
}

fn keyless(schema: &DFSchemaRef) -> Result<DFSchemaRef> {
    let schema = schema.as_ref().clone();
    Ok(Arc::new(schema.with_functional_dependencies(FunctionalDependencies::empty())?))
}
