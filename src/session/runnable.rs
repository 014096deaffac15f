//! What the engine says in the run alone: that it has no operator for an expression, or not for it there. Plans with
//! expressions of which that is known are made to their end while they are checked, over tables without rows.

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::empty::EmptyTable;
use datafusion::datasource::provider_as_source;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use futures::FutureExt;

use crate::session::wording::{self, Refused};

/// Why no operators can be made of a plan, where some of its expressions are of kinds that not all have one.
pub(super) fn refused(state: &SessionState, plan: &LogicalPlan) -> Option<DataFusionError> {
    match doubt(plan) {
        None => None,
        Some(Doubt::Refused(refused)) => Some(refused.into()),
        Some(Doubt::Operator) => {
            let planned = async { state.create_physical_plan(&without_rows(plan)?).await };
            // Over tables without rows it waits for nothing.
            let error = match planned.now_or_never()? {
                // No row has been read, so it is the plan that is wrong.
                Ok(operators) => return accumulators(&operators).err(),
                Err(error) => error,
            };
            // What is wrong with constants, such as a division by zero, is left to the run.
            let is_of_the_plan = match error.find_root() {
                DataFusionError::SchemaError(..)
                | DataFusionError::Plan(_)
                | DataFusionError::NotImplemented(_)
                | DataFusionError::Internal(_) => true,
                DataFusionError::External(external) => external.is::<Refused>(),
                DataFusionError::Execution(message) => wording::is_unsupported(message),
                _ => false,
            };
            is_of_the_plan.then_some(error)
        }
    }
}

/// Makes what folds rows, which operators make only in the run.
fn accumulators(operators: &Arc<dyn ExecutionPlan>) -> datafusion::common::Result<()> {
    operators.apply(|node| {
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            for call in aggregate.aggr_expr() {
                match call.groups_accumulator_supported() && !aggregate.group_expr().is_empty() {
                    true => call.create_groups_accumulator().map(drop)?,
                    false => call.create_accumulator().map(drop)?,
                }
            }
        }
        let bounded = node.downcast_ref::<BoundedWindowAggExec>().map(|it| it.window_expr());
        let windows = node.downcast_ref::<WindowAggExec>().map(|it| it.window_expr());
        for call in bounded.or(windows).into_iter().flatten() {
            call.create_window_fn()?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Aggregates that take all types that their signatures have.
const OF_ALL_TYPES: [&str; 5] = ["avg", "count", "max", "min", "sum"];

/// What the run may refuse.
enum Doubt {
    /// It will.
    Refused(Refused),
    /// It is not known before operators are made.
    Operator,
}

fn doubt(plan: &LogicalPlan) -> Option<Doubt> {
    let mut found = None;
    let looked = plan.apply_with_subqueries(|node| {
        let is_open = match node {
            LogicalPlan::Limit(limit) => {
                !matches!(limit.get_fetch_type(), Ok(FetchType::Literal(_)))
                    || !matches!(limit.get_skip_type(), Ok(SkipType::Literal(_)))
            }
            LogicalPlan::Unnest(_) => true,
            _ => false,
        };
        if is_open {
            found = Some(Doubt::Operator);
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                match part {
                    Expr::AggregateFunction(call) => match of_distinct(call) {
                        Some(refused) => {
                            found = Some(Doubt::Refused(refused));
                            return Ok(TreeNodeRecursion::Stop);
                        }
                        None if is_unusual(call) => found = Some(Doubt::Operator),
                        None => {}
                    },
                    Expr::WindowFunction(_) | Expr::Unnest(_) => found = Some(Doubt::Operator),
                    Expr::InList(list) if list.expr.is_volatile() => found = Some(Doubt::Operator),
                    #[expect(deprecated, reason = "the planner still makes it")]
                    Expr::Wildcard { .. } => found = Some(Doubt::Operator),
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    looked.ok().and(found)
}

/// Whether an aggregate may have no accumulator for what it is given.
fn is_unusual(call: &AggregateFunction) -> bool {
    let is_null = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if value.is_null());
    !call.params.order_by.is_empty()
        || !OF_ALL_TYPES.contains(&call.func.name())
        || call.params.args.iter().any(is_null)
}

/// An aggregate of `DISTINCT` values that has no accumulator: that shows in the run even where operators are made.
fn of_distinct(call: &AggregateFunction) -> Option<Refused> {
    let AggregateFunctionParams { args, distinct, order_by, .. } = &call.params;
    let name = call.func.name();
    let (message, help) = if !distinct {
        return None;
    } else if name == "count" && args.len() > 1 {
        let help = "count the rows of a `SELECT DISTINCT` in a subquery";
        ("`count(DISTINCT …)` takes one argument".to_owned(), help)
    } else if order_by.iter().any(|key| !args.contains(&key.expr)) {
        let help = "order by the argument, or take `DISTINCT` rows in a subquery";
        (format!("`{name}(DISTINCT …)` can be ordered only by its arguments"), help)
    } else {
        return None;
    };
    Some(Refused { message, help: help.to_owned(), blamed: vec![name.to_owned()] })
}

/// The plan over tables of the same columns that have no rows.
fn without_rows(plan: &LogicalPlan) -> datafusion::common::Result<LogicalPlan> {
    let of_node = |node: LogicalPlan| match node {
        LogicalPlan::TableScan(mut scan) => {
            scan.source = provider_as_source(Arc::new(EmptyTable::new(scan.source.schema())));
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        }
        other => Ok(Transformed::no(other)),
    };
    plan.clone().transform_up_with_subqueries(of_node).data()
}
