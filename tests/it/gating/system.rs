//! What a store says of itself in SQL.

use serde_json::{Value as Json, json};

use super::{ACCURACY, Gated, answers};
use crate::support::Workspace;

#[test]
fn runs_stages_metrics_nights_and_verdicts_are_tables() {
    let gated = Gated::new(ACCURACY);
    let store = &gated.0;
    let first = gated.run(&answers(100, 80), &[]);
    let second = gated.run(&answers(100, 60), &[]);
    gated.gate(&[]).expect(1);
    store.edit("p.yaml", "judged:", "broken: { sql: SELECT 1/0 AS x }\n  judged:");
    store.proofmill(&["run", "p.yaml"]).expect(1);
    store.write(
        "s.yaml",
        "kind: schedule\nname: nights\npipeline: p.yaml\ncron: '0 2 * * *'\ngate: gate.yaml\n",
    );
    store.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    store.proofmill(&["schedule", "trigger", "nights"]).expect(0);
    store.proofmill(&["schedule", "tick"]).expect(1);
    assert_eq!(
        store.sql("SELECT how, count(*) AS n FROM system.runs GROUP BY how ORDER BY how"),
        [json!({ "how": "failed", "n": 2 }), json!({ "how": "succeeded", "n": 2 })]
    );
    let metrics =
        "SELECT run, value FROM system.metrics WHERE stage = 'judged' ORDER BY started_at";
    assert_eq!(
        store.sql(metrics),
        [json!({ "run": first, "value": 0.8 }), json!({ "run": second, "value": 0.6 })]
    );
    let stages = "SELECT DISTINCT stage, status FROM system.stages WHERE status = 'failed'";
    assert_eq!(store.sql(stages), [json!({ "stage": "broken", "status": "failed" })]);
    let verdicts = "SELECT run, verdict FROM system.verdicts ORDER BY judged_at LIMIT 1";
    assert_eq!(store.sql(verdicts), [json!({ "run": second, "verdict": "fail" })]);
    assert_eq!(
        store.sql("SELECT schedule, why, how, verdict FROM system.nights"),
        [
            json!({ "schedule": "nights", "why": "triggered", "how": "failed", "verdict": "not finished" })
        ]
    );
    // Beside the tables of a run.
    let joined = "SELECT count(*) AS n FROM scored, system.runs WHERE how = 'succeeded'";
    let rows = store.json(&["sql", "--run", &first, joined]);
    assert_eq!(rows[0]["n"], 200, "{rows:#}");
    store
        .proofmill(&["sql", "SELECT * FROM system.run"])
        .expect(2)
        .says("no system table `system.run`")
        .says("`system.runs`");
}

#[test]
fn failed_rows_of_all_runs_are_one_table() {
    let workspace = Workspace::with(
        "pipeline: p\nstages:\n  a:\n    read: { path: a.jsonl }\n    max_error_rate: 0.5\n",
    );
    workspace.write("a.jsonl", "{\"x\": 1}\n{\"x\": 2\n{\"x\": 3}\n");
    workspace.run();
    let rows = workspace.sql("SELECT stage, source, class FROM system.errors");
    assert_eq!(rows, [json!({ "stage": "a", "source": "a.jsonl", "class": "syntax" })]);
    let empty = Workspace::new();
    assert_eq!(empty.json(&["sql", "SELECT count(*) AS n FROM system.runs"])[0]["n"], 0);
}

/// The commands that list runs, metrics and failed rows have what the tables have.
#[test]
fn commands_and_tables_say_the_same() {
    let workspace = Workspace::with(
        "pipeline: p
params: { n: 2 }
stages:
  a: { read: { path: a.jsonl }, max_error_rate: 0.5 }
  b: { sql: \"SELECT x, x > ${params.n} AS right, x / (2 - ${params.n} + 1) AS y FROM a\" }
  m: { measure: { from: b, correct: right } }
",
    );
    workspace.write("a.jsonl", "{\"x\": 1}\n{\"x\": 2\n{\"x\": 3}\n{\"x\": \n");
    for (n, code) in [("2", 0), ("1", 0), ("3", 1), ("1", 0)] {
        let param = format!("n={n}");
        workspace.proofmill(&["run", "p.yaml", "--param", &param]).expect(code);
    }
    let picked = |rows: &Json, names: &[(&str, &str)]| -> Vec<Json> {
        let row = |row: &Json| -> Json {
            names.iter().map(|(from, to)| ((*to).to_owned(), row[*from].clone())).collect()
        };
        rows.as_array().unwrap().iter().map(row).collect()
    };
    let listed =
        [("run", "run"), ("outcome", "how"), ("computed", "computed"), ("cached", "cached")];
    assert_eq!(
        picked(&workspace.json(&["runs"]), &listed),
        workspace.sql("SELECT run, how, computed, cached FROM system.runs ORDER BY run DESC")
    );
    let same = |names: &'static [&'static str]| {
        names.iter().map(|name| (*name, *name)).collect::<Vec<_>>()
    };
    assert_eq!(
        picked(&workspace.json(&["trends", "p", "accuracy"]), &same(&["run", "stage", "value", "ci_low", "ci_high"])),
        workspace.sql("SELECT run, stage, value, ci_low, ci_high FROM system.metrics WHERE metric = 'accuracy' ORDER BY run")
    );
    let errors = workspace.json(&["errors", "latest"]);
    let rows = workspace.sql("SELECT stage, source, class, message FROM system.errors WHERE run = (SELECT max(run) FROM system.runs)");
    assert_eq!(rows.len(), 2);
    assert_eq!(picked(&errors["rows"], &same(&["stage", "source", "class", "message"])), rows);
}

/// The page about the tables names each column, in their order.
#[test]
fn the_specification_lists_every_column() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/specs/system.md")).unwrap();
    let gated = Gated::new(ACCURACY);
    gated.run(&answers(10, 8), &[]);
    let mut listed = 0;
    for line in page.lines().filter(|line| line.starts_with("| `system.")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let columns = cells[2].replace(['`', ' '], "");
        let query = format!("SELECT * FROM {} LIMIT 0", cells[1].trim_matches('`'));
        let shown = gated.0.proofmill(&["sql", "--format", "csv", &query]).expect(0).stdout;
        assert_eq!(shown.trim(), columns, "{}", cells[1]);
        listed += 1;
    }
    assert_eq!(listed, 8);
}
