//! A run that is killed, stopped or run twice loses nothing, computes nothing twice and gives the
//! same tables. Delays come from a fixed seed; the scheduler still makes every run another one.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::support::{Workspace, executed, set, with_status};

/// Kills in all.
const KILLS: usize = 15;
/// The stages of the case with their columns.
const STAGES: [(&str, &str); 12] = [
    ("a", "v, k"),
    ("b", "v, k, g"),
    ("c", "g, n, s"),
    ("d", "v, k, r"),
    ("e", "v, s"),
    ("f", "v"),
    ("g", "v"),
    ("h", "x, s"),
    ("i", "x, s"),
    ("j", "x, s"),
    ("k", "s, n, m"),
    ("l", "s, name, value, ci_low, ci_high, n_attempted"),
];

/// A digest of the sorted rows of each table of the newest run.
fn tables(workspace: &Workspace) -> Vec<Json> {
    let digest = |(stage, columns): (&str, &str)| {
        format!(
            "SELECT '{stage}' AS stage, count(*) AS n, \
             encode(sha256(string_agg(line, ',' ORDER BY line)), 'hex') AS digest \
             FROM (SELECT concat_ws('|', {columns}) AS line FROM {stage}) AS {stage}"
        )
    };
    let all: Vec<_> = STAGES.into_iter().map(digest).collect();
    let mut rows = workspace.sql(&all.join(" UNION ALL "));
    rows.sort_by_key(|row| row["stage"].to_string());
    assert_eq!(rows.len(), STAGES.len());
    assert_eq!(rows[0]["n"], 60_000);
    rows
}

