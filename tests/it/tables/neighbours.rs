//! Neighbours keep the id and the columns of their rows: k nearest neighbours held against NumPy, rows with the
//! same text among them, and what is refused.

use serde_json::{Value as Json, json};

use crate::support::Workspace;

fn expected(workspace: &Workspace) -> Vec<Json> {
    let text = workspace.read("expected.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// tests/parity/neighbours.py looks up no text: it goes by rows alone. 22 of the 82 sentences stand twice.
#[test]
fn a_classifier_by_neighbours_has_the_numbers_of_numpy() {
    let workspace = Workspace::of_case("neighbours");
    workspace.run();
    let predicted = workspace.sql("SELECT * FROM predicted");
    let expected = expected(&workspace);
    let (mut asked, mut right) = (0, Vec::new());
    for want in &expected {
        let text = |key: &str| want[key].as_str().unwrap().to_owned();
        let (kind, query, k) = (text("kind"), text("query"), want["k"].to_string());
        let is_it = |row: &&Json| {
            row["kind"] == kind.as_str()
                && row["k"] == k.as_str()
                && row["query_id"] == query.as_str()
        };
        let found = predicted.iter().find(is_it);
        if want["neighbours"].as_array().unwrap().is_empty() {
            assert_eq!(found, None, "{kind} {k} {query}");
            continue;
        }
        let found = found.unwrap_or_else(|| panic!("{kind} {k} {query}"));
        asked += 1;
        assert_eq!(found["neighbours"], want["neighbours"], "{kind} {k} {query}");
        assert_eq!(found["labels"], want["labels"], "{kind} {k} {query}");
        let scores = |of: &Json| -> Vec<f64> {
            of["scores"].as_array().unwrap().iter().map(|score| score.as_f64().unwrap()).collect()
        };
        for (found, want) in scores(found).into_iter().zip(scores(want)) {
            assert!(
                (found - want).abs() <= 1e-12 * want.abs(),
                "{kind} {k} {query}: {found} {want}"
            );
        }
        for key in ["mode", "vote"] {
            assert_eq!(found[key], want[key].to_string(), "{key} of {kind} {k} {query}");
        }
        right.push((kind, k, query, want["mode"].clone()));
    }
    assert_eq!(predicted.len(), asked, "and no others");

    // Accuracy over all queries, the one without neighbours included.
    let test = workspace.sql("SELECT id, label FROM test");
    let hits = |kind: &str, k: &str| {
        let is_right = |(a, b, query, label): &&(String, String, String, Json)| {
            a == kind
                && b == k
                && test.iter().any(|row| row["id"] == query.as_str() && row["label"] == *label)
        };
        right.iter().filter(is_right).count() as f64 / test.len() as f64
    };
    let accuracy = workspace.sql("SELECT kind, k, value FROM accuracy");
    let line = |(kind, k): (&str, &str)| json!({"kind": kind, "k": k, "value": hits(kind, k)});
    let both = ["bm25", "dense"].into_iter().flat_map(|kind| ["1", "4", "15"].map(|k| (kind, k)));
    assert_eq!(accuracy, both.map(line).collect::<Vec<_>>(), "numbers by value: 4 before 15");
    let pairs = workspace.sql("SELECT baseline, candidate FROM versus");
    let line = |(a, b)| json!({"baseline": a, "candidate": b});
    assert_eq!(pairs, [("1", "4"), ("1", "15"), ("4", "15")].map(line));
}

/// A memory of all types, its rows told apart by a number, and queries.
const MEMORY: &str = "pipeline: p
stages:
  memory:
    sql: |
      SELECT * FROM (VALUES
        (7, 'iron rusts', [1.0, 0.0], 'metal', 1.5, [1, NULL], true, DATE '2026-11-23'),
        (8, 'Iron  rusts', [1.0, 0.0], 'noise', NULL, NULL, NULL, NULL),
        (9, 'bees fly', [0.0, 1.0], NULL, 2.5, [3], false, DATE '2026-11-24'),
        (10, '', [0.5, 0.5], 'empty', 0.0, [4], false, DATE '2026-11-25'),
        (11, NULL, NULL, 'null', 0.0, [5], false, DATE '2026-11-26')
      ) AS t(number, fact, vector, \"Label\", weight, list, flag, day)
  queries:
    sql: SELECT 'q' AS row_id, 'iron bees' AS text, [2.0, 1.0] AS vector
  words: { index: { from: memory, id: number, keep: [Label, weight, list, flag, day] } }
  meanings: { index: { from: memory, kind: dense, id: number, keep: [Label, weight, list, flag, day] } }
  by_words: { retrieve: { from: queries, query: text, memory: words, top_k: 5 } }
  by_meaning: { retrieve: { from: queries, query: vector, memory: meanings, top_k: 5 } }
  by_both: { rank_fusion: { from: [by_words, by_meaning], keep: [Label, day], top_k: 5 } }
";

#[test]
fn columns_of_all_types_come_along_and_equal_texts_stay_apart() {
    let workspace = Workspace::with(MEMORY);
    workspace.run();
    for (table, made) in [
        ("by_words", "bm25/fact/lucene/k1=1.2/b=0.75/word/rows"),
        ("by_meaning", "dense/fact/rows"),
    ] {
        let rows = workspace.sql(&format!(
            "SELECT fact_id, fact, \"index\" AS made, \"Label\" AS label, weight, list, flag, day FROM {table}
             ORDER BY fact_id"
        ));
        let line = |id: &str,
                    fact: &str,
                    label: Json,
                    weight: Json,
                    list: Json,
                    flag: Json,
                    day: Json| {
            json!({
                "fact_id": id, "fact": fact, "made": made, "label": label, "weight": weight, "list": list,
                "flag": flag, "day": day,
            })
        };
        let null = Json::Null;
        let expected = [
            line(
                "7",
                "iron rusts",
                json!("metal"),
                json!(1.5),
                json!([1, null]),
                json!(true),
                json!("2026-11-23"),
            ),
            line(
                "8",
                "Iron  rusts",
                json!("noise"),
                null.clone(),
                null.clone(),
                null.clone(),
                null.clone(),
            ),
            line("9", "bees fly", null, json!(2.5), json!([3]), json!(false), json!("2026-11-24")),
        ];
        assert_eq!(rows, expected, "{table}");
    }
    // Rows are the same by their ids: neither is lost to the other, and each has both ranks.
    let fused = workspace.sql(
        "SELECT fact_id, \"Label\" AS label, day, evidence[1]['rank'] AS words, evidence[2]['rank'] AS meaning
         FROM by_both ORDER BY fact_id",
    );
    let ranks: Vec<Json> = fused
        .iter()
        .map(|row| json!([row["fact_id"], row["label"], row["words"], row["meaning"]]))
        .collect();
    let expected =
        [json!(["7", "metal", 2, 1]), json!(["8", "noise", 3, 2]), json!(["9", null, 1, 3])];
    assert_eq!(ranks, expected);
    assert_eq!(fused[0]["day"], "2026-11-23");
    // An index is a table of its rows, too.
    let entries = workspace.sql("SELECT entry, fact_id, sources, \"Label\" AS label FROM words");
    let line = |(entry, id, label): (u64, &str, Json)| json!({"entry": entry, "fact_id": id, "sources": 1, "label": label});
    let lines = [(0, "7", json!("metal")), (1, "8", json!("noise")), (2, "9", Json::Null)];
    assert_eq!(entries, lines.map(line));
}

#[test]
fn an_index_on_the_way_keeps_columns_as_well() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  memory: { sql: \"SELECT * FROM (VALUES ('a', 'iron', 'x'), ('b', 'iron', 'y')) AS t(row_id, fact, label)\" }
  queries: { sql: \"SELECT 'q' AS row_id, 'iron' AS text\" }
  labels: { retrieve: { from: queries, query: text, memory: memory, index: bm25, keep: [label], top_k: 5 } }
  ids: { retrieve: { from: queries, query: text, memory: memory, index: bm25, keep: [row_id], top_k: 5 } }
  plain: { retrieve: { from: queries, query: text, memory: memory, index: bm25, top_k: 5 } }
",
    );
    workspace.run();
    let labels = workspace.sql("SELECT fact_id, label FROM labels ORDER BY rank");
    assert_eq!(
        labels,
        [("a", "x"), ("b", "y")].map(|(id, label)| json!({"fact_id": id, "label": label}))
    );
    let ids = workspace.sql("SELECT row_id FROM ids ORDER BY rank");
    assert_eq!(ids, ["a", "b"].map(|id| json!({"row_id": id})));
    let plain = workspace.sql("SELECT * FROM plain");
    assert_eq!(plain.len(), 1, "without `keep`, rows with the same text share an entry");
}

#[test]
fn neighbours_keep_what_is_asked_for() {
    let workspace = Workspace::with(MEMORY);
    workspace.edit("p.yaml", "memory: words, top_k", "memory: words, keep: [flag, Label], top_k");
    workspace.edit("p.yaml", "keep: [Label, day], top_k", "keep: [Label], top_k");
    workspace.run();
    let row = &workspace.sql("SELECT * FROM by_words LIMIT 1")[0];
    let names: Vec<&String> = row.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["query_id", "rank", "score", "fact_id", "fact", "index", "snapshot", "flag", "Label"]
    );
}

#[test]
fn what_cannot_be_kept_is_refused_at_its_place() {
    for (old, new, message) in [
        (
            "words: { index: { from: memory, id: number, keep: [Label,",
            "words: { index: { from: memory, id: number, keep: [label,",
            "the input has no column `label`",
        ),
        (
            "words: { index: { from: memory, id: number, keep: [Label,",
            "words: { index: { from: memory, id: number, keep: [fact, Label,",
            "the table already has a column `fact`",
        ),
        (
            "words: { index: { from: memory, id: number, keep: [Label,",
            "words: { index: { from: memory, id: number, keep: [Label, Label,",
            "the table already has a column `Label`",
        ),
        (
            "words: { index: { from: memory, id: number,",
            "words: { index: { from: memory,",
            "`keep` needs `id`: the memory has no column `row_id`",
        ),
        ("from: memory, id: number,", "from: memory, id: numbr,", "no column `numbr`"),
        (
            "words: { index: { from: memory, id: number,",
            "words: { index: { from: memory, id: list,",
            "column `list`: expected a string or a whole number",
        ),
        (
            "words: { index: { from: memory, id: number,",
            "words: { index: { from: memory, by: relevant_questions, question: fact, id: number,",
            "`by: relevant_questions` makes one entry of several rows",
        ),
        (
            "memory: words, top_k",
            "memory: words, keep: [Labl], top_k",
            "the index `words` does not keep `Labl`",
        ),
        (
            "memory: words, top_k",
            "memory: words, keep: [flag, flag], top_k",
            "`flag` is named twice",
        ),
        ("keep: [Label, day], top_k", "keep: [evidence], top_k", "no column `evidence`"),
        ("keep: [Label, day], top_k", "keep: [rank], top_k", "already has a column `rank`"),
        (
            "memory: meanings, top_k",
            "memory: meanings, keep: [day], top_k",
            "column `Label` of `by_meaning` is missing, but `keep` takes it from all rankings",
        ),
        (
            "kind: dense, id: number, keep: [Label, weight, list, flag, day] } }",
            "kind: dense } }",
            "`by_words` identifies facts by a column and `by_meaning` by their text",
        ),
    ] {
        let workspace = Workspace::with(MEMORY);
        workspace.edit("p.yaml", old, new);
        workspace.proofmill(&["check", "p.yaml"]).expect(3).says(message);
    }
}

#[test]
fn an_id_stands_for_one_row() {
    for (old, new, message) in [
        ("(8, 'Iron", "(7, 'Iron", "two rows of the memory have the `number` `7`"),
        ("(8, 'Iron", "(NULL, 'Iron", "`number` of row 2 is NULL"),
    ] {
        for kind in ["words", "meanings"] {
            let workspace = Workspace::with(MEMORY);
            workspace.edit("p.yaml", old, new);
            let args = ["run", "p.yaml", "--select", &format!("+{kind}")];
            workspace.proofmill(&args).expect(1).says(message);
        }
        // A row that gives no entry needs no id of its own.
        let workspace = Workspace::with(MEMORY);
        workspace.edit("p.yaml", "(11, NULL", "(7, NULL");
        workspace.edit("p.yaml", "(10, ''", "(NULL, ''");
        workspace.run();
    }
}

/// `guides` runs the commands of the guide; here is the one table that it shows.
#[test]
fn the_table_of_the_guide_is_what_is_printed() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("docs/guides/neighbours.md");
    let guide = std::fs::read_to_string(&path).unwrap();
    let block = |fence: &str| guide.split(fence).nth(1).unwrap().split("\n```").next().unwrap();
    let query = block("```sh\n").lines().nth(1).unwrap().split('"').nth(1).unwrap();
    let workspace = Workspace::new();
    let store = workspace.path("store").display().to_string();
    let said = |args: &[&str]| {
        let mut command = workspace.command(args);
        let output = command.current_dir(root).env("PROOFMILL_STORE", &store).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    said(&["run", "pipelines/neighbours.yaml"]);
    let (shown, printed) = (block("```text\n").trim_end(), said(&["sql", query]));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, guide.replace(shown, &printed)).unwrap();
        return;
    }
    assert_eq!(shown, printed, "run `UPDATE=1 cargo test --test it neighbours`");
}
