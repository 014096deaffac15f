//! Stages that ask models, from end to end, with tiny models of random weights: answers, failures,
//! and that no answer is ever lost or asked for twice.

use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::support::{Done, Workspace};

/// Ten short texts and one that is longer than the model.
const LONG: &str = r#"
pipeline: long
models:
  writer: { path: writer, kv_cache_mib: 8 }
stages:
  asked:
    sql: |
      SELECT 'r' || n AS row_id, CASE WHEN n = 7 THEN repeat('the cat sat ', 90) ELSE 'cat ' || n END AS question
      FROM (SELECT unnest(range(10)) AS n)
  answers:
    generate: { from: asked, model: writer, prompt: question, options: { max_tokens: 12, min_tokens: 6 } }
    max_error_rate: 0.2
"#;

/// A table of texts and a stage of each kind that asks models.
const ALL: &str = r#"
pipeline: all
models:
  writer: { path: writer, kv_cache_mib: 8 }
  reader: { path: reader, kv_cache_mib: 8 }
  encoder: { path: encoder }
stages:
  asked:
    sql: |
      SELECT 'r' || n AS row_id, CASE WHEN n = 5 THEN NULL ELSE 'the cat ' || (n % 30) END AS question
      FROM (SELECT unnest(range(40)) AS n)
  written:
    generate: { from: asked, model: writer, prompt: question, options: { max_tokens: 12, min_tokens: 6, temperature: 1, samples: 2 } }
  sought:
    generate: { from: asked, model: reader, prompt: question, options: { max_tokens: 12, min_tokens: 6, num_beams: 3, num_return_sequences: 2 } }
  judged:
    score: { from: asked, model: writer, prompt: question, continuation: "' sat'" }
  chosen:
    score: { from: asked, model: writer, prompt: question, choices: "['sat', 'ran', row_id]" }
  embedded:
    embed: { from: asked, model: encoder, text: question }
"#;

const TABLES: [&str; 5] = ["written", "sought", "judged", "chosen", "embedded"];

fn long() -> Workspace {
    let workspace = Workspace::with(LONG);
    workspace.add_model("gpt2", "writer");
    workspace
}

fn all() -> Workspace {
    let workspace = Workspace::with(ALL);
    workspace.add_model("gpt2", "writer");
    workspace.add_model("t5", "reader");
    workspace.add_model("bert-sentence", "encoder");
    workspace
}

/// What the line of a stage that was computed says of what it asked: asked, replayed, failed.
#[track_caller]
pub fn asked(stderr: &str, stage: &str) -> [u64; 3] {
    let line = stderr.lines().find(|line| line.starts_with(&format!("done {stage}:")));
    let line = line.unwrap_or_else(|| panic!("{stage} is not done: {stderr}"));
    let (_, said) = line.rsplit_once("; ").unwrap();
    ["asked", "replayed", "failed"].map(|what| {
        let number = said.split(", ").find_map(|part| part.strip_suffix(&format!(" {what}")));
        number.unwrap_or_else(|| panic!("{line}")).replace(',', "").parse().unwrap()
    })
}

/// All rows of all tables, by table.
fn tables(workspace: &Workspace, tables: &[&str]) -> BTreeMap<String, Vec<String>> {
    let rows = |table: &str| {
        let rows = workspace.sql(&format!("SELECT * FROM {table}"));
        let mut rows: Vec<String> = rows.iter().map(Json::to_string).collect();
        rows.sort();
        rows
    };
    tables.iter().map(|table| ((*table).to_owned(), rows(table))).collect()
}

#[test]
fn rows_without_an_answer_are_kept_beside_the_table() {
    let workspace = long();
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(0).says("1 error row,");
    assert_eq!(asked(&done.stderr, "answers"), [10, 0, 1]);
    assert_eq!(workspace.sql("SELECT count(*) AS n FROM answers")[0]["n"], 9);
    let errors = workspace.sql("SELECT * FROM answers__errors");
    assert_eq!(errors.len(), 1);
    assert_eq!((&errors[0]["source"], &errors[0]["class"]), (&"r7".into(), &"too_long".into()));
    let message = errors[0]["message"].as_str().unwrap();
    assert!(message.contains("112"), "the limit is not named: {message}");
    // Only what failed is asked again.
    let done = workspace.proofmill(&["run", "p.yaml", "--rerun", "answers"]).expect(0);
    assert_eq!(asked(&done.stderr, "answers"), [1, 9, 1]);
}

