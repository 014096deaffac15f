//! `proofmill functions`, and JSON in the SQL of a pipeline: the operators are planned where stages are.

use serde_json::{Value as Json, json};

use crate::support::Workspace;

#[test]
fn functions_are_listed_and_explained() {
    let workspace = Workspace::new();
    let list = workspace.proofmill(&["functions"]).expect(0);
    let all = workspace.json(&["functions"]);
    let names: Vec<&str> =
        all.as_array().unwrap().iter().map(|function| function["name"].as_str().unwrap()).collect();
    assert!(names.len() > 50 && names.contains(&"weighted_vote"), "{names:?}");
    for name in &names {
        assert!(list.stdout.contains(&format!("{name}(")), "{name}");
    }
    assert!(list.stdout.contains(
        "json_get(json, step, …) → JSON as text\n    The value at the end of the steps, as JSON: a text keeps its quotes."
    ));
    // The reference says the same.
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/functions.md");
    let reference = std::fs::read_to_string(path).unwrap();
    let shown = workspace.proofmill(&["functions", "Cohen_Kappa"]).expect(0).stdout;
    let section = shown.strip_prefix("cohen_kappa\n").unwrap().trim_end();
    assert!(section.contains("`quadratic`") && reference.contains(section), "{shown}");
    assert_eq!(workspace.json(&["functions", "mode"])["syntax"], "mode(label)");
    // DataFusion's, under any of their names.
    let round = workspace.proofmill(&["functions", "round"]).expect(0).stdout;
    assert!(round.starts_with("round\n\n`round(") && round.contains("ounds a number"), "{round}");
    for alias in ["array_length", "list_length", "row_number", "corr"] {
        workspace.proofmill(&["functions", alias]).expect(0);
    }
    workspace
        .proofmill(&["functions", "wieghted_vote"])
        .expect(2)
        .says("did you mean `weighted_vote`?");
    workspace.proofmill(&["functions", "xyzzy"]).expect(2).says("`proofmill functions` lists them");
}

#[test]
fn answers_that_hold_json_become_columns() {
    let workspace = Workspace::with(
        r#"pipeline: p
stages:
  answers:
    sql: |
      SELECT * FROM (VALUES
        ('a', 'My verdict:' || chr(10) || '```json' || chr(10) || '{"label": "yes", "score": 0.5, "why": ["x", "y"]}' || chr(10) || '```'),
        ('b', '{"label": "no", "score": "high"}'),
        ('c', 'I cannot say.'),
        ('d', '{"label": "yes", "score": 1')
      ) AS t(id, text)
  verdicts:
    sql: |
      SELECT id, found ->> 'label' AS label, (found ->> 'label') = 'yes' AS is_yes,
        json_get_float(found, 'score') AS score, found -> 'why' ->> 1 AS why, 'says ' || found ->> 'label' AS said
      FROM (SELECT id, extract_json(text) AS found FROM answers)
  checked:
    sql: SELECT * FROM verdicts WHERE label IN ('yes', 'no') AND score IS NOT NULL
    checks: [{ expect: "label ->> 'x' IS NULL" }]
"#,
    );
    workspace.run();
    let line = |id: &str, label: Json, yes: Json, score: Json, why: Json, said: Json| json!({"id": id, "label": label, "is_yes": yes, "score": score, "why": why, "said": said});
    let none = || Json::Null;
    let expected = [
        line("a", json!("yes"), json!(true), json!(0.5), json!("y"), json!("says yes")),
        line("b", json!("no"), json!(false), none(), none(), json!("says no")),
        line("c", none(), none(), none(), none(), none()),
        line("d", none(), none(), none(), none(), none()),
    ];
    assert_eq!(workspace.sql("SELECT * FROM verdicts"), expected);
    assert_eq!(workspace.sql("SELECT id FROM checked"), [json!({"id": "a"})]);
    workspace.edit("p.yaml", "json_get_float(found, 'score')", "json_get_float(found)");
    workspace
        .proofmill(&["check", "p.yaml"])
        .expect(3)
        .says("`json_get_float` with 1 arguments; expected json_get_float(json, step, …)");
}
