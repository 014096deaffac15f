//! What models on this machine do beyond writing, scoring and embedding: classes of pairs behind a retrieval,
//! tokens with their log-probabilities, layers of hidden states, answers of a form. The models are tiny and random.

use serde_json::Value as Json;

use crate::inference::models::asked;
use crate::support::Workspace;

/// The pipeline of the guide on reranking, over a table that is there.
const RERANKED: &str = r#"
pipeline: reranked
models:
  reranker: { path: reranker }
stages:
  facts: { sql: "SELECT 'f' || n AS id, CASE n % 3 WHEN 0 THEN 'ba be' WHEN 1 THEN 'ba ko li' ELSE 'ba mu' END || ' ' || n AS text FROM (SELECT unnest(range(12)) AS n)" }
  test: { sql: "SELECT 'q' || n AS id, 'ba ' || n AS text FROM (SELECT unnest(range(3)) AS n)" }
  memory: { index: { from: facts, fact: text, id: id } }
  hits: { retrieve: { from: test, query: text, id: id, memory: memory, top_k: 6 } }
  reranked:
    sql: |
      SELECT * FROM (
        SELECT query_id, row_number() OVER (PARTITION BY query_id ORDER BY relevance DESC, fact_id) AS rank,
               relevance AS score, fact_id, fact
        FROM (SELECT h.query_id, h.fact_id, h.fact,
                     classify('reranker', t.text, h.fact, {truncate: 512})['logit'] AS relevance
              FROM hits AS h JOIN test AS t ON t.id = h.query_id)
      ) WHERE rank <= 2
"#;

#[test]
fn a_cross_encoder_reranks_what_was_retrieved() {
    let workspace = Workspace::with(RERANKED);
    workspace.add_model("bert-reranker", "reranker");
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    assert_eq!(asked(&done.stderr, "reranked"), [18, 0, 0]);
    let rows = workspace.sql("SELECT query_id, rank, score FROM reranked ORDER BY query_id, rank");
    assert_eq!(rows.len(), 6);
    for pair in rows.chunks(2) {
        let score = |row: &Json| row["score"].as_f64().unwrap();
        assert!(pair[0]["query_id"] == pair[1]["query_id"] && score(&pair[0]) >= score(&pair[1]));
    }
    // What was answered is not asked again.
    let done = workspace.proofmill(&["run", "p.yaml", "--rerun", "reranked"]).expect(0);
    assert_eq!(asked(&done.stderr, "reranked"), [0, 18, 0]);
}

const TOLD: &str = r#"
pipeline: told
models:
  writer: { path: writer, kv_cache_mib: 8 }
stages:
  asked: { sql: "SELECT 'r' || n AS row_id, 'ba ko ' || n AS question FROM (SELECT unnest(range(4)) AS n)" }
  written: { generate: { from: asked, model: writer, prompt: question, options: { max_tokens: 6, logprobs: true } } }
  plain: { generate: { from: asked, model: writer, prompt: question, options: { max_tokens: 6 } } }
  judged: { score: { from: asked, model: writer, prompt: question, continuation: "' sat'", options: { logprobs: true, prompt_logprobs: true } } }
  layers: { sql: "SELECT row_id, hidden('writer', question, {layer: 1, pool: 'mean'})['vector'] AS v, hidden('writer', question, {all_tokens: true})['vectors'] AS each FROM asked" }
"#;

#[test]
fn tokens_and_layers_become_columns() {
    let workspace = Workspace::with(TOLD);
    workspace.add_model("gpt2", "writer");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let columns = |table: &str| {
        let row = workspace.sql(&format!("SELECT * FROM {table} LIMIT 1")).remove(0);
        row.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let written = columns("written");
    assert_eq!(written[written.len() - 2..], ["logprobs", "request_digest"]);
    assert_eq!(columns("plain").len() + 1, written.len());
    let judged = columns("judged");
    assert_eq!(judged[judged.len() - 3..], ["logprobs", "prompt_logprobs", "request_digest"]);
    let same = "SELECT count(*) AS n FROM written AS w JOIN plain AS p ON p.row_id = w.row_id AND p.text = w.text \
                AND p.logprob = w.logprob AND array_length(w.logprobs) = w.output_tokens";
    assert_eq!(workspace.sql(same)[0]["n"], 4);
    let joined = "SELECT count(*) AS n FROM (SELECT row_id, text, string_agg(t['text'], '' ORDER BY t['offset']) AS said \
                  FROM (SELECT row_id, text, unnest(logprobs) AS t FROM written) GROUP BY row_id, text) WHERE text = said";
    assert_eq!(workspace.sql(joined)[0]["n"], 4);
    let sums = "SELECT count(*) AS n FROM (SELECT row_id, logprob, sum(t['logprob']) AS total \
                FROM (SELECT row_id, logprob, unnest(logprobs) AS t FROM judged) GROUP BY row_id, logprob) \
                WHERE abs(logprob - total) < 1e-5";
    assert_eq!(workspace.sql(sums)[0]["n"], 4);
    let prompts = "SELECT count(*) AS n FROM judged WHERE array_length(prompt_logprobs) = prompt_tokens \
                   AND prompt_logprobs[1]['logprob'] IS NULL";
    assert_eq!(workspace.sql(prompts)[0]["n"], 4);
    let layers =
        "SELECT count(*) AS n FROM layers WHERE array_length(v) = 32 AND array_length(each) > 2";
    assert_eq!(workspace.sql(layers)[0]["n"], 4);
}

const FORMED: &str = r#"
pipeline: formed
models:
  writer: { path: writer, kv_cache_mib: 8 }
stages:
  asked: { sql: "SELECT 'r' || n AS row_id, 'ba ko ' || n AS question FROM (SELECT unnest(range(4)) AS n)" }
  verdicts:
    generate:
      from: asked
      model: writer
      prompt: question
      options: { max_tokens: 60, temperature: 1 }
      response_format:
        type: json_schema
        json_schema:
          schema: { type: object, properties: { correct: { type: boolean }, grade: { enum: [1, 2, 3] } }, required: [correct, grade], additionalProperties: false }
  dates:
    generate: { from: asked, model: writer, prompt: question, options: { max_tokens: 20, temperature: 1 }, response_format: { type: regex, regex: "[0-9]{4}-[01][0-9]" } }
"#;

#[test]
fn a_model_on_this_machine_is_held_to_a_form() {
    let workspace = Workspace::with(FORMED);
    workspace.add_model("gpt2", "writer");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let verdicts = "SELECT count(*) AS n FROM verdicts WHERE finish_reason = 'end' \
                    AND regexp_like(text, '^\\{\"correct\": (true|false), \"grade\": [123]\\}$')";
    assert_eq!(workspace.sql(verdicts)[0]["n"], 4);
    let dates = "SELECT count(*) AS n FROM dates WHERE regexp_like(text, '^[0-9]{4}-[01][0-9]$')";
    assert_eq!(workspace.sql(dates)[0]["n"], 4);
}
