//! A table that takes the place of another under the same fingerprint: everything below it follows, and
//! runs of the past keep theirs.

use std::fs;
use std::path::Path;

use proofmill_base::digest::Digest;
use serde_json::{Value as Json, json};

use crate::server::{Reply, serve};
use crate::support::{Workspace, set, with_status};

/// Refuses the first two requests for good, as if they were wrong; answers all others.
fn two_refused(place: usize, body: &Json) -> (&'static str, Json) {
    if place <= 2 {
        return ("400 Bad Request", json!({ "error": { "message": "not so" } }));
    }
    let text = body["prompt"].as_str().unwrap_or_default().to_uppercase();
    let choice = json!({ "index": 0, "text": text, "finish_reason": "stop" });
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": 2 });
    ("200 OK", json!({ "choices": [choice], "usage": usage }))
}

/// Is too busy for the first two requests.
fn two_too_many(place: usize, body: &Json) -> (&'static str, Json) {
    match place {
        ..=2 => ("503 Busy", json!({ "error": { "message": "try again" } })),
        _ => two_refused(place, body),
    }
}

/// A run of which two of five answers failed: `n` counts the answers, `m` averages, `out` exports.
fn with_failures() -> Workspace {
    run_against(two_refused)
}

fn run_against(reply: Reply) -> Workspace {
    let (url, _) = serve(reply);
    let workspace = Workspace::with(&format!(
        "pipeline: far\nmodels:\n  far: {{ url: \"{url}\", model: small, retries: 0, concurrency: 1 }}\n\
         stages:\n  asked: {{ sql: \"SELECT 'r' || n AS row_id, 'cat ' || n AS q \
         FROM (SELECT unnest(range(5)) AS n)\" }}\n  answers:\n    generate: {{ from: asked, \
         model: far, prompt: q, options: {{ max_tokens: 9 }} }}\n    on_error: capture\n    \
         max_error_rate: 0.9\n  n: {{ sql: \"SELECT count(*) AS n FROM answers\" }}\n  twice: {{ sql: \
         \"SELECT n * 2 AS n FROM n\" }}\n  aside: {{ sql: \"SELECT count(*) AS n FROM asked\" }}\n  \
         out: {{ write: {{ from: n, path: out.csv }} }}\n"
    ));
    assert_eq!(workspace.run().len(), 6);
    assert_eq!(counts(&workspace, "latest"), (3, 3, 6));
    workspace
}

/// Rows of `answers`, and what `n` and `twice` say, in a run.
fn counts(workspace: &Workspace, run: &str) -> (i64, i64, i64) {
    let sql = "SELECT (SELECT count(*) FROM answers) AS a, (SELECT n FROM n) AS n, \
               (SELECT n FROM twice) AS twice";
    let row = &workspace.json(&["sql", "--run", run, sql])[0];
    let number = |name: &str| row[name].as_i64().unwrap();
    (number("a"), number("n"), number("twice"))
}

fn latest(workspace: &Workspace) -> String {
    workspace.json(&["runs"])[0]["run"].as_str().unwrap().to_owned()
}

/// The reasons that `plan` gives, by stage, and what becomes of each.
fn planned(workspace: &Workspace, args: &[&str], stage: &str) -> (String, String) {
    let args: Vec<&str> = ["plan", "p.yaml"].into_iter().chain(args.iter().copied()).collect();
    let plan = workspace.json(&args);
    let line = plan.as_array().unwrap().iter().find(|line| line["stage"] == stage).unwrap();
    let text = |name: &str| line[name].as_str().unwrap().to_owned();
    (text("action"), text("reason"))
}

#[test]
fn what_is_below_a_rerun_stage_follows() {
    let workspace = with_failures();
    let before = latest(&workspace);
    let rerun = ["--rerun", "answers"];
    assert_eq!(planned(&workspace, &rerun, "answers").0, "run");
    let (action, reason) = planned(&workspace, &rerun, "n");
    assert_eq!(action, "revalidate");
    assert!(reason.contains("runs if `answers` changes"), "{reason}");
    assert_eq!(planned(&workspace, &rerun, "aside").0, "cached");
    assert_eq!(planned(&workspace, &[], "n").0, "cached");
    let run = workspace.json(&["run", "p.yaml", "--rerun", "answers"]);
    assert_eq!(with_status(&run, "computed"), set(&["answers", "n", "twice", "out"]));
    assert_eq!(counts(&workspace, "latest"), (5, 5, 10));
    assert_eq!(workspace.read("out.csv"), "n\n5\n");
    // The past is what it was.
    assert_eq!(counts(&workspace, &before), (3, 3, 6));
    let shown = workspace.json(&["show", "answers", "--run", &before, "--rows", "9"]);
    assert_eq!(shown["rows"].as_array().unwrap().len(), 3);
    assert_eq!(shown["artifact"]["rows"], 3);
    let errors = workspace.json(&["sql", "--run", &before, "SELECT * FROM answers__errors"]);
    assert_eq!(errors.as_array().unwrap().len(), 2);
    assert_eq!(workspace.run(), set(&[]), "now all is as it should be");
}

#[test]
fn failures_that_may_pass_are_asked_again_by_the_next_run() {
    let workspace = run_against(two_too_many);
    let (action, reason) = planned(&workspace, &[], "answers");
    assert_eq!((action.as_str(), reason.as_str()), ("run", "2 rows failed with transient errors"));
    assert_eq!(workspace.run(), set(&["answers", "n", "twice", "out"]));
    assert_eq!(counts(&workspace, "latest"), (5, 5, 10));
    assert_eq!(workspace.run(), set(&[]));
    // Those of the input stay as they are.
    assert_eq!(with_failures().run(), set(&[]));
}

