//! A session with the functions of this crate, and its results as values.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::FunctionRegistry;
use datafusion::prelude::{SessionConfig, SessionContext};
use proofmill_udfs::scalar::JsonOperators;

pub mod model;
pub mod queries;

#[allow(dead_code, reason = "not every test binary uses both")]
pub fn context() -> SessionContext {
    context_of(2)
}

pub fn context_of(partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(7);
    let mut context = SessionContext::new_with_config(config);
    context.register_expr_planner(Arc::new(JsonOperators)).expect("operators");
    for function in proofmill_udfs::scalar_functions() {
        context.register_udf(function.as_ref().clone());
    }
    for function in proofmill_udfs::aggregate_functions() {
        context.register_udaf(function.as_ref().clone());
    }
    model::register(&context);
    context
}

pub async fn batch(context: &SessionContext, sql: &str) -> Result<RecordBatch> {
    let frame = context.sql(sql).await?;
    let schema = Arc::clone(frame.schema().inner());
    Ok(concat_batches(&schema, &frame.collect().await?)?)
}

#[allow(dead_code, reason = "not every test binary asks for single values")]
pub async fn scalar(context: &SessionContext, sql: &str) -> ScalarValue {
    let batch = batch(context, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!((batch.num_rows(), batch.num_columns()), (1, 1), "{sql}");
    ScalarValue::try_from_array(batch.column(0), 0).expect("a scalar")
}
