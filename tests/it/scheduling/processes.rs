//! Several processes that look after one schedule, killed at any moment: each planned instant is one run.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

use proofmill_base::rng::{Rng as _, SeededRng};
use serde_json::{Value as Json, json};

use crate::scheduling::commands::scheduled;
use crate::support::Workspace;

/// The entries of the audit log, earliest first.
fn audit_log(workspace: &Workspace) -> Vec<Json> {
    let mut log = workspace.json(&["audit", "log", "--limit", "0"]).as_array().unwrap().clone();
    log.reverse();
    log
}

#[test]
fn processes_that_are_killed_give_one_run_for_each_instant() {
    let workspace = scheduled("");
    let range = ["--from", "2026-01-01", "--to", "2026-03-02"];
    let backfill = [&["schedule", "backfill", "nightly"][..], &range].concat();
    workspace.proofmill(&backfill).expect(0).says("60 instants");
    let rng = SeededRng::new(11);
    let (mut running, mut kills) = (Vec::new(), 0);
    let began = Instant::now();
    let is_done = || {
        let status = workspace.json(&["schedule", "status"]);
        status[0]["waiting"] == json!(0) && status[0]["open"].is_null()
    };
    while !is_done() {
        assert!(began.elapsed() < Duration::from_secs(240), "it does not come to an end");
        while running.len() < 3 {
            let name = format!("tick{}.log", rng.next_u64());
            running.push(workspace.start(&["schedule", "tick"], &name));
        }
        sleep(Duration::from_millis(rng.next_u64() % 90));
        let at = (rng.next_u64() % 3) as usize;
        let mut killed = running.swap_remove(at);
        kills += u32::from(killed.try_wait().unwrap().is_none());
        killed.kill().unwrap();
        killed.wait().unwrap();
        running.retain_mut(|child| child.try_wait().unwrap().is_none());
    }
    for mut child in running {
        let _ = child.kill();
        child.wait().unwrap();
    }
    assert!(kills > 0, "{kills} processes were killed while they ran");
    let history = workspace.json(&["schedule", "history", "nightly", "--limit", "1000"]);
    let fired: Vec<&Json> = history
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["what"] == "fired, backfilled")
        .collect();
    let planned: BTreeSet<&str> = fired.iter().filter_map(|line| line["first"].as_str()).collect();
    assert_eq!((fired.len(), planned.len()), (60, 60), "{history:#}");
    // A run that was killed was resumed under its own id: none began twice, and each has one end.
    let (mut began, mut ended): (BTreeMap<String, u32>, BTreeMap<String, u32>) = Default::default();
    for entry in audit_log(&workspace) {
        let run = entry["run"].as_str().unwrap_or_default().to_owned();
        if entry["event"]["run_began"]["trigger"]["kind"] == "schedule" {
            *began.entry(run).or_default() += 1;
        } else if entry["event"]["run_ended"]["how"] == "succeeded" {
            *ended.entry(run).or_default() += 1;
        }
    }
    assert_eq!((began.len(), ended.len()), (60, 60), "{began:?} {ended:?}");
    assert!(ended.values().all(|ends| *ends == 1), "{ended:?}");
    let verified = workspace.json(&["audit", "verify", "--all", "--level", "3"]);
    assert_eq!(verified["findings"], json!([]), "after {kills} kills");
}

#[test]
fn a_run_is_stopped_from_elsewhere_and_can_be_resumed() {
    let workspace = Workspace::with(
        "pipeline: long\nstages:\n  numbers: { sql: \"SELECT unnest(range(200000)) AS v\" }\n  slow: { sql: \"SELECT \
         count(*) AS n FROM numbers AS a, numbers AS b WHERE a.v * b.v % 7 = 3\" }\n",
    );
    let mut child = workspace.start(&["run", "p.yaml"], "run.log");
    let began = Instant::now();
    while !workspace.read("run.log").contains("done numbers") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", workspace.read("run.log"));
        sleep(Duration::from_millis(5));
    }
    // With its beats it says how far it is.
    let began = Instant::now();
    let progress = loop {
        let runs = workspace.json(&["runs"]);
        if let Some(progress) = runs[0].get("progress") {
            break progress.clone();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{runs:#}");
        sleep(Duration::from_millis(200));
    };
    assert_eq!((&progress["stages"], &progress["ended"]), (&json!(2), &json!(1)), "{progress:#}");
    assert_eq!(progress["running"][0]["stage"], "slow");
    let shown = workspace.proofmill(&["runs"]).stdout;
    assert!(shown.contains("running, 1 of 2 stages"), "{shown}");
    workspace.proofmill(&["runs", "stop", "latest"]).expect(0).says("stops within seconds");
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it goes on");
        sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(130));
    assert_eq!(workspace.json(&["runs"])[0]["outcome"], "stopped");
    workspace.proofmill(&["runs", "stop", "latest"]).expect(2).says("has ended");
    // The order is taken back when it goes on.
    workspace.edit("p.yaml", "200000", "200");
    let run = workspace.json(&["runs"])[0]["run"].as_str().unwrap().to_owned();
    assert_eq!(workspace.keys("stop.json").len(), 1);
    workspace.proofmill(&["run", "p.yaml", "--resume", &run]).expect(2).says("was started with");
    let other = workspace.proofmill(&["run", "p.yaml"]);
    assert_eq!(other.code, Some(0), "{other:#?}");
}

#[test]
fn a_daemon_starts_what_is_requested_and_ends_with_a_signal() {
    let workspace = scheduled("");
    let mut daemon = workspace.start(&["schedule", "run"], "daemon.log");
    workspace.proofmill(&["schedule", "trigger", "nightly"]).expect(0);
    let began = Instant::now();
    while !workspace.read("daemon.log").contains("succeeded") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", workspace.read("daemon.log"));
        sleep(Duration::from_millis(50));
    }
    let kill = std::process::Command::new("kill").arg(daemon.id().to_string()).status().unwrap();
    assert!(kill.success());
    assert_eq!(daemon.wait().unwrap().code(), Some(130));
    assert_eq!(workspace.json(&["runs"]).as_array().unwrap().len(), 1);
}
