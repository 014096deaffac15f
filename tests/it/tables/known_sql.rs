//! SQL that DataFusion answers wrongly or not at all: each query with the rows that are right (DuckDB's), or with what
//! is said where it is refused. Issues of apache/datafusion are named where there are some.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::support::{Workspace, forge};

/// Pieces that each query runs in.
const PARTITIONS: [usize; 3] = [1, 2, 3];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// The issue of apache/datafusion.
    #[serde(default)]
    #[expect(dead_code, reason = "for people who read the file")]
    upstream: Option<u32>,
    /// Columns of each table, by name.
    tables: BTreeMap<String, serde_json::Map<String, Json>>,
    query: String,
    /// The right rows.
    rows: Option<Vec<Vec<Json>>>,
    /// What `check` says instead.
    refused: Option<String>,
    /// What the run says instead, as it depends on the rows.
    fails: Option<String>,
}

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("../../cases/sql/known.json")).unwrap()
}

/// A table as a query: its rows in two halves, which become a file each.
fn table(columns: &serde_json::Map<String, Json>) -> String {
    let values = |name: &str| columns[name].as_array().unwrap();
    let kind = |name: &str| match values(name).iter().find(|value| !value.is_null()) {
        Some(Json::String(_)) => "VARCHAR",
        Some(Json::Number(number)) if number.is_f64() => "DOUBLE",
        _ => "BIGINT",
    };
    let literal = |value: &Json| match value {
        Json::String(text) => format!("'{text}'"),
        other => other.to_string(),
    };
    let names: Vec<&String> = columns.keys().collect();
    let rows = columns.values().next().unwrap().as_array().unwrap().len();
    let half = |from: usize, to: usize| {
        let row = |i: usize| {
            let cells: Vec<_> = names.iter().map(|name| literal(&values(name)[i])).collect();
            format!("({})", cells.join(", "))
        };
        let rows: Vec<String> = (from..to).map(row).collect();
        let casts: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(i, name)| format!("CAST(column{} AS {}) AS {name}", i + 1, kind(name)))
            .collect();
        format!("SELECT {} FROM (VALUES {})", casts.join(", "), rows.join(", "))
    };
    match rows {
        1 => half(0, 1),
        _ => format!("{} UNION ALL {}", half(0, rows / 2), half(rows / 2, rows)),
    }
}

/// The query with its tables in front, each by a query.
fn with_tables(query: &str, tables: impl Iterator<Item = (String, String)>) -> String {
    let ctes: Vec<String> = tables.map(|(name, text)| format!("{name} AS ({text})")).collect();
    match (ctes.is_empty(), query.strip_prefix("WITH ")) {
        (true, _) => query.to_owned(),
        (false, Some(rest)) => format!("WITH {}, {rest}", ctes.join(", ")),
        (false, None) => format!("WITH {} {query}", ctes.join(", ")),
    }
}

fn sorted(mut rows: Vec<Vec<Json>>) -> Vec<String> {
    for value in rows.iter_mut().flatten() {
        // A sum of whole numbers may come as a float.
        if let Some(number) = value.as_f64() {
            *value = json!(number);
        }
    }
    let mut rows: Vec<String> = rows.into_iter().map(|row| json!(row).to_string()).collect();
    rows.sort();
    rows
}

