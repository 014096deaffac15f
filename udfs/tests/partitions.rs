//! Aggregates over partitions: the result depends on the rows alone.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use proofmill_udfs::definition::FunctionKind;
use proptest::prelude::*;

mod support;

use support::{batch, context_of, scalar};

/// A table of rows spread over partitions.
fn partitioned(rows: &[(f64, f64, u8)], partitions: usize) -> SessionContext {
    let context = context_of(partitions);
    let column = |of: fn(&(f64, f64, u8)) -> f64, rows: &[(f64, f64, u8)]| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(of)))
    };
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Float64, true),
        Field::new("b", DataType::Float64, true),
        Field::new("c", DataType::Utf8, true),
    ]));
    let parts = rows.chunks(rows.len().div_ceil(partitions).max(1)).map(|rows| {
        let clusters: ArrayRef =
            Arc::new(StringArray::from_iter_values(rows.iter().map(|row| format!("c{}", row.2))));
        let columns = vec![column(|row| row.0, rows), column(|row| row.1, rows), clusters];
        vec![RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()]
    });
    let table = MemTable::try_new(Arc::clone(&schema), parts.collect()).unwrap();
    context.register_table("t", Arc::new(table)).unwrap();
    context
}

const EVERY_AGGREGATE: &str = "SELECT accuracy(a > 0), mcc(a > 0, b > 0), \
    corpus_bleu(concat(c, ' x y z ', round(a)), concat(c, ' x y z ', round(b))), \
    corpus_chrf(concat(c, round(a)), concat(c, round(b)), 2), \
    bootstrap_ci(a, 40, 7, 'bca'), cluster_bootstrap_ci(a, c, 40, 7), \
    clustered_se(a, c), clustered_se(a, c, round(b)::int), noise_floor(a), mcnemar(a > 0, b > 0), \
    paired_difference(a, b), clustered_paired(a, b, c), clustered_paired(a, b, c, round(b)::int), \
    paired_bootstrap(a, b, 40, 7), approximate_randomization(a, b, 40, 7), \
    mode(round(a)::int), majority(a > 0), weighted_vote(c, a), weighted_vote(round(b)::int, a), \
    cohen_kappa(round(a)::int, round(b)::int), cohen_kappa(round(a)::int, round(b)::int, 'linear'), \
    cohen_kappa(c, round(b)::int, 'quadratic'), fleiss_kappa('one', c), f1_score(round(a)::int, round(b)::int), \
    f1_score(c, round(b)::int, 'weighted'), class_scores(round(a)::int, round(b)::int), \
    confusion_matrix(c, round(b)::int), calibration(a / 10 + 0.5, b > 0, 4) FROM t";

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]
    #[test]
    fn aggregates_depend_on_neither_partitions_nor_order(
        rows in prop::collection::vec((-5.0f64..5.0, -5.0f64..5.0, 0u8..4), 1..60),
        partitions in 2usize..6,
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let reversed: Vec<_> = rows.iter().rev().copied().collect();
        let of = |rows: &[_], partitions, sql: &str| {
            let context = partitioned(rows, partitions);
            let batch = runtime.block_on(batch(&context, sql)).unwrap();
            format!("{:?}", batch.columns())
        };
        let whole = of(&rows, 1, EVERY_AGGREGATE);
        prop_assert_eq!(&of(&rows, partitions, EVERY_AGGREGATE), &whole);
        prop_assert_eq!(&of(&reversed, partitions, EVERY_AGGREGATE), &whole);
        let grouped = format!("{EVERY_AGGREGATE} GROUP BY c ORDER BY c");
        prop_assert_eq!(of(&reversed, partitions, &grouped), of(&rows, 1, &grouped));
    }
}

#[tokio::test]
async fn every_aggregate_is_in_the_partition_test() {
    let docs = proofmill_udfs::docs().into_iter();
    for doc in docs.filter(|doc| doc.kind == FunctionKind::Aggregate) {
        assert!(EVERY_AGGREGATE.contains(&format!(" {}(", doc.name)), "{}", doc.name);
    }
}

#[tokio::test]
async fn identical_runs_raise_no_alarm() {
    let context = partitioned(&[(1.0, 1.0, 0), (0.0, 0.0, 1), (0.5, 0.5, 2)], 3);
    for (call, expected) in [
        ("paired_bootstrap(a, b, 500, 1)['p']", 1.0),
        ("paired_bootstrap(a, b, 500, 1)['high']", 0.0),
        ("paired_difference(a, b)['p']", 1.0),
        ("clustered_paired(a, b, c)['p']", 1.0),
        ("approximate_randomization(a, b, 500, 1)", 1.0),
        ("mcnemar(a > 0, b > 0)['p_exact']", 1.0),
        ("mcnemar(a > 0, b > 0)['p_mid']", 1.0),
    ] {
        let value = scalar(&context, &format!("SELECT {call} FROM t")).await;
        assert_eq!(value, ScalarValue::Float64(Some(expected)), "{call}");
    }
    let chi2 = scalar(&context, "SELECT mcnemar(a > 0, b > 0)['chi2'] FROM t").await;
    assert!(chi2.is_null());
}

#[tokio::test]
async fn seeds_matter_and_repeat() {
    let rows: Vec<(f64, f64, u8)> = (0..50).map(|i| (f64::from(i % 7), 0.0, 0)).collect();
    let context = partitioned(&rows, 2);
    let sql = |seed| format!("SELECT bootstrap_ci(a, 200, {seed})['se'] FROM t");
    let first = scalar(&context, &sql(1)).await;
    assert_eq!(scalar(&context, &sql(1)).await, first);
    assert_ne!(scalar(&context, &sql(2)).await, first);
    assert_ne!(scalar(&context, &sql(-1)).await, first);
}
