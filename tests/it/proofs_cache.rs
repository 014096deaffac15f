//! The mutation suite for the kinds of proofs: every setting that changes a table changes the
//! fingerprints of its stage and of all below it, and nothing else does. Only planned, never asked.

use crate::model_cache::changed;
use crate::support::{Workspace, set};

const PIPELINE: &str = r#"
pipeline: identity
models:
  reader: { path: models/reader }
  writer: { path: models/writer }
stages:
  questions:
    sql: SELECT 'q' AS row_id, 'q' AS other_id, 'Why?' AS question, ['a', 'b'] AS choices, ['c', 'd'] AS others, 'A' AS gold
  facts: { sql: "SELECT 'Iron rusts.' AS fact" }
  other_facts: { sql: "SELECT 'Copper shines.' AS fact" }
  recalled: { retrieve: { from: questions, query: question, memory: facts, index: bm25, top_k: 2 } }
  other_recalled: { retrieve: { from: questions, query: question, memory: other_facts, index: bm25, top_k: 2 } }
  blocked: { sql: "SELECT 'x' AS hypothesis, ['y'] AS premises" }
  told: { sql: "SELECT 'Why?' AS question, 'a' AS answer" }
  hypotheses:
    hypothesize: { from: questions, question: question, choices: choices, labels: "['1', '2']", hypothesis: "question || answer" }
  listed:
    hypothesize: { from: questions, question: question, choices: choices, hypotheses: others }
  stated:
    hypothesize: { from: questions, question: question, statement: question, negation: gold }
  open:
    hypothesize: { from: questions, question: question, candidates: { model: writer, prompt: "'q: ' || question", keep: 3, options: { samples: 4, temperature: 1 } }, hypothesis: answer }
  worded:
    hypothesize: { from: questions, question: question, choices: choices, model: writer, options: { max_tokens: 5 }, id: row_id }
  proofs:
    prove: { from: hypotheses, context: recalled, model: reader, options: { max_tokens: 9 } }
  beliefs:
    verify: { from: hypotheses, model: reader }
  verified:
    verify: { from: proofs, model: reader, threshold: 0.6, blocked: blocked }
  answers:
    decide: { from: beliefs, proofs: verified }
  final:
    decide: { from: beliefs, confirmed: told }
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
fn settings_of_hypothesize() {
    let all: &[&str] = &OF_HYPOTHESES;
    edits(&[
        (
            "question: question, choices: choices, labels",
            "question: gold, choices: choices, labels",
            all,
        ),
        ("choices: choices, labels", "choices: others, labels", all),
        ("\"['1', '2']\"", "\"['1', '3']\"", all),
        ("\"question || answer\" }", "\"answer || question\" }", all),
        ("\"question || answer\" }", "\"question || answer\", keep: [gold] }", all),
        ("\"question || answer\" }", "\"question || answer\", id: other_id }", all),
        ("\"question || answer\" }", "\"question /* and */ || answer\" }", &[]),
        ("hypotheses: others", "hypotheses: choices", &["listed"]),
        ("statement: question, negation", "statement: other_id, negation", &["stated"]),
        ("negation: gold", "negation: other_id", &["stated"]),
        ("'q: ' ||", "'Q: ' ||", &["open"]),
        ("'q: ' ||", "'q: '  ||", &[]),
        ("keep: 3", "keep: 2", &["open"]),
        ("samples: 4", "samples: 5", &["open"]),
        ("temperature: 1 }", "temperature: 1, seed: 3 }", &["open"]),
        ("candidates: { model: writer", "candidates: { model: reader", &["open"]),
        ("max_tokens: 5", "max_tokens: 6", &["worded"]),
        ("choices: choices, model: writer", "choices: choices, model: reader", &["worded"]),
        // What stands where nothing is written.
        (", id: row_id", "", &[]),
    ]);
}

