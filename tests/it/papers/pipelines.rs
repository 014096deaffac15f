//! Every pipeline of the tree has no mistakes and passes its own tests.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::support::Workspace;

/// An encoder-decoder with random weights: what it says means nothing.
const ENTAILER: &str = "udfs/engine/tests/parity/data/t5";
/// A sentence encoder with random weights: what it finds means nothing, but it finds something.
const ENCODER: &str = "udfs/engine/tests/parity/data/bert-sentence";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pipelines() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("pipelines")).unwrap();
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    found.sort();
    assert!(found.len() >= 2, "the pipelines have moved");
    found
}

fn proofmill(command: &str, pipelines: &[PathBuf]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_proofmill"))
        .current_dir(root())
        .arg(command)
        .args(pipelines)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{command}: {stderr}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    stderr
}

#[test]
fn have_no_mistakes() {
    let said = proofmill("check", &pipelines());
    assert!(said.ends_with("no errors\n") && !said.contains("warning"), "{said}");
}

#[test]
fn pass_their_own_tests() {
    let stderr = proofmill("test", &pipelines());
    assert!(stderr.contains("passed") && !stderr.starts_with("0 "), "{stderr}");
}

#[test]
fn their_templates_pass_the_tests_of_the_cases() {
    let stderr = proofmill("test", &[root().join("tests/cases/recall_kinds.yaml")]);
    assert!(stderr.contains("3 tests passed"), "{stderr}");
}

#[test]
fn recall_has_dense_and_hybrid_ways_where_an_encoder_is_given() {
    let workspace = Workspace::new();
    let store = workspace.path("store").display().to_string();
    let encoder = format!("encoder={ENCODER}");
    let recall = "pipelines/recall.yaml --param kinds=bm25,dense,hybrid --param";
    let args: Vec<&str> =
        ["run"].into_iter().chain(recall.split(' ')).chain([encoder.as_str()]).collect();
    let mut run = workspace.command(&args);
    let output = run.current_dir(root()).env("PROOFMILL_STORE", &store).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    // 3 kinds, 2 situations and 4 ways, each for 40 questions.
    let asked = workspace.sql(
        "SELECT kind, count(*) AS n, count(DISTINCT query_id) AS questions FROM ranks
         GROUP BY kind ORDER BY kind",
    );
    let line = |kind: &str| json!({"kind": kind, "n": 320, "questions": 40});
    assert_eq!(asked, ["bm25", "dense", "hybrid"].map(line));
    // Ranks count from 1 without a gap; vectors and blends always have ten answers here.
    let rankings = workspace.sql(
        "SELECT kind, min(n) AS least, max(n) AS most, bool_and(n = last AND n = ranks) AS whole
         FROM (
           SELECT kind, count(*) AS n, max(rank) AS last, count(DISTINCT rank) AS ranks
           FROM ways.recalled GROUP BY kind, situation, way, query_id
         ) GROUP BY kind ORDER BY kind",
    );
    let line = |kind: &str| json!({"kind": kind, "least": 10, "most": 10, "whole": true});
    assert_eq!(rankings[1..], ["dense", "hybrid"].map(line));
    assert_eq!(rankings[0]["whole"], true);

    the_nearest_vectors_come_first(&workspace);
    the_evidence_is_that_of_both_rankings(&workspace);
}

/// All of TeachMe on the first questions, with an entailer that knows nothing.
#[test]
fn teachme_runs_with_any_entailer() {
    const EACH: usize = 5;
    let workspace = Workspace::new();
    let all = std::fs::read_to_string(root().join("data/science/questions.jsonl")).unwrap();
    let of = |split: &str| {
        let split = format!("\"split\": \"{split}\"");
        all.lines().filter(move |line| line.contains(&split)).take(EACH)
    };
    let some: Vec<&str> = of("train").chain(of("test")).collect();
    assert_eq!(some.len(), 2 * EACH);
    workspace.write("questions.jsonl", some.join("\n"));
    let store = workspace.path("store").display().to_string();
    let questions = format!("questions={}", workspace.path("questions.jsonl").display());
    let model = format!("model={ENTAILER}");
    let folder = workspace.path("report");
    let report = format!("output={}", folder.display());
    let mut args = vec!["run", "pipelines/teachme.yaml"];
    args.extend([&questions, &model, &report].iter().flat_map(|param| ["--param", param.as_str()]));
    args.extend(["--param", "percents=0,50,100"]);
    let mut run = workspace.command(&args);
    let output = run.current_dir(root()).env("PROOFMILL_STORE", &store).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let count = |query: &str| workspace.sql(query)[0]["n"].as_u64().unwrap();
    // Five configurations and five controls.
    assert_eq!(count("SELECT count(*) AS n FROM study.results"), 10 * EACH as u64);
    assert_eq!(count("SELECT count(*) AS n FROM study_taught.lessons"), 3 * EACH as u64);
    let curve = workspace.sql("SELECT percent, orders FROM study.learning_curve");
    assert_eq!(curve.len(), 3);
    assert!(curve.iter().all(|row| row["orders"] == 3), "{curve:?}");
    // Every failure has one cause, and is answered again.
    let wrong =
        count("SELECT count(*) AS n FROM study.results WHERE system = 'after' AND NOT correct");
    assert_eq!(count("SELECT count(*) AS n FROM study.failures"), wrong);
    if wrong > 0 {
        assert_eq!(count("SELECT sum(questions) AS n FROM study.mended"), wrong);
    }
    // A memory of nothing is no memory; the last point of the curve is what was taught.
    let forced = "SELECT count(*) AS n FROM study_before.proofs WHERE strategy = 'forced'";
    assert_eq!(count(forced), 0);
    for file in ["report.md", "learning_curve.svg"] {
        assert!(folder.join(file).is_file(), "{file}");
    }
}

