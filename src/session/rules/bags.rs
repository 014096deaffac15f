//! `EXCEPT ALL` and `INTERSECT ALL`, which count how often a row is there. The planner makes of them the join of `EXCEPT` and
//! `INTERSECT`, which does not; with its place among its equals each row is one of its own.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// What the places of both sides are called.
const PLACES: [&str; 2] = ["__place_left", "__place_right"];

/// Adds the places to both sides of such joins.
#[derive(Debug)]
pub struct Bags;

impl AnalyzerRule for Bags {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if is_of_bags(&join) => counted(join).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "bags"
    }
}

/// Whether a join is that of a set operation with `ALL`. No other finds NULL equal to NULL, and without `ALL` the rows of
/// its left side are distinct.
fn is_of_bags(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
        && !join.left.schema().has_column_with_unqualified_name(PLACES[0])
}

fn counted(join: Join) -> Result<LogicalPlan> {
    let [left, right] = [(&join.left, PLACES[0]), (&join.right, PLACES[1])].map(|(side, name)| {
        let columns: Vec<Expr> = side.schema().columns().into_iter().map(Expr::Column).collect();
        let place = row_number().partition_by(columns).build()?.alias(name);
        LogicalPlanBuilder::from(side.as_ref().clone()).window([place])?.build()
    });
    let (mut left_on, mut right_on): (Vec<Column>, Vec<Column>) =
        (join.left.schema().columns(), join.right.schema().columns());
    left_on.push(Column::new_unqualified(PLACES[0]));
    right_on.push(Column::new_unqualified(PLACES[1]));
    let columns: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    LogicalPlanBuilder::from(left?)
        .join_detailed(
            right?,
            join.join_type,
            (left_on, right_on),
            None,
            NullEquality::NullEqualsNull,
        )?
        .project(columns)?
        .build()
}
