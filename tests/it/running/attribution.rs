//! `diff --attribute`: which part of two runs moves their metrics, by runs that might have been.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use crate::server::{Received, serve};
use crate::support::Workspace;

/// Questions whose answer hangs on each part: parameters, file, inputs, memory, models.
const GROUPS: [(usize, &str); 5] =
    [(10, "params"), (20, "file"), (30, "inputs"), (25, "memory"), (15, "models")];

/// `m-1` says yes, and every other model no.
fn answer(_: usize, body: &Json) -> (&'static str, Json) {
    let text = if body["model"] == "m-1" { "yes" } else { "no" };
    let choice = json!({ "index": 0, "text": text, "finish_reason": "stop" });
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 1 });
    ("200 OK", json!({ "choices": [choice], "usage": usage, "model": body["model"] }))
}

fn write_answers(workspace: &Workspace, ok: bool) {
    let (mut text, mut id) = ("id,part,ok\n".to_owned(), 0);
    for (size, part) in GROUPS {
        for _ in 0..size {
            writeln!(text, "q{id:03},{part},{ok}").unwrap();
            id += 1;
        }
    }
    workspace.write("a.csv", text);
}

/// A hundred questions, all of them right.
fn right() -> (Workspace, Received) {
    let (url, received) = serve(answer);
    let workspace = Workspace::with(&format!(
        "pipeline: parts
params: {{ cut: 3, answers: a.csv }}
models: {{ reader: {{ url: '{url}', model: m-1, concurrency: 1 }} }}
stages:
  taught: {{ memory: {{ name: facts }} }}
  answers: {{ read: {{ path: '${{params.answers}}' }} }}
  asked: {{ sql: \"SELECT id FROM answers WHERE part = 'models'\" }}
  said:
    generate: {{ from: asked, model: reader, id: id, prompt: \"'Is it ' || id || '${{params.cut}}'\", options: {{ max_tokens: 4 }} }}
  scored:
    sql: |
      SELECT a.id, CASE part WHEN 'params' THEN ${{params.cut}} = 3 WHEN 'file' THEN 'plain' = 'plain' WHEN 'inputs' THEN ok
        WHEN 'memory' THEN n = 1 ELSE s.text = 'yes' END AS correct
      FROM answers AS a LEFT JOIN said AS s ON a.id = s.row_id CROSS JOIN (SELECT count(*) AS n FROM taught)
  judged: {{ measure: {{ from: scored, correct: correct }} }}
"
    ));
    write_answers(&workspace, true);
    workspace.proofmill(&["teach", "add", "facts", "a penny is made of copper"]).expect(0);
    let run = workspace.json(&["run", "p.yaml"]);
    assert_eq!(run["metrics"][0]["value"], 1.0, "{run:#}");
    (workspace, received)
}

/// Changes one part; gives the arguments that a run of it needs.
fn change(workspace: &Workspace, part: &str) -> Vec<&'static str> {
    match part {
        "params" => return vec!["--param", "cut=4"],
        "file" => workspace.edit("p.yaml", "'plain' = 'plain'", "'plain' = 'other'"),
        "inputs" => write_answers(workspace, false),
        "memory" => {
            workspace.proofmill(&["teach", "add", "facts", "iron is magnetic"]).expect(0);
        }
        "models" => workspace.edit("p.yaml", "model: m-1", "model: m-2"),
        other => panic!("{other}"),
    }
    Vec::new()
}

fn effect(found: &Json, part: &str) -> [f64; 2] {
    let parts = found["metrics"][0]["parts"].as_array().unwrap();
    let of = parts.iter().find(|it| it["part"] == part).unwrap_or_else(|| panic!("{found:#}"));
    [&of["into_first"], &of["out_of_second"]].map(|it| it.as_f64().unwrap())
}

#[track_caller]
fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} is not {b}");
}

#[test]
fn one_changed_part_is_named_and_nobody_is_asked() {
    for (size, part) in GROUPS {
        let (workspace, received) = right();
        let more = change(&workspace, part);
        workspace.proofmill(&[&["run", "p.yaml"], more.as_slice()].concat()).expect(0);
        let asked = received.lock().unwrap().len();
        let done = workspace.proofmill(&["diff", "--attribute", "--json"]).expect(0);
        let found = done.json();
        let share = size as f64 / 100.0;
        effect(&found, part).into_iter().for_each(|effect| close(effect, -share));
        assert_eq!(found["metrics"][0]["together"].as_f64().unwrap_or(0.0), 0.0, "{part}");
        assert_eq!(received.lock().unwrap().len(), asked, "{part}");
        let shown = workspace.proofmill(&["diff", "--attribute"]).expect(0).stdout;
        assert!(shown.contains(&format!("judged.accuracy: {part} does most")), "{part}: {shown}");
    }
}

#[test]
fn five_changed_parts_are_told_apart_and_no_more_is_asked_than_was_planned() {
    let (workspace, received) = right();
    let sent = || received.lock().unwrap().len();
    let more: Vec<&str> = GROUPS.iter().flat_map(|(_, part)| change(&workspace, part)).collect();
    workspace.proofmill(&[&["run", "p.yaml"], more.as_slice()].concat()).expect(0);
    let before = sent();
    let planned = workspace.json(&["diff", "--attribute", "--dry-run"]);
    assert_eq!(sent(), before, "a dry run asks nobody");
    let cost = |swap: &Json| swap["planned"]["requests"].as_u64().unwrap_or(0);
    let most: u64 = planned["swaps"].as_array().unwrap().iter().map(cost).sum();
    assert!(most > 0, "{planned:#}");
    let found = workspace.json(&["diff", "--attribute"]);
    for (size, part) in GROUPS {
        let [into, _] = effect(&found, part);
        close(into, -(size as f64) / 100.0);
    }
    close(found["metrics"][0]["together"].as_f64().unwrap(), 0.0);
    let asked = (sent() - before) as u64;
    assert!(asked > 0 && asked <= most, "{asked} of {most}");
    // What might have been is no run that others mean, and is found by its id.
    let runs = workspace.json(&["runs"]);
    assert_eq!(runs.as_array().unwrap().len(), 2, "{runs:#}");
    let swaps = found["swaps"].as_array().unwrap();
    let ran = swaps.iter().find_map(|swap| swap["ran"]["run"].as_str()).unwrap();
    assert_eq!(workspace.json(&["show", "--run", ran])["run"], ran);
    assert_eq!(workspace.json(&["trends", "parts", "accuracy"]).as_array().unwrap().len(), 2);
    let verified = workspace.json(&["audit", "verify", "--all", "--level", "3"]);
    assert_eq!(verified["findings"], json!([]));
    let printed = workspace.proofmill(&["audit", "verifier"]).expect(0).stdout;
    workspace.write("verify.py", printed);
    let mut second = std::process::Command::new("python3");
    second.arg("-B").arg(workspace.path("verify.py")).arg(workspace.path("store"));
    let second = second.output().unwrap();
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stdout));
    let log = workspace.proofmill(&["audit", "log"]).stdout;
    assert!(log.contains("with the inputs of"), "{log}");
    // Again, it is all in the store.
    let again = workspace.json(&["diff", "--attribute"]);
    assert_eq!(again["metrics"], found["metrics"]);
    assert_eq!((sent() - before) as u64, asked);
}

#[test]
fn runs_that_cannot_be_made_of_other_parts_are_refused() {
    let workspace = Workspace::with("pipeline: p\nstages:\n  a: { sql: SELECT 1 AS x }\n");
    workspace.run();
    workspace.edit("p.yaml", "1 AS x", "2 AS x");
    workspace.run();
    workspace.proofmill(&["diff", "--attribute"]).expect(2).says("neither run has metrics");
    workspace.edit(
        "p.yaml",
        "2 AS x }",
        "1 AS x }\n  m: { measure: { from: a, metrics: { x: x } } }",
    );
    workspace.run();
    workspace.edit("p.yaml", "1 AS x", "1/0 AS x");
    workspace.proofmill(&["run", "p.yaml"]).expect(1);
    let failed = workspace.json(&["runs"])[0]["run"].as_str().unwrap().to_owned();
    workspace.proofmill(&["diff", "p", &failed, "--attribute"]).expect(2).says("did not succeed");
    workspace.proofmill(&["diff", "--dry-run"]).expect(2).says("--attribute");
}
