//! Pipelines over samples that were written for them give the numbers that the samples were made for.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::support::Workspace;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a pipeline of the tree, with its own data.
fn run(pipeline: &str) -> Workspace {
    let workspace = Workspace::new();
    let mut run = workspace.command(&["run", &format!("pipelines/{pipeline}")]);
    let output =
        run.current_dir(root()).env("PROOFMILL_STORE", workspace.path("store")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    workspace
}

fn number(value: &Json) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn answers_of_eight_users_are_not_independent() {
    let workspace = run("user_study.yaml");
    let scores = workspace.sql(
        "SELECT answers, users, questions, wrong_to_right, right_to_wrong FROM scores WHERE split = 'test'",
    );
    let expected = json!({
        "answers": 208, "users": 8, "questions": 26, "wrong_to_right": 41, "right_to_wrong": 7,
    });
    assert_eq!(scores, [expected]);
    let rounding = workspace.sql(
        "SELECT points, rounded_before, rounded_after, difference_of_rounded, agree FROM rounding
         WHERE split = 'test'",
    );
    let expected = json!({
        "points": 16.3, "rounded_before": 38.0, "rounded_after": 55.0,
        "difference_of_rounded": 17.0, "agree": false,
    });
    assert_eq!(rounding, [expected]);

    let tests = workspace
        .sql("SELECT test, diff, se, p, warning FROM tests WHERE split = 'test' ORDER BY place");
    assert!(tests.iter().all(|test| (number(&test["diff"]) - 34.0 / 208.0).abs() < 1e-12));
    // The published counts, if answers were independent.
    assert!((number(&tests[4]["p"]) - 6.24041e-7).abs() < 1e-11, "{}", tests[4]);
    let naive = |test: &Json| test["warning"].as_str().is_some_and(|it| it.starts_with("naive"));
    assert!(naive(&tests[3]) && naive(&tests[4]) && !naive(&tests[0]), "{tests:?}");
    // Both ways: V = V(users) + V(questions) - V(cells), and a cell is one answer.
    let variance = |place: usize| number(&tests[place]["se"]).powi(2);
    let both = variance(1) + variance(2) - variance(3);
    assert!((variance(0) - both).abs() < 1e-12, "{tests:?}");
    assert!(variance(0) > 4.0 * variance(3), "{tests:?}");
    // 2 * scipy.stats.t.sf(2.1204, 7): eight users are seven degrees of freedom. The normal distribution would say .034.
    assert!((number(&tests[0]["p"]) - 0.0717).abs() < 1e-4, "{}", tests[0]);

    let actions = workspace.sql("SELECT actions, per_user, per_question FROM actions_in_all");
    assert_eq!(actions, [json!({"actions": 108, "per_user": 13.5, "per_question": 2.7})]);
    let shares = workspace.sql("SELECT percent FROM action_shares ORDER BY place");
    let shares: Vec<f64> = shares.iter().map(|share| number(&share["percent"])).collect();
    assert_eq!(shares, [24.0, 12.0, 6.0, 6.0, 5.0, 10.0, 37.0]);
}

#[test]
fn the_users_that_were_made_up_can_be_made_up_again() {
    let workspace = Workspace::new();
    let sample = root().join("data/samples/user_study");
    workspace.write("make.py", std::fs::read(sample.join("make.py")).unwrap());
    let python = std::env::var("PROOFMILL_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let Ok(made) = Command::new(&python).arg(workspace.path("make.py")).output() else {
        // Past the test runner's capture: a skipped comparison must be seen.
        let _ = writeln!(std::io::stderr(), "SKIPPED: `{python}` does not run");
        return;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for name in ["answers.jsonl", "actions.jsonl"] {
        assert!(
            workspace.read(name) == std::fs::read_to_string(sample.join(name)).unwrap(),
            "{name}"
        );
    }
}

#[test]
fn each_wrong_proof_is_wrong_in_its_own_way() {
    let workspace = run("entailment_scores.yaml");
    let scored = workspace.sql(
        "SELECT id, leaves_acc AS leaves, steps_acc AS steps, intermediates_acc AS said, problem IS NULL AS proof
         FROM scored ORDER BY id",
    );
    let expected = [
        ("bread", [true, false, false]),
        ("echo", [true, false, true]),
        ("kite", [true, true, true]),
        ("ladder", [true, false, false]),
        ("owl", [false, false, false]),
        ("pond", [false, false, false]),
        ("rust", [true, true, false]),
        ("seed", [false, false, false]),
        ("shade", [true, false, true]),
        ("tide", [true, true, true]),
    ];
    let proofs: Vec<_> = scored.iter().filter(|row| row["proof"] == true).collect();
    assert_eq!(proofs.len(), expected.len(), "{scored:?}");
    for (row, (id, [leaves, steps, said])) in proofs.iter().zip(expected) {
        assert_eq!(
            **row,
            json!({"id": id, "leaves": leaves, "steps": steps, "said": said, "proof": true})
        );
    }
    let overall = workspace
        .sql("SELECT value, value_answered, n_errored FROM scores WHERE name = 'overall_acc'");
    let overall = &overall[0];
    // What is no proof is wrong, or does not count.
    assert!((number(&overall["value"]) - 2.0 / 12.0).abs() < 1e-12, "{overall}");
    assert!((number(&overall["value_answered"]) - 0.2).abs() < 1e-12, "{overall}");
    assert_eq!(overall["n_errored"], 2);
}

#[test]
fn facts_alone_are_recalled_best() {
    let workspace = run("recall_science.yaml");
    let ways = workspace.sql(
        "SELECT strategy, taught, recall_at_1, recall_at_5, recall_at_10, mrr FROM strategies
         WHERE form = 'all' ORDER BY place",
    );
    let strategies: Vec<_> = ways.iter().map(|way| way["strategy"].as_str().unwrap()).collect();
    assert_eq!(strategies, ["F", "Q", "Q+F", "Relevant-Qs+F"]);
    for way in &ways {
        let ordered =
            ["recall_at_1", "mrr", "recall_at_10", "taught"].map(|name| number(&way[name]));
        assert!(ordered.is_sorted(), "{way}");
        assert!(number(&way["recall_at_1"]) <= number(&ways[0]["recall_at_1"]), "{way}");
    }
}
