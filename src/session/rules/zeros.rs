//! Zeros of either sign, where they are distinguished: `=`, joins and groups take -0.0 for 0.0, but
//! an order, a part of a window, a `DISTINCT` inside an aggregate, `CASE x WHEN …`, `nullif` and a
//! list of `IN` do not. There `x + 0.0` stands for `x`: it is 0.0 for either, and `x` for all other
//! numbers.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::Sort as SortExpr;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, Case, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use crate::session::rules::node::{has_part, input_schema, keeping_names};

/// Adds nothing to such numbers, once all types are settled.
#[derive(Debug)]
pub struct Zeros;

impl AnalyzerRule for Zeros {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(of_node).data()
    }

    fn name(&self) -> &str {
        "zeros"
    }
}

fn of_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Sort(mut sort) => {
            let schema = sort.input.schema();
            let mut changed = false;
            for key in &mut sort.expr {
                changed |= inside(&mut key.expr, schema)?;
            }
            changed |= sorted(&mut sort.expr, schema)?;
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed))
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = Arc::clone(on.input.schema());
            let mut changed = false;
            let names = NamePreserver::new_for_projection();
            for expr in &mut on.select_expr {
                let name = names.save(expr);
                if inside(expr, &schema)? {
                    *expr = name.restore(std::mem::take(expr));
                    changed = true;
                }
            }
            // The keys of the order begin with the others, so that all are treated alike.
            let keys = on.sort_expr.iter_mut().flatten().map(|key| &mut key.expr);
            for key in on.on_expr.iter_mut().chain(keys) {
                changed |= inside(key, &schema)?;
                changed |= one(key, &schema)?;
            }
            Ok(Transformed::new_transformed(LogicalPlan::Distinct(Distinct::On(on)), changed))
        }
        node if has_part(&node, tells_apart)? => {
            let schema = input_schema(&node);
            keeping_names(node, |expr| expr.transform_up(|part| of_part(part, &schema)))
        }
        node => Ok(Transformed::no(node)),
    }
}

/// Rewrites the parts of an expression.
fn inside(expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let done = std::mem::take(expr).transform_up(|part| of_part(part, schema))?;
    *expr = done.data;
    Ok(done.transformed)
}

/// Whether a part of an expression may tell zeros apart.
fn tells_apart(part: &Expr) -> bool {
    match part {
        Expr::WindowFunction(_) | Expr::InList(_) => true,
        Expr::AggregateFunction(call) => call.params.distinct || !call.params.order_by.is_empty(),
        Expr::Case(case) => case.expr.is_some(),
        Expr::ScalarFunction(call) => call.name() == "nullif",
        _ => false,
    }
}

fn of_part(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut part = part;
    let changed = match &mut part {
        Expr::WindowFunction(call) => {
            let parts = each(&mut call.params.partition_by, schema)?;
            // Rows that are equal for the order are peers.
            let mut keys = false;
            for key in &mut call.params.order_by {
                keys |= one(&mut key.expr, schema)?;
            }
            parts | keys
        }
        Expr::AggregateFunction(call) => {
            let distinct = call.params.distinct && each(&mut call.params.args, schema)?;
            distinct | sorted(&mut call.params.order_by, schema)?
        }
        Expr::InList(list) => one(&mut list.expr, schema)? | each(&mut list.list, schema)?,
        Expr::ScalarFunction(call) if call.name() == "nullif" => each(&mut call.args, schema)?,
        Expr::Case(Case { expr: Some(base), when_then_expr, .. }) => {
            let mut changed = one(base, schema)?;
            for (when, _) in when_then_expr {
                changed |= one(when, schema)?;
            }
            changed
        }
        _ => false,
    };
    Ok(Transformed::new_transformed(part, changed))
}

/// The keys of an order; which of two zeros comes first under the last of them means nothing.
fn sorted(keys: &mut [SortExpr], schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    if let Some((_, keys)) = keys.split_last_mut() {
        for key in keys {
            changed |= one(&mut key.expr, schema)?;
        }
    }
    Ok(changed)
}

fn each(exprs: &mut [Expr], schema: &DFSchema) -> Result<bool> {
    let mut changed = false;
    for expr in exprs {
        changed |= one(expr, schema)?;
    }
    Ok(changed)
}

/// The number to which zero is added, or the expression itself.
pub fn without_zero(expr: &Expr) -> &Expr {
    let is_zero = |expr: &Expr| {
        let Expr::Literal(value, _) = expr else { return false };
        matches!(value, ScalarValue::Float64(Some(0.0)) | ScalarValue::Float32(Some(0.0)))
    };
    match expr {
        Expr::BinaryExpr(sum) if sum.op == Operator::Plus && is_zero(&sum.right) => &sum.left,
        other => other,
    }
}

/// Adds nothing to a number, unless that changes nothing.
fn one(expr: &mut Expr, schema: &DFSchema) -> Result<bool> {
    let zero = match expr.get_type(schema)? {
        DataType::Float64 => ScalarValue::Float64(Some(0.0)),
        DataType::Float32 => ScalarValue::Float32(Some(0.0)),
        _ => return Ok(false),
    };
    if let Expr::Literal(value, _) = expr {
        let is_negative = match value {
            ScalarValue::Float64(Some(value)) => *value == 0.0 && value.is_sign_negative(),
            ScalarValue::Float32(Some(value)) => *value == 0.0 && value.is_sign_negative(),
            _ => false,
        };
        if is_negative {
            *expr = lit(zero);
        }
        return Ok(is_negative);
    }
    let zero = lit(zero);
    if without_zero(expr) != expr {
        return Ok(false);
    }
    let number = std::mem::take(expr);
    *expr = Expr::BinaryExpr(BinaryExpr::new(Box::new(number), Operator::Plus, Box::new(zero)));
    Ok(true)
}
