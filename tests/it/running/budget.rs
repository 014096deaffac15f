//! `run --budget` stops a run between rows, says so, and what was computed is not computed again.

use serde_json::Value as Json;

use crate::support::Workspace;

const ROWS: u64 = 3000;

fn workspace() -> Workspace {
    let workspace = Workspace::with(&format!(
        "pipeline: budgeted
models:
  reader: {{ path: reader, kv_cache_mib: 8 }}
stages:
  rows:
    sql: SELECT value AS n, 'summer number ' || value AS text FROM generate_series(1, {ROWS})
  answers:
    sql: |
      SELECT n, score('reader', text, 'a warm season')['logprob'] AS said FROM rows
"
    ));
    workspace.add_model("t5", "reader");
    workspace
}

fn computed(run: &Json) -> u64 {
    run["local_models"]["reader"]["computed_tokens"].as_u64().unwrap()
}

fn answers(workspace: &Workspace) -> Vec<Json> {
    workspace.sql("SELECT count(*) AS n, sum(said * n) AS sum, min(said) AS least FROM answers")
}

#[test]
fn a_budget_of_tokens_stops_between_rows_and_the_run_goes_on() {
    let whole = workspace();
    let all = computed(&whole.proofmill(&["run", "p.yaml", "--json"]).expect(0).json());

    let parts = workspace();
    let budget = format!("tokens={}", all / 4);
    let stopped = parts.proofmill(&["run", "p.yaml", "--budget", &budget, "--json"]).expect(5);
    let first = computed(&stopped.json());
    assert!(first >= all / 4 && first < all, "{first} of {all}");
    assert!(stopped.stderr.contains(&format!("and `--budget` is {budget}")), "{}", stopped.stderr);
    let again = format!("`proofmill run p.yaml --budget {budget} --store store --resume ");
    assert!(stopped.stderr.contains(&again), "{}", stopped.stderr);

    let rest = parts.proofmill(&["run", "p.yaml", "--resume", "latest", "--json"]).expect(0);
    // What was under way when it stopped is recorded: nothing is computed twice.
    let second = computed(&rest.json());
    assert!(first + second <= all, "{first} and {second} of {all}");
    assert_eq!(answers(&parts), answers(&whole));
}

#[test]
fn a_budget_that_suffices_changes_nothing() {
    let workspace = workspace();
    workspace.proofmill(&["run", "p.yaml", "--budget", "tokens=1000000000,time=10h"]).expect(0);
    assert_eq!(workspace.sql("SELECT count(*) AS n FROM answers")[0]["n"], ROWS);
}

#[test]
fn a_budget_of_time_stops_too_and_a_wrong_one_is_refused() {
    let parts = workspace();
    let stopped = parts.proofmill(&["run", "p.yaml", "--budget", "time=1ms"]).expect(5);
    stopped.says("and `--budget` is time=1ms");
    parts
        .proofmill(&["run", "p.yaml", "--budget", "rows=3"])
        .expect(2)
        .says("unknown budget key `rows`");
}
