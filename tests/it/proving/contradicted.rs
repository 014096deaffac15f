//! Proofs with a premise that the memory contradicts are rejected, and nobody is asked about them.

use serde_json::{Value as Json, json};

use crate::oracle;
use crate::support::Workspace;

const CANNOT: &str = "A magnet cannot attract copper.";

fn case() -> Workspace {
    let workspace = Workspace::of_case("proofs");
    workspace.write("p.yaml", workspace.read("denied.yaml"));
    workspace
}

/// The reasons of a table by the name of the proof.
fn reasons(workspace: &Workspace, table: &str) -> Vec<(String, Json)> {
    let rows = workspace.sql(&format!(
        "SELECT proof_id, coalesce(reject_reason, 'accepted') AS reason FROM {table} ORDER BY proof_id"
    ));
    let reason = |row: &Json| (row["proof_id"].as_str().unwrap().to_owned(), row["reason"].clone());
    rows.iter().map(reason).collect()
}

#[track_caller]
fn expect(workspace: &Workspace, table: &str, expected: &[(&str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(id, why)| ((*id).to_owned(), json!(why))).collect();
    assert_eq!(reasons(workspace, table), expected, "{table}");
}

#[test]
fn what_contradicts_the_memory_is_rejected_and_not_asked_about() {
    let (url, received) = oracle::start();
    let workspace = case();
    let url = format!("url={url}");
    workspace.proofmill(&["run", "p.yaml", "--param", &url, "--select", "+judged"]).expect(0);
    expect(
        &workspace,
        "judged",
        &[
            ("can", "premise_contradicted"),
            ("cannot", "accepted"),
            ("kind", "premise_contradicted"),
            ("mistake", "premise_contradicted"),
            ("nothing", "no_premises"),
            // What denies a premise of another proof of the hypothesis is none; what affirms one may be.
            ("turned", "premise_is_denial"),
            ("water", "premise_contradicted"),
            ("wet", "accepted"),
        ],
    );
    let rows = workspace.sql(
        "SELECT premises, entailment, direct, score, accepted, array_length(request_digests) AS digests
         FROM judged WHERE reject_reason = 'premise_contradicted' AND proof_id IN ('can', 'kind') ORDER BY proof_id",
    );
    for (row, by) in rows.iter().zip([
        [Json::Null, json!(CANNOT)],
        [json!("a penny is not a kind of coin."), json!(CANNOT)],
    ]) {
        assert!(row["entailment"].is_null() && row["score"].is_null(), "{row}");
        assert_eq!((&row["accepted"], &row["digests"]), (&json!(false), &json!(1)));
        assert!(row["direct"].is_number(), "{row}");
        for (premise, by) in row["premises"].as_array().unwrap().iter().zip(by) {
            assert_eq!(premise["contradicted_by"], by, "{row}");
            assert!(premise["belief"].is_null() && premise["believed"].is_null(), "{row}");
        }
    }
    // The refuted proof was asked about only where another one rests on the denial.
    let mistake =
        &workspace.sql("SELECT entailment, score FROM judged WHERE proof_id = 'mistake'")[0];
    assert!(mistake["entailment"].is_number() && mistake["score"].is_null(), "{mistake}");
    // Not a premise, not a proof.
    for (_, body) in received.lock().unwrap().iter() {
        let prompt = body["prompt"].as_str().unwrap();
        assert!(!prompt.contains("can attract copper"), "{prompt}");
        assert!(!prompt.contains("is a coin"), "{prompt}");
    }

    workspace.proofmill(&["run", "p.yaml", "--param", &url]).expect(0);
    let without =
        workspace.sql("SELECT premises, reject_reason FROM unsaid WHERE proof_id <> 'nothing'");
    for row in &without {
        assert_ne!(row["reject_reason"], "premise_contradicted");
        let premises = row["premises"].as_array().unwrap();
        assert!(
            premises.iter().all(|it| it["contradicted_by"].is_null() && it["belief"].is_number())
        );
    }
    // Of two facts that contradict each other, no proof can use either, trusted or not.
    expect(
        &workspace,
        "by_torn",
        &[
            ("can", "premise_contradicted"),
            ("cannot", "premise_contradicted"),
            ("kind", "premise_contradicted"),
            ("mistake", "premise_contradicted"),
            ("nothing", "no_premises"),
            ("turned", "premise_is_denial"),
            ("water", "premise_contradicted"),
            ("wet", "accepted"),
        ],
    );
    let of_penny = workspace.sql("SELECT reject_reason FROM by_question WHERE proof_id = 'can'");
    assert_ne!(of_penny[0]["reject_reason"], "premise_contradicted");
    let of_coin = workspace.sql("SELECT reject_reason FROM by_question WHERE proof_id = 'kind'");
    assert_eq!(of_coin[0]["reject_reason"], "premise_contradicted");
    trees_lose_what_is_contradicted(&workspace);
    lessons_reject_what_those_before_contradict(&workspace);
}

fn trees_lose_what_is_contradicted(workspace: &Workspace) {
    let rows = |table: &str, filter: &str| {
        workspace.sql(&format!(
            "SELECT proof_id, depth, reject_reason, kept, searched_score IS NULL AS leaf FROM {table}
             WHERE {filter} ORDER BY depth, proof_id"
        ))
    };
    let below = "hypothesis = 'Iron rusts in rain.'";
    for row in rows("trees", below).iter().chain(&rows("trees", "root LIKE 'penny%'")) {
        assert_eq!(
            (&row["reject_reason"], &row["kept"], &row["leaf"]),
            (&json!("premise_contradicted"), &json!(false), &json!(true)),
            "{row}"
        );
    }
    assert!(!rows("trees", below).is_empty());
    // What is said for the other question leaves the nail alone.
    let kept = rows("trees_of_pennies", below);
    assert_eq!((&kept[0]["reject_reason"], &kept[0]["kept"]), (&Json::Null, &json!(true)));
    let pennies = rows("trees_of_pennies", "root LIKE 'penny%'");
    assert!(
        pennies.iter().all(|row| row["reject_reason"] == "premise_contradicted"),
        "{pennies:?}"
    );
}

fn lessons_reject_what_those_before_contradict(workspace: &Workspace) {
    let second = |table: &str| {
        let rows = workspace.sql(&format!(
            "SELECT p['proof_id'] AS proof_id, p['reject_reason'] AS reason,
               p['premises'][2]['contradicted_by'] AS by
             FROM (SELECT place, unnest(proofs) AS p FROM {table}) WHERE place = 2"
        ));
        rows.into_iter().find(|row| row["proof_id"] == "bpenny#0/free").unwrap()
    };
    let taught = workspace.sql("SELECT place, taught, answer FROM lessons ORDER BY place");
    assert_eq!((&taught[0]["taught"], &taught[1]["taught"]), (&json!(true), &json!(false)));
    let row = second("lessons");
    assert_eq!((&row["reason"], &row["by"]), (&json!("premise_contradicted"), &json!(CANNOT)));
    let row = second("lessons_of_before");
    assert_eq!((&row["reason"], &row["by"]), (&Json::Null, &Json::Null));
}

#[test]
fn a_memory_that_cannot_be_compared_is_a_mistake() {
    let workspace = case();
    for (old, new, says) in [
        ("memory: said }", "memory: questions }", "the input has no column `fact`"),
        (
            "{ from: written, model: entailer, include_eos: false, memory: said }",
            "{ from: hypotheses, model: entailer, include_eos: false, memory: said }",
            "hypotheses have no premises that a memory could contradict",
        ),
        (
            "SELECT 'coin' AS query_id, fact FROM said",
            "SELECT 1 AS query_id, fact FROM said",
            "column `query_id`: expected a string",
        ),
    ] {
        let workspace = Workspace::with(&workspace.read("p.yaml"));
        workspace.edit("p.yaml", old, new);
        workspace.proofmill(&["check", "p.yaml"]).expect(3).says(says);
    }
    workspace.edit(
        "p.yaml",
        "'penny#0' AS hypothesis_id, 'penny' AS question_id",
        "'penny#0' AS hypothesis_id, 'penny' AS asked",
    );
    let help = "without a column `query_id`, the facts of `memory` count for all questions";
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("no column `question_id`").says(help);
}