#[test]
fn settings_of_prove_verify_and_decide() {
    edits(&[
        ("context: recalled, model: reader", "context: other_recalled, model: reader", &OF_PROOFS),
        ("context: recalled, model: reader", "model: reader", &OF_PROOFS),
        ("context: recalled, model: reader", "context: recalled, model: writer", &OF_PROOFS),
        ("max_tokens: 9 }", "max_tokens: 8 }", &OF_PROOFS),
        ("max_tokens: 9 }", "max_tokens: 9 }, forced: false", &OF_PROOFS),
        ("max_tokens: 9 }", "max_tokens: 9 }, free: false", &OF_PROOFS),
        ("max_tokens: 9 }", "max_tokens: 9 }, question: false", &OF_PROOFS),
        ("max_tokens: 9 }", "max_tokens: 9 }, forced: true, free: true, question: true", &[]),
        (
            "verify: { from: hypotheses, model: reader }",
            "verify: { from: hypotheses, model: reader, question: true }",
            &["beliefs", "answers", "final"],
        ),
        (
            "verify: { from: hypotheses, model: reader }",
            "verify: { from: hypotheses, model: writer }",
            &["beliefs", "answers", "final"],
        ),
        ("threshold: 0.6", "threshold: 0.5", &OF_VERIFIED),
        ("threshold: 0.6", "threshold: 0.6, probability: renormalized", &OF_VERIFIED),
        ("threshold: 0.6", "threshold: 0.6, with_end: false", &OF_VERIFIED),
        ("threshold: 0.6", "threshold: 0.6, trust_memory: true", &OF_VERIFIED),
        ("threshold: 0.6", "threshold: 0.6, truncate: 50", &OF_VERIFIED),
        ("threshold: 0.6", "threshold: 0.6, keep: [prompt]", &OF_VERIFIED),
        (", blocked: blocked", "", &OF_VERIFIED),
        ("'x' AS hypothesis", "'z' AS hypothesis", &["blocked", "verified", "answers"]),
        (
            "threshold: 0.6",
            "threshold: 0.6, probability: released, with_end: true, trust_memory: false",
            &[],
        ),
        ("proofs: verified }", "proofs: verified, without_proof: none }", &["answers"]),
        ("from: beliefs, proofs: verified }", "from: beliefs }", &["answers"]),
        ("from: beliefs, confirmed: told }", "from: beliefs }", &["final"]),
        ("'a' AS answer", "'b' AS answer", &["told", "final"]),
        ("proofs: verified }", "proofs: verified, keep: [choice] }", &["answers"]),
        ("proofs: verified }", "proofs: verified, without_proof: direct, keep: [] }", &[]),
    ]);
}

#[test]
fn settings_of_teach() {
    let with = |setting: &str| format!("recall: 4, {setting}");
    let base = workspace();
    for (old, new) in [
        ("label = '1'", "label = '2'".to_owned()),
        ("'Iron '", "'Tin '".to_owned()),
        ("recall: 4", "recall: 3".to_owned()),
        ("recall: 4, memory: facts", "recall: 4, memory: other_facts".to_owned()),
        ("recall: 4, memory: facts", "recall: 4".to_owned()),
        ("correct: label", "keep: [], feedback: all, correct: label".to_owned()),
        ("recall: 4", with("order: 1")),
        ("recall: 4", with("round: 2")),
        ("recall: 4", with("forced: false")),
        ("recall: 4", with("free: false")),
        ("recall: 4", with("question: false")),
        ("recall: 4", with("options: { max_tokens: 5 }")),
        ("recall: 4", with("threshold: 0.6")),
        ("recall: 4", with("probability: renormalized")),
        ("recall: 4", with("with_end: false")),
        ("recall: 4", with("trust_memory: true")),
        ("recall: 4", with("without_proof: none")),
        (
            "teach: { from: hypotheses, model: reader",
            "teach: { from: hypotheses, model: writer".to_owned(),
        ),
    ] {
        let found = changed(&base, |workspace| workspace.edit("p.yaml", old, &new));
        assert_eq!(found, set(&["lessons"]), "`{old}` -> `{new}`");
    }
    edits(&[
        ("label = '1'", "label  =  '1' -- the first", &[]),
        ("recall: 4", "recall: 4, round: 1, threshold: 0.5, forced: true, feedback: wrong", &[]),
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
