//! What `plan` says of requests, tokens and times before a run: what the last run took, for as many rows as there are now.

use serde_json::Value as Json;

use crate::support::Workspace;

fn workspace(rows: usize) -> Workspace {
    let workspace = Workspace::with(
        "pipeline: needed
models:
  reader: { path: reader, kv_cache_mib: 8 }
stages:
  rows:
    read: { path: rows.jsonl, columns: { id: n, text: text } }
  few:
    sql: SELECT id, text FROM rows WHERE CAST(id AS BIGINT) % 3 = 0
  answers:
    sql: |
      SELECT id, score('reader', text, 'a warm season')['logprob'] AS said FROM few
  mean:
    sql: SELECT avg(said) AS said FROM answers
",
    );
    workspace.add_model("t5", "reader");
    write(&workspace, rows);
    workspace
}

fn write(workspace: &Workspace, rows: usize) {
    let line = |n: usize| format!("{{\"n\": \"{}\", \"text\": \"summer number {n:06}\"}}\n", n + 1);
    workspace.write("rows.jsonl", (0..rows).map(line).collect::<String>());
}

fn planned(workspace: &Workspace, args: &[&str]) -> Json {
    let args = [&["plan", "p.yaml", "--json"], args].concat();
    workspace.proofmill(&args).expect(0).json()
}

fn stage<'a>(plan: &'a Json, name: &str) -> &'a Json {
    plan.as_array().unwrap().iter().find(|stage| stage["stage"] == name).unwrap()
}

#[test]
fn what_a_run_over_fewer_rows_took_tells_of_more() {
    let workspace = workspace(30);
    let plan = planned(&workspace, &[]);
    let unknown = stage(&plan, "answers");
    assert_eq!((&unknown["requests"], &unknown["tokens"]), (&Json::Null, &Json::Null));

    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let stored = planned(&workspace, &[]);
    let stored = stage(&stored, "answers");
    assert_eq!(stored["action"], "cached");
    assert_eq!((&stored["rows"], &stored["requests"]), (&10.into(), &Json::Null));

    write(&workspace, 300);
    let plan = planned(&workspace, &[]);
    let answers = stage(&plan, "answers");
    assert_eq!(stage(&plan, "few")["rows"], 100);
    assert_eq!((&answers["action"], &answers["requests"]), (&"run".into(), &100.into()));
    assert!(answers["seconds"].as_f64().unwrap() > 0.0);
    let text = workspace.proofmill(&["plan", "p.yaml"]).expect(0);
    assert!(text.stdout.contains("requests  tokens"), "{}", text.stdout);
    assert!(text.stderr.contains("about 100 requests, about "), "{}", text.stderr);

    // Every prompt has 16 tokens of the test model.
    assert_eq!(answers["tokens"], 1600);
}

#[test]
fn answers_that_the_ledger_had_are_counted_as_requests() {
    let workspace = workspace(30);
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    workspace.proofmill(&["run", "p.yaml", "--rerun", "answers"]).expect(0);
    let plan = planned(&workspace, &["--rerun", "answers"]);
    let answers = stage(&plan, "answers");
    assert_eq!((&answers["requests"], &answers["tokens"]), (&10.into(), &Json::Null));
}

#[test]
fn what_the_ledger_has_is_counted_where_the_inputs_are_stored() {
    let workspace = workspace(30);
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let again = planned(&workspace, &["--rerun", "answers"]);
    let again = stage(&again, "answers");
    assert_eq!((&again["requests"], &again["recorded"]), (&10.into(), &10.into()));
    assert_eq!((&again["tokens"], &again["seconds"]), (&0.into(), &0.0.into()));
    write(&workspace, 45);
    // Its inputs may come out otherwise: nobody knows.
    let plan = planned(&workspace, &[]);
    assert_eq!(stage(&plan, "answers")["recorded"], Json::Null);
    workspace.proofmill(&["run", "p.yaml", "--select", "rows,few"]).expect(0);
    let plan = planned(&workspace, &[]);
    let answers = stage(&plan, "answers");
    assert_eq!((&answers["requests"], &answers["recorded"]), (&15.into(), &10.into()));
    let text = workspace.proofmill(&["plan", "p.yaml"]).expect(0);
    assert!(text.stdout.contains("~15, 10 recorded"), "{}", text.stdout);
    assert!(text.stderr.contains("about 15 requests, 10 recorded"), "{}", text.stderr);
    // Nothing was asked, and nothing written.
    workspace.proofmill(&["run", "p.yaml"]).expect(0).says("5 answers");
}