#[test]
fn too_many_of_them_fail_the_stage() {
    let workspace = long();
    workspace.edit("p.yaml", "max_error_rate: 0.2", "max_error_rate: 0.05");
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
    done.says("1 of 10 rows have no answer").says("r7 (too_long)");
    workspace.edit("p.yaml", "max_error_rate: 0.05", "max_error_rate: 0.2\n    on_error: fail");
    workspace.proofmill(&["run", "p.yaml"]).expect(1).says("r7 (too_long)");
    // What was answered by then is not asked again.
    workspace.edit("p.yaml", "\n    on_error: fail", "");
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    assert_eq!(asked(&done.stderr, "answers"), [1, 9, 1]);
    // What a wider gate let through does not pass a narrower one. It once did.
    workspace.edit("p.yaml", "max_error_rate: 0.2", "max_error_rate: 0.05");
    workspace.proofmill(&["run", "p.yaml"]).expect(1).says("1 of 10 rows have no answer");
}

#[test]
fn answers_are_replayed_as_they_were() {
    let workspace = all();
    let first = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    // Thirty different texts, one of which is missing; ten of them stand twice.
    assert_eq!(asked(&first.stderr, "written"), [30, 0, 0]);
    let tables_first = tables(&workspace, &TABLES);
    let sizes: Vec<usize> = TABLES.iter().map(|table| tables_first[*table].len()).collect();
    assert_eq!(sizes, [39 * 2 + 1, 39 * 2 + 1, 40, 39 * 3 + 1, 40]);
    let again = workspace.proofmill(&["run", "p.yaml", "--rerun", &TABLES.join(",")]).expect(0);
    for table in TABLES {
        assert_eq!(asked(&again.stderr, table), [0, 39, 0], "{table}");
    }
    assert_eq!(tables(&workspace, &TABLES), tables_first);
}

#[test]
fn partitions_and_jobs_change_nothing() {
    let base = all();
    base.run();
    let expected = tables(&base, &TABLES);
    for partitions in [1, 4] {
        let workspace = all();
        let text = workspace.read("p.yaml");
        let text = text
            .replace(" }\n  sought", &format!(" }}\n    partitions: {partitions}\n  sought"))
            .replace(" }\n  judged", &format!(" }}\n    partitions: {partitions}\n  judged"));
        workspace.write("p.yaml", text);
        let jobs = partitions.to_string();
        workspace.proofmill(&["run", "p.yaml", "-j", &jobs]).expect(0);
        assert_eq!(tables(&workspace, &TABLES), expected, "{partitions} partitions");
    }
}

#[test]
fn two_at_the_same_time_agree() {
    let workspace = all();
    let both = ["one.log", "two.log"].map(|log| (log, workspace.start(&["run", "p.yaml"], log)));
    for (log, child) in both {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", workspace.read(log));
    }
    let alone = all();
    alone.run();
    assert_eq!(tables(&workspace, &TABLES), tables(&alone, &TABLES));
    let again = workspace.proofmill(&["run", "p.yaml", "--rerun", &TABLES.join(",")]).expect(0);
    assert_eq!(asked(&again.stderr, "written"), [0, 39, 0]);
    assert_eq!(tables(&workspace, &TABLES), tables(&alone, &TABLES));
}

/// Answers that the log of the ledger counts.
fn recorded(workspace: &Workspace) -> u64 {
    let entry = |key: &String| -> Json {
        let text = fs::read_to_string(workspace.path("store").join(key)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let entries = workspace.keys("ledger/log/");
    // What a killed process was still writing has another name.
    let entries = entries.iter().filter(|key| key.ends_with(".json"));
    entries.filter_map(|key| entry(key)["body"]["append"]["rows"].as_u64()).sum()
}

/// Answers are recorded by the hundred: what a kill takes with it is asked again, and nothing else.
#[test]
fn killed_in_the_middle_and_run_again() {
    const ROWS: u64 = 2000;
    let pipeline = format!(
        "pipeline: killed\nmodels: {{ writer: {{ path: writer, kv_cache_mib: 8 }} }}\nstages:\n  asked: {{ sql: \
         \"SELECT 'r' || n AS row_id, 'cat ' || n AS q FROM (SELECT unnest(range({ROWS})) AS n)\" }}\
         \n  answers:\n    generate: {{ from: asked, model: writer, prompt: q, options: {{ \
         max_tokens: 8 }} }}\n"
    );
    let new = || {
        let workspace = Workspace::with(&pipeline);
        workspace.add_model("gpt2", "writer");
        workspace
    };
    let whole = new();
    whole.run();
    let workspace = new();
    let (mut before, mut kills) = (0, 0);
    while kills < 3 {
        let mut child = workspace.start(&["run", "p.yaml"], "run.log");
        let began = Instant::now();
        while recorded(&workspace) == before && child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_secs(120), "{}", workspace.read("run.log"));
            sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().code(), None, "it was done before it was killed");
        let now = recorded(&workspace);
        assert!(now > before && now < ROWS, "{before} {now}");
        (before, kills) = (now, kills + 1);
    }
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    assert_eq!(asked(&done.stderr, "answers"), [ROWS - before, before, 0]);
    // An answer of nothing but white space is no answer to keep.
    assert_eq!(recorded(&workspace), recorded(&whole));
    assert_eq!(tables(&workspace, &["answers"]), tables(&whole, &["answers"]));
}