/// The stages whose artifact is recorded.
fn recorded(workspace: &Workspace) -> BTreeSet<String> {
    let stage = |key: &String| -> Json {
        let text = fs::read_to_string(workspace.path("store").join(key)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let keys = workspace.keys("artifacts/");
    // What a killed process was still writing has another name.
    let keys = keys.iter().filter(|key| key.ends_with(".json"));
    keys.map(|key| stage(key)["stage"].as_str().unwrap().to_owned()).collect()
}

/// The stages that the program said it computed.
fn said_done(workspace: &Workspace, log: &str) -> BTreeSet<String> {
    let log = workspace.read(log);
    let done = log.lines().filter_map(|line| line.strip_prefix("done ")?.split_once(':'));
    done.map(|(stage, _)| stage.to_owned()).collect()
}

/// Waits until the program's standard error, the file `log`, says something.
fn wait_for(workspace: &Workspace, log: &str, text: &str) {
    let began = Instant::now();
    while !workspace.read(log).contains(text) {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", workspace.read(log));
        sleep(Duration::from_millis(5));
    }
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// Runs until something is done, then stops the run as Ctrl-C does.
fn stopped(workspace: &Workspace) -> Json {
    let child = workspace.start(&["run", "p.yaml", "--json"], "stopped.log");
    wait_for(workspace, "stopped.log", "done a:");
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let log = workspace.read("stopped.log");
    assert_eq!(output.status.code(), Some(130), "{log}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn killed_at_any_point() {
    let reference = Workspace::of_case("resume");
    reference.run();
    let expected = tables(&reference);
    let mut random = 0x5eed_u64;
    let mut delay = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(60 + (random >> 33) % 500)
    };
    let mut workspace = Workspace::of_case("resume");
    let (mut kills, mut finished, mut resumed) = (0, 0, 0);
    while kills < KILLS || finished == 0 {
        let before = recorded(&workspace);
        let mut child = workspace.start(&["run", "p.yaml"], "run.log");
        if kills < KILLS {
            sleep(delay());
            child.kill().unwrap();
        }
        let status = child.wait().unwrap();
        let again: Vec<_> =
            said_done(&workspace, "run.log").intersection(&before).cloned().collect();
        assert_eq!(again, [""; 0], "was recorded and computed again");
        resumed += usize::from(!before.is_empty());
        if status.success() {
            assert_eq!(tables(&workspace), expected);
            assert_eq!(workspace.run(), set(&[]));
            finished += 1;
            workspace = Workspace::of_case("resume");
        } else {
            assert_eq!(status.code(), None, "{}", workspace.read("run.log"));
            kills += 1;
        }
    }
    assert!(resumed >= KILLS / 2, "only {resumed} runs found something to go on with");
}

#[test]
fn stopped_by_hand_and_resumed_under_the_same_name() {
    let workspace = Workspace::of_case("resume");
    let first = stopped(&workspace);
    assert_eq!(first["outcome"], "interrupted");
    let run = first["run"].as_str().unwrap();
    let log = workspace.read("stopped.log");
    let command = format!("proofmill run p.yaml --store store --resume {run}");
    assert!(log.contains(&format!("`{command}` resumes it")), "{log}");
    assert_eq!(workspace.json(&["runs"])[0]["outcome"], "stopped");
    assert!(workspace.keys("manifest.json").is_empty(), "a stopped run is not published");

    let second = workspace.json(&["run", "p.yaml", "--resume", "latest"]);
    assert_eq!((&second["run"], &second["outcome"]), (&first["run"], &Json::from("succeeded")));
    let (done, again) = (executed(&first), executed(&second));
    assert!(done.contains("a") && done.is_disjoint(&again), "{done:?} {again:?}");
    assert_eq!(with_status(&second, "cached").len() + again.len(), STAGES.len());
    let runs = workspace.json(&["runs"]);
    assert_eq!(
        (runs.as_array().unwrap().len(), &runs[0]["outcome"]),
        (1, &Json::from("succeeded"))
    );
    assert_eq!(tables(&workspace)[0]["n"], 60_000);
}

/// The command that is printed works as it stands, and `latest` is of the pipeline that is run.
#[test]
fn a_stopped_run_goes_on_by_the_printed_command_whatever_ran_since() {
    let workspace = Workspace::of_case("resume");
    let run = stopped(&workspace)["run"].clone();
    let other = "pipeline: other\nstages:\n  x: { sql: SELECT 1 AS x }\n";
    workspace.write("other.yaml", other);
    workspace.json(&["run", "other.yaml"]);
    let log = workspace.read("stopped.log");
    let command = log.lines().find(|line| line.contains("` resumes it")).unwrap();
    let command = command.split('`').nth(1).unwrap();
    let words: Vec<&str> = command.split(' ').skip(1).chain(["--select", "a"]).collect();
    assert_eq!(workspace.json(&words)["run"], run);
    workspace.write("other.yaml", other.replace("other", "third"));
    let latest = ["run", "other.yaml", "--resume", "latest"];
    workspace.proofmill(&latest).expect(2).says("no run of a pipeline `third`");
}

/// A refused resume once took the run over first, and so fenced off whoever was running it.
#[test]
fn a_run_is_only_resumed_as_what_it_was_and_otherwise_left_alone() {
    let workspace = Workspace::of_case("resume");
    let run = stopped(&workspace)["run"].as_str().unwrap().to_owned();
    let entries = workspace.keys("/log/");
    let other = ["run", "p.yaml", "--resume", &run, "--param", "rows=10"];
    workspace.proofmill(&other).expect(2).says("other parameters");
    let text = workspace.read("p.yaml");
    workspace.write("q.yaml", text.replace("pipeline: chain", "pipeline: other"));
    workspace.proofmill(&["run", "q.yaml", "--resume", &run]).expect(2).says("another file");
    workspace.proofmill(&["run", "p.yaml", "--resume", "20200101-000000000-aaaaaa"]).expect(2);
    workspace.proofmill(&["run", "p.yaml", "--resume", "nonsense"]).expect(2);
    assert_eq!(workspace.keys("/log/"), entries, "a refused resume wrote to the log");

    workspace.json(&["run", "p.yaml", "--resume", &run]);
    let entries = workspace.keys("/log/");
    let again = workspace.proofmill(&["run", "p.yaml", "--resume", &run]).expect(2);
    again.says("has succeeded and cannot be resumed");
    assert_eq!(workspace.keys("/log/"), entries, "a refused resume wrote to the log");
}

#[test]
fn two_at_the_same_time() {
    let reference = Workspace::of_case("resume");
    reference.run();
    let workspace = Workspace::of_case("resume");
    let both = ["one.log", "two.log"].map(|log| (log, workspace.start(&["run", "p.yaml"], log)));
    for (log, child) in both {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", workspace.read(log));
    }
    let runs = workspace.json(&["runs"]);
    let outcomes: Vec<_> = runs.as_array().unwrap().iter().map(|run| &run["outcome"]).collect();
    assert_eq!(outcomes, ["succeeded", "succeeded"]);
    assert_eq!(tables(&workspace), tables(&reference));
    assert_eq!(workspace.run(), set(&[]));
}
