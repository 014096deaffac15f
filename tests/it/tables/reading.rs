//! `read` through the program: formats, compression, globs, nested fields, and rows that are wrong.

use std::io::Write as _;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use serde_json::json;

use crate::support::{Workspace, set};

const JSONL: &str = "\
{\"id\": 1, \"q\": {\"stem\": \"one\", \"choices\": [{\"text\": \"a\"}, {\"text\": \"b\"}]}}
{\"id\": 2, \"q\": {\"stem\": \"two\", \"choices\": [{\"text\": \"c\"}]}}
{\"id\": 3, \"q\": null}
";
const BAD: &str = "{\"id\": 1}\n{\"id\": 2}\nnot json\n{\"id\": 4}\n\n{\"id\": \"five\"}\n";

fn reader(settings: &str) -> Workspace {
    Workspace::with(&format!("pipeline: p\nstages:\n  t:\n    {settings}\n"))
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_format_gives_the_same_rows() {
    let id: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![1, 2]));
    let name: ArrayRef = std::sync::Arc::new(StringArray::from(vec!["one", "two"]));
    let batch = RecordBatch::try_from_iter([("id", id), ("name", name)]).unwrap();
    let mut parquet = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut parquet, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let (csv, jsonl) =
        ("id,name\n1,one\n2,two\n", "{\"id\":1,\"name\":\"one\"}\n{\"id\":2,\"name\":\"two\"}\n");
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (name, bytes) in [
        ("t.csv", csv.as_bytes().to_vec()),
        ("t.tsv", csv.replace(',', "\t").into_bytes()),
        ("t.jsonl", jsonl.as_bytes().to_vec()),
        ("t.ndjson", jsonl.as_bytes().to_vec()),
        ("t.json", format!("[{}]", jsonl.trim().replace('\n', ",")).into_bytes()),
        ("t.parquet", parquet),
        ("t.csv.gz", gzip(csv)),
        ("t.jsonl.gz", gzip(jsonl)),
        ("t.jsonl.zst", zstd(jsonl)),
        ("t.tsv.zst", zstd(&csv.replace(',', "\t"))),
    ] {
        let workspace = reader(&format!("read: {{ path: {name} }}"));
        workspace.write(name, bytes);
        workspace.run();
        let rows = workspace.sql("SELECT id, name FROM t ORDER BY id");
        assert_eq!(
            rows,
            [json!({"id": 1, "name": "one"}), json!({"id": 2, "name": "two"})],
            "{name}"
        );
        let ids =
            workspace.sql("SELECT count(DISTINCT row_id) AS n, min(length(row_id)) AS l FROM t");
        assert_eq!(ids, [json!({"n": 2, "l": 32})], "{name}");
    }
    let workspace = reader("read: { path: t.txt }");
    workspace.write("t.txt", "one, two\n\r\nthree");
    workspace.run();
    let lines = workspace.sql("SELECT line FROM t ORDER BY line");
    assert_eq!(lines, [json!({"line": ""}), json!({"line": "one, two"}), json!({"line": "three"})]);
}

#[test]
fn globs_folders_and_lists() {
    for path in ["\"in/*.csv\"", "in", "[in/b.csv, in/a.csv]"] {
        let workspace = reader(&format!("read: {{ path: {path} }}"));
        workspace.write("in/b.csv", "x\n2\n");
        workspace.write("in/a.csv", "x\n1\n");
        workspace.run();
        assert_eq!(workspace.sql("SELECT sum(x) AS s FROM t")[0]["s"], 3, "{path}");
        // Another file is another input, even without another line in the pipeline.
        if !path.starts_with('[') {
            workspace.write("in/c.csv", "x\n4\n");
            assert_eq!(workspace.run(), set(&["t"]), "{path}");
            assert_eq!(workspace.sql("SELECT sum(x) AS s FROM t")[0]["s"], 7, "{path}");
        }
    }
    let workspace = reader("read: { path: \"in/*.csv\" }");
    workspace.proofmill(&["run", "p.yaml"]).expect(3).says("in/*.csv");
}

#[test]
fn nested_fields() {
    let workspace = reader(
        "read: { path: t.jsonl, columns: { id: id, stem: q.stem, first: 'q.choices[0].text', second: 'q.choices[1].text' } }",
    );
    workspace.write("t.jsonl", JSONL);
    workspace.run();
    assert_eq!(
        workspace.sql("SELECT id, stem, first, second FROM t ORDER BY id"),
        [
            json!({"id": 1, "stem": "one", "first": "a", "second": "b"}),
            json!({"id": 2, "stem": "two", "first": "c", "second": null}),
            json!({"id": 3, "stem": null, "first": null, "second": null}),
        ],
    );
    workspace.edit("p.yaml", "q.stem", "q.stemm");
    workspace.proofmill(&["run", "p.yaml"]).expect(3).says("p.yaml:4");
}

#[test]
fn wrong_rows_are_kept_and_counted() {
    let settings =
        "read: { path: bad.jsonl, columns: { id: { type: integer } } }\n    max_error_rate: ";
    let workspace = reader(&format!("{settings}0.4"));
    workspace.write("bad.jsonl", BAD);
    let run = workspace.json(&["run", "p.yaml"]);
    assert_eq!(
        (&run["stages"][0]["rows"], &run["stages"][0]["error_rows"]),
        (&json!(3), &json!(2))
    );
    let rows = workspace.sql("SELECT source, row, line, class, raw FROM t__errors ORDER BY row");
    assert_eq!(
        rows,
        [
            json!({"source": "bad.jsonl", "row": 3, "line": 3, "class": "syntax", "raw": "not json"}),
            json!({"source": "bad.jsonl", "row": 5, "line": 6, "class": "type", "raw": "{\"id\": \"five\"}"}),
        ],
    );
    assert_eq!(workspace.run(), set(&[]));
    assert_eq!(
        workspace.sql("SELECT count(*) AS n FROM t__errors")[0]["n"],
        2,
        "kept with the table"
    );
    // A table without errors has no table of errors.
    workspace.write("bad.jsonl", "{\"id\": 1}\n");
    workspace.run();
    workspace.proofmill(&["sql", "SELECT * FROM t__errors"]).expect(2).says("no table `t__errors`");
}

#[test]
fn too_many_wrong_rows_fail_the_stage() {
    let settings = "read: { path: bad.jsonl, columns: { id: { type: integer } } }\n    ";
    for (more, shown) in [
        ("max_error_rate: 0.39", "2 of 5 records cannot be read"),
        // The default accepts none.
        ("description: strict", "2 of 5 records cannot be read"),
        ("on_error: fail\n    max_error_rate: 1.0", "bad.jsonl:3: "),
    ] {
        let workspace = reader(&format!("{settings}{more}"));
        workspace.write("bad.jsonl", BAD);
        workspace.proofmill(&["run", "p.yaml"]).expect(1).says(shown).says("bad.jsonl:3: ");
        assert!(workspace.keys("artifacts/").is_empty(), "a failed stage leaves no table");
        workspace.write("bad.jsonl", "{\"id\": 1}\n");
        assert_eq!(workspace.run(), set(&["t"]));
    }
}

#[test]
fn a_limit_takes_the_first_by_identity_and_says_so() {
    let ids = [7, 2, 9, 0, 4, 1, 8, 3, 6, 5];
    let line = |id: &i32| format!("{{\"row_id\": \"r{id}\", \"x\": {id}}}\n");
    for pieces in [1, 4] {
        let workspace = reader(&format!("read: {{ path: a.jsonl }}\n    partitions: {pieces}"));
        workspace.write("a.jsonl", ids.iter().map(line).collect::<String>());
        let values = || -> Vec<i64> {
            let rows = workspace.sql("SELECT x FROM t");
            rows.iter().map(|row| row["x"].as_i64().unwrap()).collect()
        };
        let done = workspace.proofmill(&["run", "p.yaml", "--limit", "3"]).expect(0);
        done.says("`--limit 3`: each `read` gives at most 3 rows").says("3 of 10 rows");
        assert_eq!(values(), [2, 0, 1]);
        let runs = workspace.proofmill(&["runs", "--json"]).expect(0).json();
        assert_eq!(runs[0]["params"], json!({ "--limit": 3 }));
        // Another table, and neither goes on as the other.
        assert_eq!(workspace.run(), set(&["t"]));
        assert_eq!(values().len(), 10);
        workspace.edit("p.yaml", "a.jsonl }", "a.jsonl, limit: 2 }");
        workspace.proofmill(&["run", "p.yaml", "--limit", "3"]).expect(0);
        assert_eq!(values(), [0, 1]);
    }
}