#[test]
fn every_function_can_be_called_in_sql() {
    let workspace = Workspace::with(
        r#"
pipeline: functions
models:
  writer: { path: writer, kv_cache_mib: 8 }
  reader: { path: reader, kv_cache_mib: 8 }
  encoder: { path: encoder }
stages:
  asked:
    sql: SELECT * FROM (VALUES ('a', 'the cat sat'), ('b', 'a dog ran'), ('c', NULL)) AS t(id, text)
  all:
    sql: |
      SELECT id,
        generate('writer', text, {max_tokens: 4}) AS generated,
        fuse('reader', text, ['one ' || text, 'two'], {max_tokens: 4}) AS fused,
        score('writer', text, ' sat') AS scored,
        score_choices('writer', text, [' sat', ' ran']) AS chosen,
        embed('encoder', text) AS embedded,
        hidden('writer', text) AS hidden
      FROM asked
"#,
    );
    workspace.add_model("gpt2", "writer");
    workspace.add_model("t5", "reader");
    workspace.add_model("bert-sentence", "encoder");
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    assert_eq!(asked(&done.stderr, "all"), [12, 0, 0]);
    let rows = workspace.sql(
        "SELECT id, generated['output_tokens'] AS g, fused['prompt_tokens'] AS f, \
         scored['logprob'] AS s, chosen['best'] AS c, array_length(embedded['vector']) AS e, \
         array_length(hidden['vector']) AS h FROM all ORDER BY id",
    );
    assert_eq!(rows.len(), 3);
    for row in &rows[..2] {
        assert!((1..=4).contains(&row["g"].as_u64().unwrap()), "{row}");
        assert!(row["f"].as_u64().unwrap() > 8, "{row}");
        assert!(row["s"].as_f64().unwrap() < 0.0, "{row}");
        assert!(row["c"].as_u64().unwrap() < 2, "{row}");
        assert!(row["e"].as_u64().unwrap() > 1 && row["h"].as_u64().unwrap() > 1, "{row}");
    }
    let nothing = ["g", "f", "s", "c", "e", "h"].iter().all(|column| rows[2][*column].is_null());
    assert!(nothing, "{}", rows[2]);
}

