//! Bad input: numbers that no type keeps, files that are not what they seem, pipelines that are no text. Each
//! has an answer, at its place, and nothing is rounded, dropped or waited for in silence.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use serde_json::{Value as Json, json};

use crate::support::Workspace;

/// A pipeline of one `read` with the name `t`.
fn reader(settings: &str) -> Workspace {
    Workspace::with(&format!("pipeline: p\nstages:\n  t:\n    {settings}\n"))
}

fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let field =
        |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// Ten ids beyond 64 bits with a sign that are one number in floating point.
fn ids() -> Vec<String> {
    (0..10_u64).map(|i| (18_446_744_073_709_551_000 + i).to_string()).collect()
}

#[test]
fn ids_beyond_64_bits_stay_different() {
    let ids = ids();
    let jsonl: String = ids.iter().map(|id| format!("{{\"id\": {id}}}\n")).collect();
    let nested: String = ids.iter().map(|id| format!("{{\"a\": {{\"b\": [{id}]}}}}\n")).collect();
    let of_u64 = UInt64Array::from_iter_values(ids.iter().map(|id| id.parse::<u64>().unwrap()));
    let decimals = Decimal128Array::from_iter_values(ids.iter().map(|id| id.parse().unwrap()));
    let decimals = decimals.with_precision_and_scale(38, 0).unwrap();
    for (name, content, id) in [
        ("t.jsonl", jsonl.clone().into_bytes(), "id"),
        ("t.json", format!("[{}]", jsonl.trim().replace('\n', ",")).into_bytes(), "id"),
        ("t.csv", format!("id\n{}\n", ids.join("\n")).into_bytes(), "id"),
        ("t.jsonl", nested.into_bytes(), "a['b'][1]"),
        ("t.parquet", parquet(vec![("id", Arc::new(of_u64))]), "id"),
        ("t.parquet", parquet(vec![("id", Arc::new(decimals))]), "id"),
    ] {
        let workspace = reader(&format!("read: {{ path: {name} }}"));
        workspace.write(name, content);
        let done = workspace.proofmill(&["run", "p.yaml"]).expect(0);
        let noted = done.stderr.contains("numbers that no number type keeps");
        assert_eq!(noted, name != "t.parquet", "{name}: {}", done.stderr);
        let rows = workspace.sql(&format!("SELECT CAST({id} AS VARCHAR) AS id FROM t ORDER BY 1"));
        let expected: Vec<Json> = ids.iter().map(|id| json!({ "id": id })).collect();
        assert_eq!(rows, expected, "{name}");
    }
}

#[test]
fn fractions_do_not_round_the_whole_numbers_beside_them() {
    let ids: Vec<i64> = (0..10).map(|i| 9_007_199_254_740_990 + i).collect();
    let jsonl: String = ids.iter().map(|id| format!("{{\"id\": {id}}}\n")).collect();
    let csv: String = ids.iter().map(|id| format!("{id}\n")).collect();
    for (name, content) in [
        ("t.jsonl", format!("{jsonl}{{\"id\": 0.5}}\n")),
        ("t.jsonl", format!("{{\"id\": 0.5}}\n{jsonl}")),
        ("t.csv", format!("id\n{csv}0.5\n")),
    ] {
        let workspace = reader(&format!("read: {{ path: {name} }}"));
        workspace.write(name, content);
        workspace.run();
        let rows = workspace
            .sql("SELECT count(DISTINCT id) AS n, min(CAST(id AS DOUBLE)) AS least FROM t");
        assert_eq!(rows, [json!({"n": 11, "least": 0.5})], "{name}");
        workspace.proofmill(&["show", "t"]).expect(0);
    }
    // Whole numbers alone, and small ones beside fractions, are numbers as ever.
    for (content, kind) in [(jsonl.as_str(), "Int64"), ("{\"id\": 7}\n{\"id\": 0.5}\n", "Float64")]
    {
        let workspace = reader("read: { path: t.jsonl }");
        workspace.write("t.jsonl", content);
        workspace.run();
        assert_eq!(workspace.sql("SELECT arrow_typeof(id) AS k FROM t LIMIT 1")[0]["k"], kind);
    }
}

