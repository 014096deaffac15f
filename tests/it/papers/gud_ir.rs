//! The pipelines of GUD-IR, on the sample that ships: what must hold of every system, whatever its numbers are.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::support::Workspace;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The whole study with one seed, in a store of its own.
fn ran(pipeline: &str, more: &[&str]) -> Workspace {
    let workspace = Workspace::new();
    let output = format!("output={}", workspace.path("page").display());
    let pipeline = format!("pipelines/{pipeline}.yaml");
    let args = ["run", &pipeline, "--param", "seeds=0", "--param", &output];
    let mut run = workspace.command(&[&args, more].concat());
    run.current_dir(root()).env("PROOFMILL_STORE", workspace.path("store"));
    let done = run.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    workspace
}

fn count(workspace: &Workspace, sql: &str) -> i64 {
    workspace.sql(sql)[0]["n"].as_i64().unwrap()
}

#[test]
fn every_system_returns_what_its_rule_allows() {
    let workspace = ran("gud_ir", &[]);
    let none = |sql: &str| assert_eq!(count(&workspace, sql), 0, "{sql}");
    // All but the text as it was written are understandings of the memory, each once in a ranking, ranks without a gap.
    none(
        "SELECT count(*) AS n FROM study.ranked WHERE system <> 'written' AND u NOT IN (SELECT u FROM data.memory)",
    );
    none(
        "SELECT count(*) AS n FROM (SELECT system, query_id FROM study.ranked
         GROUP BY system, query_id HAVING count(*) <> max(rank) OR count(DISTINCT u) <> count(*))",
    );
    none("SELECT count(*) AS n FROM study.ranked WHERE system LIKE '% > 0.9' AND score <= 0.9");
    none("SELECT count(*) AS n FROM study.ranked WHERE system LIKE '% > 0.5' AND score <= 0.5");
    // Reshaping moves nothing that is in the memory already.
    none(
        "SELECT count(*) AS n FROM study.ranked AS w JOIN study.ranked AS s ON s.query_id = w.query_id AND s.rank = 1
         WHERE w.system = 'written' AND s.system LIKE 'snapped by %' AND s.u <> w.u AND w.u IN (SELECT u FROM data.memory)",
    );
    // A right answer needs the memory to have it, but where the text itself is returned.
    none(
        "SELECT count(*) AS n FROM study.results WHERE correct AND NOT known AND system <> 'written'",
    );
    // What was written moves a neighbour by its weight at most, and brings none.
    none(
        "SELECT count(*) AS n FROM study.ranked AS b
         LEFT JOIN study.ranked AS n ON n.query_id = b.query_id AND n.seed = b.seed AND n.u = b.u
           AND n.system = CASE b.system WHEN 'blended: dense, written' THEN 'dense x-u' ELSE 'contrastive x-u' END
         WHERE b.system LIKE 'blended: %' AND (n.u IS NULL OR abs(b.score - n.score) > 0.05001)",
    );
    // An oracle is at least as good as the system whose part it makes perfect.
    none(
        "SELECT count(*) AS n FROM study.results AS r JOIN study.oracles AS o ON o.id = r.id
         WHERE r.correct AND NOT o.there AND r.system = CASE WHEN o.part LIKE '%neighbours' THEN 'contrastive x-u' ELSE 'snapped by cosine' END",
    );
    assert_eq!(count(&workspace, "SELECT count(DISTINCT system) AS n FROM study.results"), 21);
    assert_eq!(count(&workspace, "SELECT count(*) AS n FROM study.results"), 21 * 120);
    // What the sample was made for: the kind of deed and place decides, which words alone do not tell.
    let value = |system: &str| -> f64 {
        let sql = format!("SELECT value FROM study.exact_match WHERE system = '{system}'");
        workspace.sql(&sql)[0]["value"].as_f64().unwrap()
    };
    assert!(value("snapped by cosine") > value("bm25 x-x") + 0.4);
    for file in ["report.md", "exact_match.svg", "similarity.svg"] {
        assert!(workspace.path("page").join(file).exists(), "{file}");
    }

    // An answer is followed through what was written, judged and found.
    let trace = workspace.json(&["audit", "trace", "test-001"]);
    assert_eq!(trace["stage"], "study.results");
    let step = |stage: &str| -> Json {
        let steps = trace["steps"].as_array().unwrap();
        steps
            .iter()
            .find(|step| step["stage"] == stage)
            .cloned()
            .unwrap_or_else(|| panic!("{stage}"))
    };
    let written = &step("study_trained_0_generate.written")["rows"][0];
    assert_eq!(written["prompt"], trace["question"]["text"]);
    assert!(written["logprob"].as_f64().unwrap() < 0.0 && written["text"].is_string(), "{written}");
    assert_eq!(step("study_trained_0_generate.by_cosine")["rows_all"], json!(39));
    assert_eq!(step("study_trained_0_generate.judged")["rows_all"], json!(30));
    assert_eq!(step("study.results")["rows_all"], json!(21));
}

