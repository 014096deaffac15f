//! Lists of `IN` that hold more than values, written as comparisons. DataFusion evaluates each part over no rows to see whether
//! it is constant, and a `CASE` over no rows is NULL: `s IN (CASE WHEN k > 1 THEN s END, 'p')` was NULL for all rows.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, LogicalPlan, lit, not};

use crate::session::rules::node::{EachNode, has_part, keeping_names};
use crate::session::wording::Refused;

/// Compares with each part of such a list, behind the rules that may put an expression there.
pub const IN_LISTS: EachNode = EachNode { name: "in_lists", rewrite };

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_part(&plan, is_open)? {
        return Ok(Transformed::no(plan));
    }
    keeping_names(plan, |expr| expr.transform_up(compared))
}

/// Whether it is a list that holds more than values. A call of a model becomes a column first.
fn is_open(part: &Expr) -> bool {
    let calls_model =
        |part: &Expr| matches!(part, Expr::ScalarFunction(call) if call.func.as_async().is_some());
    match part {
        Expr::InList(InList { expr, list, .. }) => {
            list.iter().any(|value| !matches!(value, Expr::Literal(..)))
                && !expr.exists(|part| Ok(calls_model(part))).unwrap_or(true)
        }
        _ => false,
    }
}

fn compared(part: Expr) -> Result<Transformed<Expr>> {
    if !is_open(&part) {
        return Ok(Transformed::no(part));
    }
    let Expr::InList(InList { expr, list, negated }) = part else {
        return Ok(Transformed::no(part));
    };
    if list.len() > 1 && expr.is_volatile() {
        return Refused {
            message: "a volatile expression cannot be compared with a list of expressions"
                .to_owned(),
            help: "compute it in a subquery, and compare that column".to_owned(),
            blamed: vec!["IN".to_owned()],
        }
        .error();
    }
    let each = list.into_iter().map(|value| expr.as_ref().clone().eq(value));
    let found = each.reduce(Expr::or).unwrap_or_else(|| lit(false));
    Ok(Transformed::yes(if negated { not(found) } else { found }))
}
