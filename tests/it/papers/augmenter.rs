//! LLM-Augmenter on the sample that ships: what must hold of the loop whatever the numbers are, and the numbers of its page.

use std::path::Path;

use serde_json::Value as Json;

use crate::support::Workspace;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn count(workspace: &Workspace, sql: &str) -> i64 {
    workspace.sql(sql)[0]["n"].as_i64().unwrap()
}

/// `.432` as the page writes it.
fn shown(value: &Json) -> String {
    let text = format!("{:.3}", value.as_f64().unwrap());
    text.strip_prefix('0').unwrap_or(&text).to_owned()
}

#[test]
fn what_falls_short_is_asked_again_and_the_page_says_what_it_gave() {
    let workspace = Workspace::new();
    let output = format!("output={}", workspace.path("page").display());
    let mut run = workspace.command(&["run", "pipelines/augmenter.yaml", "--param", &output]);
    run.current_dir(root()).env("PROOFMILL_STORE", workspace.path("store"));
    let done = run.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let none = |sql: &str| assert_eq!(count(&workspace, sql), 0, "{sql}");

    // The second turn has the items that fell short in the first, with what was said to them, and no others.
    none(
        "SELECT count(*) AS n FROM study_found_rule_loop_2.open AS o
         JOIN study_found_rule_loop_1.judged AS j ON j.id = o.id WHERE j.closed OR cardinality(o.exchanges) <> 2",
    );
    let open = count(
        &workspace,
        "SELECT count(*) AS n FROM study_found_rule_loop_1.judged WHERE NOT closed",
    );
    assert_eq!(
        count(&workspace, "SELECT count(*) AS n FROM study_found_rule_loop_2.candidates"),
        open
    );
    assert!(open > 20, "{open}");
    // Utility is that of the evidence in the prompt; what is sent has the most of it, or reached the threshold first.
    none(
        "SELECT count(*) AS n FROM study_found_rule.memory
         WHERE evidence IS NOT NULL AND abs(utility - kf1(candidate, evidence)['f1']) > 1e-9",
    );
    none(
        "SELECT count(*) AS n FROM study_found_rule.sent AS s JOIN study_found_rule.memory AS m ON m.id = s.id
         WHERE m.utility > s.utility OR (m.utility >= 0.4 AND m.turn < s.sent_turn)",
    );
    // Without evidence nothing can fall short.
    none(
        "SELECT count(*) AS n FROM study_found_rule.memory WHERE evidence IS NULL AND feedback IS NOT NULL",
    );

    let page = std::fs::read_to_string(root().join("docs/papers/llm_augmenter.md")).unwrap();
    let rows = workspace.sql("SELECT system, kf1, low, high FROM study.table ORDER BY place");
    assert_eq!(rows.len(), 10);
    for row in &rows {
        let (kf1, low, high) = (shown(&row["kf1"]), shown(&row["low"]), shown(&row["high"]));
        let line = format!("{} | {kf1} | {low} to {high} |", row["system"].as_str().unwrap());
        let plain = page.replace("**", "");
        assert!(plain.contains(&line), "the page lacks `{line}`");
    }
}

#[test]
fn a_metric_with_a_head_of_its_own_needs_a_checkpoint_that_has_one() {
    let workspace = Workspace::new();
    let asked = |command: &[&str], folder: &str| {
        let bleurt = format!("bleurt={folder}");
        let chosen = ["--param", "learned=bleurt", "--param", &bleurt];
        let mut command = workspace.command(&[command, &chosen[..]].concat());
        command.current_dir(root()).env("PROOFMILL_STORE", workspace.path("store"));
        command.output().unwrap()
    };
    let run = ["run", "pipelines/augmenter_dstc11.yaml", "--select", "by_models_learned.scores"];
    let none = asked(&["check", "pipelines/augmenter_dstc11.yaml"], "");
    assert_eq!(none.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&none.stderr).contains("E0403"));

    let without = asked(&run, "data/models/tiny-situations/encoder");
    assert_eq!(without.status.code(), Some(1));
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(said.contains("the model has no head that tells classes"), "{said}");

    let judged = asked(&run, "udfs/engine/tests/parity/data/bert-reranker");
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stderr));
    let of = |sql: &str| count(&workspace, sql);
    let rows = of("SELECT count(*) AS n FROM by_models_learned.scores WHERE bleurt IS NOT NULL");
    assert_eq!(rows, of("SELECT count(*) AS n FROM study.results"));
    // It is a number of both texts: one reference has others for other responses.
    let several = "SELECT count(*) AS n FROM (
        SELECT reference FROM by_models_learned.judged GROUP BY reference HAVING count(DISTINCT bleurt) > 1)";
    assert!(of(several) > 10);
}
