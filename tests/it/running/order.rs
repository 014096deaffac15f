//! One order of rows: the same bytes whatever the number of cores, however the inputs were cut into
//! files and parts, as long as they are few enough for one piece.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::support::{Workspace, set};

/// Rows of each source: enough for several batches and, with their texts, for several parts.
const ROWS: usize = 9_000;
/// Queries of the property test.
const QUERIES: usize = 40;
/// One store for each of these: `-j`, and the pieces that each source comes in.
const STORES: [(&str, usize); 8] =
    [("1", 1), ("2", 3), ("3", 1), ("4", 5), ("1", 5), ("2", 1), ("3", 3), ("4", 1)];

/// A generator of pseudo-random numbers (SplitMix64): the same queries every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

/// The records of the source `name`: groups, ties, numbers whose sums depend on their order, and a
/// text that does not compress.
fn records(name: &str, seed: u64) -> Vec<String> {
    let mut random = Random(seed);
    let record = |i: usize| {
        let (g, k) = (random.below(17), random.below(60));
        let x = random.below(1_000_000) as f64 / 7.0;
        let pad: String = (0..17).map(|_| format!("{:016x}", random.below(usize::MAX))).collect();
        format!(r#"{{"id": "{name}{i}", "g": {g}, "k": {k}, "x": {x:?}, "pad": "{pad}"}}"#)
    };
    (0..ROWS).map(record).collect()
}

/// Rows of `id`, `g`, `k` and `x`.
fn relation(random: &mut Random) -> String {
    let columns = "id, g, k, x";
    match random.below(7) {
        0 => "a".to_owned(),
        // Above the size up to which a table is kept in memory, of one part and of several.
        1 => "both".to_owned(),
        2 => "b".to_owned(),
        3 => format!("(SELECT {columns} FROM b UNION ALL SELECT {columns} FROM a) AS u"),
        4 => format!(
            "(SELECT {columns} FROM a WHERE k < 20 UNION ALL SELECT {columns} FROM b \
             UNION ALL SELECT {columns} FROM b WHERE x > 100000) AS u"
        ),
        5 => {
            "(SELECT a.id, b.g, a.k, b.x FROM a JOIN b ON a.k = b.k AND a.g = b.g) AS j".to_owned()
        }
        _ => {
            "(SELECT h.id, h.g, a.k, h.x FROM both AS h LEFT JOIN a ON h.id = a.id) AS j".to_owned()
        }
    }
}

/// A query whose answer depends on the order of the rows, their sums on their batches.
fn query(random: &mut Random) -> String {
    let from = relation(random);
    let group = random.one_of(&["g", "k % 5", "g, k"]);
    let key = random.one_of(&["k", "g", "k DESC", "g, k"]);
    match random.below(9) {
        0 => format!(
            "SELECT {group}, string_agg(id, ' ') AS ids, sum(x) AS s, avg(x) AS m, stddev(x) AS d \
             FROM {from} GROUP BY {group}"
        ),
        1 => format!(
            "SELECT first_value(id) AS f, last_value(id) AS l, sum(x) AS s, approx_median(x) AS m, \
             md5(string_agg(id, ' ')) AS ids FROM {from} WHERE x > {}",
            random.below(100_000)
        ),
        2 => {
            format!(
                "SELECT id, row_number() OVER () AS n, sum(x) OVER (ORDER BY {key}) FROM {from}"
            )
        }
        3 => format!(
            "SELECT id, lag(id) OVER (PARTITION BY g ORDER BY k) AS before, ntile(7) OVER \
             (ORDER BY {key}) AS tile FROM {from}"
        ),
        4 => format!(
            "SELECT id, g, x FROM {from} ORDER BY {key} LIMIT {} OFFSET {}",
            1 + random.below(3_000),
            random.below(200)
        ),
        5 => format!("SELECT id, x FROM {from} LIMIT {}", 1 + random.below(ROWS + 900)),
        6 => format!("SELECT DISTINCT ON (k) k, id, x FROM {from} ORDER BY k"),
        7 => format!("SELECT DISTINCT g, k FROM {from}"),
        _ => format!(
            "SELECT {group}, array_agg(DISTINCT k) AS ks, array_agg(id)[1:3] AS ids, \
             last_value(x ORDER BY {key}) AS x FROM {from} GROUP BY {group}"
        ),
    }
}

/// One source after the other; `row_id` is left out because it tells in which file a record lies.
fn both() -> String {
    let columns = "id, g, k, x, pad";
    format!("SELECT {columns} FROM a UNION ALL SELECT {columns} FROM b")
}

/// The pipeline over sources of so many pieces.
fn pipeline(queries: &[String], pieces: usize) -> String {
    let mut yaml = "pipeline: order\nstages:\n".to_owned();
    for name in ["a", "b"] {
        let paths: Vec<_> = (0..pieces).map(|i| format!("{name}{pieces}_{i}.jsonl")).collect();
        let columns = "{ id: id, g: g, k: k, x: x, pad: pad }";
        let path = paths.join(", ");
        writeln!(yaml, "  {name}: {{ read: {{ path: [{path}], columns: {columns} }} }}").unwrap();
    }
    // `row_id` tells in which file a record lies.
    writeln!(yaml, "  both: {{ sql: '{}' }}", both()).unwrap();
    for (i, query) in queries.iter().enumerate() {
        writeln!(yaml, "  q{i}: {{ sql: \"{query}\" }}\n  w{i}: {{ write: {{ from: q{i}, path: out/q{i}.jsonl }} }}").unwrap();
    }
    yaml
}

#[test]
fn the_same_bytes_whatever_the_cores_and_pieces() {
    let mut random = Random(2_022);
    let queries: Vec<String> = (0..QUERIES).map(|_| query(&mut random)).collect();
    let sources = [("a", records("a", 1)), ("b", records("b", 2))];
    let mut first: BTreeMap<usize, String> = BTreeMap::new();
    for (jobs, pieces) in STORES {
        let workspace = Workspace::with(&pipeline(&queries, pieces));
        for (name, records) in &sources {
            // Pieces of very different sizes.
            let mut rest = records.as_slice();
            for i in 0..pieces {
                let rows = if i + 1 == pieces { rest.len() } else { rest.len() / 3 + i };
                let (piece, others) = rest.split_at(rows);
                workspace.write(&format!("{name}{pieces}_{i}.jsonl"), piece.join("\n"));
                rest = others;
            }
        }
        workspace.proofmill(&["run", "p.yaml", "-j", jobs]).expect(0);
        for (i, query) in queries.iter().enumerate() {
            let table = workspace.read(&format!("out/q{i}.jsonl"));
            let expected = first.entry(i).or_insert_with(|| table.clone());
            let differs = expected.lines().zip(table.lines()).find(|(a, b)| a != b);
            assert!(*expected == table, "-j {jobs}, {pieces} pieces: {query}\n{differs:?}");
        }
    }
}

#[test]
fn a_model_is_trained_on_the_same_pairs_in_the_same_order() {
    let pipeline = r#"
pipeline: order
stages:
  a: { read: { path: FILES, columns: { id: id, g: g, k: k, x: x, pad: pad } } }
  pairs: { sql: 'SEVEN' }
  model:
    fit:
      from: pairs
      input: "'say ' || g"
      output: "'w' || k"
      path: made/model
      sizes: { d_model: 4, d_kv: 4, d_ff: 4, heads: 1, layers: 1 }
      settings: { steps: 2, batch: 4, warmup: 1, seed: 3 }
"#;
    // As many parts as `UNION ALL` has queries, were it not for the order.
    let seven = (0..7).map(|i| format!("SELECT g, k, pad FROM a WHERE k % 7 = {i}"));
    let pipeline = pipeline.replace("SEVEN", &seven.collect::<Vec<_>>().join(" UNION ALL "));
    let records = records("a", 1);
    let (head, tail) = records.split_at(2_000);
    let weights = |jobs: &str, files: &str| {
        let workspace = Workspace::with(&pipeline.replace("FILES", files));
        workspace.write("all.jsonl", records.join("\n"));
        workspace.write("head.jsonl", head.join("\n"));
        workspace.write("tail.jsonl", tail.join("\n"));
        workspace.proofmill(&["run", "p.yaml", "-j", jobs]).expect(0);
        std::fs::read(workspace.path("made/model/model.safetensors")).unwrap()
    };
    let first = weights("1", "all.jsonl");
    for (jobs, files) in [("4", "all.jsonl"), ("2", "[head.jsonl, tail.jsonl]"), ("3", "all.jsonl")]
    {
        assert!(weights(jobs, files) == first, "-j {jobs}, {files}");
    }
}

#[test]
fn metrics_are_shown_in_the_order_of_the_file() {
    let workspace = Workspace::with(
        "pipeline: order
stages:
  a: { sql: 'SELECT * FROM (VALUES (1, 2, 3), (4, 5, 6)) AS t(id, x, y)' }
  b: { sql: 'SELECT id, x + 1 AS x, y FROM a' }
  measured: { measure: { from: a, metrics: { first: x, second: y } } }
  compared: { compare: { baseline: a, candidate: b, key: id, metrics: { first: x, second: y } } }
",
    );
    let names = || {
        let names = |rows: Vec<serde_json::Value>| -> Vec<String> {
            rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
        };
        let compared = workspace.sql("SELECT metric AS name FROM compared");
        (names(workspace.sql("SELECT name FROM measured")), names(compared))
    };
    workspace.run();
    let (measured, compared) = names();
    assert_eq!(
        (&measured[..], &compared[..]),
        (&["first".into(), "second".into()][..], &measured[..])
    );
    for stage in ["from: a, metrics: {", "key: id, metrics: {"] {
        workspace.edit(
            "p.yaml",
            &format!("{stage} first: x, second: y"),
            &format!("{stage} second: y, first: x"),
        );
    }
    assert_eq!(workspace.run(), set(&["measured", "compared"]));
    let reversed: Vec<String> = measured.into_iter().rev().collect();
    assert_eq!(names(), (reversed.clone(), reversed));
}

/// A pipeline over a source of so many rows, with one query.
fn warned(rows: usize, head: &str, query: &str, tail: &str) -> Workspace {
    let workspace = Workspace::with(&format!(
        "pipeline: order\n{head}stages:\n  a: {{ read: {{ path: a.jsonl }}, checks: [{{ unique: [u, v] }}] }}\n  q:\n    \
         sql: {query}\n{tail}"
    ));
    let record = |i: usize| format!(r#"{{"g": {}, "u": {i}, "v": {i}, "x": {i}}}"#, i % 7);
    workspace.write("a.jsonl", (0..rows).map(record).collect::<Vec<_>>().join("\n"));
    workspace
}

#[test]
fn what_no_order_fixes_is_said_at_its_place() {
    for (word, query) in [
        ("first_value", "SELECT g, first_value(x) AS x FROM a GROUP BY g"),
        ("last_value", "SELECT g, last_value(x ORDER BY u) AS x FROM a GROUP BY g"),
        ("array_agg", "SELECT array_agg(x) AS x FROM a"),
        ("array_agg", "SELECT array_agg(DISTINCT g) AS x FROM a"),
        ("string_agg", "SELECT string_agg(g, ' ' ORDER BY x) AS x FROM a"),
        ("row_number", "SELECT row_number() OVER (PARTITION BY g ORDER BY u) AS x FROM a"),
        ("lag", "SELECT lag(x) OVER (ORDER BY v) AS x FROM a"),
        ("ntile", "SELECT ntile(4) OVER () AS x FROM a"),
        ("sum", "SELECT sum(x) OVER (ORDER BY g ROWS 3 PRECEDING) AS x FROM a"),
        ("LIMIT", "SELECT x FROM a LIMIT 10"),
        ("LIMIT", "SELECT x, g FROM a ORDER BY x LIMIT 10"),
        ("LIMIT", "SELECT * FROM a WHERE x IN (SELECT u FROM a ORDER BY g LIMIT 3)"),
        ("OFFSET", "SELECT x FROM a ORDER BY g OFFSET 10"),
        ("LIMIT", "SELECT x FROM a ORDER BY CAST(row_id AS BIGINT) / 2 LIMIT 10"),
        ("LIMIT", "SELECT x, g FROM a ORDER BY CAST(x AS BOOLEAN), g LIMIT 10"),
        ("LIMIT", "SELECT x FROM a WHERE v <> 1 ORDER BY u LIMIT 10"),
        ("DISTINCT", "SELECT DISTINCT ON (g) g, x FROM a ORDER BY g"),
    ] {
        let workspace = warned(7, "strict: [order]\n", query, "");
        let found = workspace.proofmill(&["check", "p.yaml"]).expect(3);
        let column = 10 + query.find(word).unwrap();
        let done = found.says("error[E0309]").says(word);
        done.says(&format!("p.yaml:6:{column}"));
    }
}

#[test]
fn what_an_order_fixes_is_not_complained_about() {
    for query in [
        "SELECT g, first_value(x ORDER BY row_id) AS x FROM a GROUP BY g",
        "SELECT g, first_value(x ORDER BY u, v) AS x FROM a GROUP BY g",
        "SELECT u, v, first_value(x) AS x FROM a GROUP BY u, v",
        "SELECT array_agg(x ORDER BY x) AS xs, array_agg(DISTINCT g ORDER BY g) AS gs FROM a",
        "SELECT row_number() OVER (PARTITION BY u ORDER BY v) AS n FROM a",
        "SELECT rank() OVER (ORDER BY g) AS n, sum(x) OVER (ORDER BY g) AS s FROM a",
        "SELECT x FROM a ORDER BY g, row_id LIMIT 10",
        "SELECT x, g FROM a ORDER BY g, x LIMIT 10",
        "SELECT g, count(*) AS n FROM a GROUP BY g ORDER BY g LIMIT 3",
        "SELECT count(*) AS n FROM a LIMIT 1",
        "SELECT b.x FROM a JOIN a AS b ON a.row_id = b.row_id ORDER BY b.row_id LIMIT 3",
        "SELECT t.x FROM (SELECT row_id AS r, x FROM a WHERE x > 2) AS t ORDER BY t.r LIMIT 3",
        "SELECT x, g FROM a ORDER BY x, CAST(g AS VARCHAR) LIMIT 10",
        "SELECT t.x FROM (SELECT u, x FROM a WHERE v = 1) AS t ORDER BY t.u LIMIT 3",
        "SELECT x, row_number() OVER (PARTITION BY g ORDER BY x) AS n FROM (SELECT g, x FROM a) AS t",
    ] {
        let workspace = warned(7, "strict: [order]\n", query, "");
        workspace.proofmill(&["check", "p.yaml"]).expect(0);
    }
}

#[test]
fn small_evaluations_hear_nothing_of_order() {
    let query = "SELECT g, first_value(x) AS x FROM a GROUP BY g";
    let check = |rows, head: &str, tail: &str| {
        warned(rows, head, query, tail).proofmill(&["check", "p.yaml"])
    };
    assert!(!check(50_000, "", "").expect(0).stderr.contains("E0309"));
    check(120_000, "", "").expect(0).says("warning[E0309]").says("p.yaml:5:20");
    check(7, "", "    partitions: 2\n").expect(0).says("warning[E0309]");
    check(120_000, "strict: [order]\n", "    partitions: 1\n").expect(0);
    check(7, "strict: [ordre]\n", "").expect(3);
}

#[test]
fn what_a_template_warns_of_is_told_once_and_counted() {
    let workspace = warned(7, "", "SELECT 1 AS x", "");
    workspace.write("lib.yaml", "template: lib\nstages:\n  a: { sql: 'SELECT value AS x FROM range(5)' }\n  l: { sql: SELECT x FROM a LIMIT 2, partitions: 2 }\n");
    for name in ["one", "two"] {
        workspace.write(
            &format!("{name}.yaml"),
            format!("pipeline: {name}\nstages:\n  g: {{ use: lib.yaml }}\n"),
        );
    }
    let done = workspace.proofmill(&["check", "one.yaml", "two.yaml"]).expect(0);
    let done = done.says("2 files, 4 stages: no errors, 1 warning");
    assert_eq!(done.stderr.matches("warning[E0309]").count(), 1, "{}", done.stderr);
    assert_eq!(workspace.json(&["check", "one.yaml", "two.yaml"]).as_array().unwrap().len(), 1);
    workspace.write(
        "three.yaml",
        "pipeline: three\nstages:\n  g: { use: lib.yaml }\n  b: { sql: SELECT y FROM g.a }\n",
    );
    workspace
        .proofmill(&["check", "one.yaml", "three.yaml"])
        .expect(3)
        .says("1 error, 1 warning in 2 files");
}
