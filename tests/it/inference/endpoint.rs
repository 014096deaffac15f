//! A model behind an endpoint: asked once, then replayed without it. Its key stays where it is.

use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::server::serve;
use crate::support::{Done, Workspace};

const KEY: &str = "sk-6f1c0a9e-never-to-be-seen";

/// Says each prompt in capitals; the third request is refused.
fn capitals(place: usize, body: &Json) -> (&'static str, Json) {
    if place == 3 {
        return ("503 Busy", json!({ "error": { "message": "try again" } }));
    }
    let text = body["prompt"].as_str().unwrap_or_default().to_uppercase();
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": 2 });
    let choice = json!({ "index": 0, "text": text, "finish_reason": "stop" });
    ("200 OK", json!({ "choices": [choice], "usage": usage }))
}

/// A run with the key in the environment.
fn run(workspace: &Workspace, args: &[&str]) -> Done {
    let output = workspace.command(args).env("PROOFMILL_TEST_KEY", KEY).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Done { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Files that hold a text anywhere.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if fs::read(&path).unwrap().windows(text.len()).any(|it| it == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn is_asked_once_and_replayed_when_it_is_gone() {
    let (url, received) = serve(capitals);
    let workspace = Workspace::with(&format!(
        "pipeline: far\nmodels:\n  far: {{ url: \"{url}\", model: small, api_key_env: \
         PROOFMILL_TEST_KEY }}\nstages:\n  asked: {{ sql: \"SELECT 'r' || n AS row_id, 'cat ' || n \
         AS q FROM (SELECT unnest(range(5)) AS n)\" }}\n  answers:\n    generate: {{ from: asked, \
         model: far, prompt: q, options: {{ max_tokens: 9, stop: [x] }} }}\n"
    ));
    let first = run(&workspace, &["run", "p.yaml"]).expect(0);
    let first = first.says("; 5 asked, 0 replayed, 0 failed");
    let sent = received.lock().unwrap().clone();
    assert_eq!(sent.len(), 6, "five requests, one of them twice");
    for (head, body) in &sent {
        assert!(head.starts_with("POST /v1/completions HTTP/1.1"), "{head}");
        assert!(head.to_lowercase().contains(&format!("authorization: bearer {KEY}")), "{head}");
        assert_eq!((&body["model"], &body["max_tokens"]), (&json!("small"), &json!(9)));
        assert_eq!(body["stop"], json!(["x"]));
    }
    let answers = "SELECT row_id, text, prompt_tokens, output_tokens FROM answers ORDER BY row_id";
    let rows = workspace.sql(answers);
    assert_eq!(rows.len(), 5);
    let last = json!({ "row_id": "r4", "text": "CAT 4", "prompt_tokens": 3, "output_tokens": 2 });
    assert_eq!(rows[4], last);

    // The server need not be there, nor its key, for what it has said.
    let again = workspace.proofmill(&["run", "p.yaml", "--rerun", "answers"]).expect(0);
    assert_eq!(received.lock().unwrap().len(), 6, "it was asked again");
    assert_eq!(workspace.sql(answers), rows);
    let outputs = [&first, &again].map(|done| done.stdout.clone() + &done.stderr).concat();
    assert!(again.stderr.contains("; 0 asked, 5 replayed, 0 failed"), "{}", again.stderr);
    assert!(!outputs.contains(KEY));
    workspace.write("probe", KEY);
    assert_eq!(holding(&workspace.path(""), KEY), [workspace.path("probe").display().to_string()]);
}

#[test]
fn says_what_is_wrong_and_never_the_key() {
    let workspace = Workspace::with(
        "pipeline: far\nmodels:\n  far: { url: \"http://127.0.0.1:9/v1\", model: small, retries: 0, \
         api_key_env: PROOFMILL_TEST_KEY }\nstages:\n  asked: { sql: \"SELECT 'r' AS row_id, 'cat' AS q\" \
         }\n  answers: { generate: { from: asked, model: far, prompt: q } }\n",
    );
    let done = run(&workspace, &["run", "p.yaml"])
        .expect(1)
        .says("model `far` cannot be used: http://127.0.0.1:9/v1/completions cannot be reached");
    assert!(!(done.stdout + &done.stderr).contains(KEY));
    assert_eq!(holding(&workspace.path(""), KEY), [""; 0]);
    workspace.proofmill(&["run", "p.yaml"]).expect(1).says("PROOFMILL_TEST_KEY");
}

/// A pipeline that asks the endpoint at `url` about so many texts, a request each.
fn questions(url: &str, model: &str, rows: usize, common: &str) -> String {
    format!(
        "pipeline: far\nmodels:\n  far: {{ url: \"{url}\", model: small, {model} }}\nstages:\n  asked: {{ sql: \
         \"SELECT 'r' || n AS row_id, 'cat ' || n AS q FROM (SELECT unnest(range({rows})) AS n)\" }}\n  \
         answers:\n    generate: {{ from: asked, model: far, prompt: q }}\n{common}"
    )
}

/// Says each prompt in capitals.
fn always(_: usize, body: &Json) -> (&'static str, Json) {
    capitals(1, body)
}

/// Fails at everything.
fn dead(_: usize, _: &Json) -> (&'static str, Json) {
    ("500 Broken", json!({ "error": { "message": "boom" } }))
}

/// Takes no request.
fn picky(_: usize, _: &Json) -> (&'static str, Json) {
    ("400 Bad", json!({ "error": { "message": "no cats" } }))
}

#[test]
fn a_dead_server_is_not_asked_for_every_row() {
    let (url, received) = serve(dead);
    let model = "retries: 1, concurrency: 4";
    let workspace = Workspace::with(&questions(&url, model, 300, "    max_error_rate: 0.5\n"));
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
    done.says("requests in a row had no answer after all retries, the last one as the endpoint failed (500): boom")
        .says("no further rows were tried")
        .says("(transient)");
    let asked = received.lock().unwrap().len();
    assert!((32..60).contains(&asked), "{asked} requests");
}

#[test]
fn a_rate_of_errors_that_is_lost_ends_the_stage() {
    let (url, received) = serve(picky);
    let rate = "    max_error_rate: 0.1\n";
    let workspace = Workspace::with(&questions(&url, "concurrency: 2", 40, rate));
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
    done.says("of 40 rows have no answer, and at most 4 may fail; no further rows were tried")
        .says("no cats");
    let asked = received.lock().unwrap().len();
    assert!((5..10).contains(&asked), "{asked} requests");
    // Who accepts every failure has every row asked.
    workspace.edit("p.yaml", "max_error_rate: 0.1", "max_error_rate: 1");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    assert_eq!(received.lock().unwrap().len(), asked + 40);
    assert_eq!(workspace.sql("SELECT count(*) AS n FROM answers__errors")[0]["n"], 40);
}

#[test]
fn a_budget_ends_a_run_that_can_go_on() {
    let (url, received) = serve(always);
    let model =
        "concurrency: 1, budget: { requests: 3 }, prices: { prompt: 0.15, completion: 0.6 }";
    let workspace = Workspace::with(&questions(&url, model, 5, ""));
    workspace
        .proofmill(&["run", "p.yaml"])
        .expect(1)
        .says("models: 3 asked, 0 replayed, 0 failed")
        .says("model `far`: `budget.requests` of 3 is used up; spent: 3 requests, 9 prompt tokens, 6 completion tokens, cost 0.00000495; 2 of 5 rows have no answer")
        .says("model far: 3 requests, 9 prompt tokens, 6 completion tokens, cost 0.00000495");
    assert_eq!(received.lock().unwrap().len(), 3);
    let done = workspace.proofmill(&["run", "p.yaml", "--resume", "latest"]).expect(0);
    done.says("2 asked, 3 replayed").says("model far: 2 requests");
    assert_eq!(received.lock().unwrap().len(), 5);
    let shown = workspace.proofmill(&["show"]).expect(0).stdout;
    assert!(shown.contains("model far: 2 requests, 6 prompt tokens"), "{shown}");
    // What may be spent is no part of what is computed.
    workspace.edit("p.yaml", "requests: 3", "requests: 1");
    workspace.edit("p.yaml", "prompt: 0.15", "prompt: 99");
    let again = workspace.proofmill(&["run", "p.yaml"]).expect(0).says("2 from the store");
    assert!(!again.stderr.contains("model far"), "{}", again.stderr);
    workspace.proofmill(&["run", "p.yaml", "--rerun", "answers"]).expect(0).says("5 replayed");
    assert_eq!(received.lock().unwrap().len(), 5);
}

#[test]
fn stages_share_the_budget_of_a_model() {
    let (url, received) = serve(always);
    let second = "  more:\n    generate: { from: asked, model: far, prompt: \"q || '!'\" }\n";
    let model = "concurrency: 2, budget: { requests: 7 }";
    let workspace = Workspace::with(&questions(&url, model, 6, second));
    workspace.proofmill(&["run", "p.yaml"]).expect(1).says("`budget.requests` of 7 is used up");
    assert_eq!(received.lock().unwrap().len(), 7);
    workspace.edit("p.yaml", "requests: 7", "requests: 5");
    workspace.proofmill(&["run", "p.yaml"]).expect(0).says("model far: 5 requests");
    assert_eq!(received.lock().unwrap().len(), 12);
}
