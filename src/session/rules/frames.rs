//! Frames of windows, as far as DataFusion has them otherwise than SQL: offsets of `RANGE`, which it reads as months where rows are
//! ordered by a date and as no bound at all where they are ordered by a text, and aggregates over frames that move.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use proofmill_udfs::exact::sliding;

use crate::session::rules::node::{input_schema, keeping_names};
use crate::session::wording::Refused;

/// Refuses offsets that are none of the type that rows are ordered by, while they are still what was written.
#[derive(Debug)]
pub struct FrameOffsets;

impl AnalyzerRule for FrameOffsets {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Window(window) = node {
                let schema = window.input.schema();
                for expr in &window.window_expr {
                    expr.apply(|part| match part {
                        Expr::WindowFunction(call) => {
                            fitting(call, schema).map(|()| TreeNodeRecursion::Continue)
                        }
                        _ => Ok(TreeNodeRecursion::Continue),
                    })?;
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(plan)
    }

    fn name(&self) -> &str {
        "frame_offsets"
    }
}

fn fitting(call: &WindowFunction, schema: &DFSchema) -> Result<()> {
    let frame = &call.params.window_frame;
    let offset = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(ScalarValue::Utf8(text))
        | WindowFrameBound::Following(ScalarValue::Utf8(text)) => text.clone(),
        _ => None,
    };
    let offsets = [offset(&frame.start_bound), offset(&frame.end_bound)];
    let (WindowFrameUnits::Range, [key]) = (frame.units, call.params.order_by.as_slice()) else {
        return Ok(());
    };
    let kind = key.expr.get_type(schema)?;
    for offset in offsets.into_iter().flatten() {
        let number = offset.trim().parse::<f64>().is_ok();
        let whole = offset.trim().parse::<i64>().is_ok();
        let help = match &kind {
            DataType::Null | DataType::Duration(_) | DataType::Interval(_) => continue,
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) if !number => continue,
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
                format!("write an interval, such as `INTERVAL '{offset} days'`")
            }
            kind if kind.is_integer() && whole => continue,
            kind if kind.is_integer() => {
                "write a whole number, or order by `CAST(… AS DOUBLE)`".to_owned()
            }
            kind if kind.is_numeric() && number => continue,
            kind if kind.is_numeric() => "write a number".to_owned(),
            _ => "order by a number or a time, or count rows with `ROWS`".to_owned(),
        };
        return Refused {
            message: format!(
                "`RANGE` with the offset `{offset}` is not defined for rows ordered by {kind}"
            ),
            help,
            blamed: vec!["RANGE".to_owned(), "range".to_owned()],
        }
        .error();
    }
    Ok(())
}

/// Puts aggregates over frames that move together from parts, once all types are settled.
#[derive(Debug)]
pub struct SlidingFrames;

impl AnalyzerRule for SlidingFrames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            let schema = input_schema(&node);
            keeping_names(node, |expr| expr.transform_up(|part| moved(part, &schema)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "sliding_frames"
    }
}

fn moved(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = part else { return Ok(Transformed::no(part)) };
    let function = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(function)
            if !call.params.window_frame.is_ever_expanding()
                && !is_exact(function.name(), &call, schema)? =>
        {
            sliding(Arc::clone(function))
        }
        _ => return Ok(Transformed::no(Expr::WindowFunction(call))),
    };
    call.fun = WindowFunctionDefinition::AggregateUDF(function);
    Ok(Transformed::yes(Expr::WindowFunction(call)))
}

/// Whether nothing is lost when a value is taken away again.
fn is_exact(name: &str, call: &WindowFunction, schema: &DFSchema) -> Result<bool> {
    let kinds = call.params.args.iter().map(|arg| arg.get_type(schema));
    let kinds = kinds.collect::<Result<Vec<_>>>()?;
    let is_float = kinds.iter().any(DataType::is_floating);
    Ok(!call.params.distinct
        && match name {
            "count" => true,
            "sum" | "min" | "max" => !is_float,
            _ => false,
        })
}
