//! Gives model calls that feed other calls, or are used more than once, a projection of their own.
//!
//! DataFusion evaluates all asynchronous calls of a projection side by side: it cannot feed one to
//! another, and a call that is written twice is made twice. It makes such projections itself: it
//! writes a subquery's column into the call that uses it, and a struct's column into the expression
//! of each of its fields. So this rule runs after DataFusion's own.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, ident};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::placement::is_model_call;

/// The rule; every session that has the model functions needs it as its last one.
#[derive(Debug, Default)]
pub struct SplitModelCalls;

impl OptimizerRule for SplitModelCalls {
    fn name(&self) -> &str {
        "split_model_calls"
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
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Projection(mut projection) = plan else {
            return Ok(Transformed::no(plan));
        };
        let mut transformed = false;
        loop {
            let mut calls = Vec::new();
            for expr in &projection.expr {
                collect(expr, false, &mut calls)?;
            }
            let shared = |call: &Call| call.feeds || call.uses > 1;
            let first: Vec<Expr> = calls.into_iter().filter(shared).map(|call| call.expr).collect();
            if first.is_empty() {
                let plan = LogicalPlan::Projection(projection);
                return Ok(Transformed::new_transformed(plan, transformed));
            }
            projection = split(projection, &first)?;
            transformed = true;
        }
    }
}

/// A model call that has no other inside.
struct Call {
    expr: Expr,
    /// Whether it stands inside another.
    feeds: bool,
    uses: usize,
}

/// Adds the calls of an expression that have no other inside; whether it has any call.
fn collect(expr: &Expr, inside: bool, calls: &mut Vec<Call>) -> Result<bool> {
    let is_call = is_model_call(expr);
    let mut has = false;
    expr.apply_children(|child| {
        has |= collect(child, inside || is_call, calls)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if is_call && !has {
        match calls.iter_mut().find(|call| call.expr == *expr) {
            Some(call) => {
                call.feeds |= inside;
                call.uses += 1;
            }
            None => calls.push(Call { expr: expr.clone(), feeds: inside, uses: 1 }),
        }
    }
    Ok(has || is_call)
}

/// The projection over one that computes `first` beside all columns of the input.
fn split(projection: Projection, first: &[Expr]) -> Result<Projection> {
    let Projection { expr, input, .. } = projection;
    let schema = Arc::clone(input.schema());
    let names = (0..).map(|number| format!("__model_{number}"));
    let mut names = names.filter(|name| !schema.has_column_with_unqualified_name(name));
    let named: Vec<(&Expr, String)> = first.iter().zip(&mut names).collect();
    let columns = schema.columns().into_iter().map(Expr::Column);
    let calls = named.iter().map(|(call, name)| (*call).clone().alias(name));
    let below = Projection::try_new(columns.chain(calls).collect(), input)?;
    let preserver = NamePreserver::new_for_projection();
    let above = expr.into_iter().map(|expr| {
        let name = preserver.save(&expr);
        let replaced = expr.transform_down(|expr| {
            Ok(match named.iter().find(|(call, _)| **call == expr) {
                Some((_, name)) => Transformed::new(ident(name), true, TreeNodeRecursion::Jump),
                None => Transformed::no(expr),
            })
        })?;
        Ok(name.restore(replaced.data))
    });
    Projection::try_new(above.collect::<Result<_>>()?, Arc::new(LogicalPlan::Projection(below)))
}
