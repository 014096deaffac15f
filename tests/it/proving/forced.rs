//! A forced proof begins with the fact of the memory, byte by byte, whatever words the model knows; or its row says
//! why it cannot.

use serde_json::json;

use crate::support::Workspace;

/// Sentences of which the model below knows no word, some words, and all.
const FACTS: [&str; 4] = [
    "zeppelins get power from moonlight",
    "a hook  is made of na\u{ef}ve \u{6f22}\u{5b57} \u{1f600}, not steel.",
    "chemical splashing can cause harm to the eyes.",
    "a hook is made of steel.",
];

fn stages(model: &str) -> String {
    let facts: Vec<String> = FACTS
        .iter()
        .enumerate()
        .map(|(i, fact)| format!("('f{i}', '{fact}', CAST({} AS BIGINT))", i + 1))
        .collect();
    format!(
        "pipeline: forced
models:
  reader: {{ path: {model}, kv_cache_mib: 8 }}
stages:
  questions:
    sql: SELECT 'q' AS row_id, 'Is a hook hard?' AS question, ['yes'] AS choices
  hypotheses:
    hypothesize: {{ from: questions, question: question, choices: choices, hypothesis: \"'a hook is hard.'\" }}
  recalled:
    sql: |
      SELECT 'q' AS query_id, rank, 1.0 AS score, fact_id, fact FROM (VALUES {}) AS t(fact_id, fact, rank)
  proofs:
    prove: {{ from: hypotheses, context: recalled, model: reader, free: false, options: {{ max_tokens: 4 }} }}
    max_error_rate: 1
",
        facts.join(", ")
    )
}

#[test]
fn a_forced_proof_begins_with_the_fact_byte_by_byte() {
    let workspace = Workspace::with(
        "pipeline: fitted
stages:
  pairs:
    sql: |
      SELECT x, u FROM (VALUES
        ('$proof$ ; $hypothesis$ = a hook is hard.', '$proof$ = [PREMISE] a hook is made of steel. [PREMISE] steel is hard.'),
        ('$valid$ ; $hypothesis$ = a hook is soft.', '$valid$ = false')
      ) AS t(x, u)
  model:
    fit:
      from: pairs
      input: x
      output: u
      path: small
      sizes: { d_model: 16, d_kv: 8, d_ff: 32, heads: 2, layers: 1 }
      settings: { steps: 3, batch: 2, warmup: 1 }
",
    );
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    workspace.write("p.yaml", stages("small"));
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let rows = workspace.sql("SELECT forced_fact, text, premises FROM proofs ORDER BY proof_id");
    assert_eq!(rows.len(), FACTS.len());
    for (row, fact) in rows.iter().zip(FACTS) {
        assert_eq!(row["forced_fact"], fact);
        let text = row["text"].as_str().unwrap();
        assert!(text.starts_with(&format!("$proof$ = [PREMISE] {fact}")), "{row}");
        assert!(row["premises"][0].as_str().unwrap().starts_with(fact), "{row}");
    }
}

#[test]
fn a_fact_that_the_tokenizer_cannot_say_is_an_error_row() {
    let workspace = Workspace::with(&stages("reader"));
    workspace.add_model("t5", "reader");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let rows = workspace.sql("SELECT proof_id FROM proofs ORDER BY proof_id");
    assert_eq!(rows, ["q#0/fact1", "q#0/fact3", "q#0/fact4"].map(|id| json!({"proof_id": id})));
    let errors = workspace.sql("SELECT source, class, message FROM proofs__errors");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        (&errors[0]["source"], &errors[0]["class"]),
        (&json!("q#0/fact2"), &json!("invalid"))
    );
    let message = errors[0]["message"].as_str().unwrap();
    assert!(message.contains("the tokenizer has no tokens for a part of the prefix"), "{message}");
}

#[test]
fn a_fact_alone_is_a_proof_that_no_model_is_asked_for() {
    let workspace = Workspace::with(&stages("reader").replace(
        "free: false, options: { max_tokens: 4 } }\n    max_error_rate: 1",
        "free: false, facts_alone: true }",
    ));
    workspace.add_model("t5", "reader");
    let run = workspace.proofmill(&["run", "p.yaml", "--json"]).expect(0).json();
    assert_eq!(run["local_models"]["reader"]["answers"].as_u64().unwrap_or(0), 0);
    let rows = workspace.sql("SELECT * FROM proofs ORDER BY proof_id");
    assert_eq!(rows.len(), FACTS.len());
    for (row, fact) in rows.iter().zip(FACTS) {
        assert_eq!(row["text"], format!("$proof$ = [PREMISE] {fact}"));
        assert_eq!(row["premises"], json!([fact]));
        assert_eq!((&row["strategy"], &row["output_tokens"]), (&json!("forced"), &json!(0)));
        assert_eq!((&row["request_digest"], &row["finish_reason"]), (&json!(null), &json!(null)));
    }

    // Beside free ones they are of the same table, and what begins nothing is no proof.
    let both = stages("reader").replace("free: false,", "free: true, facts_alone: true,");
    workspace.write("p.yaml", both);
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let kinds = "SELECT strategy, count(*) AS n FROM proofs GROUP BY strategy ORDER BY strategy";
    let expected = json!([{"strategy": "forced", "n": 4}, {"strategy": "free", "n": 1}]);
    assert_eq!(json!(workspace.sql(kinds)), expected);
    let off = stages("reader").replace("free: false,", "forced: false, facts_alone: true,");
    workspace.write("p.yaml", off);
    let refused = workspace.proofmill(&["check", "p.yaml"]).expect(3);
    assert!(refused.stderr.contains("`facts_alone` has no effect when `forced` is off"));
}

#[test]
fn teaching_by_facts_alone_recalls_what_was_taught_before() {
    let workspace = Workspace::with(
        "pipeline: taught
models:
  reader: { path: reader, kv_cache_mib: 8 }
stages:
  questions:
    sql: SELECT 'q' || value AS row_id, 'Is a hook hard?' AS question, ['yes', 'no'] AS choices FROM generate_series(1, 2)
  hypotheses:
    hypothesize: { from: questions, question: question, choices: choices, hypothesis: \"'a hook is ' || answer\" }
  lessons:
    teach: { from: hypotheses, model: reader, correct: 'false', fact: \"'a hook is made of steel.'\", free: false, facts_alone: true }
",
    );
    workspace.add_model("t5", "reader");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let tried = "SELECT question_id, unnest(proofs)['premises'][1]['text'] AS premise FROM lessons";
    // The first question has nothing to recall; the second one has the fact for each of its two answers.
    let row = json!({"question_id": "q2", "premise": "a hook is made of steel."});
    assert_eq!(workspace.sql(tried), [row.clone(), row]);
}
