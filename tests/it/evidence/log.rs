//! The audit log: what it names, who completes it, and how runs are found through it.

use std::fs;
use std::thread;

use serde_json::{Value as Json, json};

use crate::support::{Workspace, forge};

const PIPELINE: &str = "\
pipeline: nightly
params: { least: 1 }
stages:
  a: { sql: \"SELECT ${params.least} AS x\" }
  b: { sql: SELECT x + 0 * (1 / x) AS x FROM a }
  m: { measure: { from: b, metrics: { x: x } } }
";

fn log(workspace: &Workspace) -> Vec<Json> {
    let mut entries = workspace.json(&["audit", "log", "--limit", "0"]).as_array().unwrap().clone();
    entries.reverse();
    entries
}

/// The events of the log in a word each.
fn words(workspace: &Workspace) -> Vec<String> {
    let word = |entry: &Json| {
        let (name, event) = entry["event"].as_object().unwrap().iter().next().unwrap();
        match name.as_str() {
            "run_began" => format!("began by {}", event["trigger"]["kind"].as_str().unwrap()),
            "run_ended" => {
                let late = if event["late"] == true { ", late" } else { "" };
                format!("{}{late}", event["how"].as_str().unwrap())
            }
            other => other.to_owned(),
        }
    };
    log(workspace).iter().map(word).collect()
}

#[test]
fn every_run_is_entered_before_it_begins_and_when_it_ends() {
    let workspace = Workspace::with(PIPELINE);
    assert_eq!(log(&workspace), Vec::<Json>::new());
    workspace.run();
    workspace.proofmill(&["run", "p.yaml", "--param", "least=0"]).expect(1);
    assert_eq!(words(&workspace), ["began by command", "succeeded", "began by command", "failed"]);
    let entries = log(&workspace);
    let manifest = workspace.keys("manifest.json");
    let stored = fs::read(workspace.path("store").join(&manifest[0])).unwrap();
    let digest = proofmill_base::digest::Digest::of(&stored).to_string();
    assert_eq!(entries[1]["event"]["run_ended"]["manifest"], json!(digest));
    let failed = &entries[3]["event"]["run_ended"];
    assert_eq!(failed["manifest"], Json::Null);
    assert!(failed["log"]["seq"].as_u64().unwrap() >= 2, "{failed}");
    workspace.proofmill(&["runs"]).expect(0).says("1 run of `nightly` failed or was stopped");
    let none = workspace.json(&["audit", "log", "--pipeline", "other"]);
    assert_eq!(none, json!([]));
    let text = workspace.proofmill(&["audit", "log", "--limit", "1"]).expect(0).stdout;
    assert!(text.contains("failed") && !text.contains("succeeded"), "{text}");
}

#[test]
fn a_resumed_run_begins_once_more() {
    let workspace = Workspace::with(
        "pipeline: p\nstages: { a: { sql: SELECT 0 AS x }, b: { command: { from: a, run: [sh, -c, 'test -e ok && cat'], \
         columns: { x: integer }, pure: true } } }\n",
    );
    workspace.proofmill(&["run", "p.yaml"]).expect(1);
    workspace.write("ok", "");
    workspace.proofmill(&["run", "p.yaml", "--resume", "latest"]).expect(0);
    assert_eq!(words(&workspace), ["began by command", "failed", "began by resume", "succeeded"]);
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 1);
    let manifest = workspace.read(&format!("store/{}", workspace.keys("manifest.json")[0]));
    assert!(manifest.contains(r#""trigger":{"kind":"command"}"#), "{manifest}");
    assert_eq!(workspace.json(&["audit", "verify"])["findings"], json!([]));
}

#[test]
fn an_end_that_was_not_entered_is_entered_late_by_the_next_run() {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    // As a kill between the manifest and the entry leaves it.
    let entries = workspace.keys("audit/log/");
    fs::remove_file(workspace.path("store").join(&entries[1])).unwrap();
    assert_eq!(workspace.json(&["audit", "verify", "--all"])["findings"], json!([]));
    workspace.run();
    let expected = ["began by command", "succeeded, late", "began by command", "succeeded"];
    assert_eq!(words(&workspace), expected);
    assert_eq!(workspace.json(&["audit", "verify", "--all"])["findings"], json!([]));
}

#[test]
fn a_store_that_is_older_than_its_log_goes_on() {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    workspace.proofmill(&["run", "p.yaml", "--param", "least=0"]).expect(1);
    fs::remove_dir_all(workspace.path("store/audit")).unwrap();
    // Listed as before, and nothing is written by looking.
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 2);
    assert_eq!(workspace.keys("audit/"), Vec::<String>::new());
    workspace.run();
    assert_eq!(words(&workspace), ["adopted", "began by command", "succeeded"]);
    let runs = log(&workspace)[0]["event"]["adopted"]["runs"].clone();
    let how: Vec<&Json> = runs.as_array().unwrap().iter().map(|run| &run["how"]).collect();
    assert_eq!(how, ["succeeded", "failed"]);
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 3);
    assert_eq!(workspace.json(&["audit", "verify", "--all"])["findings"], json!([]));
}

