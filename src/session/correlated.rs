//! Subqueries that can only be computed as joins, those foremost that read columns from outside them. DataFusion says
//! in the run alone where it makes none.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::session::rules::has_part;

/// A subquery that cannot be computed.
#[derive(Debug)]
pub(super) struct Unjoined {
    /// The column that it reads from outside it, if it does.
    pub column: Option<Column>,
}

/// A subquery of `plan` of which the optimizer makes no join, if there is one.
pub(super) fn without_join(state: &SessionState, plan: &LogicalPlan) -> Option<Unjoined> {
    let column = outer_reference(plan);
    if column.is_none() && !has_subqueries(plan) {
        return None;
    }
    let joined = match state.optimize(plan) {
        Ok(plan) => {
            outer_reference(&plan).is_none() && !has_subqueries(&plan) && !lacks_columns(&plan)
        }
        // What is wrong with constants, such as a division by zero, is left to the run.
        Err(error) => !matches!(
            error.find_root(),
            DataFusionError::SchemaError(..)
                | DataFusionError::Plan(_)
                | DataFusionError::NotImplemented(_)
                | DataFusionError::Internal(_)
        ),
    };
    (!joined).then_some(Unjoined { column })
}

/// Whether there is a subquery that only a join can compute; one value for all rows needs none.
fn has_subqueries(plan: &LogicalPlan) -> bool {
    let asks = |part: &Expr| match part {
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        // It still says so where the optimizer has found that it gives nothing.
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        _ => false,
    };
    // A subquery that is no part of an expression: `LATERAL`.
    let mut found =
        plan.exists(|node| Ok(matches!(node, LogicalPlan::Subquery(_)))).unwrap_or(false);
    let looked = plan.apply_with_subqueries(|node| {
        found |= has_part(node, asks)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    looked.is_ok() && found
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
