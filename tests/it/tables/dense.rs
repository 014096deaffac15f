//! Dense indexes, retrieval over them and blends, from literal vectors to tables.

use serde_json::{Value as Json, json};

use crate::support::Workspace;

/// Four facts with vectors, one of them twice, and a row that teaches nothing.
const MEMORY: &str = "pipeline: p
stages:
  memory:
    sql: |
      SELECT * FROM (VALUES
        ('m1', 'Iron is a metal.', [1.0, 0.0]),
        ('m2', 'Bees carry pollen.', [0.0, 1.0]),
        ('m3', 'iron  IS a metal.', [9.0, 9.0]),
        ('m4', 'Salt dissolves.', [1.0, 0.0]),
        ('m5', NULL, NULL),
        ('m6', 'Rust is iron oxide.', [-1.0, 0.5])
      ) AS t(row_id, fact, vector)
  queries:
    sql: |
      SELECT * FROM (VALUES
        ('q1', [2.0, 1.0]), ('q2', [-1.0, 0.0])
      ) AS t(row_id, vector)
  dense: { index: { from: memory, kind: dense } }
  found: { retrieve: { from: queries, query: vector, memory: dense, top_k: 3 } }
";

/// Query, rank, score and fact of each row of a ranking.
fn ranking(workspace: &Workspace, table: &str) -> Vec<Json> {
    let rows = workspace.sql(&format!("SELECT * FROM {table} ORDER BY query_id, rank"));
    let row = |row: &Json| json!([row["query_id"], row["rank"], row["score"], row["fact"]]);
    rows.iter().map(row).collect()
}

#[test]
fn the_largest_inner_products_come_first_and_ties_by_entry() {
    let workspace = Workspace::with(MEMORY);
    workspace.run();
    let expected = [
        json!(["q1", 1, 2.0, "Iron is a metal."]),
        json!(["q1", 2, 2.0, "Salt dissolves."]),
        json!(["q1", 3, 1.0, "Bees carry pollen."]),
        json!(["q2", 1, 1.0, "Rust is iron oxide."]),
        json!(["q2", 2, 0.0, "Bees carry pollen."]),
        json!(["q2", 3, -1.0, "Iron is a metal."]),
    ];
    assert_eq!(ranking(&workspace, "found"), expected);
    let made = workspace.sql("SELECT DISTINCT \"index\" AS made FROM found");
    assert_eq!(made, [json!({"made": "dense/fact"})]);
}

#[test]
fn an_index_is_a_table_of_its_entries() {
    let workspace = Workspace::with(MEMORY);
    workspace.run();
    let expected = [
        json!({"entry": 0, "fact": "Iron is a metal.", "sources": 2, "vector": [1.0, 0.0]}),
        json!({"entry": 1, "fact": "Bees carry pollen.", "sources": 1, "vector": [0.0, 1.0]}),
        json!({"entry": 2, "fact": "Salt dissolves.", "sources": 1, "vector": [1.0, 0.0]}),
        json!({"entry": 3, "fact": "Rust is iron oxide.", "sources": 1, "vector": [-1.0, 0.5]}),
    ];
    let rows = "SELECT entry, fact, sources, vector FROM dense ORDER BY entry";
    assert_eq!(workspace.sql(rows), expected);
    let ids = "SELECT count(DISTINCT f.fact_id) AS n FROM found f JOIN dense d USING (fact_id)";
    assert_eq!(workspace.sql(ids)[0]["n"], 4);
}

#[test]
fn an_index_can_have_an_entry_for_each_question() {
    let workspace = Workspace::with(MEMORY);
    workspace.edit("p.yaml", "kind: dense", "kind: dense, by: question, question: row_id");
    workspace.run();
    assert_eq!(workspace.sql("SELECT max(entry) AS last FROM dense")[0]["last"], 4);
    let best = workspace.sql("SELECT fact, score, \"index\" AS made FROM found WHERE rank = 1");
    assert_eq!(
        best[0],
        json!({"fact": "iron  IS a metal.", "score": 27.0, "made": "dense/question"})
    );
}

#[test]
fn an_index_is_made_on_the_way() {
    let workspace = Workspace::with(MEMORY);
    workspace.run();
    let expected = ranking(&workspace, "found");
    workspace.edit("p.yaml", "  dense: { index: { from: memory, kind: dense } }\n", "");
    workspace.edit("p.yaml", "memory: dense,", "memory: memory, index: dense,");
    workspace.run();
    assert_eq!(ranking(&workspace, "found"), expected);
}

