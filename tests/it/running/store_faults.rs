//! A store that lost or garbled something: it is noticed, mended where it can be, and never read as
//! something else.

use std::fs;

use serde_json::Value as Json;

use crate::support::{Workspace, executed, set};

const PIPELINE: &str = "\
pipeline: p
params: { least: 0 }
stages:
  rows: { sql: \"SELECT value AS v, 'row ' || value AS text FROM generate_series(1, 50)\" }
  kept: { sql: \"SELECT * FROM rows WHERE v > ${params.least}\" }
  memory: { index: { from: rows, fact: text } }
  found: { retrieve: { from: kept, query: text, id: v, memory: memory, top_k: 1 } }
";

/// A finished run and the key of the only object of `stage`'s data with this ending.
fn finished(stage: &str, ending: &str) -> (Workspace, String) {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    let keys = workspace.keys(&format!("/data/{stage}."));
    let key = keys.into_iter().find(|key| key.ends_with(ending)).unwrap();
    (workspace, key)
}

/// Changes one byte in the middle of an object.
fn flip(workspace: &Workspace, key: &str) {
    let path = workspace.path("store").join(key);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// The key of the artifact record of a stage.
fn record(workspace: &Workspace, stage: &str) -> String {
    let fingerprint =
        workspace.json(&["why", "p.yaml", stage])["fingerprint"].as_str().unwrap().to_owned();
    format!("artifacts/{}/{fingerprint}.json", &fingerprint[..2])
}

#[test]
fn a_lost_part_is_computed_again() {
    for (stage, ending) in [("rows", ".parquet"), ("memory", ".bin")] {
        let (workspace, key) = finished(stage, ending);
        let before = workspace.sql("SELECT * FROM rows ORDER BY v");
        fs::remove_file(workspace.path("store").join(&key)).unwrap();
        assert!(workspace.reason(stage).contains("missing"), "{}", workspace.reason(stage));
        assert_eq!(workspace.run(), set(&[stage]), "the rest is stored");
        assert_eq!(workspace.run(), set(&[]));
        assert_eq!(workspace.sql("SELECT * FROM rows ORDER BY v"), before);
    }
}

#[test]
fn a_part_of_another_length_is_computed_again() {
    let (workspace, key) = finished("rows", ".parquet");
    let path = workspace.path("store").join(&key);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(workspace.run(), set(&["rows"]));
    assert_eq!(workspace.run(), set(&[]));
}

#[test]
fn a_garbled_part_is_never_read_and_computed_again() {
    let (workspace, key) = finished("rows", ".parquet");
    flip(&workspace, &key);
    // Nothing needs its rows.
    assert_eq!(workspace.run(), set(&[]));
    let said = workspace.proofmill(&["sql", "SELECT * FROM rows"]).expect(4);
    said.says(&key).says("corrupt").says("proofmill run PIPELINE --verify");
    workspace.proofmill(&["show", "rows"]).expect(4).says(&key);
    let plan = workspace.json(&["plan", "p.yaml", "--param", "least=1"]);
    let reason = plan[0]["reason"].as_str().unwrap();
    assert!(reason.contains(&key) && reason.contains("corrupt"), "{reason}");
    let run = workspace.json(&["run", "p.yaml", "--param", "least=1"]);
    assert_eq!(executed(&run), set(&["rows", "kept", "found"]));
    assert_eq!(workspace.sql("SELECT sum(v) AS s FROM rows")[0]["s"], 1275);
    assert_eq!(workspace.json(&["run", "p.yaml", "--verify"])["outcome"], "succeeded");
}

#[test]
fn all_that_is_garbled_is_found_when_asked_for() {
    let (workspace, _) = finished("rows", ".parquet");
    for key in workspace.keys("/data/") {
        let copy = workspace.copy();
        flip(&copy, &key);
        let stage = key.rsplit('/').next().unwrap().split('.').next().unwrap();
        assert_eq!(copy.run(), set(&[]), "{key}");
        assert_eq!(executed(&copy.json(&["run", "p.yaml", "--verify"])), set(&[stage]), "{key}");
        assert_eq!(executed(&copy.json(&["run", "p.yaml", "--verify"])), set(&[]), "{key}");
    }
}

#[test]
fn a_garbled_index_is_never_asked_and_built_again() {
    let (workspace, _) = finished("memory", ".bin");
    let changed = ["run", "p.yaml", "--param", "least=1"];
    let found = "SELECT * FROM found ORDER BY query_id";
    let whole = workspace.copy();
    whole.json(&changed);
    for key in workspace.keys("/data/memory.") {
        let copy = workspace.copy();
        fs::remove_dir_all(copy.path("cache")).unwrap();
        flip(&copy, &key);
        let run = copy.json(&changed);
        assert_eq!(executed(&run), set(&["memory", "kept", "found"]), "{key}");
        assert_eq!(copy.sql(found), whole.sql(found), "{key}");
    }
}

#[test]
fn a_garbled_record_is_no_hit() {
    let (workspace, _) = finished("rows", ".parquet");
    let key = record(&workspace, "rows");
    let path = workspace.path("store").join(&key);
    let text = fs::read_to_string(&path).unwrap();
    for garbled in
        [&text[..text.len() / 2], "", "{}\n", &text.replace("\"rows\":50", "\"rows\":49")]
    {
        let copy = workspace.copy();
        fs::write(copy.path("store").join(&key), garbled).unwrap();
        assert!(copy.reason("rows").contains("missing"), "{}", copy.reason("rows"));
        assert_eq!(copy.run(), set(&["rows"]), "{garbled}");
        assert_eq!(copy.run(), set(&[]), "{garbled}");
        assert_eq!(copy.sql("SELECT count(*) AS n FROM rows")[0]["n"], 50);
    }
    // The record of another stage in its place is none of this one.
    let other = fs::read(workspace.path("store").join(record(&workspace, "kept"))).unwrap();
    fs::write(&path, other).unwrap();
    assert_eq!(workspace.run(), set(&["rows"]));
}

#[test]
fn an_edited_log_is_reported() {
    let workspace =
        Workspace::with(&PIPELINE.replace("> ${params.least}", "> 1 / ${params.least}"));
    workspace.proofmill(&["run", "p.yaml"]).expect(1);
    let mut entries = workspace.keys("/log/");
    entries.retain(|key| key.starts_with("runs/"));
    assert!(entries.len() >= 3, "{entries:?}");
    workspace.proofmill(&["runs"]).expect(0);
    let path = workspace.path("store").join(&entries[1]);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"rows\":50", "\"rows\":51")).unwrap();
    assert_ne!(fs::read_to_string(&path).unwrap(), text);
    workspace.proofmill(&["runs"]).expect(4).says(&entries[1]).says("damaged");
    fs::remove_file(&path).unwrap();
    workspace.proofmill(&["runs"]).expect(4).says("entry 1 is missing");
}

#[test]
fn what_a_killed_run_left_harms_nobody() {
    let (workspace, key) = finished("rows", ".parquet");
    let folder = workspace.path("store").join(&key).parent().unwrap().to_owned();
    fs::write(folder.join("rows.aaaaaaaaaa.0.parquet"), "half a part").unwrap();
    fs::write(folder.join("rows.aaaaaaaaaa.1.parquet#1"), "half a file").unwrap();
    workspace.write("store/artifacts/ff/notes.txt", "mine");
    assert_eq!(workspace.run(), set(&[]));
    let runs: Json = workspace.json(&["runs"]);
    assert_eq!(runs.as_array().unwrap().len(), 2);
}
