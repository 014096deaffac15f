//! The mutation suite for models: whatever can change what a model says changes the fingerprints of
//! the stages that ask it and of all below them, and nothing else does. Only planned, never asked,
//! but for the last test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, SystemTime};

use crate::support::{Workspace, set};

const PIPELINE: &str = r#"
pipeline: identity
models:
  writer: { path: models/writer }
  encoder: { path: models/encoder }
  far: { url: "http://localhost:9/v1", model: small, api: chat, system: Be brief. }
stages:
  asked:
    sql: SELECT * FROM (VALUES ('a', 'the cat sat'), ('b', 'a dog ran')) AS t(row_id, question)
  written:
    generate:
      from: asked
      model: writer
      prompt: "'q: ' || question"
      options: { max_tokens: 4, min_tokens: 3, temperature: 0.7, samples: 2, seed: 1 }
  judged:
    score: { from: asked, model: writer, prompt: question, continuation: "' yes'" }
  chosen:
    score: { from: asked, model: writer, prompt: question, choices: "['yes', 'no']" }
  embedded:
    embed: { from: asked, model: encoder, text: question }
  in_sql:
    sql: |
      SELECT row_id, generate('writer', question, {max_tokens: 3})['text'] AS text FROM asked
  told:
    generate: { from: asked, model: far, prompt: question }
  below:
    sql: SELECT count(*) AS n FROM written
"#;

/// The stages that ask the model in `models/writer`, and what is below them.
const OF_WRITER: [&str; 5] = ["written", "judged", "chosen", "in_sql", "below"];

fn workspace() -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    workspace.add_model("gpt2", "models/writer");
    workspace.add_model("bert-sentence", "models/encoder");
    workspace
}

/// The fingerprint of every stage.
fn fingerprints(workspace: &Workspace) -> BTreeMap<String, String> {
    let plan = workspace.json(&["plan", "p.yaml"]);
    let stages = plan.as_array().unwrap().iter();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    stages.map(|stage| (text(&stage["stage"]), text(&stage["fingerprint"]))).collect()
}

/// The stages whose fingerprint is another one after a change.
pub fn changed(base: &Workspace, change: impl FnOnce(&Workspace)) -> BTreeSet<String> {
    let workspace = base.copy();
    let before = fingerprints(&workspace);
    change(&workspace);
    let after = fingerprints(&workspace);
    assert_eq!(before.len(), after.len());
    before.into_iter().filter(|(stage, old)| after[stage] != *old).map(|(stage, _)| stage).collect()
}

#[track_caller]
fn edits(edits: &[(&str, &str, &[&str])]) {
    let base = workspace();
    for (old, new, stages) in edits {
        let found = changed(&base, |workspace| workspace.edit("p.yaml", old, new));
        assert_eq!(found, set(stages), "`{old}` -> `{new}`");
    }
}

#[test]
fn every_byte_of_a_models_files_counts() {
    let base = workspace();
    for (file, stages) in [
        ("models/writer/model.safetensors", &OF_WRITER[..]),
        ("models/writer/tokenizer.json", &OF_WRITER),
        ("models/writer/tokenizer_config.json", &OF_WRITER),
        ("models/writer/config.json", &OF_WRITER),
        ("models/writer/generation_config.json", &OF_WRITER),
        ("models/encoder/model.safetensors", &["embedded"]),
        ("models/encoder/1_Pooling/config.json", &["embedded"]),
    ] {
        let found = changed(&base, |workspace| {
            let mut bytes = fs::read(workspace.path(file)).unwrap();
            match file.ends_with(".json") {
                true => bytes.push(b'\n'),
                false => *bytes.last_mut().unwrap() ^= 1,
            }
            workspace.write(file, bytes);
        });
        assert_eq!(found, set(stages), "{file}");
    }
}

/// What a stage asks is among its settings, which `settings.rs` flips.
#[test]
fn what_a_query_asks_counts() {
    edits(&[
        ("{max_tokens: 3}", "{max_tokens: 2}", &["in_sql"]),
        ("samples: 2", "samples: 3", &["written", "below"]),
        // An expression in other clothes is the same one.
        ("'q: ' ||", "'q: '  /* said */ ||", &[]),
    ]);
}

