//! `proofmill schedule`, command by command, and what it refuses.

use std::fs;

use serde_json::{Value as Json, json};

use crate::support::Workspace;

const PIPELINE: &str = "pipeline: p\nparams: { n: 1 }\nstages:\n  a: { sql: \"SELECT ${params.n} AS x\" }\n  \
     m: { measure: { from: a, metrics: { x: x } } }\n";

/// A workspace with a schedule that is due each minute, in a store that has it.
pub fn scheduled(more: &str) -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    workspace.write(
        "s.yaml",
        format!("kind: schedule\nname: nightly\npipeline: p.yaml\nparams: {{ n: 3 }}\ncron: '0 2 * * *'\n{more}"),
    );
    workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(0).says("counts from now on");
    workspace
}

fn history(workspace: &Workspace) -> Vec<Json> {
    workspace.json(&["schedule", "history", "nightly"]).as_array().unwrap().clone()
}

#[test]
fn a_schedule_is_applied_triggered_paused_and_shown() {
    let workspace = scheduled("timezone: Europe/Berlin\n");
    workspace
        .proofmill(&["schedule", "apply", "s.yaml"])
        .expect(0)
        .says("as the file says already");
    let status = workspace.json(&["schedule", "status"]);
    assert_eq!(status[0]["name"], "nightly");
    assert!(status[0]["next"].is_string() && status[0]["last"].is_null(), "{status:#}");
    workspace
        .proofmill(&["schedule", "status", "--max-age", "26h"])
        .expect(1)
        .says("no run of `nightly`");
    let idle = workspace.json(&["schedule", "tick"]);
    assert_eq!(idle, json!([["nightly", "nothing"]]));

    workspace.proofmill(&["schedule", "trigger", "nightly"]).expect(0).says("requested");
    let ticked = workspace.json(&["schedule", "tick"]);
    assert_eq!(ticked[0][1]["ran"]["how"], "succeeded", "{ticked:#}");
    assert_eq!(workspace.json(&["schedule", "tick"]), json!([["nightly", "nothing"]]));
    assert_eq!(workspace.sql("SELECT x FROM a"), [json!({ "x": 3 })], "with its parameters");
    workspace.proofmill(&["schedule", "status", "--max-age", "26h"]).expect(0);
    let lines = history(&workspace);
    let words: Vec<&str> = lines.iter().map(|line| line["what"].as_str().unwrap()).collect();
    assert_eq!(words, ["succeeded", "fired, triggered"]);
    let log = workspace.json(&["audit", "log"]);
    let began = &log[1]["event"]["run_began"];
    assert_eq!(
        (&began["trigger"]["kind"], &began["trigger"]["name"]),
        (&json!("schedule"), &json!("nightly"))
    );
    let run: Json = {
        let key = workspace.keys("manifest.json").remove(0);
        serde_json::from_slice(&fs::read(workspace.path("store").join(key)).unwrap()).unwrap()
    };
    assert_eq!(run["trigger"]["planned"], began["trigger"]["planned"]);

    workspace.proofmill(&["schedule", "pause", "nightly", "--reason", "holidays"]).expect(0);
    workspace
        .proofmill(&["schedule", "pause", "nightly", "--reason", "again"])
        .expect(0)
        .says("already");
    let status = workspace.json(&["schedule", "status"]);
    assert_eq!(
        (&status[0]["paused"]["reason"], &status[0]["next"]),
        (&json!("holidays"), &Json::Null)
    );
    workspace.proofmill(&["schedule", "trigger", "nightly"]).expect(0);
    assert_eq!(
        workspace.json(&["schedule", "tick"]),
        json!([["nightly", "nothing"]]),
        "while it is paused"
    );
    workspace.proofmill(&["schedule", "resume", "nightly"]).expect(0).says("goes on");
    assert_eq!(workspace.json(&["schedule", "tick"])[0][1]["ran"]["how"], "succeeded");

    let verified = workspace.json(&["audit", "verify", "--all", "--level", "3"]);
    assert_eq!(verified["findings"], json!([]));
}

