//! The mutation suite for the kinds of proofs, beside the flips of all settings in `settings.rs`: what is below a
//! change, references that go, and what does not count. Only planned, never asked.

use crate::caching::model_cache::changed;
use crate::support::{Workspace, set};

const PIPELINE: &str = r#"
pipeline: identity
models:
  reader: { path: models/reader }
  writer: { path: models/writer }
stages:
  questions:
    sql: SELECT 'q' AS row_id, 'Why?' AS question, ['a', 'b'] AS choices, 'A' AS gold
  facts: { sql: "SELECT 'Iron rusts.' AS fact" }
  recalled: { retrieve: { from: questions, query: question, memory: facts, index: bm25, top_k: 2 } }
  blocked: { sql: "SELECT 'x' AS hypothesis, ['y'] AS premises" }
  known: { sql: "SELECT 'Tin shines.' AS fact" }
  told: { sql: "SELECT 'Why?' AS question, 'a' AS answer" }
  hypotheses:
    hypothesize: { from: questions, question: question, choices: choices, labels: "['1', '2']", hypothesis: "question || answer" }
  open:
    hypothesize: { from: questions, question: question, candidates: { model: writer, prompt: "'q: ' || question", keep: 3, options: { samples: 4, temperature: 1 } }, hypothesis: answer }
  worded:
    hypothesize: { from: questions, question: question, choices: choices, model: writer, options: { max_tokens: 5 }, id: row_id }
  proofs:
    prove: { from: hypotheses, context: recalled, model: reader, options: { max_tokens: 9 } }
  beliefs:
    verify: { from: hypotheses, model: reader }
  verified:
    verify: { from: proofs, model: reader, threshold: 0.6, blocked: blocked, memory: known }
  answers:
    select_answer: { from: beliefs, proofs: verified }
  final:
    select_answer: { from: beliefs, confirmed: told }
  lessons:
    teach: { from: hypotheses, model: reader, correct: label = '1', fact: "'Iron ' || label", recall: 4, memory: facts }
"#;

/// Hypotheses, and what is below them.
const OF_HYPOTHESES: [&str; 7] =
    ["hypotheses", "proofs", "beliefs", "verified", "answers", "final", "lessons"];
const OF_PROOFS: [&str; 3] = ["proofs", "verified", "answers"];
const OF_VERIFIED: [&str; 2] = ["verified", "answers"];

fn workspace() -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    workspace.add_model("t5", "models/reader");
    workspace.add_model("gpt2", "models/writer");
    workspace
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
fn what_stands_elsewhere_counts_for_all_that_is_below() {
    edits(&[
        ("\"question || answer\" }", "\"answer || question\" }", &OF_HYPOTHESES),
        ("max_tokens: 9 }", "max_tokens: 8 }", &OF_PROOFS),
        ("threshold: 0.6", "threshold: 0.5", &OF_VERIFIED),
        ("'x' AS hypothesis", "'z' AS hypothesis", &["blocked", "verified", "answers"]),
        (
            "'Tin shines.' AS fact",
            "'Tin does not shine.' AS fact",
            &["known", "verified", "answers"],
        ),
        ("'a' AS answer", "'b' AS answer", &["told", "final"]),
    ]);
}

#[test]
fn a_reference_that_goes_counts() {
    edits(&[
        ("context: recalled, model: reader", "model: reader", &OF_PROOFS),
        (", blocked: blocked", "", &OF_VERIFIED),
        (", memory: known", "", &OF_VERIFIED),
        ("from: beliefs, proofs: verified }", "from: beliefs }", &["answers"]),
        ("from: beliefs, confirmed: told }", "from: beliefs }", &["final"]),
        ("recall: 4, memory: facts", "recall: 4", &["lessons"]),
    ]);
}

#[test]
fn cosmetics_and_what_stands_where_nothing_is_written_do_not_count() {
    edits(&[
        ("\"question || answer\" }", "\"question /* and */ || answer\" }", &[]),
        ("'q: ' ||", "'q: '  ||", &[]),
        (", id: row_id", "", &[]),
        ("max_tokens: 9 }", "max_tokens: 9 }, forced: true, free: true, question: true", &[]),
        (
            "threshold: 0.6",
            "threshold: 0.6, probability: released, include_eos: true, trust_memory: false",
            &[],
        ),
        ("proofs: verified }", "proofs: verified, without_proof: direct, keep: [] }", &[]),
        ("label = '1'", "label  =  '1' -- the first", &[]),
        (
            "recall: 4",
            "recall: 4, round: 1, threshold: 0.5, forced: true, feedback: wrong, reject_contradicted: false",
            &[],
        ),
    ]);
}

#[test]
fn names_of_models_do_not_count() {
    let base = workspace();
    let found = changed(&base, |workspace| {
        let text = workspace.read("p.yaml");
        let text =
            text.replace("reader: {", "entailer: {").replace("model: reader", "model: entailer");
        workspace.write(
            "p.yaml",
            text.replace("writer: {", "scribe: {").replace("model: writer", "model: scribe"),
        );
    });
    assert_eq!(found, set(&[]));
}
