//! What rules ask of a node of a plan.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Whether `is_it` is true of a part of a node's expressions.
pub fn has_part(node: &LogicalPlan, is_it: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(is_it(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// What the expressions of a node of a plan are about.
pub fn input_schema(node: &LogicalPlan) -> DFSchema {
    let inputs = node.inputs();
    match (node, inputs.is_empty()) {
        (LogicalPlan::TableScan(scan), _) => scan.projected_schema.as_ref().clone(),
        (_, true) => DFSchema::empty(),
        (_, false) => merge_schema(&inputs),
    }
}
