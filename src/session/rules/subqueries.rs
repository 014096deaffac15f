//! `IN`, `EXISTS`, `ANY` and `ALL` with the three truths of SQL.
//!
//! DataFusion makes a semi or an anti join of a condition that stands alone in a `WHERE`, and a join that marks rows of one
//! inside a larger condition; a mark is true or false, and `x IN (…)` may be unknown. So what stands inside is written
//! as questions that are never unknown: is an equal value there, is NULL there, is anything there. Outside of `WHERE`
//! there are no such joins, and the same questions are counts.
//!
//! A subquery that reads columns from outside becomes a join by taking its conditions out of it. That is right for rows
//! that are filtered, joined and projected, and for one aggregate of them all at the top of a value; anything else
//! between the condition and the top would see other rows, and is refused.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result, ScalarValue, Spans};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Operator,
    Subquery, lit, not, when,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use crate::session::rules::computed_keys::computed_below;
use crate::session::rules::node::{has_part, keeping_names};
use crate::session::wording::Refused;

/// Writes subqueries so that the optimizer's joins answer them rightly.
#[derive(Debug)]
pub struct Subqueries;

impl AnalyzerRule for Subqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let sets = Cell::new(0);
        let plan = plan.transform_up_with_subqueries(first)?.data;
        plan.transform_up_with_subqueries(|node| of_node(node, &sets)).data()
    }

    fn name(&self) -> &str {
        "subqueries"
    }
}

/// Where a condition stands, which determines what can be tested there.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Inside a `WHERE`: rows can be marked.
    Condition,
    /// Anywhere else: rows can be counted.
    Value,
}

fn of_node(node: LogicalPlan, sets: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    let asks = has_part(&node, is_subquery)?;
    let node = match node {
        LogicalPlan::Filter(filter) if asks => {
            return of_filter(filter, sets).map(Transformed::yes);
        }
        node @ (LogicalPlan::Filter(_) | LogicalPlan::Join(_)) => node.map_children(held)?,
        node => Transformed::no(node),
    };
    if !asks {
        return Ok(node);
    }
    let node = node.data;
    let inputs = node.inputs();
    let outside = if inputs.is_empty() { DFSchema::empty() } else { merge_schema(&inputs) };
    let rewriter = Rewriter { outside: &outside, place: Place::Value, sets };
    keeping_names(node, |expr| rewriter.inside(expr))
}