/// A model that lacks a file of weights when it is first asked fails the stage, and says so.
#[test]
fn a_model_that_does_not_load_fails_its_stage() {
    let workspace = long();
    let weights = workspace.path("writer/model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    let done: Done = workspace.proofmill(&["run", "p.yaml"]);
    assert!(matches!(done.code, Some(1 | 3)), "{done:#?}");
    done.says("writer/model.safetensors");
}

/// What no row can be answered for is said once, and no share of failures makes up for it.
#[test]
fn a_model_without_one_of_its_tensors_fails_its_stage_once() {
    let workspace = Workspace::with(&LONG.replace("max_error_rate: 0.2", "max_error_rate: 1"));
    workspace.add_model("gpt2", "writer");
    let weights = workspace.path("writer/model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    let at = bytes.windows(6).position(|name| name == b"wte.we").unwrap();
    let renamed = [&bytes[..at], b"wtf.we", &bytes[at + 6..]].concat();
    fs::write(&weights, renamed).unwrap();
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
    let said = done.stderr.lines().filter(|line| line.starts_with("error: stage `answers`"));
    assert_eq!(said.count(), 1, "{}", done.stderr);
    done.says("model `writer` cannot be used: ").says("no tensor `wte.weight`");
}

#[test]
fn rows_keep_the_columns_that_they_are_told_to() {
    let kept = ALL.replace("from: asked,", "from: asked, keep: [question],");
    let workspace = Workspace::with(&kept.replace("text: question", "text: \"'x'\""));
    workspace.add_model("gpt2", "writer");
    workspace.add_model("t5", "reader");
    workspace.add_model("bert-sentence", "encoder");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    for table in TABLES {
        let others = workspace.sql(&format!(
            "SELECT count(*) AS n FROM {table} AS t JOIN asked AS a ON a.row_id = t.row_id \
             WHERE t.question IS DISTINCT FROM a.question"
        ));
        assert_eq!(others[0]["n"], 0, "{table}");
        let rows = workspace.sql(&format!("SELECT count(question) AS n FROM {table}"));
        assert!(rows[0]["n"].as_u64().unwrap() > 0, "{table}");
    }
    let twice =
        ALL.replace("text: question }", "text: question, keep: [question, nothing, question] }");
    let workspace = Workspace::with(&twice);
    workspace.add_model("gpt2", "writer");
    workspace.add_model("t5", "reader");
    workspace.add_model("bert-sentence", "encoder");
    let said = workspace.proofmill(&["check", "p.yaml"]).expect(3).stderr;
    assert!(said.contains("the input has no column `nothing`"), "{said}");
    assert!(said.contains("the table already has a column `question`"), "{said}");
}

#[test]
fn a_query_from_outside_asks_the_models_of_a_pipeline() {
    let workspace = all();
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let query = "SELECT s['logprob'] AS logprob, row_id FROM (SELECT row_id, score('writer', question, ' sat') AS s FROM asked) AS t";
    let ask = ["sql", query, "--models", "p.yaml", "--limit", "0", "--json"];
    let said: Vec<Json> =
        serde_json::from_str(&workspace.proofmill(&ask).expect(0).stdout).unwrap();
    let stored = workspace.sql("SELECT logprob, row_id FROM judged");
    let by_id = |rows: &[Json]| -> BTreeMap<String, String> {
        rows.iter().map(|row| (row["row_id"].to_string(), row["logprob"].to_string())).collect()
    };
    assert_eq!(said.len(), 40);
    assert_eq!(by_id(&said), by_id(&stored));
    let refused = workspace.proofmill(&["sql", query]);
    assert!(refused.stderr.contains("there is no model `writer`"), "{}", refused.stderr);
}

/// Questions behind the same demonstrations.
const FEW_SHOT: &str = r#"
pipeline: few_shot
models:
  writer: { path: writer, kv_cache_mib: 8, workers: 1 }
stages:
  asked:
    sql: |
      SELECT 'r' || n AS row_id, repeat('the cat sat ', 12) || n AS question
      FROM (SELECT unnest(range(40)) AS n)
  written:
    generate: { from: asked, model: writer, prompt: question, options: { max_tokens: 2 } }
"#;

#[test]
fn a_run_tells_what_its_prompts_shared() {
    let workspace = Workspace::with(FEW_SHOT);
    workspace.add_model("gpt2", "writer");
    let told = "model writer: 40 answers; ";
    let run = workspace
        .proofmill(&["run", "p.yaml"])
        .expect(0)
        .says(told)
        .says("shared with other requests (");
    let line = run.stderr.lines().find(|line| line.contains(told)).unwrap().trim().to_owned();
    assert!(workspace.proofmill(&["show"]).expect(0).stdout.contains(&line), "{line}");
    let usage = &workspace.json(&["show"])["local_models"]["writer"];
    let number = |name: &str| usage[name].as_u64().unwrap();
    assert!(number("computed_tokens") * 5 < number("asked_tokens"), "{usage}");
    // Nothing is asked again, and nothing is told.
    assert_eq!(workspace.json(&["run", "p.yaml"])["local_models"], serde_json::json!({}));
}

#[test]
fn no_model_is_asked_about_rows_that_a_filter_takes_away() {
    let workspace = Workspace::with(
        "pipeline: filtered
models:
  reader: { path: reader, kv_cache_mib: 8 }
stages:
  rows:
    sql: SELECT value AS n, 'ba ' || value AS text FROM generate_series(1, 40)
  bound:
    sql: SELECT CAST(100 AS BIGINT) AS most
  joined:
    sql: |
      SELECT n, h['output_tokens'] AS tokens FROM (
        SELECT r.n, generate('reader', r.text, '{\"max_tokens\": 2}') AS h FROM rows AS r
        CROSS JOIN (SELECT max(most) AS most FROM bound) AS l WHERE r.n > l.most
      ) ORDER BY n
  filtered:
    sql: |
      SELECT n, h['output_tokens'] AS tokens FROM (
        SELECT n, generate('reader', 'bo ' || text, '{\"max_tokens\": 2}') AS h FROM rows
      ) WHERE n > 38 ORDER BY n
",
    );
    workspace.add_model("t5", "reader");
    let run = workspace.json(&["run", "p.yaml"]);
    assert_eq!(run["local_models"]["reader"]["answers"], 2, "{run:#}");
}
