//! Correlated subqueries, those that read columns from outside them: they can only be computed as joins, and DataFusion
//! says in the run alone where it makes none.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// A column that a subquery of `plan` reads from outside it, if the optimizer does not make joins of all such
/// subqueries.
pub(super) fn without_join(state: &SessionState, plan: &LogicalPlan) -> Option<Column> {
    let column = outer_reference(plan)?;
    let joined = match state.optimize(plan) {
        Ok(plan) => outer_reference(&plan).is_none() && !lacks_columns(&plan),
        // What is wrong with constants, such as a division by zero, is left to the run.
        Err(error) => !matches!(
            error.find_root(),
            DataFusionError::SchemaError(..)
                | DataFusionError::Plan(_)
                | DataFusionError::NotImplemented(_)
        ),
    };
    (!joined).then_some(column)
}

fn outer_reference(plan: &LogicalPlan) -> Option<Column> {
    let mut found = None;
    let looked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::OuterReferenceColumn(_, column) = part {
                    found = Some(column.clone());
                    return Ok(TreeNodeRecursion::Stop);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    looked.ok().and(found)
}

/// Whether a column comes from no input: one of two levels further out, where the optimizer made a join of the inner
/// level alone.
fn lacks_columns(plan: &LogicalPlan) -> bool {
    let lacks = |node: &LogicalPlan| {
        let (inputs, exprs) = match node {
            LogicalPlan::Filter(_) | LogicalPlan::Projection(_) | LogicalPlan::Join(_) => {
                (node.inputs(), node.expressions())
            }
            _ => return Ok(false),
        };
        let mut columns = exprs.iter().flat_map(Expr::column_refs);
        Ok(columns.any(|column| !inputs.iter().any(|input| input.schema().has_column(column))))
    };
    plan.exists(lacks).unwrap_or(false)
}
