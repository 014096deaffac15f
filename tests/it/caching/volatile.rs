//! Nothing that differs between runs is taken from the store, whichever setting calls it. Only
//! planned, never run.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::support::Workspace;

const PIPELINE: &str = r#"
pipeline: volatile
models:
  reader: { path: models/reader }
  writer: { path: models/writer }
  encoder: { path: models/encoder }
  talker: { url: "http://127.0.0.1:9/v1", model: m, api: chat }
stages:
  questions:
    sql: SELECT 'q' AS row_id, 'Why?' AS question, ['a', 'b'] AS choices, true AS sure
  queried: { sql: "SELECT row_id, 'sql' AS x FROM questions" }
  written: { generate: { from: questions, model: writer, prompt: "'generate'" } }
  talked: { generate: { from: questions, model: talker, messages: [{ role: user, content: "'turn'" }] } }
  judged: { score: { from: questions, model: writer, prompt: "'score'", continuation: "'continuation'" } }
  chosen: { score: { from: questions, model: writer, prompt: question, choices: "['choices']" } }
  embedded: { embed: { from: questions, model: encoder, text: "'embed'" } }
  hypotheses:
    hypothesize: { from: questions, question: "'question'", choices: "['answers']", labels: "['labels']", hypothesis: "'hypothesis'" }
  listed: { hypothesize: { from: questions, question: question, choices: choices, hypotheses: "['hypotheses']" } }
  stated: { hypothesize: { from: questions, question: question, statement: "'statement'", negation: "'negation'" } }
  open:
    hypothesize: { from: questions, question: question, candidates: { model: writer, prompt: "'candidates'", options: { samples: 4, temperature: 1 } }, hypothesis: answer }
  lessons: { teach: { from: hypotheses, model: reader, correct: "'correct' <> ''", fact: "'fact'" } }
  fitted:
    fit: { from: questions, input: "'input'", output: "'output'", weight: length('weight'), path: made, sizes: { d_model: 8, d_kv: 4, d_ff: 16, heads: 2, layers: 1 }, settings: { steps: 2, warmup: 1 } }
  rewarded:
    fit: { from: questions, input: question, output: question, objective: policy, reward: length('reward'), logprob: length('logprob'), path: learnt, sizes: { d_model: 8, d_kv: 4, d_ff: 16, heads: 2, layers: 1 }, settings: { steps: 2, warmup: 1 } }
  measured: { measure: { from: questions, correct: "'measured' <> ''", metrics: { m: length('metric') }, exclude: "'exclude' = ''" } }
  compared: { compare: { baseline: questions, candidate: queried, key: row_id, correct: "'compared' <> ''", metrics: { m: length('compare') } } }
"#;

/// Each setting that is an expression: its kind and name in the schema, the stage that has it, and
/// the text in it that stands for a value.
const SETTINGS: &[(&str, &str, &str, &str)] = &[
    ("Sql", "", "queried", "'sql'"),
    ("Generate", "prompt", "written", "'generate'"),
    ("Turn", "content", "talked", "'turn'"),
    ("Score", "prompt", "judged", "'score'"),
    ("Score", "continuation", "judged", "'continuation'"),
    ("Score", "choices", "chosen", "'choices'"),
    ("Embed", "text", "embedded", "'embed'"),
    ("Hypothesize", "question", "hypotheses", "'question'"),
    ("Hypothesize", "choices", "hypotheses", "'answers'"),
    ("Hypothesize", "labels", "hypotheses", "'labels'"),
    ("Hypothesize", "hypothesis", "hypotheses", "'hypothesis'"),
    ("Hypothesize", "hypotheses", "listed", "'hypotheses'"),
    ("Hypothesize", "statement", "stated", "'statement'"),
    ("Hypothesize", "negation", "stated", "'negation'"),
    ("Candidates", "prompt", "open", "'candidates'"),
    ("Teach", "correct", "lessons", "'correct'"),
    ("Teach", "fact", "lessons", "'fact'"),
    ("Fit", "input", "fitted", "'input'"),
    ("Fit", "output", "fitted", "'output'"),
    ("Fit", "weight", "fitted", "'weight'"),
    ("Fit", "reward", "rewarded", "'reward'"),
    ("Fit", "logprob", "rewarded", "'logprob'"),
    ("Measure", "correct", "measured", "'measured'"),
    ("Measure", "metrics", "measured", "'metric'"),
    ("Measure", "exclude", "measured", "'exclude'"),
    ("Compare", "correct", "compared", "'compared'"),
    ("Compare", "metrics", "compared", "'compare'"),
];

fn workspace() -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    workspace.add_model("t5", "models/reader");
    workspace.add_model("gpt2", "models/writer");
    workspace.add_model("bert-sentence", "models/encoder");
    workspace
}

#[test]
fn every_expression_of_every_kind() {
    let base = workspace();
    let plan = base.json(&["plan", "p.yaml"]);
    for line in plan.as_array().unwrap() {
        assert!(!line["reason"].as_str().unwrap().contains("differs between runs"), "{line}");
    }
    let expected = |function: &str| format!("it calls {function}, which differs between runs");
    for (kind, setting, stage, value) in SETTINGS {
        let workspace = base.copy();
        workspace.edit("p.yaml", value, "CAST(random() AS VARCHAR)");
        assert_eq!(workspace.reason(stage), expected("random"), "{kind} {setting}");
    }
    for function in ["now", "uuid", "current_date"] {
        let workspace = base.copy();
        for (.., value) in SETTINGS {
            workspace.edit("p.yaml", value, &format!("CAST({function}() AS VARCHAR)"));
        }
        let plan = workspace.json(&["plan", "p.yaml"]);
        for line in plan.as_array().unwrap().iter().filter(|line| line["stage"] != "questions") {
            assert_eq!(line["reason"], expected(function), "{line}");
        }
    }
}

/// A new setting that is an expression has to be added above.
#[test]
fn no_expression_is_left_out() {
    let schema: Json = workspace().proofmill(&["schema"]).expect(0).json();
    let known: BTreeSet<(&str, &str)> =
        SETTINGS.iter().map(|(kind, name, ..)| (*kind, *name)).collect();
    let mut found = BTreeSet::from([("Sql", "")]);
    for (kind, definition) in schema["$defs"].as_object().unwrap() {
        for (name, property) in definition["properties"].as_object().into_iter().flatten() {
            let text = property["description"].as_str().unwrap_or_default();
            // Checks are no part of a table.
            if text.contains("SQL") && kind != "Check" && !matches!(name.as_str(), "sql") {
                found.insert((kind, name));
            }
        }
    }
    assert_eq!(found, known);
}

#[test]
fn versions_of_functions_count_wherever_they_are_called() {
    for (kind, setting, stage, value) in SETTINGS {
        let workspace = workspace();
        workspace.edit("p.yaml", value, "normalize_text('a')");
        let why = workspace.json(&["why", "p.yaml", stage]);
        let version = &why["components"]["function.normalize_text"];
        assert!(version.is_string(), "{kind} {setting}: {}", why["components"]);
    }
}
