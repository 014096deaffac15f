//! Every pipeline of the tree has no mistakes and passes its own tests.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use proofmill_base::digest::Digest;
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
    assert!(proofmill("check", &pipelines()).contains("no mistakes"));
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
    // Five configurations and four controls.
    assert_eq!(count("SELECT count(*) AS n FROM study.results"), 9 * EACH as u64);
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

/// Teaching helps the model that ships, by the facts that are recalled, and because they are true: on all
/// questions about some things of each relation, most of which it was told nothing of, or something wrong.
#[test]
fn teaching_helps_the_model_that_ships() {
    const RELATIONS: [&str; 3] = ["kind_of", "made_of", "runs_on"];
    /// Things of each relation that it does not know, and that it knows.
    const EACH: [(bool, usize); 2] = [(false, 4), (true, 2)];
    const UNKNOWN: u64 = 12;
    let workspace = Workspace::new();
    let all = std::fs::read_to_string(root().join("data/science/questions.jsonl")).unwrap();
    let rows: Vec<(&str, Json)> =
        all.lines().map(|line| (line, serde_json::from_str(line).unwrap())).collect();
    let things_of = |relation: &str, known: bool, many: usize| {
        let asked = rows.iter().map(|(_, row)| row).filter(|row| {
            let relation = row["fact_id"].as_str().unwrap().starts_with(relation);
            relation && row["split"] == "test" && (row["state"] == "known") == known
        });
        let mut things: Vec<&Json> = asked.map(|row| &row["fact_id"]).collect();
        things.sort_by_key(|thing| thing.as_str());
        things.dedup();
        things.truncate(many);
        things
    };
    let mut things: Vec<&Json> = Vec::new();
    for relation in RELATIONS {
        EACH.iter().for_each(|(known, many)| things.extend(things_of(relation, *known, *many)));
    }
    let about = |row: &Json| row["split"] != "dev" && things.contains(&&row["fact_id"]);
    let some: Vec<&str> =
        rows.iter().filter(|(_, row)| about(row)).map(|(line, _)| *line).collect();
    workspace.write("questions.jsonl", some.join("\n"));
    let store = workspace.path("store").display().to_string();
    let questions = format!("questions={}", workspace.path("questions.jsonl").display());
    let report = format!("output={}", workspace.path("report").display());
    let mut args = vec!["run", "pipelines/teachme.yaml"];
    let params = [questions.as_str(), &report, "orders=0", "percents=0,100"];
    args.extend(params.iter().flat_map(|param| ["--param", param]));
    let mut run = workspace.command(&args);
    let output = run.current_dir(root()).env("PROOFMILL_STORE", &store).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let right = |system: &str| {
        let query = format!(
            "SELECT count(*) AS n FROM study.results WHERE system = '{system}' AND correct"
        );
        workspace.sql(&query)[0]["n"].as_u64().unwrap()
    };
    let (before, after) = (right("before"), right("after"));
    // Three questions about each thing that it does not know, one about each that it knows.
    assert_eq!(workspace.sql("SELECT count(*) AS n FROM test")[0]["n"], 3 * UNKNOWN + 6);
    assert!(after >= before + UNKNOWN, "{before} of 42 right before, {after} after");
    // Without a question's own fact, and with sentences that are not so, the gain is gone.
    for system in ["hidden", "wrong", "shuffled", "exchanged"] {
        let right = right(system);
        assert!(after >= right + UNKNOWN / 2, "{after} right, {right} of `{system}`");
    }
    let known = "SELECT count(*) AS n FROM study.results
                 WHERE system IN ('before', 'after') AND state = 'known' AND correct GROUP BY system";
    let known = workspace.sql(known);
    assert_eq!(known[0], known[1], "teaching changed what was known");
    the_lot_decides(&workspace);
    // What is hidden from a question is hidden in all of its proofs.
    let read = |of: &str| {
        let query = format!(
            "SELECT count(*) AS n FROM study_{of}.proofs AS p JOIN test AS t ON t.id = p.question_id
             WHERE p.prompt LIKE '%[HIGH]%' || t.core_fact || '%'"
        );
        workspace.sql(&query)[0]["n"].as_u64().unwrap()
    };
    assert!(read("after") > 0);
    assert_eq!(read("hidden"), 0);
}

