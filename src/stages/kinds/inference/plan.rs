//! The query that asks a model for every row of a table.

use arrow::datatypes::DataType;
use datafusion::common::{Result, UnnestOptions, plan_err};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, ident, lit};
use serde_json::json;

use crate::session::Engine;
use crate::stages::kinds::inference::stage::{CHOICE, ERROR, InferenceStage, ROW_ID, Shape};
use crate::stages::queries::answers::REQUEST_DIGEST;

/// The whole answer, inside the plan.
const ANSWER: &str = "answer";

/// The table's columns, and [`ERROR`] as the last.
pub fn plan(
    inference: &InferenceStage,
    scan: LogicalPlanBuilder,
    arguments: &[(&'static str, Expr)],
    engine: &Engine,
) -> Result<LogicalPlan> {
    let function =
        |name: &str, arguments: Vec<Expr>| match engine.planning().scalar_functions().get(name) {
            Some(function) => Ok(function.call(arguments)),
            None => plan_err!("there is no function `{name}`"),
        };
    let mut options = inference.options.clone();
    options["on_error"] = json!("capture");
    let id = cast(ident(&inference.id), DataType::Utf8).alias(ROW_ID);
    let columns = arguments.iter().map(|(key, expr)| expr.clone().alias(*key));
    // Inside the plan, kept columns have names that nothing else has.
    let kept = |(i, column): (usize, &String)| (format!("kept_{i}"), column.clone());
    let kept: Vec<(String, String)> = inference.keep.iter().enumerate().map(kept).collect();
    let inward = kept.iter().map(|(inside, column)| ident(column).alias(inside));
    let plan = scan.project([id].into_iter().chain(columns).chain(inward))?;
    let mut call = vec![lit(&inference.model)];
    call.extend(arguments.iter().map(|(key, _)| ident(*key)));
    call.push(lit(options.to_string()));
    let shown = [ROW_ID].into_iter().chain(inference.shown()).map(ident);
    let own: Vec<Expr> =
        shown.clone().chain(kept.iter().map(|(inside, _)| ident(inside))).collect();
    let outward = kept.iter().map(|(inside, column)| ident(inside).alias(column));
    let own_at_last: Vec<Expr> = shown.chain(outward).collect();
    let answer = function(inference.function, call)?.alias(ANSWER);
    let mut plan = plan.project(own.iter().cloned().chain([answer]))?;
    let part = |name: &'static str| get_field(ident(ANSWER), name).alias(name);
    let parts: Vec<Expr> = match inference.shape {
        Shape::Text | Shape::Score | Shape::Vector => inference.columns().map(part).collect(),
        Shape::Texts => {
            plan = plan.unnest_column(ANSWER)?;
            inference.columns().map(part).collect()
        }
        Shape::Choices => {
            let choices = get_field(ident(ANSWER), "choices");
            let count = function("array_length", vec![choices.clone()])?;
            let count = cast(count, DataType::Int64);
            let numbers = function("range", vec![lit(0_i64), count])?;
            let lists = [choices.alias("one"), numbers.alias(CHOICE)];
            let whole = ["best", "prompt_tokens", REQUEST_DIGEST, ERROR];
            let whole = whole.into_iter().map(part);
            plan = plan.project(own.into_iter().chain(whole).chain(lists))?;
            plan = plan.unnest_columns_with_options(
                vec!["one".into(), CHOICE.into()],
                UnnestOptions::default(),
            )?;
            let column = |name: &'static str| match name {
                CHOICE | "prompt_tokens" | REQUEST_DIGEST | ERROR => ident(name),
                "best" => cast(ident("best"), DataType::Int64).eq(ident(CHOICE)).alias("best"),
                "continuation" => get_field(ident("one"), "choice").alias("continuation"),
                name => get_field(ident("one"), name).alias(name),
            };
            inference.columns().map(column).collect()
        }
    };
    plan.project(own_at_last.into_iter().chain(parts))?.build()
}