#[test]
fn nothing_asked_or_nothing_known_gives_nothing() {
    for (old, new) in [
        ("AS t(row_id, fact, vector)", "AS t(row_id, fact, vector) WHERE fact = ''"),
        ("AS t(row_id, vector)", "AS t(row_id, vector) WHERE row_id = ''"),
    ] {
        let workspace = Workspace::with(MEMORY);
        workspace.edit("p.yaml", old, new);
        workspace.run();
        assert_eq!(workspace.sql("SELECT count(*) AS n FROM found")[0]["n"], 0);
    }
}

#[test]
fn what_is_no_vector_is_named_by_its_row() {
    for (old, new, message) in [
        ("[-1.0, 0.5]", "[0.5]", "row `m6` has 1 dimensions; expected 2, as all others have"),
        ("[-1.0, 0.5]", "NULL", "row `m6` is NULL"),
        ("[-1.0, 0.5]", "[0.5, NULL]", "row `m6` is NULL at position 2"),
        ("[-1.0, 0.5]", "['NaN'::DOUBLE, 1.0]", "row `m6` is NaN at position 1"),
        ("[-1.0, 0.5]", "[1.0, 1e60]", "row `m6` is inf at position 2"),
        ("[-1.0, 0.5]", "[1.0, 1e20]", "row `m6` has the norm"),
        ("[-1.0, 0.0]", "[1.0]", "query `q2` has 1 dimensions; expected 2"),
        ("[-1.0, 0.0]", "NULL", "query `q2` is NULL"),
        ("[-1.0, 0.0]", "[1.0, '-inf'::DOUBLE]", "query `q2` is -inf at position 2"),
    ] {
        let workspace = Workspace::with(MEMORY);
        workspace.edit("p.yaml", old, new);
        let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
        done.says(&format!("the vector of {message}"));
    }
    // Rows have numbers where they have no ids.
    let workspace = Workspace::with(MEMORY);
    workspace.edit("p.yaml", "AS t(row_id, fact, vector)", "AS t(code, fact, vector)");
    workspace.edit("p.yaml", "[-1.0, 0.5]", "[0.5]");
    workspace.proofmill(&["run", "p.yaml"]).expect(1).says("the vector of row 6 has");
}

#[test]
fn many_rows_are_answered_whatever_their_parts() {
    // Entry v has the vector (v % 7, 1): the best for (1, 0) are those with remainder 6, the first
    // ones first. Queries and entries pass through more than one batch each.
    let workspace = Workspace::with(
        "pipeline: p
stages:
  memory:
    sql: |
      SELECT 'f' || v AS fact, [CAST(v % 7 AS DOUBLE), 1.0] AS vector
      FROM (SELECT unnest(range(9000)) AS v) AS t
  queries:
    sql: |
      SELECT 'q' || v AS row_id, [CAST(v % 2 AS DOUBLE), CAST(v % 3 - 1 AS DOUBLE)] AS vector
      FROM (SELECT unnest(range(9000)) AS v) AS t
  dense: { index: { from: memory, kind: dense } }
  found: { retrieve: { from: queries, query: vector, memory: dense, top_k: 2 } }
",
    );
    workspace.run();
    let kinds = workspace.sql(
        "SELECT rank, fact, score, count(*) AS n FROM found
         GROUP BY rank, fact, score ORDER BY rank, fact, score",
    );
    let line = |rank: i64, fact: &str, score: f64, n: i64| json!({"rank": rank, "fact": fact, "score": score, "n": n});
    let expected = [
        line(1, "f0", -1.0, 1500),
        line(1, "f0", 0.0, 1500),
        line(1, "f0", 1.0, 1500),
        line(1, "f6", 5.0, 1500),
        line(1, "f6", 6.0, 1500),
        line(1, "f6", 7.0, 1500),
        line(2, "f1", -1.0, 1500),
        line(2, "f1", 0.0, 1500),
        line(2, "f1", 1.0, 1500),
        line(2, "f13", 5.0, 1500),
        line(2, "f13", 6.0, 1500),
        line(2, "f13", 7.0, 1500),
    ];
    assert_eq!(kinds, expected);
}

