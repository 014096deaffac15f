//! Groups that are repeated in turns: tables carried from turn to turn, items that are done, what a turn costs.

use serde_json::{Value as Json, json};

use crate::server::serve;
use crate::support::{Workspace, set};

/// Each item says one letter more in each turn, until it has said as many as it needs.
const PIPELINE: &str = "pipeline: p
params: { turns: 3 }
stages:
  start:
    sql: SELECT column1 AS id, column2 AS need, CAST(NULL AS VARCHAR) AS said FROM (VALUES ('a', 1), ('b', 2), ('c', 9), ('d', NULL)) AS v
  nothing:
    sql: SELECT '' AS id, 0 AS at WHERE false
  turns:
    repeat:
      turns: \"${params.turns}\"
      carry:
        open: { from: start, next: judged, until: done }
        log: { from: nothing, next: grown }
    stages:
      asked: { sql: \"SELECT id, need, coalesce(said, '') || 'x' AS said, ${repeat.turn} AS number FROM open\" }
      judged: { sql: \"SELECT *, length(said) >= need AS done FROM asked ORDER BY id\" }
      grown: { sql: \"SELECT id, at FROM log UNION ALL SELECT id, number AS at FROM asked\" }
  all: { sql: \"SELECT turn, id, said FROM turns.judged ORDER BY turn, id\" }
";

fn texts(rows: &[Json], column: &str) -> Vec<String> {
    rows.iter().map(|row| format!("{}{}", row["turn"], row[column].as_str().unwrap())).collect()
}

#[test]
fn items_that_are_done_go_into_no_further_turn() {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    let all = workspace.sql("SELECT * FROM all");
    assert_eq!(texts(&all, "id"), ["1a", "1b", "1c", "1d", "2b", "2c", "2d", "3c", "3d"]);
    assert_eq!(texts(&all, "said"), ["1x", "1x", "1x", "1x", "2xx", "2xx", "2xx", "3xxx", "3xxx"]);
    // An item for which nobody can tell is not done.
    let open = workspace.sql("SELECT * FROM turns_3.open ORDER BY id");
    let row = |id: &str, need: Json| json!({ "id": id, "need": need, "said": "xx" });
    assert_eq!(open, [row("c", json!(9)), row("d", Json::Null)], "the columns of the first turn");
    // A trace tells an item turn by turn, and nothing twice.
    let trace = workspace.json(&["audit", "trace", "b", "--answers", "all"]);
    let steps = trace["steps"].as_array().unwrap().iter();
    let stages: Vec<_> = steps.map(|step| step["stage"].as_str().unwrap()).collect();
    let turn = |n: usize| ["asked", "judged"].map(|stage| format!("turns_{n}.{stage}"));
    let turns = [turn(1), turn(2)].concat();
    assert_eq!(stages[1..stages.len() - 1], turns, "{stages:?}");
    // A table without `until` goes on whole.
    let grown = workspace.sql("SELECT count(*) AS n, max(at) AS last FROM turns_3.grown");
    assert_eq!(grown, [json!({ "n": 9, "last": 3 })]);
}

#[test]
fn one_turn_more_computes_that_turn_alone() {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    workspace.edit("p.yaml", "turns: 3", "turns: 4");
    let new = ["open", "log", "asked", "judged"].map(|stage| format!("turns_4.{stage}"));
    let new: Vec<&str> =
        new.iter().map(String::as_str).chain(["turns.judged", "all", "turns_4.grown"]).collect();
    assert_eq!(workspace.run(), set(&new));
    // What the first turn begins with counts in all of them.
    workspace.edit("p.yaml", "('b', 2)", "('b', 3)");
    let all = workspace.run();
    assert!(all.contains("turns_1.asked") && all.contains("turns_4.asked"));
    assert!(!all.contains("turns_1.log"), "nobody's log has changed");
}

#[test]
fn a_condition_that_differs_between_runs_is_never_taken_from_the_store() {
    let workspace = Workspace::with(PIPELINE);
    workspace.edit("p.yaml", "until: done", "until: random() > 0.5");
    assert_eq!(workspace.reason("turns_2.open"), "it calls random, which differs between runs");
}

#[test]
fn a_loop_stands_in_a_matrix_and_uses_a_template() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  start: { sql: \"SELECT 'a' AS id, 0 AS n\" }
  steps:
    matrix: { step: [2, 5] }
    stages:
      turns:
        repeat: { turns: 3, carry: { open: { from: start, next: next, until: n > 6 } } }
        use: body.yaml
        with: { from: open, step: \"${matrix.step}\", turn: \"${repeat.turn}\" }
      last: { sql: \"SELECT max(turn) AS turn, max(n) AS n, max(number) AS number FROM turns.next\" }
  all: { sql: SELECT * FROM steps.last ORDER BY step }
",
    );
    let body = "template: body
params: { from: , step: 0, turn: 0 }
stages:
  next: { sql: \"SELECT id, n + ${params.step} AS n, ${params.turn} AS number FROM ${params.from}\" }
";
    workspace.write("body.yaml", body);
    workspace.run();
    let row = |step: &str, turn: i64, n: i64| json!({ "step": step, "turn": turn, "n": n, "number": turn });
    assert_eq!(workspace.sql("SELECT * FROM all"), [row("2", 3, 6), row("5", 2, 10)]);
}

/// Says each prompt in capitals; fails at what is asked in a second turn, from the second such request on, until it has been
/// asked ten times.
fn tired(place: usize, body: &Json) -> (&'static str, Json) {
    let prompt = body["prompt"].as_str().unwrap_or_default();
    if prompt.starts_with("again") && (6..=9).contains(&place) {
        return ("500 Broken", json!({ "error": { "message": "boom" } }));
    }
    let choice = json!({ "index": 0, "text": prompt.to_uppercase(), "finish_reason": "stop" });
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": 2 });
    ("200 OK", json!({ "choices": [choice], "usage": usage }))
}

#[test]
fn an_endpoint_that_dies_in_the_second_turn_is_asked_only_for_what_is_missing() {
    let (url, received) = serve(tired);
    let workspace = Workspace::with(&format!(
        "pipeline: p
models:
  far: {{ url: \"{url}\", model: small, retries: 0, concurrency: 1 }}
stages:
  start: {{ sql: \"SELECT 'r' || n AS row_id, 'cat ' || n AS said FROM (SELECT unnest(range(4)) AS n) ORDER BY n\" }}
  turns:
    repeat: {{ turns: 2, carry: {{ open: {{ from: start, next: judged, until: row_id = 'r3' }} }} }}
    stages:
      answers: {{ generate: {{ from: open, model: far, prompt: \"CASE WHEN ${{repeat.turn}} = 2 THEN 'again ' ELSE '' END || said\" }} }}
      judged: {{ sql: \"SELECT row_id, text AS said FROM answers ORDER BY row_id\" }}
"
    ));
    workspace.proofmill(&["run", "p.yaml"]).expect(1).says("turns_2.answers");
    let before = received.lock().unwrap().len();
    assert!((6..=7).contains(&before), "four of the first turn, and some of the second: {before}");
    // Until it answers again; what was said once is never asked again.
    for _ in 0..4 {
        if workspace.proofmill(&["run", "p.yaml"]).code == Some(0) {
            break;
        }
    }
    let rows = workspace.sql("SELECT row_id, said FROM turns_2.judged ORDER BY row_id");
    let row = |n: usize| json!({ "row_id": format!("r{n}"), "said": format!("AGAIN CAT {n}") });
    assert_eq!(rows, [row(0), row(1), row(2)], "r3 was done after the first turn");
    let asked = received.lock().unwrap().clone();
    let count = |text: &str| asked.iter().filter(|(_, body)| body["prompt"] == text).count();
    for n in 0..4 {
        assert_eq!(count(&format!("cat {n}")), 1, "the first turn is asked once");
    }
    assert_eq!(count("again CAT 3"), 0);
    // Three answers and the four failures: what was answered before the endpoint died was kept.
    let again: usize = (0..3).map(|n| count(&format!("again CAT {n}"))).sum();
    assert_eq!(again, 3 + 4);
}
