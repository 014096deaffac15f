//! Lists of `IN` that hold more than values, written as comparisons. DataFusion evaluates each part over no rows to see whether
//! it is constant, and a `CASE` over no rows is NULL: `s IN (CASE WHEN k > 1 THEN s END, 'p')` was NULL for all rows.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, LogicalPlan, not};

use crate::session::rules::node::{EachNode, has_part, keeping_names};

/// Compares with each part of such a list, behind the rules that may put an expression there.
pub const OPEN_LISTS: EachNode = EachNode { name: "open_lists", rewrite };

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_part(&plan, is_open)? {
        return Ok(Transformed::no(plan));
    }
    keeping_names(plan, |expr| expr.transform_up(|part| Ok(compared(part))))
}

/// Whether it is such a list, and what is looked for in it may be computed several times.
fn is_open(part: &Expr) -> bool {
    let is_asked =
        |part: &Expr| matches!(part, Expr::ScalarFunction(call) if call.func.as_async().is_some());
    match part {
        Expr::InList(InList { expr, list, .. }) => {
            list.iter().any(|value| !matches!(value, Expr::Literal(..)))
                && !expr.is_volatile()
                && !expr.exists(|part| Ok(is_asked(part))).unwrap_or(true)
        }
        _ => false,
    }
}

fn compared(part: Expr) -> Transformed<Expr> {
    if !is_open(&part) {
        return Transformed::no(part);
    }
    let Expr::InList(InList { expr, list, negated }) = part else { return Transformed::no(part) };
    let each = list.into_iter().map(|value| expr.as_ref().clone().eq(value));
    match (each.reduce(Expr::or), negated) {
        (Some(found), false) => Transformed::yes(found),
        (Some(found), true) => Transformed::yes(not(found)),
        (None, _) => Transformed::no(Expr::InList(InList { expr, list: Vec::new(), negated })),
    }
}