#[test]
fn other_shapes_of_data_go_the_same_way() {
    let obqa = ran("gud_ir_obqa", &["--param", "num_beams=2"]);
    assert_eq!(count(&obqa, "SELECT count(*) AS n FROM study.results"), 21 * 40);
    let coverage = obqa.sql("SELECT value FROM study.coverage");
    assert_eq!(coverage[0]["value"], json!(0.85), "as the sample's page says");

    let social = ran("gud_ir_social", &["--param", "num_beams=2"]);
    // No situation is in two splits, and only the memory has several rules of one.
    let splits = social.sql(
        "SELECT count(*) AS n FROM (SELECT x FROM data.clean GROUP BY x HAVING count(DISTINCT split) > 1)",
    );
    assert_eq!(splits[0]["n"], 0);
    assert_eq!(count(&social, "SELECT count(*) AS n FROM data.test"), 30);
    assert_eq!(count(&social, "SELECT count(*) AS n FROM data.clean"), 192 - 16);
}

#[test]
fn pairs_that_would_spoil_a_result_are_found() {
    let workspace = Workspace::new();
    let row = |id: &str, x: &str, u: &str| {
        json!({"id": id, "situation": x, "understanding": u}).to_string() + "\n"
    };
    let run = |train: &str, test: &str| {
        workspace.write("train.jsonl", train);
        workspace.write("dev.jsonl", row("d1", "nothing of it", "a rule"));
        workspace.write("test.jsonl", test);
        let param =
            |name: &str| format!("{name}={}", workspace.path(&format!("{name}.jsonl")).display());
        let output = format!("output={}", workspace.path("page").display());
        let (train, dev, test) = (param("train"), param("dev"), param("test"));
        let args = ["run", "pipelines/gud_ir.yaml", "--param", "seeds=0", "--param", &output];
        let files = ["--param", &train, "--param", &dev, "--param", &test];
        let mut run = workspace.command(&[args.as_slice(), &files].concat());
        let done = run
            .current_dir(root())
            .env("PROOFMILL_STORE", workspace.path("store"))
            .output()
            .unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let asked = row("q1", "napping in the library", "a rule");
    // A situation that is asked about and learnt from, in other white space and case.
    let (code, stderr) = run(&row("t1", "Napping  in the library", "a rule"), &asked);
    assert!(code == Some(1) && stderr.contains("leaks"), "{stderr}");
    // A memory of one fact, told twice: each system returns it. Pairs without a text are left out, and counted.
    let one = row("t1", "yawning at work", "a rule") + &row("t2", "yawning at home", "a rule");
    let (code, stderr) = run(&(one + &row("t3", "snoring", " ")), &asked);
    assert!(code == Some(0) && stderr.contains("left_out"), "{stderr}");
    let wrong = count(
        &workspace,
        "SELECT count(*) AS n FROM study.ranked WHERE rank = 1 AND system <> 'written' AND u <> 'a rule'",
    );
    assert_eq!(wrong, 0);
    // None at all.
    let (code, stderr) = run(&row("t1", "", "a rule"), &asked);
    assert!(code == Some(1) && stderr.contains("data.memory"), "{stderr}");
}

#[test]
fn a_memory_of_clarifications_recalls_only_what_was_told_before() {
    let workspace = Workspace::new();
    let mut run = workspace.command(&["run", "pipelines/memprompt.yaml", "--param", "given=0.5"]);
    let done =
        run.current_dir(root()).env("PROOFMILL_STORE", workspace.path("store")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let none = |sql: &str| assert_eq!(count(&workspace, sql), 0, "{sql}");
    assert_eq!(count(&workspace, "SELECT count(*) AS n FROM results"), 3 * 120);
    none("SELECT count(*) AS n FROM results WHERE memory = 'none' AND entry IS NOT NULL");
    none("SELECT count(*) AS n FROM results WHERE round = 1 AND entry IS NOT NULL");
    assert!(count(&workspace, "SELECT count(*) AS n FROM results WHERE entry IS NOT NULL") > 5);
    // What is recalled was said to a wrong answer of an earlier round, and stands in the prompt.
    none(
        "SELECT count(*) AS n FROM results AS r JOIN results AS e ON e.id = r.entry AND e.memory = r.memory
         WHERE e.round >= r.round OR e.correct OR e.gold <> r.recalled",
    );
    none(
        "SELECT count(*) AS n FROM memories_meaning_rounds_4.answers WHERE entry IS NOT NULL AND prompt <> question || ' | ' || recalled",
    );
    none("SELECT count(*) AS n FROM memories_meaning_rounds_4.by_meaning WHERE cosine <= 0.9");
    // About half of the wrong answers are clarified, the same in every run.
    let told = count(&workspace, "SELECT count(*) AS n FROM memories_none_rounds_4.memory");
    let wrong = count(
        &workspace,
        "SELECT count(*) AS n FROM results WHERE memory = 'none' AND NOT correct",
    );
    assert!(told * 3 > wrong && told * 3 < wrong * 2, "{told} of {wrong}");
}

#[test]
fn the_encoder_that_ships_is_made_again() {
    let workspace = Workspace::new();
    let output = format!("output={}", workspace.path("encoder").display());
    let mut run = workspace.command(&["run", "pipelines/fit_phrases.yaml", "--param", &output]);
    let done =
        run.current_dir(root()).env("PROOFMILL_STORE", workspace.path("store")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let file = "model.safetensors";
    let made = std::fs::read(workspace.path("encoder").join(file)).unwrap();
    let ships =
        std::fs::read(root().join("data/models/tiny-situations/encoder").join(file)).unwrap();
    assert!(made == ships, "the same pairs and settings give the same bytes");
}
