//! Conditions that protect others: `x <> 0 AND 10 / x > 1`, `s <> '' AND CAST(s AS INT) > 1`. SQL lets them be computed in any order, and
//! DataFusion computes both sides for whole batches, so that such a filter fails over a row that it leaves out. Here what can fail
//! reads NULL for the rows that the others leave out.

use std::collections::HashSet;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, lit, when,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use crate::session::rules::node::{has_part, input_schema, keeping_names};

/// Protects what can fail, in filters and in the conditions of `CASE`, once all types are settled.
#[derive(Debug)]
pub struct Guards;

impl AnalyzerRule for Guards {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            if !has_part(&node, may_fail_by_form)? {
                return Ok(Transformed::no(node));
            }
            let schema = input_schema(&node);
            let node =
                keeping_names(node, |expr| expr.transform_up(|part| of_case(part, &schema)))?;
            node.transform_data(|node| match node {
                LogicalPlan::Filter(mut filter) => {
                    let guarded = guarded(filter.predicate.clone(), &schema)?;
                    let changed = guarded != filter.predicate;
                    filter.predicate = guarded;
                    Ok(Transformed::new_transformed(LogicalPlan::Filter(filter), changed))
                }
                node => Ok(Transformed::no(node)),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "guards"
    }
}

fn of_case(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::Case(Case { expr: None, mut when_then_expr, else_expr }) = part else {
        return Ok(Transformed::no(part));
    };
    let mut changed = false;
    for (condition, _) in &mut when_then_expr {
        let guarded = guarded(condition.as_ref().clone(), schema)?;
        changed |= guarded != **condition;
        **condition = guarded;
    }
    let case = Expr::Case(Case { expr: None, when_then_expr, else_expr });
    Ok(Transformed::new_transformed(case, changed))
}

/// The same condition where unknown counts as false, with what can fail behind the rest.
fn guarded(condition: Expr, schema: &DFSchema) -> Result<Expr> {
    let (parts, is_and) = match &condition {
        Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => {
            (split_conjunction_owned(condition.clone()), true)
        }
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => {
            let mut parts = Vec::new();
            split_disjunction(&condition, &mut parts);
            (parts, false)
        }
        _ => return Ok(condition),
    };
    let (open, safe): (Vec<_>, Vec<_>) = parts.into_iter().partition(|it| may_fail(it, schema));
    if open.is_empty() {
        return Ok(condition);
    }
    let joined = |parts: Vec<Expr>| if is_and { conjunction(parts) } else { disjunction(parts) };
    let mut all = safe.clone();
    for part in open {
        // One that can fail may itself be made of such.
        let part = guarded(part, schema)?;
        // Tables that it does not read would keep it above their join.
        let read = relations(&part);
        let guards = safe.iter().filter(|it| is_cheap(it) && relations(it).is_subset(&read));
        all.push(match joined(guards.cloned().collect()) {
            None => part,
            Some(guard) => protected(part, &guard, is_and, schema)?,
        });
    }
    Ok(joined(all).unwrap_or(condition))
}

/// A condition in which what can fail reads NULL where `guard` decides without it: where it is not true, or for `OR` where it is. A `CASE`
/// around the condition would become `AND` and `OR` again.
fn protected(part: Expr, guard: &Expr, is_and: bool, schema: &DFSchema) -> Result<Expr> {
    let read = |expr: Expr| -> Result<Expr> {
        let none = ScalarValue::try_from(&expr.get_type(schema)?)?;
        match is_and {
            true => when(guard.clone(), expr).end(),
            false => when(guard.clone(), lit(none)).otherwise(expr),
        }
    };
    let protected = part.transform_up(|part| {
        if !fails(&part, schema)? {
            return Ok(Transformed::no(part));
        }
        Ok(match part {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let right = Box::new(read(*right)?);
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::Cast(Cast { expr, field }) => {
                Transformed::yes(Expr::Cast(Cast { expr: Box::new(read(*expr)?), field }))
            }
            other => Transformed::no(other),
        })
    });
    protected.data()
}

/// The tables whose columns an expression reads.
fn relations(expr: &Expr) -> HashSet<Option<TableReference>> {
    expr.column_refs().into_iter().map(|column| column.relation.clone()).collect()
}

/// Whether an expression may be computed twice.
fn is_cheap(expr: &Expr) -> bool {
    let is_costly = |part: &Expr| match part {
        Expr::ScalarFunction(call) => call.func.as_async().is_some(),
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) => true,
        _ => false,
    };
    !expr.is_volatile() && !expr.exists(|part| Ok(is_costly(part))).unwrap_or(true)
}

fn split_disjunction(condition: &Expr, parts: &mut Vec<Expr>) {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            split_disjunction(left, parts);
            split_disjunction(right, parts);
        }
        other => parts.push(other.clone()),
    }
}

/// Whether a part of an expression fails for some values, as far as its form shows.
fn may_fail_by_form(part: &Expr) -> bool {
    match part {
        Expr::BinaryExpr(BinaryExpr { op, right, .. }) => {
            matches!(op, Operator::Divide | Operator::Modulo)
                && !matches!(right.as_ref(), Expr::Literal(..))
        }
        Expr::Cast(cast) => !matches!(cast.expr.as_ref(), Expr::Literal(..)),
        _ => false,
    }
}

/// Whether an expression fails for some values.
fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    expr.exists(|part| fails(part, schema)).unwrap_or(false)
}

/// Whether a part fails for some values: it divides by a whole number or a decimal, or casts a text.
fn fails(part: &Expr, schema: &DFSchema) -> Result<bool> {
    Ok(may_fail_by_form(part)
        && match part {
            Expr::BinaryExpr(it) => !it.right.get_type(schema)?.is_floating(),
            Expr::Cast(cast) => {
                cast.expr.get_type(schema)?.is_string() && !cast.field.data_type().is_string()
            }
            _ => false,
        })
}