#[test]
fn planned_instants_are_explained() {
    let workspace = scheduled("timezone: Europe/Berlin\njitter: 10m\n");
    let args =
        ["schedule", "explain", "s.yaml", "--from", "2026-03-28", "--to", "2026-03-30T12:00:00Z"];
    let shown = workspace.proofmill(&args).expect(0).stdout;
    assert!(shown.contains("Sun 2026-03-29 03:00 +02:00"), "{shown}");
    assert!(shown.contains("02:00 is skipped: the first instant after it"), "{shown}");
    let found = workspace.json(&args);
    let instants = found["instants"].as_array().unwrap();
    assert_eq!(instants.len(), 3);
    assert!(instants.iter().all(|it| it["begins"].as_str() >= it["planned"].as_str()));
    let next = workspace.json(&["schedule", "next", "nightly", "--count", "4"]);
    assert_eq!(next["instants"].as_array().unwrap().len(), 4);
    workspace.proofmill(&["schedule", "next", "nightl"]).expect(2).says("`nightly`");
    workspace
        .proofmill(&["schedule", "explain", "none.yaml"])
        .expect(2)
        .says("name a schedule file");
}

#[test]
fn instants_of_the_past_run_again_one_after_the_other() {
    let workspace = scheduled("");
    let backfill = |from: &str, to: &str| {
        workspace.proofmill(&["schedule", "backfill", "nightly", "--from", from, "--to", to])
    };
    backfill("2026-01-01", "2026-01-04").expect(0).says("3 instants requested");
    backfill("2026-01-01", "2026-01-04").expect(0);
    backfill("2026-01-01", "2999-01-04").expect(2).says("in the future");
    backfill("2026-01-01T03:00:00Z", "2026-01-01T04:00:00Z")
        .expect(2)
        .says("no instant was planned");
    let ticked = workspace.json(&["schedule", "tick"]);
    let planned: Vec<&str> = ticked
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it[1]["ran"]["fired"]["planned"].as_str())
        .collect();
    assert_eq!(planned, ["2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z", "2026-01-03T02:00:00Z"]);
    // They are no new nights.
    let status = ["schedule", "status", "--max-age", "26h"];
    workspace.proofmill(&status).expect(1);
    workspace.proofmill(&["schedule", "trigger", "nightly"]).expect(0);
    workspace.proofmill(&["schedule", "tick"]).expect(0);
    backfill("2026-01-05", "2026-01-06").expect(0);
    workspace.proofmill(&["schedule", "tick"]).expect(0);
    workspace.proofmill(&status).expect(0);
}

#[test]
fn a_file_is_refused_with_all_that_is_wrong_at_its_place() {
    let workspace = Workspace::with(PIPELINE);
    workspace.write(
        "bad.yaml",
        "kind: schedule\nname: nightly\npipeline: p.yaml\ncron: '0 2 31 2 *'\ntimezone: Europe/Berli\nwindow: 3x\nmissed: { all: 0 }\nbudget: tokens=no\n",
    );
    let done = workspace.proofmill(&["schedule", "apply", "bad.yaml"]).expect(3);
    for (place, text) in [
        ("bad.yaml:4:7", "no instant in the next five years"),
        ("bad.yaml:5:11", "`Europe/Berli` is not the name of a time zone"),
        ("bad.yaml:6:9", "`3x` is not a time"),
        ("bad.yaml:7:9", "`all` needs at least 1"),
        ("bad.yaml:8:9", "`tokens` is \"no\""),
    ] {
        assert!(
            done.stderr.contains(place) && done.stderr.contains(text),
            "{place}: {}",
            done.stderr
        );
    }
    assert_eq!(workspace.keys("schedules/"), Vec::<String>::new());
    workspace.write("other.yaml", "kind: schedul\nname: n\npipeline: p\ncron: '* * * * * *'\n");
    workspace.proofmill(&["schedule", "apply", "other.yaml"]).expect(3).says("other.yaml:1:7");
    workspace.proofmill(&["schedule", "apply", "none.yaml"]).expect(2).says("cannot be read");
    workspace
        .proofmill(&["schedule", "tick", "nightly"])
        .expect(2)
        .says("has no schedule `nightly`");
}