/// What is computed below before any condition tests it: values of each row that stand left of
/// another subquery, which would read them two levels further out.
fn first(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !has_part(&node, asks_about_value)? {
        return Ok(Transformed::no(node));
    }
    computed_below(node, |node| {
        let mut parts = Vec::new();
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                let Some(left) = left_of(part) else { return Ok(TreeNodeRecursion::Continue) };
                left.apply(|value| {
                    // The innermost come first.
                    if is_of_rows(value) && !value.exists(|part| Ok(asks_about_value(part)))? {
                        parts.push(value.clone());
                        return Ok(TreeNodeRecursion::Jump);
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(parts)
    })
}

/// What `IN`, `ANY` and `ALL` look for.
fn left_of(part: &Expr) -> Option<&Expr> {
    match part {
        Expr::InSubquery(InSubquery { expr, .. })
        | Expr::SetComparison(SetComparison { expr, .. }) => Some(expr),
        _ => None,
    }
}

/// Whether it looks for what another subquery gives for each row.
fn asks_about_value(part: &Expr) -> bool {
    left_of(part).is_some_and(|left| {
        !left.contains_outer() && left.exists(|part| Ok(is_of_rows(part))).unwrap_or(false)
    })
}

/// Whether it is a subquery that becomes a join with the rows outside.
fn is_of_rows(part: &Expr) -> bool {
    match part {
        Expr::ScalarSubquery(subquery) | Expr::Exists(Exists { subquery, .. }) => {
            is_correlated(subquery)
        }
        Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        _ => false,
    }
}

fn of_filter(filter: Filter, sets: &Cell<usize>) -> Result<LogicalPlan> {
    let outside = filter.input.schema().as_ref().clone();
    let rewriter = Rewriter { outside: &outside, place: Place::Condition, sets };
    let input = Arc::new(held(Arc::unwrap_or_clone(filter.input))?.data);
    let conditions = split_conjunction_owned(filter.predicate);
    let alone = |condition| rewriter.alone(condition);
    let conditions = conditions.into_iter().map(alone).collect::<Result<Vec<_>>>()?;
    let predicate = conjunction(conditions).unwrap_or_else(|| lit(true));
    Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?))
}

/// What a condition is about, with a `LIMIT` on each aggregate that always gives a row: a condition without columns, as it is written
/// or as the optimizer finds that its columns are constants, would be taken below that, where it removes rows that are folded
/// instead of the row that comes out. It passes no `LIMIT`.
fn held(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down(|node| match node {
        LogicalPlan::Limit(_) => Ok(Transformed::new(node, false, TreeNodeRecursion::Jump)),
        // It becomes a join of groups, in which no row is made of none.
        LogicalPlan::Subquery(ref lateral) if is_correlated(lateral) => {
            Ok(Transformed::new(node, false, TreeNodeRecursion::Jump))
        }
        LogicalPlan::Aggregate(ref aggregate) if gives_rows_for_none(aggregate) => {
            let rows = if aggregate.group_expr.is_empty() { 1 } else { i64::MAX as usize };
            let limited = LogicalPlanBuilder::from(node).limit(0, Some(rows))?.build()?;
            Ok(Transformed::new(limited, true, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// Whether an aggregate has a row where its input has none: one without groups, and the total of a `ROLLUP`.
fn gives_rows_for_none(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.iter().all(|expr| matches!(expr, Expr::GroupingSet(_)))
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_)
    )
}

struct Rewriter<'a> {
    /// The columns outside of the subqueries.
    outside: &'a DFSchema,
    place: Place,
    /// Sets that were named so far.
    sets: &'a Cell<usize>,
}

impl Rewriter<'_> {
    /// A condition that stands alone: rows where it is unknown are left out like those where it is false.
    fn alone(&self, condition: Expr) -> Result<Expr> {
        match condition {
            Expr::Not(inner) => match *inner {
                Expr::Exists(mut exists) => {
                    exists.negated = !exists.negated;
                    self.exists(exists)
                }
                Expr::InSubquery(mut within) => {
                    within.negated = !within.negated;
                    self.within_alone(within)
                }
                other => self.inside(not(other)).data(),
            },
            Expr::InSubquery(within) => self.within_alone(within),
            Expr::SetComparison(comparison) => self.compared_alone(comparison),
            other => self.inside(other).data(),
        }
    }

    /// A condition inside of an expression, where false and unknown are two things.
    fn inside(&self, expr: Expr) -> Result<Transformed<Expr>> {
        expr.transform_up(|part| match part {
            Expr::Exists(exists) => self.exists(exists).map(Transformed::yes),
            Expr::InSubquery(within) => self.within(within).map(Transformed::yes),
            Expr::SetComparison(comparison) => self.compared(comparison).map(Transformed::yes),
            Expr::ScalarSubquery(subquery) => {
                if is_correlated(&subquery) && shape(&subquery.subquery) != Shape::OneRow {
                    return refuse(&subquery, "is not a single aggregate");
                }
                Ok(Transformed::no(Expr::ScalarSubquery(subquery)))
            }
            other => Ok(Transformed::no(other)),
        })
    }

    fn exists(&self, exists: Exists) -> Result<Expr> {
        let Exists { subquery, negated } = exists;
        if !is_correlated(&subquery) {
            return self.there_is(subquery.subquery.as_ref().clone(), negated);
        }
        // One row is enough.
        let plan = without_limit(&subquery.subquery);
        match shape(&plan) {
            Shape::Rows => self.there_is(plan, negated),
            // An aggregate of all rows always has one.
            Shape::OneRow => Ok(lit(!negated)),
            Shape::Other(what) => refuse(&subquery, what),
        }
    }

    /// Whether a query has rows: never unknown.
    fn there_is(&self, plan: LogicalPlan, negated: bool) -> Result<Expr> {
        match self.place {
            Place::Condition => Ok(Expr::Exists(Exists { subquery: subquery(plan), negated })),
            Place::Value => {
                let counted = LogicalPlanBuilder::from(plan)
                    .aggregate(Vec::<Expr>::new(), [count(lit(1_i64)).alias("__rows")])?
                    .build()?;
                let rows = Expr::ScalarSubquery(subquery(counted));
                Ok(if negated { rows.eq(lit(0_i64)) } else { rows.gt(lit(0_i64)) })
            }
        }
    }

    fn within_alone(&self, within: InSubquery) -> Result<Expr> {
        let correlated = is_correlated(&within.subquery);
        let has_columns = !within.expr.column_refs().is_empty();
        let shape = if correlated { shape(&within.subquery.subquery) } else { Shape::Rows };
        match (shape, within.negated) {
            (Shape::Rows, false) => Ok(Expr::InSubquery(within)),
            // A join that knows of NULL does this, for one pair of columns.
            (Shape::Rows, true) if !correlated && has_columns => Ok(Expr::InSubquery(within)),
            (Shape::Rows, true) => {
                let set = self.set(&within.subquery)?;
                let equal = self.there_is(set.where_(self.equal(&within.expr, &set)?)?, true)?;
                let is_known = within.expr.is_not_null().or(self.there_is(set.plan.clone(), true)?);
                let unknown = self.there_is(set.where_(set.value().is_null())?, true)?;
                let conditions = [equal, unknown, is_known];
                Ok(conditions.into_iter().reduce(Expr::and).unwrap_or_else(|| lit(true)))
            }
            _ => self.within(within),
        }
    }

    fn within(&self, within: InSubquery) -> Result<Expr> {
        let InSubquery { expr, subquery, negated } = within;
        if is_correlated(&subquery) {
            match shape(&subquery.subquery) {
                Shape::Rows => {}
                Shape::OneRow => {
                    let operator = if negated { Operator::NotEq } else { Operator::Eq };
                    let value = Expr::ScalarSubquery(subquery);
                    return Ok(Expr::BinaryExpr(BinaryExpr::new(expr, operator, Box::new(value))));
                }
                Shape::Other(what) => return refuse(&subquery, what),
            }
        }
        let set = self.set(&subquery)?;
        let equal = self.there_is(set.where_(self.equal(&expr, &set)?)?, false)?;
        let null = self.there_is(set.where_(set.value().is_null())?, false)?;
        let unknown = expr.is_null().and(self.there_is(set.plan.clone(), false)?).or(null);
        three(equal, !negated, unknown, negated)
    }

    fn compared_alone(&self, comparison: SetComparison) -> Result<Expr> {
        if let Some(within) = as_within(&comparison) {
            return self.within_alone(within);
        }
        let set = self.compared_set(&comparison)?;
        let holds = self.compare(&comparison, &set)?;
        match comparison.quantifier {
            SetQuantifier::Any => self.there_is(set.where_(holds)?, false),
            SetQuantifier::All => self.there_is(set.where_(holds.is_not_true())?, true),
        }
    }

    fn compared(&self, comparison: SetComparison) -> Result<Expr> {
        if let Some(within) = as_within(&comparison) {
            return self.within(within);
        }
        let set = self.compared_set(&comparison)?;
        let holds = self.compare(&comparison, &set)?;
        let unknown = self.there_is(set.where_(holds.clone().is_unknown())?, false)?;
        match comparison.quantifier {
            SetQuantifier::Any => {
                three(self.there_is(set.where_(holds)?, false)?, true, unknown, false)
            }
            SetQuantifier::All => {
                let fails = self.there_is(set.where_(holds.is_false())?, false)?;
                three(fails, false, unknown, true)
            }
        }
    }

    fn compared_set(&self, comparison: &SetComparison) -> Result<Set> {
        let subquery = &comparison.subquery;
        if is_correlated(subquery) && shape(&subquery.subquery) != Shape::Rows {
            return refuse(subquery, "is compared with `ANY` or `ALL` and aggregates");
        }
        self.set(subquery)
    }

    fn compare(&self, comparison: &SetComparison, set: &Set) -> Result<Expr> {
        let left = self.as_seen_inside(&comparison.expr)?;
        let (op, right) = (comparison.op, set.value());
        Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
    }

    fn equal(&self, expr: &Expr, set: &Set) -> Result<Expr> {
        Ok(set.value().eq(self.as_seen_inside(expr)?))
    }

    /// An expression over the columns outside, as a subquery names them.
    fn as_seen_inside(&self, expr: &Expr) -> Result<Expr> {
        let outside = |part: Expr| match part {
            Expr::Column(column) => {
                let (_, field) = self.outside.qualified_field_from_column(&column)?;
                Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column)))
            }
            other => Ok(Transformed::no(other)),
        };
        expr.clone().transform(outside).data()
    }

    /// The values of a subquery under a name that nothing else has.
    fn set(&self, subquery: &Subquery) -> Result<Set> {
        let number = self.sets.get() + 1;
        self.sets.set(number);
        let plan = &subquery.subquery;
        let Some(first) = plan.schema().columns().into_iter().next() else {
            return refuse(subquery, "has no column");
        };
        let name = format!("__set_{number}");
        let plan = LogicalPlanBuilder::from(plan.as_ref().clone())
            .project([Expr::Column(first).alias(name.as_str())])?
            .build()?;
        Ok(Set { plan, value: Column::new_unqualified(name) })
    }
}

