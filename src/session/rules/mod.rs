//! Rules of ours in plans, where DataFusion's answer is not SQL's. What each puts right, and what upstream knows of it,
//! stands in [ADR 0033](../../../docs/decisions/0033-sql.md).

mod bags;
mod exact;
mod fences;
mod keys;
mod memberships;
mod planning;
mod repeated_keys;
mod subqueries;
mod views;

use datafusion::common::DFSchema;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::utils::merge_schema;

pub use keys::{Keyless, forget_keys};
pub use planning::{Planning, SQL_VERSION, analyzer_rules, optimizer_rules, physical_rules};

/// What the expressions of a node of a plan are about.
fn input_schema(node: &LogicalPlan) -> DFSchema {
    let inputs = node.inputs();
    match (node, inputs.is_empty()) {
        (LogicalPlan::TableScan(scan), _) => scan.projected_schema.as_ref().clone(),
        (_, true) => DFSchema::empty(),
        (_, false) => merge_schema(&inputs),
    }
}