#[test]
fn many_runs_at_once_make_one_chain() {
    let workspace = Workspace::with(PIPELINE);
    thread::scope(|scope| {
        for n in 0..6 {
            let (workspace, least) = (&workspace, format!("least={}", n + 1));
            scope.spawn(move || {
                workspace.proofmill(&["run", "p.yaml", "--param", &least]).expect(0)
            });
        }
    });
    let words = words(&workspace);
    let of = |word: &str| words.iter().filter(|it| *it == word).count();
    assert_eq!((of("began by command"), of("succeeded"), words.len()), (6, 6, 12), "{words:?}");
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 6);
    let verified = workspace.json(&["audit", "verify", "--all", "--level", "3"]);
    assert_eq!((&verified["findings"], &verified["examined"]["entries"]), (&json!([]), &json!(12)));
}

#[test]
fn a_broken_log_is_reported_and_takes_no_more_runs() {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    workspace.run();
    let entries = workspace.keys("audit/log/");
    fs::remove_file(workspace.path("store").join(&entries[1])).unwrap();
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(4).says("entry 1 is missing");
    assert!(done.stderr.contains("audit verify --all"), "{}", done.stderr);
    let runs = workspace.proofmill(&["runs", "--json"]).expect(0).says("listed by their folders");
    assert_eq!(runs.json().as_array().unwrap().len(), 2);
    let found = workspace.proofmill(&["audit", "verify", "--all", "--json"]).expect(1).json();
    assert_eq!(found["findings"][0]["fault"], "missing");
}

#[test]
fn an_entry_of_a_newer_program_is_named_by_its_version() {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    let entry = workspace.path("store").join(&workspace.keys("audit/log/")[1]);
    forge(&entry, r#"{"v":1,"#, r#"{"v":9,"#);
    workspace.proofmill(&["audit", "log"]).expect(4).says("format version 9");
    workspace.proofmill(&["run", "p.yaml"]).expect(4).says("format version 9");
    workspace.proofmill(&["runs"]).expect(0).says("format version 9");
    let found = workspace.proofmill(&["audit", "verify", "--json"]).expect(1).json();
    assert_eq!(found["findings"][0]["fault"], "newer");
}

#[test]
fn a_forgetting_is_entered() {
    let workspace = Workspace::new();
    workspace.add_model("gpt2", "tiny");
    workspace.write(
        "m.yaml",
        "pipeline: m\nmodels: { m: { path: tiny, device: cpu, kv_cache_mib: 8 } }\nstages:\n  \
         q: { sql: \"SELECT 'r1' AS row_id, 'the cat' AS q\" }\n  g: { generate: { from: q, model: m, prompt: q, options: { max_tokens: 2, min_tokens: 2 } } }\n",
    );
    workspace.proofmill(&["run", "m.yaml"]).expect(0);
    let model = workspace.json(&["ledger", "list"])["models"][0]["id"].as_str().unwrap().to_owned();
    workspace
        .proofmill(&["ledger", "forget", "--model", &model, "--author", "mia", "--reason", "wrong"])
        .expect(0);
    let last = log(&workspace).pop().unwrap();
    assert_eq!(last["event"]["forgot"]["author"], "mia");
    assert_eq!(last["event"]["forgot"]["answers"], 1);
    assert_eq!(
        workspace.json(&["audit", "verify", "--all", "--level", "3"])["findings"],
        json!([])
    );
}
