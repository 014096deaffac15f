//! Expressions that the engine computes otherwise than SQL says, replaced by [functions](proofmill_udfs::exact) that do
//! as SQL says: arithmetic of whole numbers, and `TRY_CAST`.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, extensions_options};
use datafusion::logical_expr::expr::TryCast;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;
use proofmill_udfs::exact::{Operation, checked, try_cast, with_row};

use crate::session::rules::memberships::Memberships;
use crate::session::rules::node::{has_part, input_schema, keeping_names};
use crate::session::rules::repeated_keys;

/// Columns of a row that an error shows.
const SHOWN_MAX: usize = 8;

extensions_options! {
    /// Whether errors of arithmetic show the row that they come from. It has to be read for that.
    pub struct RowsInErrors {
        pub are_shown: bool, default = false
    }
}

impl ConfigExtension for RowsInErrors {
    const PREFIX: &'static str = "rows_in_errors";
}

/// Replaces them, once all types are settled.
#[derive(Debug)]
pub struct Exact;

impl AnalyzerRule for Exact {
    fn analyze(&self, plan: LogicalPlan, options: &ConfigOptions) -> Result<LogicalPlan> {
        let are_shown = options.extensions.get::<RowsInErrors>().is_some_and(|rows| rows.are_shown);
        let memberships = Memberships::of(&plan)?;
        let of_node = |node: LogicalPlan| {
            let node = repeated_keys::grouped_once(node)?;
            if !has_part(&node, is_open)? {
                return Ok(Transformed::no(node));
            }
            let casts = has_part(&node, |part| matches!(part, Expr::TryCast(_)))?;
            let schema = input_schema(&node);
            let row = if are_shown { shown(&schema) } else { Vec::new() };
            let is_filter = matches!(node, LogicalPlan::Filter(_));
            let node = keeping_names(node, |expr| {
                exact(expr, &schema, &row)?
                    .transform_data(|expr| memberships.apart(expr, is_filter))
            })?;
            // Names and types are those of before, but that a cast may give NULL.
            match casts {
                true => node.map_data(|node| node.recompute_schema()),
                false => Ok(node),
            }
        };
        plan.transform_up_with_subqueries(of_node).data()
    }

    fn name(&self) -> &str {
        "exact"
    }
}

/// Whether a part of an expression is computed otherwise, or may have to be.
fn is_open(part: &Expr) -> bool {
    match part {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => {
            matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Or)
        }
        Expr::Negative(_) | Expr::TryCast(_) | Expr::InList(_) | Expr::ScalarFunction(_) => true,
        _ => false,
    }
}

/// The columns of a row that an error shows, with as much of their names as tells them apart.
fn shown(schema: &DFSchema) -> Vec<(String, Expr)> {
    let columns = schema.columns();
    let is_one = |name: &str| columns.iter().filter(|column| column.name == name).count() == 1;
    let named = |column: &Column| match is_one(&column.name) {
        true => column.name.clone(),
        false => column.flat_name(),
    };
    let shown = columns.iter().take(SHOWN_MAX);
    shown.map(|column| (named(column), Expr::Column(column.clone()))).collect()
}

fn exact(expr: Expr, schema: &DFSchema, row: &[(String, Expr)]) -> Result<Transformed<Expr>> {
    expr.transform_up(|part| match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let operation = match op {
                Operator::Plus => Some(Operation::Add),
                Operator::Minus => Some(Operation::Subtract),
                Operator::Multiply => Some(Operation::Multiply),
                _ => None,
            };
            let kind = match operation {
                Some(_) => {
                    whole(&left, schema).filter(|kind| Some(kind) == whole(&right, schema).as_ref())
                }
                None => None,
            };
            Ok(match (operation, kind) {
                (Some(operation), Some(kind)) => {
                    Transformed::yes(checked(operation, kind, *left, *right, row))
                }
                _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            })
        }
        Expr::Negative(inner) => Ok(match (whole(&inner, schema), inner.as_ref()) {
            // The smallest number is written as its opposite, which has no place.
            (Some(kind), expr) if !matches!(expr, Expr::Literal(..)) => {
                let zero = lit(ScalarValue::new_zero(&kind)?);
                Transformed::yes(checked(Operation::Subtract, kind, zero, *inner, row))
            }
            _ => Transformed::no(Expr::Negative(inner)),
        }),
        // What was planned before, to be reported with its row.
        Expr::ScalarFunction(call) if !row.is_empty() => Ok(match with_row(&call, row) {
            Some(found) => Transformed::yes(found),
            None => Transformed::no(Expr::ScalarFunction(call)),
        }),
        Expr::TryCast(TryCast { expr, field }) => {
            Ok(Transformed::yes(try_cast(*expr, field.data_type().clone())))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// The type of an expression if that is one of whole numbers.
fn whole(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    expr.get_type(schema).ok().filter(DataType::is_integer)
}
