//! Checks: what holds is recorded, what does not hold stops all that would build on it.

use serde_json::json;

use crate::support::{Workspace, executed, set, with_status};

/// `t` has four rows; `below` needs it, `beside` does not.
fn pipeline(check: &str) -> Workspace {
    Workspace::with(&format!(
        "pipeline: p
stages:
  t:
    sql: |
      SELECT * FROM (VALUES (1, 'a', 0.5), (2, 'b', NULL), (3, 'b', 1.5), (4, NULL, 2.0)) AS v (id, kind, x)
    checks:
      - {check}
  below: {{ sql: SELECT count(*) AS n FROM t }}
  beside: {{ sql: 'SELECT * FROM (VALUES (1), (2), (3), (4)) AS v (id)' }}
"
    ))
}

#[test]
fn that_hold() {
    for check in [
        "rows: { min: 4 }",
        "rows: { max: 4 }",
        "rows: { min: 1, max: 9 }",
        "rows: { equal: 4 }",
        "rows: { equal_to: beside }",
        "not_null: id",
        "not_null: [id]",
        "unique: id",
        "unique: [kind, id]",
        "accepted_values: { column: kind, values: [a, b] }",
        "accepted_values: { column: id, values: [1, 2, 3, 4] }",
        "expect: id > 0",
        "expect: kind IS NULL OR kind <= 'b' -- NULL is accepted here",
    ] {
        let workspace = pipeline(check);
        assert_eq!(workspace.run(), set(&["t", "below", "beside"]), "{check}");
        let shown = workspace.json(&["show", "t"]);
        assert_eq!(shown["artifact"]["checks"][0]["violations"], 0, "{check}");
        assert_eq!(workspace.run(), set(&[]), "{check}");
    }
}

#[test]
fn that_do_not_hold_stop_what_is_below_and_the_publication() {
    let of_rows = |number: u64| format!("{number} of 4 rows violate it\n    {{");
    for (check, said, example) in [
        ("rows: { min: 5 }", "4 rows, expected at least 5".to_owned(), ""),
        ("rows: { max: 3 }", "4 rows, expected at most 3".to_owned(), ""),
        ("rows: { equal: 5 }", "4 rows, expected exactly 5".to_owned(), ""),
        ("rows: { equal_to: below }", "4 rows".to_owned(), ""),
        ("not_null: [id, x]", of_rows(1), r#"{"id":2,"kind":"b","x":null}"#),
        ("unique: kind", of_rows(1), r#"{"kind":"b","times_":2}"#),
        (
            "accepted_values: { column: kind, values: [a] }",
            of_rows(2),
            r#"{"id":3,"kind":"b","x":1.5}"#,
        ),
        // NULL is not true.
        ("expect: x > 0 -- by far", of_rows(1), r#"{"id":2,"kind":"b","x":null}"#),
    ] {
        let workspace = pipeline(check);
        if check.contains("below") {
            // A stage cannot wait for what waits for it.
            workspace.edit(
                "p.yaml",
                "below: { sql: SELECT count(*) AS n FROM t }",
                "below: { sql: SELECT 1 AS n }",
            );
        }
        let done =
            workspace.proofmill(&["run", "p.yaml", "--json"]).expect(1).says(&said).says(example);
        let run = done.json();
        assert_eq!(run["outcome"], "failed", "{check}");
        assert_eq!(with_status(&run, "failed"), set(&["t"]), "{check}");
        assert!(executed(&run).contains("beside"), "{check}");
        assert_eq!(executed(&run).contains("below"), check.contains("below"), "{check}");
        assert!(workspace.keys("manifest.json").is_empty(), "{check}: it was published");
        workspace
            .proofmill(&["sql", "SELECT * FROM beside"])
            .expect(0)
            .says("did not succeed (failed)");
        // People can look at the table.
        let shown = workspace.json(&["show"]);
        let failure = &shown["failed"][0];
        assert_eq!((&failure["stage"], &failure["outcome"]["rows"]), (&json!("t"), &json!(4)));
        let rows = workspace.proofmill(&["sql", "SELECT * FROM t"]).expect(0);
        rows.says("the table of `t` failed its checks");
        let query = failure["query"].as_str();
        assert_eq!(query.is_some(), !example.is_empty(), "{check}");
        if let Some(query) = query {
            let first = serde_json::from_str::<serde_json::Value>(example).unwrap();
            assert!(workspace.sql(query).contains(&first), "{query}");
            let text = workspace.proofmill(&["show"]).expect(0).stdout;
            assert!(text.contains("t failed: ") && text.contains("proofmill sql"), "{text}");
        }
        // No other stage can: mended, the check is asked about a new one.
        workspace.edit("p.yaml", check, "unique: id");
        assert!(workspace.run().contains("t"), "{check}");
    }
}

#[test]
fn that_only_warn() {
    let workspace = pipeline("{ unique: kind, severity: warn }");
    let done = workspace.proofmill(&["run", "p.yaml", "--json"]).expect(0);
    let done = done.says("warning").says("1 of 4 rows violate it");
    assert_eq!(done.json()["outcome"], "succeeded");
    let check = &workspace.json(&["show", "t"])["artifact"]["checks"][0];
    assert_eq!((&check["violations"], &check["severity"]), (&json!(1), &json!("warn")));
    // As an error it stops the stored table too.
    workspace.edit("p.yaml", "severity: warn", "severity: error");
    let done = workspace.proofmill(&["run", "p.yaml", "--json"]).expect(1);
    assert_eq!(executed(&done.json()), set(&[]));
}

/// The other table may change while the checked one does not.
#[test]
fn of_two_tables_are_asked_again() {
    let workspace = pipeline("rows: { equal_to: beside }");
    workspace.run();
    workspace.edit("p.yaml", "(1), (2), (3), (4)", "(1), (2), (3)");
    let done = workspace.proofmill(&["run", "p.yaml", "--json"]).expect(1).says("4 rows, expected");
    assert_eq!(with_status(&done.json(), "failed"), set(&["t"]));
}