/// A control that is neither built in nor in `replacements` would have an empty memory.
#[test]
fn a_control_that_nobody_knows_is_named() {
    let workspace = Workspace::new();
    let all = std::fs::read_to_string(root().join("data/science/questions.jsonl")).unwrap();
    let of = |split: &str| {
        let split = format!("\"split\": \"{split}\"");
        all.lines().find(|line| line.contains(&split)).unwrap()
    };
    workspace.write("questions.jsonl", [of("train"), of("test")].join("\n"));
    let questions = format!("questions={}", workspace.path("questions.jsonl").display());
    let model = format!("model={ENTAILER}");
    let report = format!("output={}", workspace.path("report").display());
    let done = |controls: &str| {
        let mut args = vec!["run", "pipelines/teachme.yaml", "--select", "+study.results"];
        let params = [&questions, &model, &report, "orders=0", "percents=0", controls];
        args.extend(params.iter().flat_map(|param| ["--param", param]));
        let mut run = workspace.command(&args);
        run.current_dir(root()).env("PROOFMILL_STORE", workspace.path("store")).output().unwrap()
    };
    let failed = done("controls=half,wrng");
    let said = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains(r#"{"control":"wrng","replaced":0}"#), "{said}");
    let fine = done("controls=half,wrong");
    assert!(fine.status.success(), "{}", String::from_utf8_lossy(&fine.stderr));
}

/// The study asks an endpoint as well as a folder.
#[test]
fn teachme_on_openbookqa_runs_with_an_endpoint() {
    let workspace = Workspace::new();
    let (url, received) = crate::oracle::start();
    let store = workspace.path("store").display().to_string();
    let params = [
        format!("endpoint={url}"),
        format!("output={}", workspace.path("report").display()),
        "entailer=remote include_eos=false train_limit=3 test_limit=2 orders=0 percents=0,100"
            .replace(' ', "\n"),
    ]
    .join("\n");
    let mut args = vec!["run", "pipelines/teachme_obqa.yaml"];
    args.extend(params.lines().flat_map(|param| ["--param", param]));
    let mut run = workspace.command(&args);
    let output = run.current_dir(root()).env("PROOFMILL_STORE", &store).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!received.lock().unwrap().is_empty(), "nobody was asked");
    let results = workspace.sql("SELECT system, count(*) AS n FROM study.results GROUP BY system");
    assert_eq!(results.len(), 7);
    assert!(results.iter().all(|row| row["n"] == 2), "{results:?}");
    let lessons = workspace.sql("SELECT count(*) AS n FROM study_taught.lessons");
    assert_eq!(lessons[0]["n"], 3);
}

/// `x -> u`, searched again by hand.
fn the_nearest_vectors_come_first(workspace: &Workspace) {
    let entries =
        workspace.sql("SELECT text AS fact, vector FROM ways_dense_question_fact.entry_vectors");
    let queries =
        workspace.sql("SELECT row_id, vector FROM ways_dense_question_fact.query_vectors");
    let found = workspace
        .sql("SELECT query_id, fact, score FROM ways_dense_question_fact.recalled WHERE rank = 1");
    let found: HashMap<&str, &Json> =
        found.iter().map(|row| (row["query_id"].as_str().unwrap(), row)).collect();
    assert_eq!(found.len(), 40);
    for query in &queries {
        let scores = entries.iter().map(|entry| product(&query["vector"], &entry["vector"]));
        let best = scores.clone().fold(f64::MIN, f64::max);
        let found = found[query["row_id"].as_str().unwrap()];
        assert!((found["score"].as_f64().unwrap() - best).abs() < 1e-5, "{found} {best}");
        let ties: Vec<_> = scores
            .zip(&entries)
            .filter(|(score, _)| best - score < 1e-5)
            .map(|(_, entry)| &entry["fact"])
            .collect();
        assert!(ties.contains(&&found["fact"]), "{found} {ties:?}");
    }
}

fn product(one: &Json, other: &Json) -> f64 {
    let numbers = |list: &Json| -> Vec<f64> {
        list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    numbers(one).iter().zip(numbers(other)).map(|(a, b)| a * b).sum()
}

fn the_evidence_is_that_of_both_rankings(workspace: &Workspace) {
    for (place, ranking) in [(1, "by_words"), (2, "by_vectors")] {
        let group = "ways_hybrid_question_fact";
        let rows = workspace.sql(&format!(
            "SELECT count(*) AS n, count(e.rank) AS there, bool_and(r.score = e.score) AS equal
             FROM (
               SELECT query_id, fact_id, evidence[{place}]['rank'] AS rank,
                 evidence[{place}]['score'] AS score
               FROM {group}.blended
             ) AS e
             LEFT JOIN {group}_{ranking}.recalled AS r
               ON r.query_id = e.query_id AND r.fact_id = e.fact_id AND r.rank = e.rank",
        ));
        assert_eq!(rows[0]["n"], 400);
        assert!(rows[0]["there"].as_i64().unwrap() > 200, "{ranking}: {rows:?}");
        assert_eq!(rows[0]["equal"], true, "{ranking}");
    }
}