#[test]
fn nothing_is_fired_that_cannot_begin() {
    let workspace = scheduled("");
    workspace.proofmill(&["schedule", "trigger", "nightly"]).expect(0);
    let before = workspace.keys("schedules/").len();
    let pipeline = workspace.read("p.yaml");
    fs::remove_file(workspace.path("p.yaml")).unwrap();
    workspace.proofmill(&["schedule", "tick"]).expect(2).says("p.yaml");
    workspace.write("p.yaml", "pipeline: p\nstages: { a: { sql: SELECT } }\n");
    workspace.proofmill(&["schedule", "tick"]).expect(3).says("p.yaml:2");
    // The log has that it could not begin, once.
    assert_eq!(workspace.keys("schedules/").len(), before + 1);
    assert_eq!(workspace.json(&["runs"]), json!([]));
    workspace.write("p.yaml", pipeline);
    assert_eq!(workspace.json(&["schedule", "tick"])[0][1]["ran"]["how"], "succeeded");

    // A run that fails is one all the same.
    workspace.write("p.yaml", "pipeline: p\nparams: { n: 1 }\nstages: { a: { sql: \"SELECT 1 / (${params.n} - 3) AS x\" } }\n");
    workspace.proofmill(&["schedule", "trigger", "nightly"]).expect(0);
    let failed =
        workspace.proofmill(&["schedule", "tick", "--json"]).expect(1).says("did not succeed");
    assert_eq!(failed.json()[0][1]["ran"]["how"], "failed");
    assert_eq!(workspace.json(&["schedule", "tick"]), json!([["nightly", "nothing"]]));
}

#[test]
fn a_night_that_is_left_out_of_the_log_is_found() {
    let workspace = scheduled("");
    for _ in 0..2 {
        workspace.proofmill(&["schedule", "trigger", "nightly"]).expect(0);
        workspace.proofmill(&["schedule", "tick"]).expect(0);
    }
    workspace.proofmill(&["audit", "anchor", "--out", "head.txt"]).expect(0);
    let verify = || {
        workspace.proofmill(&["audit", "verify", "--all", "--level", "1", "--anchor", "head.txt"])
    };
    verify().expect(0);
    let second = workspace.proofmill(&["audit", "verifier"]).expect(0).stdout;
    workspace.write("verify.py", second);
    let python = || {
        let mut command = std::process::Command::new("python3");
        let output =
            command.args(["-B", "verify.py", "store"]).current_dir(workspace.path("")).output();
        output.unwrap().status.code()
    };
    assert_eq!(python(), Some(0));
    // The last decision that the end of a run names, with all after it.
    let keys = workspace.keys("schedules/");
    let texts: Vec<String> =
        keys.iter().map(|key| workspace.read(&format!("store/{key}"))).collect();
    for key in &keys[keys.len() - 2..] {
        fs::remove_file(workspace.path("store").join(key)).unwrap();
    }
    verify().expect(1);
    assert_eq!(python(), Some(1));
    for (key, text) in keys.iter().zip(&texts) {
        workspace.write(&format!("store/{key}"), text);
    }
    verify().expect(0);
    crate::support::forge(&workspace.path("store").join(&keys[1]), "triggered", "due");
    assert!(verify().expect(1).stdout.contains("chain broken"));
    assert_eq!(python(), Some(1));
}

#[test]
fn a_log_with_foreign_bytes_is_named_and_fires_nothing() {
    let workspace = scheduled("");
    workspace.proofmill(&["schedule", "trigger", "nightly"]).expect(0);
    let last = workspace.keys("schedules/").pop().unwrap();
    workspace.write(&format!("store/{last}"), "{}\n");
    for command in ["tick", "status"] {
        let done = workspace.proofmill(&["schedule", command]);
        assert!(done.code != Some(0) && done.stderr.contains(&last), "{command}: {done:#?}");
    }
    assert_eq!(workspace.json(&["runs"]), json!([]));
}