/// `= ANY` as `IN`, and `<> ALL` as `NOT IN`, which join by equal values.
fn as_within(comparison: &SetComparison) -> Option<InSubquery> {
    let negated = match (comparison.quantifier, comparison.op) {
        (SetQuantifier::Any, Operator::Eq) => false,
        (SetQuantifier::All, Operator::NotEq) => true,
        _ => return None,
    };
    Some(InSubquery::new(comparison.expr.clone(), comparison.subquery.clone(), negated))
}

/// `then` where `condition` holds, otherwise NULL where `unknown` does, otherwise `otherwise`.
fn three(condition: Expr, then: bool, unknown: Expr, otherwise: bool) -> Result<Expr> {
    when(condition, lit(then))
        .when(unknown, lit(ScalarValue::Boolean(None)))
        .otherwise(lit(otherwise))
}

/// The values of a subquery.
struct Set {
    plan: LogicalPlan,
    value: Column,
}

impl Set {
    fn value(&self) -> Expr {
        Expr::Column(self.value.clone())
    }

    fn where_(&self, condition: Expr) -> Result<LogicalPlan> {
        LogicalPlanBuilder::from(self.plan.clone()).filter(condition)?.build()
    }
}

fn subquery(plan: LogicalPlan) -> Subquery {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() }
}

