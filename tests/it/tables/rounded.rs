//! Numbers that the type of their column cannot keep, in what programs write.

use serde_json::json;

use crate::support::Workspace;

/// As `read` has it: what its type cannot keep is an error row, alone or in a list, in every format that says types.
#[test]
fn a_number_that_would_be_rounded_is_an_error_row() {
    let columns = "{ id: string, n: number, parts: { type: number, list: true } }";
    let stages = [
        ("arrow", "[cat]"),
        ("parquet", "[sh, -c, 'cp \"$PROOFMILL_INPUT\" \"$PROOFMILL_OUTPUT\"']"),
    ]
    .map(|(format, run)| {
        format!("  {format}:\n    max_error_rate: 0.5\n    command: {{ run: {run}, from: large, format: {format}, columns: {columns}, pure: true }}")
    });
    let large = "  large: { sql: \"SELECT * FROM (VALUES ('a', 7, [1, 2]), ('b', 9007199254740993, [1]), ('c', 8, [1, 9007199254740993]), ('d', 9, [3])) AS t(id, n, parts)\" }";
    let stages = stages.join("\n");
    let workspace = Workspace::with(&format!("pipeline: p\nstages:\n{large}\n{stages}\n"));
    workspace.run();
    for format in ["arrow", "parquet"] {
        let kept = workspace.sql(&format!("SELECT id, n, parts FROM {format} ORDER BY id"));
        assert_eq!(
            kept,
            [
                json!({"id": "a", "n": 7.0, "parts": [1.0, 2.0]}),
                json!({"id": "d", "n": 9.0, "parts": [3.0]})
            ]
        );
        let errors = workspace.sql(&format!(
            "SELECT \"row\", \"column\", class, message FROM {format}__errors ORDER BY \"row\""
        ));
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert_eq!((&errors[0]["column"], &errors[1]["column"]), (&json!("n"), &json!("parts")));
        assert_eq!((&errors[0]["row"], &errors[1]["row"]), (&json!(2), &json!(3)));
        let message = errors[0]["message"].as_str().unwrap();
        assert!(
            message.contains("64-bit floating point keeps, found `9007199254740993`"),
            "{message}"
        );
    }
}
