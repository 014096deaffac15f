//! Keys of groups and of orders that stand there before: `GROUP BY a, a`, and `first_value(x ORDER BY a, a)`, as
//! `DISTINCT ON` is computed. The aggregate counts them in one place and leaves them out in another.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::create_physical_expr;

use crate::session::rules::node::{EachNode, keeping_names};
use crate::session::wording::Refused;

/// Leaves keys of orders out of aggregates, behind the rules that may make two keys one.
pub const REPEATED_KEYS: EachNode = EachNode { name: "repeated_keys", rewrite };

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
    let rows = Arc::clone(aggregate.input.schema());
    keeping_names(plan, |expr| expr.transform_up(|part| Ok(once(part, &rows))))
}

fn once(expr: Expr, rows: &DFSchema) -> Transformed<Expr> {
    let Expr::AggregateFunction(mut call) = expr else { return Transformed::no(expr) };
    let keys = std::mem::take(&mut call.params.order_by);
    let given = keys.len();
    // Two that differ may be computed alike: `CASE WHEN a = b THEN a ELSE a END` is `a`.
    let (props, planning) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let computed = |key: &Expr| create_physical_expr(key, rows, &props, &planning).ok();
    let mut kept = Vec::new();
    for key in keys {
        let alike = if given > 1 { computed(&key.expr) } else { None };
        if alike.is_none() || !kept.contains(&alike) {
            kept.push(alike);
            call.params.order_by.push(key);
        }
    }
    let is_changed = call.params.order_by.len() < given;
    Transformed::new_transformed(Expr::AggregateFunction(call), is_changed)
}

/// An aggregate by each of its groups once, which is all that its columns have. A cast is called like what it casts:
/// groups that rules cannot tell apart are refused.
pub fn grouped_once(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Aggregate(mut aggregate) = node else { return Ok(node) };
    if aggregate.group_expr.len() < 2 {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    let mut known: HashMap<String, Expr> = HashMap::new();
    for expr in std::mem::take(&mut aggregate.group_expr) {
        let name = expr.schema_name().to_string();
        match known.get(&name) {
            Some(other) if *other == expr => continue,
            Some(_) => {
                return Refused {
                    message: format!("`GROUP BY` by `{name}` and by a cast of it is not supported"),
                    help: "cast it in a subquery, under a name of its own, and group by that"
                        .to_owned(),
                    blamed: vec![name],
                }
                .error();
            }
            None => known.insert(name, expr.clone()),
        };
        aggregate.group_expr.push(expr);
    }
    Ok(LogicalPlan::Aggregate(aggregate))
}