#[test]
fn settings_that_change_answers_count_and_those_that_change_the_pace_do_not() {
    edits(&[
        ("path: models/writer", "path: models/writer, dtype: int8", &OF_WRITER),
        ("path: models/encoder", "path: models/encoder, pooling: cls", &["embedded"]),
        (
            "path: models/encoder",
            "path: models/encoder, pooling: mean, normalize: false",
            &["embedded"],
        ),
        ("path: models/writer", "path: models/writer, dtype: f32", &[]),
        ("path: models/writer", "path: models/writer, workers: 3", &[]),
        ("path: models/writer", "path: models/writer, max_batch_tokens: 512", &[]),
        ("path: models/writer", "path: models/writer, max_num_seqs: 7", &[]),
        ("path: models/writer", "path: models/writer, kv_cache_mib: 3", &[]),
    ]);
}

#[test]
fn of_an_endpoint_counts_who_is_asked_and_not_how_often() {
    let told: &[&str] = &["told"];
    edits(&[
        ("localhost:9/v1", "localhost:8/v1", told),
        ("model: small", "model: large", told),
        ("api: chat, system: Be brief.", "api: completions", told),
        ("Be brief.", "Be exact.", told),
        ("model: small", "model: small, capabilities: { logprobs: true }", told),
        ("model: small", "model: small, capabilities: { top_k: true }", told),
        ("localhost:9/v1", "localhost:9/v1/", &[]),
        ("model: small", "model: small, capabilities: {}", &[]),
        ("model: small", "model: small, api_key_env: SOME_KEY", &[]),
        ("model: small", "model: small, concurrency: 2", &[]),
        ("model: small", "model: small, retries: 1", &[]),
        ("model: small", "model: small, timeout_seconds: 9", &[]),
        ("model: small", "model: small, requests_per_minute: 60", &[]),
        ("model: small", "model: small, tokens_per_minute: 60", &[]),
    ]);
}

#[test]
fn names_places_and_times_of_files_do_not_count() {
    let base = workspace();
    let renamed = changed(&base, |workspace| {
        workspace.edit("p.yaml", "encoder: {", "reader: {");
        workspace.edit("p.yaml", "model: encoder", "model: reader");
    });
    assert_eq!(renamed, set(&[]), "another name");
    let moved = changed(&base, |workspace| {
        fs::rename(workspace.path("models/writer"), workspace.path("elsewhere")).unwrap();
        workspace.edit("p.yaml", "path: models/writer", "path: elsewhere");
    });
    assert_eq!(moved, set(&[]), "another place");
    let touched = changed(&base, |workspace| {
        for file in ["model.safetensors", "config.json", "tokenizer.json"] {
            let file = fs::File::options()
                .append(true)
                .open(workspace.path(&format!("models/writer/{file}")));
            let later = SystemTime::now() + Duration::from_secs(60);
            file.unwrap().set_modified(later).unwrap();
        }
    });
    assert_eq!(touched, set(&[]), "another time");
}

/// A stage of other settings is another table; but what it asks may have been answered before.
#[test]
fn the_ledger_answers_what_any_stage_asked_before() {
    let workspace = workspace();
    let run = |stage: &str| {
        let done =
            workspace.proofmill(&["run", "p.yaml", "--select", &format!("+{stage}")]).expect(0);
        let line = done.stderr.lines().find(|line| line.starts_with(&format!("done {stage}:")));
        line.map(|line| line.split_once("; ").unwrap().1.to_owned())
    };
    assert!(run("written").unwrap().starts_with("2 asked, 0 replayed, 0 failed, "));
    assert_eq!(run("written"), None, "it is in the store");
    workspace.edit("p.yaml", "  below:", "  written_so: { generate: { from: asked, model: writer, prompt: \"concat('q: ', question)\", options: { max_tokens: 4, min_tokens: 3, temperature: 0.7, samples: 2, seed: 1 } } }\n  below:");
    assert_eq!(run("written_so").unwrap(), "0 asked, 2 replayed, 0 failed");
    let rows = |stage| {
        workspace.sql(&format!(
            "SELECT row_id, sample, text, request_digest FROM {stage} ORDER BY row_id, sample"
        ))
    };
    let written_so = rows("written_so");
    assert_eq!(run("written"), None);
    assert_eq!((rows("written"), written_so.len()), (written_so, 4));
    workspace.edit(
        "p.yaml",
        "    generate:\n      from: asked",
        "    partitions: 2\n    generate:\n      from: asked",
    );
    assert_eq!(run("written").unwrap(), "0 asked, 2 replayed, 0 failed");
    workspace.edit(
        "p.yaml",
        "temperature: 0.7, samples: 2, seed: 1 }\n",
        "temperature: 0.7, samples: 3, seed: 1 }\n",
    );
    assert!(run("written").unwrap().starts_with("2 asked, 0 replayed, 0 failed, "));
}