#[test]
fn a_declared_number_that_would_be_rounded_is_an_error_row() {
    let (kept, lost) = (9_007_199_254_740_992_i64, 9_007_199_254_740_993_i64);
    let text = |value: i64| value.to_string();
    let jsonl =
        format!("{{\"n\": {kept}}}\n{{\"n\": {lost}}}\n{{\"n\": \"{lost}\"}}\n{{\"n\": 0.1}}\n");
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![Some(kept), Some(lost), None]));
    let texts: ArrayRef =
        Arc::new(StringArray::from(vec![text(kept), text(lost), "0.1".to_owned()]));
    let decimals = Decimal128Array::from(vec![Some(10), Some(i128::from(lost) * 10 + 1), Some(-1)]);
    let decimals: ArrayRef = Arc::new(decimals.with_precision_and_scale(38, 1).unwrap());
    for (name, content, rows, errors) in [
        ("t.jsonl", jsonl.into_bytes(), 2, 2),
        ("t.csv", format!("n\n{kept}\n{lost}\n0.1\n").into_bytes(), 2, 1),
        ("t.parquet", parquet(vec![("n", longs)]), 2, 1),
        ("t.parquet", parquet(vec![("n", texts)]), 2, 1),
        ("t.parquet", parquet(vec![("n", decimals)]), 2, 1),
    ] {
        let columns = "columns: { n: { type: number } }";
        let workspace =
            reader(&format!("read: {{ path: {name}, {columns} }}\n    max_error_rate: 0.9"));
        workspace.write(name, content);
        let run = workspace.json(&["run", "p.yaml"]);
        let found = (&run["stages"][0]["rows"], &run["stages"][0]["error_rows"]);
        assert_eq!(found, (&json!(rows), &json!(errors)), "{name}");
        let faults = workspace.sql("SELECT message, class FROM t__errors");
        for fault in faults {
            let message = fault["message"].as_str().unwrap();
            assert!(message.contains("a number that 64-bit floating point keeps"), "{message}");
        }
    }
}

#[test]
fn numbers_of_a_pipeline_keep_their_digits() {
    let huge = "18446744073709551615";
    let workspace = Workspace::with(&format!(
        "pipeline: p\nparams: {{ id: {huge}, half: 0.5 }}\nstages:\n  t: {{ sql: \"SELECT '${{params.id}}' AS id, ${{params.half}} AS half\" }}\n"
    ));
    workspace.run();
    assert_eq!(workspace.sql("SELECT id FROM t")[0]["id"], huge);
    let rounded = ["check", "p.yaml", "--param", "half=9007199254740993"];
    workspace.proofmill(&rounded).expect(3).says("a number that is exact as a 64-bit float");
}

#[test]
fn two_columns_of_one_name_are_refused_before_anything_runs() {
    let column = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let bytes =
        parquet(vec![("a", column(vec![1])), ("b", column(vec![2])), ("a", column(vec![3]))]);
    let workspace = reader("read: { path: t.parquet }");
    workspace.write("t.parquet", &bytes);
    for command in ["check", "run"] {
        let done = workspace.proofmill(&[command, "p.yaml"]).expect(3);
        done.says("`t.parquet` has two columns or fields called `a`")
            .says("choose others in `columns`");
    }
    workspace.edit("p.yaml", "t.parquet }", "t.parquet, columns: { x: a } }");
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("two columns or fields called `a`");
    // What is not asked for does no harm.
    workspace.edit("p.yaml", "{ x: a }", "{ x: b }");
    workspace.run();
    assert_eq!(workspace.sql("SELECT x FROM t"), [json!({"x": 2})]);
    // The other formats: a header at once, an object as its error row.
    let workspace = reader("read: { path: t.csv }");
    workspace.write("t.csv", "a,b,a\n1,2,3\n");
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("names the column `a` twice");
}

