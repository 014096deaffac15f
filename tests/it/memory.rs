//! Tables larger than the memory that queries may use: they are spilled, sorted and stored whole.

use std::fs::File;

use arrow::array::{AsArray, Int64Array};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::json;

use crate::support::Workspace;

const ROWS: u64 = 2_000_000;

#[test]
fn larger_tables_pass_through() {
    // Each row takes 8 + 8 + 40 bytes and more: about twice the memory that the queries get.
    let workspace = Workspace::with(&format!(
        "pipeline: p
stages:
  sorted:
    sql: |
      SELECT value AS v, value * 7919 % 1000003 AS k, repeat('x', 40) AS pad
      FROM generate_series(1, {ROWS}) ORDER BY k, v DESC
  counted:
    sql: SELECT k, count(*) AS n, max(v) AS m FROM sorted GROUP BY k
  total:
    sql: SELECT sum(n) AS n, count(*) AS keys, max(m) AS m FROM counted
"
    ));
    let done = workspace.proofmill(&["run", "p.yaml", "--memory", "64MiB"]);
    done.expect(0);
    let expected = json!({"n": ROWS, "keys": 1_000_003, "m": ROWS});
    assert_eq!(workspace.sql("SELECT * FROM total"), [expected]);
    let mut previous = i64::MIN;
    for key in workspace.keys("/data/sorted.") {
        let file = File::open(workspace.path("store").join(key)).unwrap();
        let parts = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        for batch in parts {
            let keys: Int64Array = batch.unwrap()["k"].as_primitive().clone();
            assert!(previous <= keys.value(0) && keys.values().is_sorted(), "stored out of order");
            previous = keys.value(keys.len() - 1);
        }
    }
    assert_eq!(previous, 1_000_002, "the largest key comes last");
}

#[test]
fn too_little_memory_is_said() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  t:
    sql: SELECT cardinality(array_agg(value)) AS n FROM generate_series(1, 1000000)
",
    );
    workspace.proofmill(&["run", "p.yaml", "--memory", "1MiB"]).expect(5).says("--memory");
}
