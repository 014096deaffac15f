//! The rows of queries and stages on their way out: formats, limits, files; and what needs no run.

use std::fs;

use serde_json::{Value as Json, json};

use crate::support::Workspace;

const PIPELINE: &str = "\
pipeline: p
stages:
  rows: { sql: \"SELECT value AS v, 'row ' || value AS text, value / 4.0 AS share FROM generate_series(1, 20000)\" }
  tagged: { sql: \"SELECT 'mine' AS stage, [1, 2] AS list, 'a' || chr(10) || 'b' AS text\" }
";

/// More than a batch.
const MANY: &str = "SELECT value AS v, 'row ' || value AS text FROM generate_series(1, 20000)";

fn ran() -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    workspace
}

#[test]
fn every_format_holds_the_same_rows() {
    let workspace = Workspace::new();
    let printed = |options: &[&str]| {
        let args: Vec<&str> = ["sql", MANY].iter().chain(options).copied().collect();
        workspace.proofmill(&args).expect(0).stdout
    };
    let document = printed(&["--json"]);
    let rows: Vec<Json> = serde_json::from_str(&document).unwrap();
    assert_eq!(rows.len(), 20_000);
    assert_eq!(document, format!("{:#}\n", Json::Array(rows.clone())), "it is printed as one");
    assert_eq!(printed(&["--format", "json"]), document);
    let lines: Vec<Json> = printed(&["--format", "jsonl"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines, rows);
    let csv = printed(&["--format", "csv"]);
    assert!(csv.starts_with("v,text\n1,row 1\n") && csv.ends_with("\n20000,row 20000\n"), "{csv}");
    assert_eq!(csv.lines().count(), 20_001);
    // For people, the first hundred.
    let table =
        workspace.proofmill(&["sql", MANY]).expect(0).says("the first 100 rows; `--limit 0`");
    assert_eq!(table.stdout.lines().count(), 102);
    let vertical = printed(&["--format", "vertical", "--limit", "2"]);
    assert_eq!(vertical, "── row 1 ──\nv     1\ntext  row 1\n── row 2 ──\nv     2\ntext  row 2\n");
    // None at all.
    let none = "SELECT 1 AS a WHERE false";
    assert_eq!(workspace.proofmill(&["sql", none, "--json"]).expect(0).stdout, "[]\n");
    assert_eq!(workspace.proofmill(&["sql", none, "--format", "csv"]).expect(0).stdout, "a\n");
}

#[test]
fn a_limit_holds_in_every_format() {
    let workspace = Workspace::new();
    for (format, lines) in
        [("json", 5 * 4 + 2), ("jsonl", 5), ("csv", 6), ("table", 7), ("vertical", 15)]
    {
        let args = ["sql", MANY, "--limit", "5", "--format", format];
        let done = workspace.proofmill(&args).expect(0);
        assert_eq!(done.stdout.lines().count(), lines, "{format}: {}", done.stdout);
        let remark = done.stderr.contains("the first 5 rows");
        assert_eq!(remark, ["table", "vertical"].contains(&format), "{format}: {}", done.stderr);
    }
    let short = workspace.json(&["sql", MANY, "--limit", "5"]);
    assert_eq!(short.as_array().unwrap().len(), 5);
    // All of them are not the first of them.
    let five = "SELECT value FROM generate_series(1, 5)";
    let done = workspace.proofmill(&["sql", five, "--limit", "5"]).expect(0);
    assert_eq!((done.stdout.lines().count(), done.stderr.as_str()), (7, ""));
}

#[test]
fn a_file_holds_all_rows_and_takes_its_place_when_it_is_whole() {
    let workspace = Workspace::new();
    let write = |query: &str, file: &str| workspace.proofmill(&["sql", query, "-o", file]);
    let done = write(MANY, "out/a.csv").expect(0).says("20,000 rows, ");
    assert_eq!(done.stdout, "");
    let printed = workspace.proofmill(&["sql", MANY, "--format", "csv"]).expect(0).stdout;
    assert_eq!(workspace.read("out/a.csv"), printed);
    write(MANY, "a.jsonl").expect(0);
    assert_eq!(workspace.read("a.jsonl").lines().count(), 20_000);
    write(MANY, "a.parquet").expect(0);
    let report = workspace.json(&["sql", MANY, "--limit", "7", "-o", "seven.parquet"]);
    assert_eq!((&report["output"], &report["rows"]), (&json!("seven.parquet"), &json!(7)));
    // What was written can be read.
    let yaml = "pipeline: back\nstages:\n  a: { read: { path: a.parquet } }\n  b: { read: { path: a.jsonl } }\n  \
        n: { sql: \"SELECT count(*) AS n, sum(a.v) AS s FROM a JOIN b ON a.v = b.v AND a.text = b.text\" }\n";
    workspace.write("p.yaml", yaml);
    workspace.run();
    assert_eq!(workspace.sql("SELECT * FROM n"), [json!({"n": 20_000, "s": 200_010_000})]);
    // A query that fails on its way leaves the file that was there, and nothing beside it.
    let late = "SELECT 1 / (15000 - value) AS v FROM generate_series(1, 20000)";
    for file in ["a.jsonl", "out/a.csv", "a.parquet"] {
        let before = fs::read(workspace.path(file)).unwrap();
        write(late, file).expect(1);
        assert_eq!(fs::read(workspace.path(file)).unwrap(), before, "{file}");
    }
    let names = |folder: &str| {
        let entries = fs::read_dir(workspace.path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with('.')).collect::<Vec<_>>()
    };
    assert_eq!((names("."), names("out")), (vec![], vec![]));
    write(MANY, "a.xlsx").expect(2).says("`.csv`, `.tsv`, `.parquet` or `.txt`");
    write(MANY, "seven.parquet/a.csv").expect(5).says("cannot be written");
    write("SELECT [1] AS l", "l.csv").expect(2).says("the column `l` is nested");
}

#[test]
fn a_query_is_read_from_a_file() {
    let workspace = ran();
    workspace.write("q.sql", "SELECT count(*) AS n\nFROM rows");
    assert_eq!(workspace.json(&["sql", "-f", "q.sql"]), json!([{"n": 20_000}]));
    workspace.proofmill(&["sql", "-f", "absent.sql"]).expect(2).says("`absent.sql` cannot be read");
    workspace.proofmill(&["sql", "-f", "q.sql", "SELECT 1"]).expect(2);
    workspace.proofmill(&["sql"]).expect(2);
}

#[test]
fn mistakes_of_a_query_go_to_standard_error_in_every_format() {
    let workspace = ran();
    let queries = ["SELEC 1", "SELECT w FROM rows", "SELECT * FROM absent", "SELECT 1; SELECT 2"];
    for query in queries {
        for format in ["json", "jsonl", "csv", "table"] {
            let done = workspace.proofmill(&["sql", query, "--format", format]).expect(2);
            assert_eq!(done.stdout, "", "{query}, {format}");
            done.says("error[E").says("the query was not run");
        }
    }
    workspace
        .proofmill(&["sql", "COPY rows TO 'a.csv'"])
        .expect(2)
        .says("`COPY` is not allowed")
        .says("`proofmill sql QUERY --output FILE`");
    workspace.proofmill(&["sql", "SELECT 1", "--json", "--format", "csv"]).expect(2);
}

#[test]
fn a_query_without_tables_needs_no_run_and_makes_no_store() {
    let workspace = Workspace::new();
    assert_eq!(workspace.sql("SELECT 1 + 1 AS two"), [json!({"two": 2})]);
    workspace.proofmill(&["sql", "SELECT * FROM rows"]).expect(2).says("the store has no run");
    assert_eq!(workspace.json(&["runs"]), json!([]));
    workspace.proofmill(&["show"]).expect(2).says("the store has no run");
    workspace.write("p.yaml", PIPELINE);
    workspace.proofmill(&["plan", "p.yaml"]).expect(0);
    workspace.proofmill(&["why", "p.yaml", "rows"]).expect(0);
    assert!(!workspace.path("store").exists());
    // In a store whose only run failed, too.
    workspace.write("p.yaml", "pipeline: p\nstages: { a: { sql: SELECT 1 / 0 AS x } }\n");
    workspace.proofmill(&["run", "p.yaml"]).expect(1);
    assert_eq!(workspace.sql("SELECT 1 + 1 AS two"), [json!({"two": 2})]);
}

#[test]
fn a_stage_is_given_out_as_a_query_is() {
    let workspace = ran();
    let show = |options: &[&str]| {
        let args: Vec<&str> = ["show"].iter().chain(options).copied().collect();
        workspace.proofmill(&args).expect(0).stdout
    };
    assert_eq!(show(&["rows", "--format", "csv"]).lines().count(), 20_001);
    assert_eq!(show(&["rows", "--format", "jsonl", "--limit", "3"]).lines().count(), 3);
    assert_eq!(show(&["rows", "--format", "jsonl", "--rows", "4"]).lines().count(), 4);
    show(&["rows", "--output", "rows.csv"]);
    assert_eq!(workspace.read("rows.csv"), show(&["rows", "--format", "csv"]));
    let rows = |options: &[&str]| {
        let args: Vec<&str> = ["show", "rows"].iter().chain(options).copied().collect();
        workspace.json(&args)["rows"].as_array().unwrap().len()
    };
    assert_eq!((rows(&[]), rows(&["--rows", "0"]), rows(&["--limit", "0"])), (10, 0, 20_000));
    let people = show(&["rows"]);
    assert!(people.starts_with("rows (sql): 20,000 rows, "), "{people}");
    assert!(people.ends_with("\n10  row 10  2.5000\n"), "{people}");
    let vertical = show(&["tagged", "--format", "vertical"]);
    assert!(
        vertical.ends_with("── row 1 ──\nstage  mine\nlist   [1, 2]\ntext   a\n       b\n"),
        "{vertical}"
    );
    // A column `stage` is not taken for the name of the stage.
    let tagged = workspace.json(&["show", "tagged"])["rows"][0].clone();
    assert_eq!((&tagged["stage"], &tagged["_stage"]), (&json!("tagged"), &json!("mine")));
}

#[test]
fn codes_are_explained_as_json_too() {
    let workspace = Workspace::new();
    let one = workspace.json(&["explain", "e0102"]);
    assert_eq!((&one["code"], &one["title"]), (&json!("E0102"), &json!("E0102: unknown key")));
    assert!(one["page"].as_str().unwrap().starts_with("# E0102: unknown key\n"), "{one}");
    let all = workspace.json(&["explain"]);
    assert!(all.as_array().unwrap().len() > 20 && all[0]["page"].is_null(), "{all}");
}

#[test]
fn a_failure_is_told_once() {
    let workspace = Workspace::with(
        "pipeline: p\nstages: { a: { sql: SELECT 1 / 0 AS x }, b: { sql: SELECT 2 / 0 AS x } }\n",
    );
    let done = workspace.proofmill(&["run", "p.yaml", "--select", "a"]).expect(1);
    assert_eq!(done.stderr.matches("zero").count(), 1, "{}", done.stderr);
    done.says("error: stage `a` failed (see above)");
    let both = workspace.proofmill(&["run", "p.yaml"]).expect(1);
    both.says("error: stages `a`, `b` failed (see above)");
    let json = workspace.proofmill(&["run", "p.yaml", "--json"]).expect(1).json();
    assert!(json["error"].as_str().unwrap().contains("zero"), "{json}");
    // A log may leave out why.
    let logged = workspace.proofmill(&["run", "p.yaml", "--log", "off"]).expect(1);
    assert_eq!(logged.stderr.matches("zero").count(), 1, "{}", logged.stderr);
}

#[test]
fn a_table_that_lacks_rows_says_so_when_it_is_reused() {
    let yaml = "pipeline: p\nstages:\n  t: { read: { path: t.jsonl, columns: { v: v } }, max_error_rate: 1 }\n";
    let workspace = Workspace::with(yaml);
    workspace.write("t.jsonl", "{\"v\": 1}\n{\"v\n{\"v\": 3}\n");
    let run = || workspace.proofmill(&["run", "p.yaml"]).expect(0);
    run().says("done t: 2 rows, ").says(", 1 error row, ");
    run().says("reused t: 2 rows, 1 error row; `--rerun t` retries them");
}

#[test]
fn dictionaries_are_stored_and_read_again() {
    let workspace = Workspace::with(
        r#"
pipeline: p
stages:
  labels:
    sql: SELECT arrow_cast(v, 'Dictionary(Int32, Utf8)') AS label, v = 'x' AS is_x FROM (VALUES ('x'), ('y'), ('x')) AS t(v)
  counted: { sql: "SELECT label, count(*) AS n FROM labels GROUP BY label" }
  rate: { measure: { from: labels, correct: is_x, by: [label] } }
"#,
    );
    workspace.run();
    let rows = workspace.sql("SELECT label, n FROM counted ORDER BY label");
    assert_eq!(rows, [json!({ "label": "x", "n": 2 }), json!({ "label": "y", "n": 1 })]);
    let kind = workspace.sql("SELECT DISTINCT arrow_typeof(label) AS type FROM labels");
    assert_eq!(kind, [json!({ "type": "Dictionary(Int32, Utf8)" })]);
    assert_eq!(workspace.sql("SELECT label, value FROM rate WHERE label = 'y'")[0]["value"], 0.0);
}