fn is_correlated(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty()
}

/// A query without the `LIMIT` at its top, where that lets at least one row through.
fn without_limit(plan: &LogicalPlan) -> LogicalPlan {
    if let LogicalPlan::Limit(limit) = plan {
        let skips = !matches!(limit.skip.as_deref(), None | Some(Expr::Literal(..)))
            || limit.skip.as_deref().is_some_and(|skip| *skip != lit(0_i64));
        let most = match limit.fetch.as_deref() {
            Some(Expr::Literal(ScalarValue::Int64(Some(most)), _)) => *most,
            _ => 0,
        };
        if !skips && most > 0 {
            return limit.input.as_ref().clone();
        }
    }
    plan.clone()
}

/// What a subquery that reads columns from outside does with its rows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    /// Filters, joins and projects them.
    Rows,
    /// Folds all of them into one.
    OneRow,
    /// What would see other rows if the conditions over columns from outside were taken out.
    Other(&'static str),
}

fn shape(plan: &LogicalPlan) -> Shape {
    let reads_outside = !plan.all_out_ref_exprs().is_empty();
    if !reads_outside {
        return Shape::Rows;
    }
    match plan {
        LogicalPlan::Filter(filter) => match shape(&filter.input) {
            // `HAVING`, and a condition over an aggregate.
            Shape::OneRow => Shape::Other("has a condition over an aggregate"),
            Shape::Rows if folds(&filter.input) => {
                Shape::Other("has a condition over an aggregate")
            }
            shape => shape,
        },
        LogicalPlan::Projection(projection) => shape(&projection.input),
        // The optimizer loses the columns that it takes out through a table's name.
        LogicalPlan::SubqueryAlias(_) => Shape::Other("reads it within a table of its `FROM`"),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => shape(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => shape(input),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            match (shape(&join.left), shape(&join.right)) {
                (Shape::Rows, Shape::Rows) => Shape::Rows,
                (Shape::Other(what), _) | (_, Shape::Other(what)) => Shape::Other(what),
                _ => Shape::Other("joins an aggregate"),
            }
        }
        LogicalPlan::Aggregate(aggregate) => match shape(&aggregate.input) {
            Shape::Rows if folds(&aggregate.input) => Shape::Other("aggregates twice"),
            Shape::Rows if aggregate.group_expr.is_empty() => Shape::OneRow,
            Shape::Rows if gives_rows_for_none(aggregate) => {
                Shape::Other("has `ROLLUP`, `CUBE` or `GROUPING SETS`")
            }
            Shape::Rows => Shape::Rows,
            Shape::OneRow => Shape::Other("aggregates twice"),
            other => other,
        },
        LogicalPlan::Join(_) => Shape::Other("has an outer join"),
        LogicalPlan::Limit(_) => Shape::Other("has a `LIMIT`"),
        LogicalPlan::Window(_) => Shape::Other("has a window function"),
        LogicalPlan::Union(_) => Shape::Other("has a `UNION`"),
        LogicalPlan::Unnest(_) => Shape::Other("has an `unnest`"),
        LogicalPlan::Distinct(_) => Shape::Other("has a `DISTINCT ON`"),
        _ => Shape::Other("cannot be rewritten as a join"),
    }
}

/// Whether rows from outside are folded below.
fn folds(plan: &LogicalPlan) -> bool {
    let folds = |node: &LogicalPlan| {
        let fold = matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_));
        Ok(fold && !node.all_out_ref_exprs().is_empty())
    };
    plan.exists(folds).unwrap_or(true)
}

fn refuse<T>(subquery: &Subquery, what: &str) -> Result<T> {
    let columns = subquery.outer_ref_columns.iter().filter_map(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => Some(column),
        _ => None,
    });
    let names: Vec<String> = columns.map(Column::flat_name).collect();
    let over = names.first().map_or_else(String::new, |name| format!(" over `{name}`"));
    Refused {
        message: format!("a correlated subquery{over} that {what} is not supported"),
        help: "write it as a join, with `GROUP BY` where it aggregates".to_owned(),
        blamed: names,
    }
    .error()
}