#[test]
fn what_comes_out_as_it_was_changes_nothing_below() {
    let workspace = with_failures();
    let run = workspace.json(&["run", "p.yaml", "--rerun", "asked"]);
    assert_eq!(with_status(&run, "computed"), set(&["asked"]));
    assert_eq!(with_status(&run, "cached"), set(&["answers", "n", "twice", "aside", "out"]));
}

#[test]
fn what_is_below_a_stage_that_ran_alone_follows_later() {
    let workspace = with_failures();
    let run = workspace.json(&["run", "p.yaml", "--rerun", "answers", "--select", "answers"]);
    assert_eq!(with_status(&run, "computed"), set(&["answers"]));
    let (action, reason) = planned(&workspace, &[], "n");
    assert_eq!(
        (action.as_str(), reason.as_str()),
        ("run", "it was computed from another table of `answers`")
    );
    let why = workspace.proofmill(&["why", "p.yaml", "n"]).expect(0).stdout;
    assert!(why.contains("would run: it was computed from another table of `answers`"), "{why}");
    assert_eq!(planned(&workspace, &[], "twice").0, "revalidate");
    assert_eq!(workspace.run(), set(&["n", "twice", "out"]));
    assert_eq!(counts(&workspace, "latest"), (5, 5, 10));
}

#[test]
fn what_is_below_a_lost_or_damaged_table_follows() {
    for lost in [true, false] {
        let workspace = with_failures();
        let before = latest(&workspace);
        let key = workspace.keys("/data/answers.").remove(0);
        let path = workspace.path("store").join(&key);
        if lost {
            fs::remove_file(&path).unwrap();
        } else {
            flip(&path);
        }
        // A damaged part is found when something reads it, or when all are checked.
        let run = workspace.json(&["run", "p.yaml", "--verify"]);
        assert_eq!(with_status(&run, "computed"), set(&["answers", "n", "twice", "out"]));
        assert_eq!(counts(&workspace, "latest"), (5, 5, 10));
        // The table of the past is gone, and nothing else is shown in its place.
        workspace
            .proofmill(&["sql", "--run", &before, "SELECT * FROM answers"])
            .expect(4)
            .says(&key);
        assert_eq!(
            workspace.json(&["sql", "--run", &before, "SELECT n FROM n"]),
            json!([{"n": 3}])
        );
        assert_eq!(workspace.run(), set(&[]));
    }
}

#[test]
fn a_trace_of_the_past_reads_the_tables_of_the_past() {
    let workspace = with_failures();
    let before = latest(&workspace);
    workspace.json(&["run", "p.yaml", "--rerun", "answers"]);
    for key in workspace.keys("artifacts/").iter().filter(|key| key.matches('.').count() == 2) {
        fs::remove_file(workspace.path("store").join(key)).unwrap();
    }
    // Without the record that the run names, it is refused rather than answered from another.
    let refused =
        workspace.proofmill(&["sql", "--run", &before, "SELECT * FROM answers"]).expect(4);
    refused.says("is not the record that the run names");
    workspace.proofmill(&["show", "n", "--run", &before]).expect(4);
    assert_eq!(counts(&workspace, "latest"), (5, 5, 10));
}

/// Records of version 1 did not say what they were made of.
#[test]
fn a_record_that_does_not_say_what_it_was_made_of_is_no_hit() {
    let workspace = Workspace::with(
        "pipeline: p\nstages:\n  a: { sql: \"SELECT 1 AS x\" }\n  b: { sql: \"SELECT x + 1 AS x FROM a\" }\n",
    );
    workspace.run();
    for key in workspace.keys("artifacts/") {
        let path = workspace.path("store").join(key);
        let mut record: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let fields = record.as_object_mut().unwrap();
        fields.remove("sha256");
        fields.remove("inputs");
        fields.remove("transient_errors");
        fields.insert("v".to_owned(), json!(1));
        seal(&path, &record);
    }
    let (action, reason) = planned(&workspace, &[], "b");
    assert_eq!(action, "run", "{reason}");
    assert!(reason.contains("did not record which tables it was computed from"), "{reason}");
    assert_eq!(workspace.run(), set(&["b"]), "what has no inputs is what it was");
    assert_eq!(workspace.run(), set(&[]));
    assert_eq!(workspace.sql("SELECT x FROM b"), [json!({"x": 2})]);
}

#[test]
fn checks_that_ask_for_something_volatile_run_every_time() {
    let workspace = Workspace::with(
        "pipeline: p\nstages:\n  a:\n    sql: \"SELECT 1 AS x\"\n    checks: [{ expect: \"random() < 0.5\" }]\n",
    );
    // The stage itself is computed once it passes; each later run is as likely to fail.
    let codes: Vec<_> = (0..64).map(|_| workspace.proofmill(&["run", "p.yaml"]).code).collect();
    let passed = codes.iter().position(|code| *code == Some(0)).unwrap();
    assert!(codes[passed..].contains(&Some(1)), "a check that passed once was not run again");
    assert!(codes.iter().all(|code| matches!(code, Some(0 | 1))), "{codes:?}");
}

/// Changes one byte in the middle of a file.
pub fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Writes a record with a seal that holds.
pub fn seal(path: &Path, record: &Json) {
    let text = record.to_string();
    let body = text.strip_suffix('}').unwrap();
    let digest = Digest::of(body.as_bytes());
    fs::write(path, format!("{body},\"sha256\":\"{digest}\"}}\n")).unwrap();
}
