//! Kinds of values that meet in one expression, before DataFusion finds a type for both. It makes decimals with 15 places of
//! floating-point numbers that meet decimals: 1e-20 is then 0, and 1e25 has no place. Here the decimals become floating-point
//! numbers, as arithmetic has them. Dates that meet numbers it counts in days since 1970; that is refused.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection, Union,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use crate::session::rules::node::{has_part, input_schema, keeping_names};
use crate::session::wording::Refused;

/// Functions that give one of their arguments.
const CHOOSING: [&str; 6] = ["coalesce", "greatest", "ifnull", "least", "nullif", "nvl"];

/// Settles such types first.
#[derive(Debug)]
pub struct MixedTypes;

impl AnalyzerRule for MixedTypes {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_such_types(&plan)? {
            return Ok(plan);
        }
        let has_changed = Cell::new(false);
        plan.transform_up_with_subqueries(|node| {
            let (node, settled) = match node {
                LogicalPlan::Union(union) => of_union(union)?,
                LogicalPlan::Join(join) => of_join(join)?,
                node => (node, false),
            };
            let schema = input_schema(&node);
            let node =
                keeping_names(node, |expr| expr.transform_up(|part| of_part(part, &schema)))?;
            // A node whose inputs have changed has other types, too.
            has_changed.set(has_changed.get() || settled || node.transformed);
            match has_changed.get() {
                true => Ok(Transformed::yes(node.data.recompute_schema()?)),
                false => Ok(node),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "mixed_types"
    }
}

/// Whether there are decimals or dates in a plan.
fn has_such_types(plan: &LogicalPlan) -> Result<bool> {
    let is_such = |kind: &DataType| kind.is_decimal() || is_date(kind);
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= node.schema().fields().iter().any(|field| is_such(field.data_type()));
        found |= has_part(node, |part| match part {
            Expr::Cast(cast) => is_such(cast.field.data_type()),
            Expr::ScalarFunction(_) => {
                part.get_type(&input_schema(node)).is_ok_and(|kind| is_such(&kind))
            }
            _ => false,
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_date(kind: &DataType) -> bool {
    matches!(kind, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

fn of_part(mut part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let meeting: Vec<&mut Expr> = match &mut part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            vec![left, right]
        }
        Expr::Between(Between { expr, low, high, .. }) => vec![expr, low, high],
        Expr::InList(list) => [list.expr.as_mut()].into_iter().chain(&mut list.list).collect(),
        Expr::ScalarFunction(call) if CHOOSING.contains(&call.name()) => {
            call.args.iter_mut().collect()
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            if let Some(base) = expr {
                let whens = when_then_expr.iter_mut().map(|(when, _)| when.as_mut());
                all_settled([base.as_mut()].into_iter().chain(whens).collect(), schema)?;
            }
            let thens = when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            thens.chain(else_expr.as_deref_mut()).collect()
        }
        _ => return Ok(Transformed::no(part)),
    };
    let changed = all_settled(meeting, schema)?;
    Ok(Transformed::new_transformed(part, changed))
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn all_settled(meeting: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let kinds = meeting.iter().map(|expr| expr.get_type(schema)).collect::<Result<Vec<_>>>()?;
    settled(meeting, &kinds)
}

/// Casts the decimals among expressions of these types, if they meet floating-point numbers. A number that is written out has few
/// places, and is a decimal where it meets some.
fn settled<'a>(
    meeting: impl IntoIterator<Item = &'a mut Expr>,
    kinds: &[DataType],
) -> Result<bool> {
    let meeting: Vec<&mut Expr> = meeting.into_iter().collect();
    if let (Some(date), Some(number)) =
        (kinds.iter().find(|kind| is_date(kind)), kinds.iter().find(|kind| kind.is_numeric()))
    {
        return Refused {
            message: format!("{date} and {number} cannot be compared"),
            help: "write a date, such as `DATE '2020-01-01'`, or take a part of it: `extract(year \
                   FROM …)`"
                .to_owned(),
            blamed: Vec::new(),
        }
        .error();
    }
    let floats =
        meeting.iter().zip(kinds).any(|(expr, kind)| kind.is_floating() && !is_written_out(expr));
    let mut changed = false;
    for (expr, _) in meeting.into_iter().zip(kinds).filter(|(_, kind)| floats && kind.is_decimal())
    {
        let decimal = std::mem::take(expr);
        *expr = Expr::Cast(Cast::new(Box::new(decimal), DataType::Float64));
        changed = true;
    }
    Ok(changed)
}

fn is_written_out(expr: &Expr) -> bool {
    match expr {
        Expr::Negative(inner) => is_written_out(inner),
        other => matches!(other, Expr::Literal(..)),
    }
}

/// A join by what columns of both sides have in common.
fn of_join(mut join: Join) -> Result<(LogicalPlan, bool)> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        let kinds = [left.get_type(join.left.schema())?, right.get_type(join.right.schema())?];
        changed |= settled([left, right], &kinds)?;
    }
    Ok((LogicalPlan::Join(join), changed))
}

/// Rows of several inputs, whose columns meet.
fn of_union(union: Union) -> Result<(LogicalPlan, bool)> {
    let fields =
        |at: usize| union.inputs.iter().filter_map(move |input| input.schema().fields().get(at));
    let columns = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    let is_mixed = |at: &usize| {
        fields(*at).any(|field| field.data_type().is_floating())
            && fields(*at).any(|field| field.data_type().is_decimal())
    };
    let mixed: Vec<usize> = (0..columns).filter(is_mixed).collect();
    if mixed.is_empty() {
        return Ok((LogicalPlan::Union(union), false));
    }
    let of_input = |input: &Arc<LogicalPlan>| {
        let columns = input.schema().columns().into_iter().enumerate();
        let columns = columns.map(|(at, column)| {
            let is_decimal = input.schema().field(at).data_type().is_decimal();
            let (relation, name) = (column.relation.clone(), column.name.clone());
            match mixed.contains(&at) && is_decimal {
                true => Expr::Cast(Cast::new(Box::new(Expr::Column(column)), DataType::Float64))
                    .alias_qualified(relation, name),
                false => Expr::Column(column),
            }
        });
        let cast = Projection::try_new(columns.collect(), Arc::clone(input))?;
        Ok(Arc::new(LogicalPlan::Projection(cast)))
    };
    let inputs = union.inputs.iter().map(of_input).collect::<Result<Vec<_>>>()?;
    let union = Union::try_new_with_loose_types(inputs)?;
    Ok((LogicalPlan::Union(union), true))
}