#[test]
fn what_is_known_to_be_answered_wrongly_is_answered_rightly() {
    let mut pipeline = "pipeline: p\nstages:\n".to_owned();
    let right: Vec<(usize, Case)> =
        cases().into_iter().enumerate().filter(|(_, case)| case.rows.is_some()).collect();
    assert!(right.len() > 80);
    for (i, case) in &right {
        for (name, columns) in &case.tables {
            let text = json!(table(columns));
            let _ = writeln!(pipeline, "  t{i}_{name}: {{ sql: {text}, partitions: 2 }}");
        }
        let read = |name: &String| (name.clone(), format!("SELECT * FROM t{i}_{name}"));
        let text = json!(with_tables(&case.query, case.tables.keys().map(read)));
        for partitions in PARTITIONS {
            let _ = writeln!(
                pipeline,
                "  q{i}_{partitions}: {{ sql: {text}, partitions: {partitions} }}"
            );
        }
    }
    let workspace = Workspace::with(&pipeline);
    // Tables of the same run may still be in memory; those of one before are read from their files.
    let tables = right
        .iter()
        .flat_map(|(i, case)| case.tables.keys().map(move |name| format!("t{i}_{name}")));
    let tables = tables.collect::<Vec<_>>().join(",");
    workspace.proofmill(&["run", "p.yaml", "--select", &tables]).expect(0);
    workspace.run();
    let mut wrong = Vec::new();
    for (i, case) in &right {
        for partitions in PARTITIONS {
            let got = workspace.sql(&format!("SELECT * FROM q{i}_{partitions}"));
            let cells = |row: &Json| row.as_object().unwrap().values().cloned().collect();
            let got: Vec<Vec<Json>> = got.iter().map(cells).collect();
            let want = case.rows.clone().unwrap();
            // Engines differ in where NULL goes; which rows there are tells in each case.
            let has_null = want.iter().flatten().any(Json::is_null);
            let ordered = case.query.contains("ORDER BY") && !has_null;
            let same = match ordered {
                true => json!(got) == json!(want),
                false => sorted(got.clone()) == sorted(want.clone()),
            };
            if !same {
                let name = &case.name;
                wrong.push(format!(
                    "{name} in {partitions}: {}\n  got  {got:?}\n  want {want:?}",
                    case.query
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    // The second plan gives them too.
    workspace.proofmill(&["run", "p.yaml", "--verify"]).expect(0);
}

/// Each kind of query over tables of several files, each with several row groups.
#[test]
fn large_tables_give_the_same() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  t: { sql: \"SELECT value AS id, value % 3 AS k FROM range(0, 1200000)\" }
  s: { sql: \"SELECT * FROM (VALUES (1), (1), (2), (3)) AS s(seed)\" }
  keys: { sql: \"SELECT d.seed, t.k, count(*) AS n FROM t CROSS JOIN (SELECT DISTINCT seed FROM s) AS d GROUP BY d.seed, t.k\" }
  first: { sql: \"SELECT d.seed, t.id FROM t JOIN (SELECT seed FROM s GROUP BY seed) AS d ON t.k < d.seed GROUP BY d.seed, t.id ORDER BY 1 DESC, 2 DESC LIMIT 3\" }
  flags: { sql: \"SELECT hit, count(*) AS n FROM (SELECT t.id, h.hit FROM t LEFT JOIN (SELECT id, true AS hit FROM t WHERE id % 4 = 0) AS h ON t.id = h.id) AS j GROUP BY hit ORDER BY hit NULLS LAST\" }
  names: { sql: \"SELECT count(*) AS n FROM (SELECT id, k FROM t WHERE id < 10) AS o RIGHT JOIN t AS n ON o.id = n.id WHERE o.k IS DISTINCT FROM n.k AND n.k = 0\" }
  absent: { sql: \"SELECT count(*) AS n FROM t WHERE id NOT IN (SELECT nullif(id, 5) FROM t WHERE id % 2 = 1)\" }
  gate: { sql: \"SELECT count(*) AS n FROM t HAVING (SELECT count(*) FROM s) > 5\" }
  parted: { sql: \"SELECT id FROM t ORDER BY id % 2 = 0, abs(id) >= 7, id DESC\", partitions: 3 }
",
    );
    workspace.proofmill(&["run", "p.yaml", "--select", "t,s"]).expect(0);
    workspace.run();
    let groups: Vec<Json> = (0..9).map(|i| json!([i / 3 + 1, i % 3, 400_000])).collect();
    for (query, right) in [
        ("SELECT * FROM keys ORDER BY seed, k", json!(groups)),
        ("SELECT * FROM first", json!([[3, 1_199_999], [3, 1_199_998], [3, 1_199_997]])),
        ("SELECT * FROM flags", json!([[true, 300_000], [null, 900_000]])),
        ("SELECT * FROM names", json!([[400_000 - 4]])),
        ("SELECT * FROM absent", json!([[0]])),
        ("SELECT count(*) AS n FROM gate", json!([[0]])),
        // The run looks at its order itself.
        ("SELECT count(*) AS n FROM parted", json!([[1_200_000]])),
    ] {
        let rows = workspace.sql(query);
        let rows: Vec<Vec<&Json>> =
            rows.iter().map(|row| row.as_object().unwrap().values().collect()).collect();
        assert_eq!(json!(rows), right, "{query}");
    }
}

#[test]
fn what_cannot_be_answered_rightly_is_refused() {
    let workspace = Workspace::new();
    let mut seen = [0; 2];
    for case in cases() {
        let (code, said) = match (case.refused, case.fails) {
            (None, None) => continue,
            (Some(said), _) => (2, said),
            (None, Some(said)) => (1, said),
        };
        let tables = case.tables.iter().map(|(name, columns)| (name.clone(), table(columns)));
        let query = with_tables(&case.query, tables);
        let done = workspace.proofmill(&["--store", "memory://", "sql", &query]);
        assert_eq!(done.code, Some(code), "{}: {done:?}", case.name);
        done.says(&said);
        seen[usize::from(code == 1)] += 1;
    }
    assert!(seen[0] > 5 && seen[1] > 1, "{seen:?}");
}

#[test]
fn a_number_that_has_no_place_is_told_with_its_row() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  t: { sql: \"SELECT value AS id, CASE value WHEN 150007 THEN 9223372036854775807 ELSE value END AS x FROM range(0, 200000)\" }
  u: { sql: \"SELECT t.id, sum(2 * t.x + 1 - 1) AS n FROM t JOIN t AS a ON a.id = t.id WHERE t.id <> 3 GROUP BY t.id\" }
  v: { sql: \"SELECT id FROM t WHERE x + 1 > 7 ORDER BY id\" }
",
    );
    let told = [
        "`2 * t.x` does not fit in BIGINT: 2 * 9223372036854775807, in the row with t.id = 150007, t.x = 9223372036854775807",
        "`t.x + 1` does not fit in BIGINT: 9223372036854775807 + 1, in the row with id = 150007, x = 9223372036854775807;",
    ];
    let run = workspace.proofmill(&["run", "p.yaml"]).expect(1);
    told.into_iter().fold(run, |run, message| run.says(message));
    workspace.proofmill(&["sql", "SELECT max(-id - x) AS y FROM t"]).expect(1).says(
        "9223372036854775807, in the row with id = 150007, x = 9223372036854775807; cast one side",
    );
    let path = workspace.path("p.yaml");
    let whole = fs::read_to_string(&path).unwrap();
    let stage = "  m: { measure: { from: t, metrics: { double: x + id } } }\n";
    fs::write(&path, format!("{whole}{stage}")).unwrap();
    workspace
        .proofmill(&["run", "p.yaml", "--select", "m"])
        .expect(1)
        .says("9223372036854775807 + 150007, in the row with id = 150007,");
}

/// As if a rule had been wrong when a table was made: its record names the rows of another query.
#[test]
fn a_table_that_a_second_plan_does_not_give_ends_a_run_that_verifies() {
    let workspace = Workspace::with(
        "pipeline: p
stages:
  right: { sql: \"SELECT value AS x FROM range(0, 3)\" }
  other: { sql: \"SELECT value * 7 AS x FROM range(0, 3)\" }
",
    );
    let run = workspace.json(&["run", "p.yaml"]);
    let verified = workspace.proofmill(&["run", "p.yaml", "--verify"]).expect(0);
    verified.says("a second plan gave the same rows for 2 queries");
    let record = |stage: &str| {
        let stages = run["stages"].as_array().unwrap();
        let found = stages.iter().find(|outcome| outcome["stage"] == stage).unwrap();
        workspace.path("store").join(found["artifact"]["key"].as_str().unwrap())
    };
    let parts = |stage: &str| {
        let text = fs::read_to_string(record(stage)).unwrap();
        let (_, parts) = text.split_once("\"parts\":").unwrap();
        parts.split_once(",\"errors\"").unwrap().0.to_owned()
    };
    forge(&record("right"), &parts("right"), &parts("other"));
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    workspace
        .proofmill(&["run", "p.yaml", "--verify"])
        .expect(1)
        .says("the table has (7) where a second plan of its query gives (1)")
        .says("stage `right`: the plan of the table:")
        .says("the second plan:");
}
