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

/// Texts that functions make, in every place where rows are kept: a slice of them counts what it shows.
#[test]
fn texts_of_functions_are_sorted_in_as_little_as_others() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  hashes: { sql: \"SELECT value AS v, md5(CAST(value AS VARCHAR)) AS h FROM range(0, 500000) ORDER BY h\" }
  groups: { sql: \"SELECT split_part(h, 'a', 1) AS s, count(*) AS n FROM hashes GROUP BY 1 ORDER BY s\" }
  ranks: { sql: \"SELECT v, row_number() OVER (ORDER BY repeat(h, 2)) AS r FROM hashes\" }
  equal: { sql: \"SELECT a.v, md5(b.h) AS h FROM hashes AS a JOIN hashes AS b ON md5(a.h) = md5(b.h) ORDER BY 2\" }
  of_rows: { sql: \"SELECT DISTINCT md5(h) AS h, (SELECT max(md5(i.h)) FROM hashes AS i) AS m FROM hashes ORDER BY 1\" }
",
    );
    workspace.proofmill(&["run", "p.yaml", "--memory", "256MiB"]).expect(0);
    let count = "SELECT (SELECT sum(n) FROM groups) AS groups, (SELECT sum(r) FROM ranks) AS ranks, \
                 (SELECT count(*) FROM equal) AS equal, (SELECT count(*) FROM of_rows) AS of_rows";
    let ranks = 500_000_u64 * 500_001 / 2;
    let all = json!({"groups": 500_000, "ranks": ranks, "equal": 500_000, "of_rows": 500_000});
    assert_eq!(workspace.sql(count), [all]);
    let of_type = workspace.sql("SELECT arrow_typeof(h) AS t FROM hashes LIMIT 1");
    assert_eq!(of_type, [json!({"t": "Utf8"})]);
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