#[test]
fn fields_of_one_name_inside_a_struct_are_refused() {
    use arrow::array::StructArray;
    let value: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
    let twice = StructArray::from(vec![
        (field("x"), Arc::clone(&value)),
        (field("y"), Arc::clone(&value)),
        (field("x"), value),
    ]);
    let workspace = reader("read: { path: t.parquet }");
    workspace.write("t.parquet", parquet(vec![("s", Arc::new(twice))]));
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("two columns or fields called `x`");
    workspace.edit("p.yaml", "t.parquet }", "t.parquet, columns: { x: s.x } }");
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("two columns or fields called `x`");
    workspace.edit("p.yaml", "s.x", "s.y");
    workspace.run();
}

#[test]
fn pipelines_that_are_no_text_are_mistakes_of_the_file() {
    let utf16: Vec<u8> =
        "\u{feff}pipeline: p\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (bytes, line, column, message) in [
        (
            &b"pipeline: p\nstages:\n  caf\xe9: 1\n"[..],
            3,
            6,
            "the byte 0xe9 at offset 25 is not valid UTF-8",
        ),
        (b"pipeline: p\n# a \0 b\n", 2, 5, "the byte at offset 16 is NUL"),
        (b"p\0i\0p\0", 1, 2, "the byte at offset 1 is NUL"),
        (&utf16, 1, 1, "starts like UTF-16"),
    ] {
        let workspace = Workspace::new();
        workspace.write("p.yaml", bytes);
        for command in ["check", "run", "plan"] {
            let done = workspace.proofmill(&[command, "p.yaml", "--json"]).expect(3);
            let mistakes = done.json();
            let found = &mistakes[0];
            assert_eq!(
                (&found["line"], &found["column"]),
                (&json!(line), &json!(column)),
                "{found}"
            );
            assert_eq!((&found["code"], &found["file"]), (&json!("E0101"), &json!("p.yaml")));
            assert!(found["message"].as_str().unwrap().contains(message), "{found}");
        }
        workspace.proofmill(&["check", "p.yaml"]).expect(3).says("UTF-8");
        // A template is a file like any other.
        workspace.write("lib/t.yaml", bytes);
        workspace.write("p.yaml", "pipeline: p\nstages:\n  g: { use: lib/t.yaml }\n");
        let mistakes = workspace.proofmill(&["check", "p.yaml", "--json"]).expect(3).json();
        assert_eq!(
            (&mistakes[0]["file"], &mistakes[0]["line"]),
            (&json!("lib/t.yaml"), &json!(line))
        );
    }
    let workspace =
        Workspace::with("\u{feff}pipeline: p\nstages:\n  t: { sql: SELECT 1 AS a, b }\n");
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("p.yaml:3:");
    workspace.write("p.yaml", "\u{feff}pipeline: p\nstages:\n  t: { sql: SELECT 1 AS a }\n");
    workspace.run();
}

#[test]
fn tags_are_refused_at_their_place() {
    for (value, column) in [
        ("!!str 1", 4),
        ("!!python/object:os.system ls", 4),
        ("!x 1", 4),
        ("!", 4),
        ("!!binary aGk=", 4),
        ("[1, !!int 2]", 8),
        ("&a !!map {b: 1}", 7),
    ] {
        let workspace = Workspace::with(&format!(
            "pipeline: p\nstages:\n  t:\n    sql: SELECT 1 AS a\nparams:\n  a:\n   {value}\n"
        ));
        let done = workspace.proofmill(&["check", "p.yaml", "--json"]).expect(3);
        let mistakes = done.json();
        let found = &mistakes[0];
        assert_eq!(
            (&found["line"], &found["column"]),
            (&json!(7), &json!(column)),
            "{value}: {found}"
        );
        assert!(found["message"].as_str().unwrap().contains("is not accepted"), "{found}");
    }
    let workspace = Workspace::with(
        "pipeline: p # !!str\nstages:\n  t: { sql: \"SELECT '!x' AS a WHERE 1 != 2\" }\n",
    );
    workspace.run();
}

