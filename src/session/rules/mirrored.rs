//! Comparisons with the column on the left. Where filters meet, DataFusion takes `1 = x` and `x = 1` for two conditions of which no row
//! holds both, and of `x >= 1` and `1 < x` it keeps the first.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan};

use crate::session::rules::node::{EachNode, has_part};

/// Turns comparisons of conditions, where filters are about to meet.
pub const MIRRORED: EachNode = EachNode { name: "mirrored", rewrite };

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_condition = matches!(plan, LogicalPlan::Filter(_) | LogicalPlan::Join(_));
    if !is_condition || !has_part(&plan, |part| turned(part).is_some())? {
        return Ok(Transformed::no(plan));
    }
    plan.map_expressions(|expr| {
        expr.transform_up(|part| match turned(&part) {
            Some(turned) => Ok(Transformed::yes(turned)),
            None => Ok(Transformed::no(part)),
        })
    })
}

/// The comparison with its sides changed, if a value stands left of a column.
fn turned(part: &Expr) -> Option<Expr> {
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!((&**left, &**right), (Expr::Literal(..), Expr::Column(_))) =>
        {
            let (left, right) = (left.clone(), right.clone());
            Some(Expr::BinaryExpr(BinaryExpr { left: right, op: op.swap()?, right: left }))
        }
        _ => None,
    }
}
