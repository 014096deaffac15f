//! Keys of an order that stand there before: `first_value(x ORDER BY a, a)`, as `DISTINCT ON` is computed. The aggregate
//! counts them in one place and leaves them out in another, and panics.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Leaves them out of aggregates, behind the rules that may make two keys one.
#[derive(Debug)]
pub struct RepeatedKeys;

impl OptimizerRule for RepeatedKeys {
    fn name(&self) -> &str {
        "repeated_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|part| Ok(once(part)))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    }
}

fn once(expr: Expr) -> Transformed<Expr> {
    let Expr::AggregateFunction(mut call) = expr else { return Transformed::no(expr) };
    let keys = std::mem::take(&mut call.params.order_by);
    let given = keys.len();
    for key in keys {
        if !call.params.order_by.iter().any(|before| before.expr == key.expr) {
            call.params.order_by.push(key);
        }
    }
    let is_changed = call.params.order_by.len() < given;
    Transformed::new_transformed(Expr::AggregateFunction(call), is_changed)
}