#[test]
fn a_dangling_link_is_called_one() {
    let workspace = reader("read: { path: in/link.jsonl }");
    workspace.write("in/other.jsonl", "{\"a\": 1}\n");
    symlink("gone.jsonl", workspace.path("in/link.jsonl")).unwrap();
    symlink("nowhere", workspace.path("lost")).unwrap();
    let says = "`in/link.jsonl` is a link to `gone.jsonl`, which is not there";
    let done = workspace.proofmill(&["check", "p.yaml"]).expect(3).says(says);
    assert!(!done.stderr.contains("did you mean"), "{}", done.stderr);
    // Where a folder or a pattern leads to it, its rows would be missing without a word.
    for path in ["in", "'in/*.jsonl'", "'**/*.jsonl'"] {
        workspace.write(
            "p.yaml",
            format!("pipeline: p\nstages:\n  t: {{ read: {{ path: {path} }} }}\n"),
        );
        workspace.proofmill(&["check", "p.yaml"]).expect(3).says(says);
    }
    for path in ["lost/a.jsonl", "'lost/*.jsonl'"] {
        workspace.write(
            "p.yaml",
            format!("pipeline: p\nstages:\n  t: {{ read: {{ path: {path} }} }}\n"),
        );
        let says = "`lost` is a link to `nowhere`, which is not there";
        workspace.proofmill(&["check", "p.yaml"]).expect(3).says(says);
    }
    // Templates and pipelines, too.
    workspace.write("p.yaml", "pipeline: p\nstages:\n  g: { use: lost/t.yaml }\n");
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("`lost` is a link to `nowhere`");
    workspace.proofmill(&["check", "lost/p.yaml"]).expect(2).says("`lost` is a link to `nowhere`");
}