/// Two rankings: for `q`, A B C and B D A; for `r`, X and W.
const RANKINGS: &str = "pipeline: p
stages:
  words:
    sql: |
      SELECT *, 'bm25' AS \"index\", 'w1' AS snapshot FROM (VALUES
        ('q', 1, 9.0, 'a', 'A'), ('q', 2, 8.0, 'b', 'B'), ('q', 3, 7.0, 'c', 'C'),
        ('r', 1, 5.0, 'x', 'X')
      ) AS t(query_id, rank, score, fact_id, fact)
  meanings:
    sql: |
      SELECT *, 'dense' AS \"index\", 'm1' AS snapshot FROM (VALUES
        ('q', 1, 0.9, 'b', 'b'), ('q', 2, 0.8, 'd', 'D'), ('q', 3, 0.7, 'a', 'a'),
        ('q', 4, 0.6, 'b', 'b!'), ('r', 1, 0.5, 'w', 'W')
      ) AS t(query_id, rank, score, fact_id, fact)
  both: { rank_fusion: { from: [words, meanings], top_k: 3 } }
  weighed: { rank_fusion: { from: [words, meanings], weights: [1, 0.5], k: 0, top_k: 9 } }
";

#[test]
fn rankings_are_blended_by_reciprocal_ranks() {
    let workspace = Workspace::with(RANKINGS);
    workspace.run();
    // B: 1/62 + 1/61, A: 1/61 + 1/63, D: 1/62; C: 1/63 is cut. X and W: 1/61 each, so by id.
    let rows = workspace.sql(
        "SELECT query_id, rank, fact, round(score * 1e9) AS score, \"index\" AS made, snapshot
         FROM both",
    );
    let line = |query: &str, rank: i64, fact: &str, score: f64, snapshot: &str| {
        json!({
            "query_id": query, "rank": rank, "fact": fact, "score": score,
            "made": "rrf/k=60", "snapshot": snapshot,
        })
    };
    let expected = [
        line("q", 1, "B", 32_522_475.0, "w1+m1"),
        line("q", 2, "A", 32_266_458.0, "w1+m1"),
        line("q", 3, "D", 16_129_032.0, "m1"),
        line("r", 1, "W", 16_393_443.0, "m1"),
        line("r", 2, "X", 16_393_443.0, "w1"),
    ];
    assert_eq!(rows, expected);

    // With k 0 and half a weight: A 1 + 0.5/3, B 1/2 + 0.5, C 1/3, D 0.5/2.
    let weighed = workspace.sql(
        "SELECT fact, round(score * 1e9) AS score, \"index\" AS made FROM weighed
         WHERE query_id = 'q'",
    );
    let line = |fact: &str, score: f64| json!({"fact": fact, "score": score, "made": "rrf/k=0/weights=1,0.5"});
    let expected = [
        line("A", 1_166_666_667.0),
        line("B", 1_000_000_000.0),
        line("C", 333_333_333.0),
        line("D", 250_000_000.0),
    ];
    assert_eq!(weighed, expected);
}

#[test]
fn a_blend_keeps_its_evidence() {
    let workspace = Workspace::with(RANKINGS);
    workspace.run();
    let rows = workspace.sql("SELECT fact, evidence FROM both WHERE query_id = 'q' AND rank <> 2");
    let seen = |index: &str, snapshot: &str, rank: i64, score: f64| json!({"index": index, "snapshot": snapshot, "rank": rank, "score": score});
    let expected = [
        json!({"fact": "B", "evidence": [seen("bm25", "w1", 2, 8.0), seen("dense", "m1", 1, 0.9)]}),
        json!({"fact": "D", "evidence": [null, seen("dense", "m1", 2, 0.8)]}),
    ];
    assert_eq!(rows, expected);
    let ranks = "SELECT evidence[2]['rank'] AS rank FROM both WHERE fact = 'A'";
    assert_eq!(workspace.sql(ranks), [json!({"rank": 3})]);
}

#[test]
fn words_and_meanings_are_blended() {
    let workspace = Workspace::with(MEMORY);
    let text = workspace.read("p.yaml").replace("t(row_id, vector)", "t(row_id, vector), texts")
        .replace("('q1', [2.0, 1.0]), ('q2', [-1.0, 0.0])\n      ) AS t(row_id, vector), texts", "('q1', 'salt', [2.0, 1.0]), ('q2', 'metal', [-1.0, 0.0])\n      ) AS t(row_id, question, vector)");
    workspace.write("p.yaml", text + "  words: { retrieve: { from: queries, query: question, memory: memory, index: bm25, top_k: 3 } }
  both: { rank_fusion: { from: [words, found], top_k: 1 } }
");
    workspace.run();
    let best = workspace.sql("SELECT query_id, fact, round(1 / score, 6) AS r FROM both");
    assert_eq!(best.len(), 2);
    assert_eq!(best[0]["fact"], "Salt dissolves.");
    assert_eq!(best[1]["fact"], "Iron is a metal.");
}
