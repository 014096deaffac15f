//! The pipeline of PGRA, on the sample that ships: what must hold of every system and stage, whatever the numbers are.

use std::path::Path;

use crate::support::Workspace;

const TASKS: [&str; 2] = ["sentiment", "questions"];

#[test]
fn every_stage_keeps_its_rule() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = Workspace::new();
    let output = format!("output={}", workspace.path("page").display());
    let mut run = workspace.command(&["run", "pipelines/pgra.yaml", "--param", &output]);
    run.current_dir(root).env("PROOFMILL_STORE", workspace.path("store"));
    let done = run.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let none = |sql: String| {
        let found = workspace.sql(&sql)[0]["n"].as_i64().unwrap();
        assert_eq!(found, 0, "{sql}");
    };
    for task in TASKS {
        let at = format!("study_of_{task}_pgra");
        // The reranker orders the candidates of stage 1, all of them, and adds none.
        none(format!(
            "SELECT count(*) AS n FROM {at}_found_rerank.ranked AS r FULL JOIN {at}_found.candidates AS c
             ON c.retriever = r.retriever AND c.query_id = r.query_id AND c.id = r.id AND c.first_rank = r.first_rank
             WHERE r.id IS NULL OR c.id IS NULL"
        ));
        none(format!(
            "SELECT count(*) AS n FROM (SELECT retriever, query_id FROM {at}_found_rerank.ranked
             GROUP BY retriever, query_id HAVING max(rank) <> count(*) OR count(DISTINCT rank) <> count(*) OR abs(sum(similarity) - 1) > 1e-9)"
        ));
        none(format!(
            "SELECT count(*) AS n FROM {at}_found_rerank.ranked AS a JOIN {at}_found_rerank.ranked AS b
             ON a.retriever = b.retriever AND a.query_id = b.query_id AND a.rank + 1 = b.rank WHERE a.cosine < b.cosine"
        ));
        // The sentence and what follows it are whole in all that the language model read.
        none(format!("SELECT count(*) AS n FROM {at}_found_rerank.states WHERE NOT whole"));
        // No demonstration is a training sentence, and neither is a sentence that is asked about.
        none(format!(
            "SELECT count(*) AS n FROM {at}.train AS t WHERE lower(t.text) IN (SELECT lower(text) FROM {at}_data.demos)
             OR lower(t.text) IN (SELECT lower(text) FROM {at}.items)"
        ));
        // FiD reads what stage 1 found first, PGRA what stage 2 put first.
        for (system, rank) in [("fid", "first_rank"), ("pgra", "rank")] {
            none(format!(
                "SELECT count(*) AS n FROM {at}_inputs.evidence AS e
                 LEFT JOIN {at}_found_rerank.ranked AS r ON r.retriever = 'dense' AND r.query_id = e.query_id AND r.{rank} = e.place
                 WHERE e.system = '{system}' AND (r.text IS NULL OR r.text <> e.evidence)"
            ));
        }
        // Every system answers every sentence once.
        for system in ["icl", "plain", "lmbff", "knn", "rag", "fid", "pgra"] {
            none(format!(
                "SELECT count(*) AS n FROM {at}.items AS i FULL JOIN (SELECT id, count(*) AS times FROM {at}_systems_{system}_0.answers GROUP BY id) AS a
                 ON a.id = i.id WHERE a.times IS NULL OR a.times <> 1 OR i.id IS NULL"
            ));
        }
    }
    // Behind a prefix that all share, at least ten times fewer tokens are computed than by a pass for each pair.
    let cost = workspace.sql("SELECT pair_tokens, shared_tokens FROM study.cost");
    assert_eq!(cost.len(), TASKS.len());
    for row in cost {
        let of = |column: &str| row[column].as_i64().unwrap();
        assert!(of("shared_tokens") * 10 <= of("pair_tokens"), "{row}");
    }
}
