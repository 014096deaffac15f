//! `audit trace` of stages that do not answer with proofs: the rows that an item has in every table.

use serde_json::json;

use crate::support::Workspace;

/// A pipeline without proofs: what was found and fused, and whether it is right.
const ITEMS: &str = r#"
pipeline: items
stages:
  facts:
    sql: SELECT * FROM (VALUES ('f1', 'a penny is made of copper'), ('f2', 'a nail is made of iron')) AS t(id, fact)
  situations:
    sql: |
      SELECT * FROM (VALUES ('q1', 'what is a penny made of?', 'f1', make_array(0.5, 0.25)),
        ('q2', 'what is a nail made of?', 'f2', NULL)) AS t(id, x, gold, vector)
  memory: { index: { from: facts, fact: fact, id: id } }
  found: { retrieve: { from: situations, query: x, id: id, memory: memory, top_k: 2 } }
  again: { retrieve: { from: situations, query: x, id: id, memory: memory, top_k: 1 } }
  fused: { rank_fusion: { from: [found, again], top_k: 1 } }
  results:
    sql: |
      SELECT s.id, s.x, f.fact AS returned, f.fact_id = s.gold AS correct
      FROM situations AS s JOIN fused AS f ON f.query_id = s.id ORDER BY s.id
  accuracy: { measure: { from: results, correct: correct } }
  last: { sql: SELECT id FROM results ORDER BY id }
"#;

#[test]
fn an_item_is_traced_through_stages_of_any_kind() {
    let workspace = Workspace::with(ITEMS);
    workspace.run();
    let trace = workspace.json(&["audit", "trace", "q1"]);
    assert_eq!(trace["stage"], "results", "what is measured");
    assert_eq!(trace["question"], json!({"id": "q1", "text": "what is a penny made of?"}));
    let steps: Vec<_> = trace["steps"].as_array().unwrap().iter().collect();
    let stages: Vec<_> = steps.iter().map(|step| step["stage"].as_str().unwrap()).collect();
    assert_eq!(
        stages,
        ["situations", "found", "again", "fused", "results"],
        "facts are no rows of it"
    );
    assert_eq!(steps[0]["rows"][0].get("vector"), None, "vectors are left out");
    let ranks: Vec<_> =
        steps[1]["rows"].as_array().unwrap().iter().map(|row| &row["rank"]).collect();
    assert_eq!((ranks, &steps[1]["rows_all"]), (vec![&json!(1), &json!(2)], &json!(2)));
    assert_eq!(steps[3]["made_of"], json!(["again", "found"]));
    assert_eq!(steps[4]["rows"][0]["correct"], true);
    // By a part of its text, and of another stage.
    let by_text = workspace.json(&["audit", "trace", "a PENNY", "--answers", "fused"]);
    assert_eq!((&by_text["question"]["id"], &by_text["stage"]), (&json!("q1"), &json!("fused")));

    let text = |args: &[&str]| workspace.proofmill(&[&["audit", "trace"], args].concat());
    let shown = text(&["q1", "--rows", "1"]).expect(0).stdout;
    for part in ["1 more; `--rows N`", "a penny is made of copper", "correct true"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let found = workspace.proofmill(&["show", "found"]).expect(0).stdout;
    assert!(found.contains("made of: situations (from), memory\n"), "{found}");
    text(&["made of"]).expect(2).says("matches 2 questions").says("q2  what is a nail");
    text(&["q3"]).expect(2).says("no question `q3`").says("did you mean `q1`");
    text(&["q1", "--answers", "accuracy"]).expect(2).says("`accuracy` has no rows of `q1`");
    text(&["q1", "--answers", "founds"]).expect(2).says("no stage `founds`").says("`found`");
}

#[test]
fn what_is_said_twice_and_messages_are_shown() {
    let workspace = Workspace::with(
        r#"
pipeline: said
stages:
  asked:
    sql: |
      SELECT 'q1' AS id, '6' AS answer, '6' AS gold, repeat('long ', 30) AS first, repeat('long ', 30) AS second,
        [named_struct('role', 'system', 'content', 'Be short.'), named_struct('role', 'user', 'content', 'How many?')] AS messages
"#,
    );
    workspace.run();
    let shown = workspace.proofmill(&["audit", "trace", "q1"]).expect(0).stdout;
    for part in ["answer: 6", "gold: 6", "second: as first", "system: Be short.", "user: How many?"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
