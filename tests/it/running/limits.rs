//! What a query may ask for has limits that are named: its depth, and the memory of its functions.

use crate::support::{Done, Workspace};

fn check(sql: &str) -> Done {
    let yaml = format!(
        "pipeline: p\nstages:\n  a: {{ sql: SELECT 1 AS x }}\n  q:\n    sql: |\n      {sql}\n"
    );
    Workspace::with(&yaml).proofmill(&["check", "p.yaml"])
}

fn run(sql: &str) -> Done {
    let yaml = format!(
        "pipeline: p\nstages:\n  a: {{ sql: SELECT 1 AS x }}\n  q:\n    sql: |\n      {sql}\n"
    );
    Workspace::with(&yaml).proofmill(&["run", "p.yaml", "--memory", "256MiB"])
}

#[test]
fn deep_queries_are_a_mistake_at_its_place_and_abort_nothing() {
    for sql in [
        format!("SELECT {} AS y FROM a", ["x"; 8_000].join(" + ")),
        format!("SELECT x FROM a WHERE {}", ["x = 1"; 8_000].join(" OR ")),
        ["SELECT x FROM a"; 3_000].join(" UNION ALL "),
        format!("SELECT {}x{} AS y FROM a", "(".repeat(9_000), ")".repeat(9_000)),
        format!(
            "SELECT {}1{} AS y FROM a",
            "CASE WHEN x = 1 THEN ".repeat(5_000),
            " END".repeat(5_000)
        ),
        format!("SELECT 1 AS y FROM a{}", ", a".repeat(3_000)),
    ] {
        check(&sql).expect(3).says("error[E0308]").says("p.yaml:6:");
    }
    // An expression of a setting.
    let yaml = format!(
        "pipeline: p\nstages:\n  a: {{ sql: SELECT 1 AS x }}\n  m: {{ measure: {{ from: a, metrics: {{ y: {} }} }} }}\n",
        ["x"; 8_000].join(" + ")
    );
    Workspace::with(&yaml).proofmill(&["check", "p.yaml"]).expect(3).says("error[E0308]");
}

#[test]
fn what_is_just_not_too_deep_runs() {
    run(&format!("SELECT {} AS y FROM a", ["x"; 450].join(" + "))).expect(0);
    run(&format!("SELECT x FROM a WHERE {}", ["x = 1"; 450].join(" OR "))).expect(0);
    run(&["SELECT x FROM a"; 450].join(" UNION ALL ")).expect(0);
    run(&format!("SELECT {}x{} AS y FROM a", "abs(".repeat(40), ")".repeat(40))).expect(0);
    run(&format!("SELECT x FROM a WHERE x IN ({})", ["1 + 1"; 2_000].join(", "))).expect(0);
}

#[test]
fn functions_cannot_make_more_than_there_is_memory_for() {
    for (function, call) in [
        ("repeat", "length(repeat('x', 2000000000))"),
        ("repeat", "length(repeat(CAST(x AS VARCHAR) || 'y', 1000000000 + x))"),
        ("lpad", "length(lpad('x', 1000000000 + x))"),
        ("rpad", "length(rpad('x', 1000000000 + x, 'ab'))"),
        ("range", "cardinality(range(200000000))"),
        ("range", "cardinality(range(x, x + 4000000000, 2))"),
        ("generate_series", "cardinality(generate_series(1, 200000000 + x))"),
        (
            "range",
            "cardinality(range(TIMESTAMP '2020-01-01', TIMESTAMP '2020-01-02', INTERVAL '1 microsecond'))",
        ),
        ("array_repeat", "cardinality(array_repeat(x, 200000000 + x))"),
        ("array_resize", "cardinality(array_resize([x], 200000000 + x, 0))"),
    ] {
        let done = run(&format!("SELECT {call} AS y FROM a"));
        assert!(done.code != Some(0) && done.code.is_some(), "{call}: {done:?}");
        done.says(&format!("`{function}` would produce")).says("a call may produce 64 MiB");
    }
    run("SELECT length(repeat('x', 10000000)) + cardinality(range(1000000)) AS y FROM a").expect(0);
}

#[test]
fn what_is_no_number_is_said_in_words() {
    for sql in [
        "SELECT x FROM a LIMIT -1",
        "SELECT x FROM a LIMIT 99999999999999999999",
        "SELECT x FROM a LIMIT 'b'",
        "SELECT x FROM a OFFSET -3",
        "SELECT value AS x FROM range(random())",
        "SELECT value AS x FROM generate_series(now())",
        "SELECT value AS x FROM range('a')",
    ] {
        let done = run(sql);
        println!("{sql}: {}", done.stderr);
        assert_ne!(done.code, Some(0), "{sql}");
        for debug in ["ScalarFunction", "Literal(", "Err(", "Some(", "func:", "DataFusion"] {
            assert!(!done.stderr.contains(debug), "{sql}: {}", done.stderr);
        }
    }
}

/// A heap of so many rows could not spill, and took each batch of a large aggregation for as large as all of it.
#[test]
fn a_large_limit_takes_no_more_memory_than_a_sort() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  a:
    sql: SELECT encode(sha256(CAST(n AS VARCHAR)), 'hex') AS id FROM (SELECT unnest(range(300000)) AS n) ORDER BY n
  q:
    sql: SELECT id, min(id) AS least FROM a GROUP BY id ORDER BY id LIMIT 290000
  sorted:
    sql: SELECT id, row_number() OVER (ORDER BY id) AS place FROM a
  other:
    sql: SELECT count(*) AS n FROM q FULL JOIN (SELECT id FROM sorted WHERE place <= 290000) AS s ON s.id = q.id WHERE s.id IS NULL OR q.id IS NULL
",
    );
    workspace.proofmill(&["run", "p.yaml", "--memory", "256MiB"]).expect(0);
    let number = |sql: &str| workspace.sql(sql)[0]["n"].as_i64();
    assert_eq!(number("SELECT n FROM other"), Some(0));
    assert_eq!(number("SELECT count(*) AS n FROM q"), Some(290_000));
}
