//! Whether a run is alive: signals that stop it, who may go on with it, and what it leaves behind.

use std::fs;
use std::io::Write;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::caching::replaced::flip;
use crate::support::{Workspace, set};

/// A pipeline one of whose stages takes minutes.
fn long() -> Workspace {
    Workspace::with(
        "pipeline: long\nstages:\n  quick: { sql: \"SELECT 1 AS x\" }\n  numbers: { sql: \"SELECT \
         unnest(range(200000)) AS v\" }\n  slow: { sql: \"SELECT count(*) AS n FROM numbers AS a, \
         numbers AS b WHERE a.v * b.v % 7 = 3\" }\n",
    )
}

/// A run under way, which a test that fails does not leave behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `p.yaml` and waits until a stage is done.
fn started(workspace: &Workspace) -> Running {
    let child = Running(workspace.start(&["run", "p.yaml"], "run.log"));
    let began = Instant::now();
    while !workspace.read("run.log").contains("done numbers") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", workspace.read("run.log"));
        sleep(Duration::from_millis(5));
    }
    child
}

fn send(child: &Running, signal: &str) {
    let status = Command::new("kill").args([signal, &child.0.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// The exit code of a run that was told to stop.
fn code(child: &mut Running) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            return status.code();
        }
        assert!(began.elapsed() < Duration::from_secs(120), "the run goes on");
        sleep(Duration::from_millis(5));
    }
}

/// Whether who runs these tests ignores SIGHUP, as `nohup` does: programs that they start do as well.
fn ignores_hangups() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1)
}

fn outcome(workspace: &Workspace) -> Json {
    workspace.json(&["runs"])[0]["outcome"].clone()
}

#[test]
fn what_service_managers_send_stops_a_run_as_ctrl_c_does() {
    for signal in ["-TERM", "-HUP", "-INT"] {
        if signal == "-HUP" && ignores_hangups() {
            // Past the test runner's capture: what is skipped must be seen.
            let _ = writeln!(std::io::stderr(), "SKIPPED: SIGHUP is ignored here");
            continue;
        }
        let workspace = long();
        let mut child = started(&workspace);
        assert_eq!(outcome(&workspace), "running");
        send(&child, signal);
        assert_eq!(code(&mut child), Some(130), "{signal}");
        let log = workspace.read("run.log");
        assert!(log.contains("` resumes it"), "{signal}: {log}");
        assert_eq!(outcome(&workspace), "stopped", "{signal}");
    }
}

#[test]
fn a_hangup_that_nohup_ignores_is_ignored() {
    let workspace = long();
    let mut command = Command::new("nohup");
    let program = workspace.command(&["run", "p.yaml"]);
    command.arg(program.get_program()).args(program.get_args());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let log = fs::File::create(workspace.path("run.log")).unwrap();
    command
        .current_dir(workspace.path(""))
        .stdout(fs::File::create(workspace.path("out")).unwrap());
    let mut child = Running(command.stderr(log).spawn().unwrap());
    let began = Instant::now();
    while !workspace.read("run.log").contains("done numbers") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", workspace.read("run.log"));
        sleep(Duration::from_millis(5));
    }
    send(&child, "-HUP");
    // A signal that is not ignored comes later, and is what ends it.
    sleep(Duration::from_millis(300));
    assert_eq!(outcome(&workspace), "running");
    send(&child, "-TERM");
    assert_eq!(code(&mut child), Some(130));
}

#[test]
fn a_live_run_is_left_alone_and_a_dead_one_is_not() {
    let workspace = long();
    let mut child = started(&workspace);
    let refused = workspace.proofmill(&["run", "p.yaml", "--resume", "latest"]).expect(2);
    refused.says("is alive").says("proofmill runs stop");
    for entry in workspace.keys("/log/") {
        let text = workspace.read(&format!("store/{entry}"));
        assert!(!text.contains("\"fence\""), "a refused resume wrote to the log");
    }
    assert_eq!(outcome(&workspace), "running");
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert_eq!(outcome(&workspace), "dead");
    let done = workspace.proofmill(&["run", "p.yaml", "--resume", "latest", "--select", "numbers"]);
    done.expect(0);
    assert_eq!(outcome(&workspace), "succeeded");
}

#[test]
fn a_run_goes_on_only_with_the_same_templates() {
    let workspace = long();
    workspace.write("t.yaml", "template: t\nstages:\n  x: { sql: \"SELECT 2 AS x\" }\n");
    workspace.edit("p.yaml", "stages:\n", "stages:\n  g: { use: t.yaml }\n");
    let mut child = started(&workspace);
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    workspace.edit("t.yaml", "SELECT 2", "SELECT 3");
    let resume = ["run", "p.yaml", "--resume", "latest", "--select", "quick"];
    workspace.proofmill(&resume).expect(2).says("other templates: `t.yaml`");
    workspace.edit("t.yaml", "SELECT 3", "SELECT 2");
    workspace.proofmill(&resume).expect(0);
    let manifest: Json = serde_json::from_str(
        &workspace.read(&format!("store/{}", workspace.keys("manifest.json")[0])),
    )
    .unwrap();
    assert_eq!(manifest["templates"].as_object().unwrap().len(), 1);
    assert!(!manifest["machine"]["host"].as_str().unwrap().is_empty());
    assert!(manifest["machine"]["jobs"].as_u64().unwrap() >= 1);
    assert!(!manifest["code"]["build"].as_str().unwrap().is_empty());
}

#[test]
fn a_damaged_manifest_stops_nothing() {
    let workspace = Workspace::with(
        "pipeline: p\nparams: { least: 0 }\nstages:\n  a: { sql: \"SELECT value AS v FROM \
         generate_series(1, 9)\" }\n  b: { sql: \"SELECT * FROM a WHERE v > ${params.least}\" }\n",
    );
    workspace.run();
    let key = workspace.keys("manifest.json").remove(0);
    let path = workspace.path("store").join(&key);
    let whole = fs::read(&path).unwrap();
    for damage in ["cut", "flipped", "empty"] {
        match damage {
            "cut" => fs::write(&path, &whole[..whole.len() / 2]).unwrap(),
            "flipped" => {
                fs::write(&path, &whole).unwrap();
                flip(&path);
            }
            _ => fs::write(&path, "").unwrap(),
        }
        // The log holds the same.
        for args in [&["runs"][..], &["show"], &["show", "b"], &["sql", "SELECT * FROM b"]] {
            workspace.proofmill(args).expect(0).says(&key).says("is shown from its log");
        }
        workspace.proofmill(&["plan", "p.yaml", "--param", "least=1"]).expect(0).says(&key);
        // The audit log names the pipeline of the run, so that others need not know of it.
        workspace.write("q.yaml", workspace.read("p.yaml").replace("pipeline: p", "pipeline: q"));
        let plan = workspace.proofmill(&["plan", "q.yaml", "--param", "least=1"]).expect(0);
        assert!(!plan.stderr.contains(&key), "{}", plan.stderr);
    }
    let changed = workspace.proofmill(&["run", "p.yaml", "--param", "least=2"]).expect(0);
    changed.says(&key);
    assert_eq!(workspace.run(), set(&[]));
}