/// Of what was taught, the facts that were drawn help with their questions, and those that were not do not.
fn the_lot_decides(workspace: &Workspace) {
    let lots = workspace.sql("SELECT question, questions, before, after FROM study.lots");
    let of = |question: &str| {
        let found = lots.iter().find(|row| row["question"] == question);
        found.unwrap_or_else(|| panic!("{question}: {lots:?}"))
    };
    let (drawn, not) = (of("its fact was drawn"), of("its fact was not drawn"));
    let gain = |row: &Json| row["after"].as_f64().unwrap() - row["before"].as_f64().unwrap();
    assert!(gain(drawn) > 0.3 && gain(not).abs() < 0.1, "{lots:?}");
    let forced = "SELECT count(*) AS n FROM study_controls_half_then.proofs AS p
                  JOIN study.drawn AS d ON d.fact = p.forced_fact WHERE NOT d.drawn";
    assert_eq!(workspace.sql(forced)[0]["n"], 0, "a fact that was not drawn was recalled");
}

/// The headline: what README and the page say of the model that ships is what comes out, over all questions.
#[test]
fn the_study_has_the_numbers_of_its_page() {
    const RIGHT: [(&str, &str, u64); 6] = [
        ("direct", "direct, no proofs", 126),
        ("before", "before teaching", 144),
        ("after", "after teaching", 278),
        ("all", "all facts of train taught", 297),
        ("hidden", "after, own core fact hidden", 157),
        ("half", "after, a random half of the facts", 210),
    ];
    let workspace = Workspace::new();
    let store = workspace.path("store").display().to_string();
    let report = format!("output={}", workspace.path("report").display());
    let mut args =
        vec!["run", "pipelines/teachme.yaml", "--select", "study.before_after,in_the_world"];
    let params = [report.as_str(), "orders=0", "controls=half"];
    args.extend(params.iter().flat_map(|param| ["--param", param]));
    let mut run = workspace.command(&args);
    let output = run.current_dir(root()).env("PROOFMILL_STORE", &store).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let rows = workspace
        .sql("SELECT configuration, n, accuracy, won, lost, p_mcnemar FROM study.before_after");
    let page = std::fs::read_to_string(root().join("docs/papers/teachme.md")).unwrap();
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    for (system, configuration, right) in RIGHT {
        let row = rows.iter().find(|row| row["configuration"] == configuration);
        let row = row.unwrap_or_else(|| panic!("no {system}: {rows:?}"));
        assert_eq!(row["n"], 328, "{system}");
        let accuracy = row["accuracy"].as_f64().unwrap();
        assert_eq!((accuracy * 328.0).round() as u64, right, "{system}: {row}");
        // As the documents round it.
        let line = readme.lines().find(|line| line.starts_with(configuration));
        let line = line.unwrap_or_else(|| panic!("README has no line `{configuration}`"));
        assert!(line.contains(&format!("{accuracy:.4}")), "{line}: {row}");
        let short = format!("{accuracy:.3}").trim_start_matches('0').to_owned();
        let line = page.lines().find(|line| line.starts_with(&format!("| {configuration} |")));
        let line = line.unwrap_or_else(|| panic!("the page has no row `{configuration}`"));
        assert!(line.contains(&short), "{line}: {row}");
        if let (Some(won), Some(lost)) = (row["won"].as_u64(), row["lost"].as_u64()) {
            assert!(line.contains(&format!("| {won} | {lost} |")), "{line}: {row}");
        }
    }
    let world = workspace.sql(
        "SELECT round(in_the_world, 3) AS share FROM in_the_world
         WHERE system IN ('before', 'after') ORDER BY share",
    );
    let of_world = ["0.574", "0.830"].map(|share| json!({"share": share.parse::<f64>().unwrap()}));
    assert_eq!(world, of_world);
    assert!(page.contains("| .574 |") && page.contains("| .830 |"));
}

/// The model that ships is the one that its page names, so that a number can be held against its model.
#[test]
fn the_model_that_ships_is_the_one_that_is_documented() {
    let bytes = std::fs::read(root().join("data/models/tiny-entailer/model.safetensors")).unwrap();
    let digest = Digest::of(&bytes).to_string();
    for (page, shown) in
        [("data/README.md", digest.clone()), ("docs/papers/teachme.md", digest[..8].to_owned())]
    {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        assert!(text.contains(&shown), "{page} names another model than {digest}");
    }
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
