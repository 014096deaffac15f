//! Scripts that attack the program: that they run, and see what they look for.

use std::io::Write;
use std::process::Command;

use crate::caching::identity::FITS;
use crate::support::Workspace;
use crate::tree::tidy::root;

#[test]
fn killed_runs_are_compared_with_an_undisturbed_one() {
    let pipeline = |seed: &str| {
        format!(
            "pipeline: killed\nstages:\n  a: {{ sql: \"SELECT value AS x FROM generate_series(1, 50000)\" }}\n  b: {{ sql: \"SELECT x, {seed} AS y FROM a\" }}\n"
        )
    };
    let workspace = Workspace::with(&pipeline("x * 2"));
    let killed = || {
        let done = Command::new("python3")
            .current_dir(workspace.path(""))
            .arg("-B")
            .arg(root().join("tests/attacks/kills.py"))
            .args([
                "p.yaml",
                "--rounds",
                "2",
                "--each",
                "2",
                "--bin",
                env!("CARGO_BIN_EXE_proofmill"),
            ])
            .output()
            .unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let (code, said) = killed();
    assert!(
        code == Some(0) && said.contains("2 rounds of 2 tables: 0 rounds with other"),
        "{said}"
    );
    workspace.write("p.yaml", pipeline("random()"));
    let (code, said) = killed();
    assert!(code == Some(1) && said.contains("1 of 2 tables differ: b"), "{said}");
}

#[test]
fn fits_that_are_killed_beside_others_give_the_same_model() {
    let workspace = Workspace::with(FITS);
    let done = Command::new("python3")
        .current_dir(workspace.path(""))
        .arg("-B")
        .arg(root().join("tests/attacks/kills.py"))
        .args(["p.yaml", "--rounds", "2", "--each", "1", "--at-once", "2", "--folder", "made"])
        .args(["--bin", env!("CARGO_BIN_EXE_proofmill")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    // Two tables, and the files of the model.
    let files = workspace.path("made").read_dir().unwrap().count();
    let right = format!("2 rounds of {} tables: 0 rounds with other tables", 2 + files);
    assert!(done.status.success() && files > 3 && said.contains(&right), "{said}");
}

#[test]
fn much_at_once_on_one_store_disturbs_nothing() {
    let workspace = Workspace::with(
        "pipeline: mixed\nstages:\n  a: { sql: \"SELECT value AS x FROM generate_series(1, 500)\" }\n  b: { sql: \"SELECT x, x * 2 AS y FROM a\" }\n",
    );
    let done = Command::new("python3")
        .current_dir(workspace.path(""))
        .arg("-B")
        .arg(root().join("tests/attacks/mixed.py"))
        .args(["p.yaml", "--rerun", "b", "--seconds", "2"])
        .args(["--bin", env!("CARGO_BIN_EXE_proofmill")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let right = "0 commands failed, 0 of 2 tables differ, 0 lessons are lost";
    assert!(
        done.status.success() && said.contains(right),
        "{said}{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn a_bucket_that_makes_faults_changes_no_table() {
    let python = std::env::var("PROOFMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = Command::new(&python).args(["-c", "import boto3, moto.server"]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        // Past the test runner's capture: what is skipped must be seen.
        let why = "no moto; see tests/attacks/requirements.txt";
        let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
        return;
    }
    let pipeline = |seed: &str| {
        format!(
            "pipeline: flaky\nstages:\n  r: {{ read: {{ path: r.csv }} }}\n  a: {{ sql: \"SELECT n, {seed} AS y FROM r\" }}\n"
        )
    };
    let workspace = Workspace::with(&pipeline("n * 2"));
    let rows: String = (0..60).map(|n| format!("{n}\n")).collect();
    workspace.write("r.csv", format!("n\n{rows}"));
    let disturbed = |rounds: &str| {
        let done = Command::new(&python)
            .current_dir(workspace.path(""))
            .arg("-B")
            .arg(root().join("tests/attacks/flaky_s3.py"))
            .args(["p.yaml", "--rounds", rounds, "--share", "0.2"])
            .args(["--bin", env!("CARGO_BIN_EXE_proofmill")])
            .output()
            .unwrap();
        let text = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, said) = disturbed("2");
    assert!(code == Some(0) && said.contains("of 2 tables: 0 runs with other tables"), "{said}");
    workspace.write("p.yaml", pipeline("random()"));
    let (code, said) = disturbed("1");
    assert!(code == Some(1) && said.contains("1 of 2 tables differ: a"), "{said}");
}
