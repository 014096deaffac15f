//! The operators `->` and `->>`: `json_get` and `json_as_text` with one step.

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::{JSON_AS_TEXT, JSON_GET};
use crate::scalar::udf;

/// Makes calls of the operators.
#[derive(Debug)]
pub struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let function = match expr.op {
            BinaryOperator::Arrow => udf(&JSON_GET),
            BinaryOperator::LongArrow => udf(&JSON_AS_TEXT),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let call: Expr = function.call(vec![expr.left, expr.right]);
        Ok(PlannerResult::Planned(call))
    }
}
