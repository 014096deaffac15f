//! Queries that ask the model `echo`, and what they give.

#![allow(dead_code, reason = "not every binary uses all of it")]

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use proofmill_udfs::model::Recording;

use super::model::{Echo, Fixture};
use super::{batch, context_of};

/// A session whose table `t(p)` has one partition for each list of prompts.
pub fn session(fixture: &Fixture, partitions: &[&[Option<&str>]]) -> SessionContext {
    let context = context_of(partitions.len().max(1));
    fixture.register(&context);
    let schema = Arc::new(Schema::new(vec![Field::new("p", DataType::Utf8, true)]));
    let part = |prompts: &&[Option<&str>]| {
        let column: ArrayRef = Arc::new(StringArray::from(prompts.to_vec()));
        vec![RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap()]
    };
    let table =
        MemTable::try_new(Arc::clone(&schema), partitions.iter().map(part).collect()).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

pub fn fixture() -> Fixture {
    Fixture::new(Echo::new(8), Recording::default())
}

/// The first column of a query as texts.
pub async fn texts(context: &SessionContext, sql: &str) -> Vec<Option<String>> {
    let batch = batch(context, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let column = cast(batch.column(0), &DataType::Utf8).unwrap();
    column.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
}

pub fn all(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

pub async fn error(context: &SessionContext, sql: &str) -> String {
    match batch(context, sql).await {
        Ok(batch) => panic!("{sql}: expected an error, got {batch:?}"),
        Err(error) => error.strip_backtrace(),
    }
}