#[test]
fn only_regular_files_of_bounded_length_are_read_as_pipelines() {
    let workspace = Workspace::with("pipeline: p\nstages:\n  g: { use: /dev/zero }\n");
    workspace
        .proofmill(&["check", "p.yaml"])
        .expect(3)
        .says("`/dev/zero` cannot be read: it is not a regular file");
    workspace.proofmill(&["check", "/dev/zero"]).expect(2).says("it is not a regular file");
    let fifo = workspace.path("pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    // Nobody ever writes to it: opening it would wait for ever.
    workspace.proofmill(&["check", "pipe.yaml"]).expect(2).says("it is not a regular file");
    workspace.proofmill(&["check", "."]).expect(2).says("it is a folder");
    // A file without end to speak of, and no space taken.
    let sparse = std::fs::File::create(workspace.path("huge.yaml")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    workspace.proofmill(&["check", "huge.yaml"]).expect(3).says("larger than the limit of 4 MiB");
    workspace.write("p.yaml", "pipeline: p\nstages:\n  g: { use: huge.yaml }\n");
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("larger than the limit of 4 MiB");
}

#[test]
fn a_comment_above_the_names_of_columns_is_told() {
    let workspace = reader("read: { path: t.csv }");
    workspace.write("t.csv", "# t.csv\nid,answer\na,yes\n");
    let checked = workspace.proofmill(&["check", "p.yaml"]).expect(0);
    checked.says("the only column is called `# t.csv`").says("comment, remove it");
    workspace.write("t.csv", "#id,answer\na,yes\n");
    let checked = workspace.proofmill(&["check", "p.yaml"]).expect(0);
    assert!(!checked.stderr.contains("comment"), "{}", checked.stderr);
}

#[test]
fn an_empty_source_is_told_and_can_be_an_error() {
    for (name, content) in [
        ("t.jsonl", ""),
        ("t.jsonl", "\n\n"),
        ("t.json", "[]"),
        ("t.csv", "a,b\n"),
        ("t.csv", ""),
        ("t.txt", ""),
    ] {
        let workspace = reader(&format!("read: {{ path: {name} }}"));
        workspace.write(name, content);
        let warning = format!("`{name}` has no records");
        for command in ["check", "run"] {
            let done = workspace.proofmill(&[command, "p.yaml"]).expect(0);
            done.says("E0405").says(&warning).says("rows: { min: 1 }");
        }
        workspace.proofmill(&["run", "p.yaml"]).expect(0).says(&warning);
        let shown = workspace.proofmill(&["show", "t"]).expect(0);
        assert!(shown.stdout.contains("note: the source has no records"), "{}", shown.stdout);
        let text = workspace.read("p.yaml");
        workspace.write("p.yaml", format!("{text}    checks: [{{ rows: {{ min: 1 }} }}]\n"));
        workspace.proofmill(&["run", "p.yaml"]).expect(1);
    }
    let empty: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    let workspace = reader("read: { path: t.parquet }");
    workspace.write("t.parquet", parquet(vec![("a", empty)]));
    workspace.proofmill(&["check", "p.yaml"]).expect(0).says("`t.parquet` has no records");
    let full = reader("read: { path: t.jsonl }");
    full.write("t.jsonl", "{\"a\": 1}\n");
    let done = full.proofmill(&["check", "p.yaml"]).expect(0);
    assert!(!done.stderr.contains("warning"), "{}", done.stderr);
}

#[test]
fn a_measure_over_nothing_says_so() {
    let pipeline = "pipeline: p\nstages:\n  t: { read: { path: t.jsonl, columns: { a: { type: integer } } } }\n  m: { measure: { from: t, correct: a > 1, EXCLUDE } }\n";
    for (rows, exclude, note) in [
        ("", "exclude: a > 5", "note: `t` has no rows: nothing was measured"),
        ("", "by: [a]", "note: `t` has no rows: nothing was measured"),
        ("{\"a\": 9}\n", "exclude: a > 5", "note: all rows are excluded: nothing was measured"),
    ] {
        let workspace = Workspace::with(&pipeline.replace("EXCLUDE", exclude));
        workspace.write("t.jsonl", rows);
        workspace.proofmill(&["run", "p.yaml"]).expect(0).says(note);
    }
    let workspace = Workspace::with(&pipeline.replace("EXCLUDE", "exclude: a > 5"));
    workspace.write("t.jsonl", "{\"a\": 9}\n{\"a\": 3}\n");
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    assert!(!done.stderr.contains("nothing was measured"), "{}", done.stderr);
}

#[test]
fn wide_tables_and_long_names_leave_a_terminal_usable() {
    let workspace = reader("read: { path: t.jsonl }");
    let fields: Vec<String> = (0..400).map(|i| format!("\"c{i}\": {i}")).collect();
    workspace.write("t.jsonl", format!("{{{}}}\n", fields.join(",")));
    workspace.run();
    for args in [&["show", "t"][..], &["sql", "SELECT * FROM t"]] {
        let shown = workspace.proofmill(args).expect(0).stdout;
        assert!(shown.contains("and 337 more columns"), "{shown}");
        assert!(shown.len() < 10_000, "{} bytes", shown.len());
    }
    let all = workspace.proofmill(&["sql", "SELECT * FROM t", "--full"]).expect(0).stdout;
    assert!(all.contains("c399"));
    let workspace = reader("read: { path: t.jsonl }");
    workspace.write("t.jsonl", format!("{{\"{}\": 1}}\n", "x".repeat(70_000)));
    workspace.run();
    assert!(workspace.proofmill(&["show", "t"]).expect(0).stdout.len() < 10_000);
}
