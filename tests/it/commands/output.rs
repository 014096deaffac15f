//! What is printed is printed whole or is an error; a reader that went away is none.

use std::fs::OpenOptions;
use std::process::{Command, Output};

use crate::support::Workspace;

const PIPELINE: &str = "\
pipeline: p
stages:
  rows: { sql: \"SELECT value AS v, 'row ' || value AS text FROM generate_series(1, 5)\" }
  page: { report: { blocks: [{ table: { from: rows } }] } }
";

const BROKEN: &str = "pipeline: p\nstages: { a: { sql: SELECT 1 AS x, wrong: 1 } }\n";

/// Everything that prints to standard output.
const PRINTING: &[&[&str]] = &[
    &["--help"],
    &["help", "run"],
    &["--version"],
    &["run", "p.yaml"],
    &["run", "p.yaml", "--json"],
    &["plan", "p.yaml"],
    &["plan", "p.yaml", "--json"],
    &["check", "p.yaml", "--json"],
    &["test", "p.yaml", "--json"],
    &["why", "p.yaml", "rows"],
    &["why", "p.yaml", "rows", "--json"],
    &["runs"],
    &["runs", "--json"],
    &["show"],
    &["show", "rows"],
    &["show", "page"],
    &["show", "--json"],
    &["show", "rows", "--json"],
    &["show", "models"],
    &["sql", "SELECT * FROM rows"],
    &["sql", "SELECT * FROM rows", "--json"],
    &["sql", "SELECT * FROM rows", "--format", "csv"],
    &["sql", "SELECT * FROM rows", "--format", "jsonl"],
    &["sql", "SELECT * FROM rows", "--format", "vertical"],
    &["sql", "SELECT * FROM rows", "--output", "rows.csv", "--json"],
    &["teach", "add", "science", "A penny is made of zinc."],
    &["teach", "add", "science", "A penny is made of iron.", "--json"],
    &["teach", "undo", "science", "1"],
    &["teach", "list", "science"],
    &["teach", "history", "science", "--json"],
    &["teach", "memories"],
    &["schema"],
    &["explain"],
    &["explain", "E0101"],
    &["explain", "E0101", "--json"],
];

fn ran() -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    workspace.proofmill(&["teach", "add", "science", "A penny is made of copper."]).expect(0);
    workspace
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_be_printed_is_an_error() {
    let workspace = ran();
    for args in PRINTING {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = workspace.command(args).stdout(full).output().unwrap();
        let said = told(&output);
        assert_eq!(output.status.code(), Some(5), "{args:?}: {said}");
        assert!(said.contains("standard output cannot be written"), "{args:?}: {said}");
    }
    workspace.write("broken.yaml", BROKEN);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut check = workspace.command(&["check", "broken.yaml", "--json"]);
    assert_eq!(check.stdout(full).output().unwrap().status.code(), Some(5));
}

#[test]
fn a_failure_of_the_run_is_told_before_that_of_its_output() {
    let workspace = Workspace::with("pipeline: p\nstages: { a: { sql: SELECT 1 / 0 AS x } }\n");
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = workspace.command(&["run", "p.yaml", "--json"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
}

#[test]
fn a_reader_that_went_away_is_no_error() {
    let workspace = ran();
    let closed = |mut command: Command| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stdout(writer).output().unwrap()
    };
    for args in PRINTING {
        let output = closed(workspace.command(args));
        let said = told(&output);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        assert!(
            !said.contains("error:") && !said.contains("error[") && !said.contains("panicked"),
            "{args:?}: {said}"
        );
    }
    // It does not turn a failure into a success.
    workspace.write("broken.yaml", BROKEN);
    let output = closed(workspace.command(&["check", "broken.yaml", "--json"]));
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
}

#[test]
fn errors_that_cannot_be_told_still_have_their_code() {
    let workspace = ran();
    for (args, code) in [
        (&["sql", "SELECT * FROM nothing"][..], 2),
        (&["run", "absent.yaml"], 2),
        (&["unknown"], 2),
        (&["run", "p.yaml"], 0),
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = workspace.command(args).stderr(full).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}");
    }
}
