//! Which run is meant where none is named: the newest, and no older one in its place without a word, whatever
//! the store and the clocks do.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::support::Workspace;

const PIPELINE: &str = "\
pipeline: p
params: { n: 1 }
stages:
  a: { sql: \"SELECT ${params.n} AS x\" }
";
/// It reads a run of the other.
const READER: &str = "\
pipeline: reader
stages:
  old: { read: { run: p, stage: a } }
";

/// Two runs, and the folder of the newer.
fn two_runs() -> (Workspace, String, PathBuf) {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    workspace.json(&["run", "p.yaml", "--param", "n=2"]);
    workspace.write("reader.yaml", READER);
    let newest = workspace.json(&["runs"])[0]["run"].as_str().unwrap().to_owned();
    let folder = workspace.path("store/runs").join(&newest);
    assert!(folder.join("manifest.json").is_file());
    (workspace, newest, folder)
}

#[test]
fn no_older_one_is_taken_while_the_newest_cannot_be_read() {
    let (workspace, newest, folder) = two_runs();
    let manifest = folder.join("manifest.json");
    let whole = fs::read(&manifest).unwrap();
    // A link to itself: reading fails, and says nothing of whether it is there, as a server that does not answer.
    fs::remove_file(&manifest).unwrap();
    symlink(&manifest, &manifest).unwrap();
    for args in [
        &["sql", "SELECT x FROM a"][..],
        &["show"],
        &["show", "--run", "latest"],
        &["show", "--run", "p"],
        &["show", "--run", "p~1"],
        &["diff", "p~1", "p"],
        &["run", "p.yaml", "--resume", "latest"],
        &["run", "reader.yaml"],
    ] {
        let done = workspace.proofmill(args).expect(4).says(&newest);
        assert_eq!(done.stdout, "", "{args:?}");
    }
    fs::remove_file(&manifest).unwrap();
    fs::write(&manifest, whole).unwrap();
    assert_eq!(workspace.sql("SELECT x FROM a")[0]["x"], 2);
}

#[test]
fn a_newer_one_whose_records_are_lost_is_remarked_on() {
    let (workspace, newest, folder) = two_runs();
    fs::write(folder.join("manifest.json"), "{").unwrap();
    let first = fs::read_dir(folder.join("log")).unwrap().map(|entry| entry.unwrap().path()).min();
    fs::write(first.unwrap(), "{").unwrap();
    let lost = format!("the newer run {newest} are damaged");
    for name in ["latest", "p"] {
        workspace.proofmill(&["show", "--run", name]).expect(0).says(&lost);
    }
    workspace.proofmill(&["sql", "SELECT x FROM a"]).expect(0).says(&lost);
    workspace.proofmill(&["run", "reader.yaml"]).expect(0).says(&lost);
    workspace.proofmill(&["show", "--run", "p~1"]).expect(2).says(&newest);
    workspace.proofmill(&["show", "--run", &newest]).expect(4).says("damaged");
    // Where nothing is left, that is said as well.
    let runs = workspace.path("store/runs");
    for run in fs::read_dir(&runs).unwrap() {
        let run = run.unwrap().path();
        if run != folder {
            fs::remove_dir_all(run).unwrap();
        }
    }
    workspace.proofmill(&["show"]).expect(2).says("the store has no run").says(&newest);
}

#[test]
fn ids_go_on_behind_the_newest_when_clocks_differ() {
    let (workspace, _, folder) = two_runs();
    // A machine whose clock is ahead has left a run.
    let ahead = "20990101-000000000-aaaaaa";
    fs::create_dir(folder.with_file_name(ahead)).unwrap();
    fs::write(folder.with_file_name(ahead).join("x"), "").unwrap();
    let done = workspace.proofmill(&["run", "p.yaml", "--param", "n=3"]).expect(0);
    let done = done.says(&format!("behind run {ahead}")).says("one of the two clocks is wrong");
    assert!(done.stderr.contains("run 20990101-000000001-"), "{}", done.stderr);
    assert_eq!(workspace.sql("SELECT x FROM a")[0]["x"], 3);
    workspace.json(&["run", "p.yaml", "--param", "n=4"]);
    assert_eq!(workspace.sql("SELECT x FROM a")[0]["x"], 4);
    let runs = workspace.json(&["runs"]);
    let ids: Vec<_> = runs.as_array().unwrap().iter().map(|run| run["run"].as_str()).collect();
    assert!(ids.is_sorted_by(|a, b| a >= b) && ids[0] > Some(ahead), "{ids:?}");
    // An id without a moment is nobody's, and nothing is behind it.
    fs::create_dir(folder.with_file_name("99999999-999999999-aaaaaa")).unwrap();
    let done = workspace.proofmill(&["run", "p.yaml", "--param", "n=5"]).expect(0);
    assert!(done.stderr.contains("run 20990101-000000003-"), "{}", done.stderr);
}

/// A run of a part, one that failed, and one that goes on are no source.
#[test]
fn a_pipeline_reads_the_last_run_that_has_all_its_tables() {
    let workspace = Workspace::with(
        "\
pipeline: p
params: { n: 1, bad: 0 }
stages:
  a: { sql: \"SELECT ${params.n} AS x\" }
  m: { sql: \"SELECT x + 10 AS x FROM a\", checks: [{ expect: \"${params.bad} = 0\" }] }
",
    );
    workspace.write(
        "reader.yaml",
        "\
pipeline: reader
stages:
  a: { read: { run: p, stage: a } }
  m: { read: { run: p, stage: m } }
  both: { sql: \"SELECT a.x AS a, m.x AS m FROM a CROSS JOIN m\" }
",
    );
    let read = || workspace.proofmill(&["run", "reader.yaml"]);
    workspace.proofmill(&["run", "p.yaml", "--param", "bad=1"]).expect(1);
    read().expect(3).says("no run of `p` has succeeded").says("by its id");
    let whole = workspace.json(&["run", "p.yaml", "--param", "n=2"])["run"].clone();
    let whole = whole.as_str().unwrap();
    read().expect(0).says(&format!("`p` is run {whole}"));
    workspace.json(&["run", "p.yaml", "--select", "a", "--param", "n=3"]);
    workspace.proofmill(&["run", "p.yaml", "--param", "bad=1", "--param", "n=4"]).expect(1);
    let done = read().expect(0);
    done.says(&format!("has no table `m`; this is the last one that has, {whole}"))
        .says("did not succeed");
    let rows = workspace.sql("SELECT a, m FROM both");
    assert_eq!((rows[0]["a"].as_i64(), rows[0]["m"].as_i64()), (Some(2), Some(12)));
    // A table that no run has is a mistake, and names the newest.
    workspace.write("reader.yaml", "pipeline: r\nstages:\n  a: { read: { run: p, stage: mm } }\n");
    read().expect(3).says("has no table `mm`").says("expected one of");
}
