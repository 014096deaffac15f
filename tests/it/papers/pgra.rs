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
        // Both encoders find k candidates for every sentence; BM25 those that share a word with it.
        none(format!(
            "SELECT count(*) AS n FROM {at}.items AS i CROSS JOIN (VALUES ('dense'), ('second'), ('bm25')) AS r(retriever)
             LEFT JOIN (SELECT retriever, query_id, count(DISTINCT id) AS found FROM {at}_found.candidates GROUP BY retriever, query_id) AS c
             ON c.retriever = r.retriever AND c.query_id = i.id WHERE coalesce(c.found, 0) NOT BETWEEN CASE r.retriever WHEN 'bm25' THEN 0 ELSE 40 END AND 40"
        ));
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
                "SELECT count(*) AS n FROM {at}_inputs.evidence_{system} AS e
                 LEFT JOIN {at}_found_rerank.ranked AS r ON r.retriever = 'dense' AND r.query_id = e.query_id AND r.{rank} = e.place
                 WHERE r.text IS NULL OR r.text <> e.evidence"
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

/// A reader is trained without what it does not read: the index and the language model may take hours.
#[test]
fn a_reader_needs_only_what_it_reads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stages = |system: &str| {
        let workspace = Workspace::new();
        let params = [
            format!("systems={system}"),
            format!("output={}", workspace.path("models").display()),
            "tasks=questions".to_owned(),
            "steps=1".to_owned(),
            "reader=nothing".to_owned(),
            "start=".to_owned(),
        ];
        let given = params.iter().flat_map(|param| ["--param", param]);
        let select = ["--select", "page"];
        let start = ["run", "pipelines/fit_pgra_tasks.yaml"];
        let args: Vec<&str> = start.into_iter().chain(given).chain(select).collect();
        let mut run = workspace.command(&args);
        run.current_dir(root).env("PROOFMILL_STORE", workspace.path("store"));
        let done = run.output().unwrap();
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{told}");
        assert!(workspace.path("models/questions").join(format!("{system}-0")).is_dir());
        ["indexes_dense.entries", "found_rerank.states"].map(|stage| told.contains(stage))
    };
    assert_eq!(stages("plain"), [false, false]);
    assert_eq!(stages("fid"), [true, false]);
    assert_eq!(stages("pgra"), [true, true]);
}

#[test]
fn stage_1_finds_k_candidates_of_every_sentence_and_a_pool_can_be_recombined() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = Workspace::new();
    let run = |more: &[&str]| {
        let args: Vec<&str> =
            ["run", "pipelines/pgra_search.yaml"].into_iter().chain(more.iter().copied()).collect();
        let mut run = workspace.command(&args);
        run.current_dir(root).env("PROOFMILL_STORE", workspace.path("store"));
        let done = run.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let number = |sql: &str| workspace.sql(sql)[0]["n"].as_i64().unwrap();
    run(&[]);
    let short = "SELECT count(*) AS n FROM items AS i LEFT JOIN
        (SELECT query_id, count(*) AS found FROM by.found GROUP BY query_id) AS f ON f.query_id = i.id WHERE coalesce(f.found, 0) <> 150";
    assert_eq!((number("SELECT count(*) AS n FROM items"), number(short)), (170, 0));

    run(&["--param", "pool_sources=lines,recombined", "--select", "pool.counts"]);
    let at = "pool_source_recombined";
    let halves = number(&format!("SELECT count(*) AS n FROM {at}.halves"));
    let all = number(&format!("SELECT count(*) AS n FROM {at}.texts"));
    assert_eq!((halves, all), (572, 9 * 572));
    // Each is made of two halves.
    let made = format!(
        "SELECT count(*) AS n FROM {at}.texts AS t LEFT JOIN (
           SELECT DISTINCT array_to_string(array_concat(a.first, b.second), ' ') AS text FROM {at}.halves AS a CROSS JOIN {at}.halves AS b
         ) AS m ON m.text = t.text WHERE m.text IS NULL"
    );
    assert_eq!(number(&made), 0);
    // Each half of each text stands in as many of them.
    let words = |table: &str| {
        let sum = "sum(cardinality(string_to_array(text, ' ')))";
        number(&format!("SELECT CAST({sum} AS BIGINT) AS n FROM {table}"))
    };
    assert_eq!(words(&format!("{at}.texts")), 9 * words(&format!("{at}.halves")));
}
