//! `proof_search`: trees of proofs by the rules of Entailer, with the published numbers, and the answers
//! that come of them.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::caching::model_cache::changed;
use crate::oracle;
use crate::server::Received;
use crate::support::{Workspace, set};

fn searched() -> (Workspace, Received, String) {
    let (url, received) = oracle::start();
    let workspace = Workspace::of_case("proofs");
    workspace.write("p.yaml", workspace.read("search.yaml"));
    let url = format!("url={url}");
    workspace.proofmill(&["run", "p.yaml", "--param", &url]).expect(0);
    (workspace, received, url)
}

fn number(value: &Json) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[track_caller]
fn close(found: &Json, expected: f64) {
    assert!((number(found) - expected).abs() < 1e-12, "{found} is not {expected}");
}

/// The proofs of `table` that `filter` leaves, by name.
fn proofs(workspace: &Workspace, table: &str, filter: &str) -> Vec<Json> {
    workspace.sql(&format!(
        "SELECT proof_id, hypothesis_id, hypothesis, depth, root, parent_proof_id, premise, direct, entailment,
           score, searched_score, accepted, reject_reason, kept, drop_reason, gold
         FROM {table} WHERE {filter} ORDER BY proof_id"
    ))
}

fn one(workspace: &Workspace, table: &str, filter: &str) -> Json {
    let mut rows = proofs(workspace, table, filter);
    assert_eq!(rows.len(), 1, "{filter}: {rows:#?}");
    rows.remove(0)
}

#[test]
fn proofs_stay_where_they_are_stronger_than_beliefs() {
    let (workspace, received, url) = searched();
    the_published_numbers(&workspace);
    premises_are_proved_in_their_turn(&workspace);
    the_first_level_is_that_of_prove_and_verify(&workspace);
    answers_are_those_of_the_trees(&workspace);
    users_are_heard(&workspace);
    every_sentence_is_asked_about_once(&received);
    let asked = received.lock().unwrap().len();
    workspace.proofmill(&["run", "p.yaml", "--param", &url]).expect(0).says("0 stages computed");
    let again = "depths_3.searched,trusted";
    workspace.proofmill(&["run", "p.yaml", "--param", &url, "--rerun", again]).expect(0);
    assert_eq!(received.lock().unwrap().len(), asked, "something was asked again");
}

fn the_published_numbers(workspace: &Workspace) {
    assert!(proofs(workspace, "searched", "most = '0'").is_empty());
    for depth in ["1", "2", "3"] {
        let table = format!("depths_{depth}.searched");
        let row = one(workspace, &table, "root = 'penny#1' AND depth = 1 AND kept");
        assert_eq!(row["proof_id"], "penny#1/fact1");
        close(&row["direct"], 0.028_83);
        let expected = 0.999_983_2 * (0.999_047_1 * 0.999_767_6);
        close(&row["score"], expected);
        close(&row["searched_score"], expected);
        assert!((number(&row["searched_score"]) - 0.998_798_1).abs() < 5e-8, "{row}");
        assert!(number(&row["searched_score"]) > 1.0 - number(&row["direct"]));
        // The other option is believed too firmly for its proofs, the same one twice among them.
        let rows = proofs(workspace, &table, "root = 'penny#0' AND depth = 1");
        let reasons: Vec<_> = rows.iter().map(|row| &row["drop_reason"]).collect();
        assert!(reasons.contains(&&json!("not_stronger")), "{rows:#?}");
        assert!(rows.iter().all(|row| row["kept"] == false && row["gold"] == "no"), "{rows:#?}");
    }
}

fn premises_are_proved_in_their_turn(workspace: &Workspace) {
    let of_nails = "root = 'nail#0' AND accepted";
    let shallow = one(workspace, "depths_1.searched", of_nails);
    close(&shallow["searched_score"], 0.99 * (0.7 * 0.55));
    assert_eq!(
        (&shallow["kept"], &shallow["drop_reason"]),
        (&json!(false), &json!("not_stronger"))
    );

    let below = 0.98 * (0.99 * 0.98);
    for (depth, rows) in [("2", 2), ("3", 3)] {
        let table = format!("depths_{depth}.searched");
        let found = proofs(workspace, &table, of_nails);
        assert_eq!(found.len(), rows, "{found:#?}");
        // What nothing changes is as before; what is proved below makes the difference.
        close(&found[0]["score"], 0.99 * (0.7 * 0.55));
        close(&found[0]["searched_score"], 0.99 * (0.7 * below));
        assert_eq!((&found[0]["kept"], &found[0]["drop_reason"]), (&json!(true), &Json::Null));
        let row = &found[1];
        assert_eq!(
            *row,
            json!({
                "proof_id": "nail#0/free/p2/free", "hypothesis_id": "nail#0/free/p2",
                "hypothesis": "Iron rusts in rain.", "depth": 2, "root": "nail#0",
                "parent_proof_id": "nail#0/free", "premise": 2, "direct": row["direct"],
                "entailment": row["entailment"], "score": row["score"],
                "searched_score": row["searched_score"], "accepted": true, "reject_reason": null,
                "kept": true, "drop_reason": null, "gold": "it rusts",
            })
        );
        close(&row["searched_score"], below);
    }
    // Rejected proofs stay, at every level, with their reasons.
    let rejected = proofs(workspace, "depths_3.searched", "root = 'nail#0' AND NOT accepted");
    let reasons: Vec<_> = rejected
        .iter()
        .map(|row| (row["proof_id"].as_str().unwrap(), &row["reject_reason"]))
        .collect();
    assert_eq!(
        reasons,
        [
            ("nail#0/free/p1/free", &json!("premise_not_believed")),
            ("nail#0/free/p2/free/p2/free", &json!("no_premises"))
        ]
    );
    assert!(rejected.iter().all(|row| row["searched_score"].is_null() && row["kept"] == false));
    // A proof from what it is to support: its premise is a leaf, so it is worth what is believed.
    let circle = one(workspace, "depths_3.searched", "proof_id = 'nail#0/free/p2/free/p1/free'");
    close(&circle["searched_score"], 0.5 * (0.5 * 0.98));
    assert_eq!((&circle["kept"], &circle["drop_reason"]), (&json!(false), &json!("not_stronger")));
}

fn the_first_level_is_that_of_prove_and_verify(workspace: &Workspace) {
    let columns =
        "proof_id, hypothesis_id, question_id, label, answer, question, hypothesis, strategy,
        forced_fact_id, context, text, premises, entailment, direct, score, accepted, reject_reason,
        request_digests";
    let rows = |table: &str| {
        workspace.sql(&format!("SELECT {columns} FROM {table} WHERE depth = 1 ORDER BY proof_id"))
    };
    let expected = workspace.sql(&format!("SELECT {columns} FROM verified ORDER BY proof_id"));
    assert_eq!(expected.len(), 8);
    assert_eq!(rows("depths_1.searched"), expected);
    assert_eq!(rows("depths_3.searched"), expected);
}

fn answers_are_those_of_the_trees(workspace: &Workspace) {
    let answers = |table: &str| {
        workspace.sql(&format!(
            "SELECT most, question_id, answer, status, score, direct, proof_id, proved FROM {table}
             ORDER BY most, question_id"
        ))
    };
    let score = 0.999_983_2 * (0.999_047_1 * 0.999_767_6);
    let rusts = 0.99 * (0.7 * (0.98 * (0.99 * 0.98)));
    let rows = answers("answers");
    let expected = [
        ("nail", "it rusts", "direct", 0.4),
        ("penny", "yes", "direct", 0.95),
        ("nail", "it rusts", "direct", 0.4),
        ("penny", "no", "proved", score),
        ("nail", "it rusts", "proved", rusts),
        ("penny", "no", "proved", score),
        ("nail", "it rusts", "proved", rusts),
        ("penny", "no", "proved", score),
    ];
    assert_eq!(rows.len(), expected.len());
    for (row, (question, answer, status, score)) in rows.iter().zip(expected) {
        assert_eq!(
            (&row["question_id"], &row["answer"]),
            (&json!(question), &json!(answer)),
            "{row}"
        );
        assert_eq!(row["status"], status, "{row}");
        close(&row["score"], score);
        assert_eq!(row["proof_id"].is_string(), status == "proved", "{row}");
    }
    // Without a proof that is kept, somebody may want no answer.
    let statuses: Vec<_> =
        answers("or_nobody").into_iter().map(|row| row["status"].clone()).collect();
    let none = "no_proof";
    assert_eq!(
        statuses,
        [none, none, none, "proved", "proved", "proved", "proved", "proved"].map(Json::from)
    );
}

fn users_are_heard(workspace: &Workspace) {
    let blocked = workspace.sql(
        "SELECT proof_id FROM without_bad WHERE reject_reason = 'blocked' AND depth = 1 ORDER BY proof_id",
    );
    assert_eq!(
        blocked,
        [json!({"proof_id": "penny#1/fact1"}), json!({"proof_id": "penny#1/fact2"})]
    );
    let instead = workspace.sql("SELECT answer, status FROM instead WHERE question_id = 'penny'");
    assert_eq!(instead[0], json!({"answer": "yes", "status": "direct"}));

    let below =
        workspace.sql("SELECT count(*) AS n FROM trusted WHERE root = 'penny#1' AND depth > 1");
    assert_eq!(below[0]["n"], 0, "what the memory says is proved again");
    let row = workspace.sql("SELECT searched_score FROM trusted WHERE root = 'penny#1' AND kept");
    close(&row[0]["searched_score"], 0.999_983_2);
}

fn every_sentence_is_asked_about_once(received: &Received) {
    let received = received.lock().unwrap();
    let prompts: Vec<&str> =
        received.iter().map(|(_, body)| body["prompt"].as_str().unwrap()).collect();
    let different: BTreeSet<_> = prompts.iter().collect();
    assert_eq!(different.len(), prompts.len(), "a request was made twice");
    // Question and answer belong to the hypotheses; below them there is only the sentence.
    let proofs: Vec<_> = prompts.iter().filter(|prompt| prompt.starts_with("$proof$ ; ")).collect();
    assert!(proofs.contains(&&"$proof$ ; $hypothesis$ = Iron rusts in rain."), "{proofs:#?}");
    // A premise that is claimed above in other clothes is believed or not, and not proved.
    assert!(
        prompts.iter().any(|prompt| prompt.starts_with("$valid$ ; $hypothesis$ = Iron  rusts"))
    );
    assert!(!proofs.iter().any(|prompt| prompt.contains("$hypothesis$ = Iron  rusts")));
}

/// Only planned: every setting that changes the table changes the fingerprint.
#[test]
fn settings_of_search() {
    let base = Workspace::with(
        "pipeline: identity
models:
  reader: { path: models/reader }
stages:
  questions:
    sql: SELECT 'q' AS row_id, 'Why?' AS question, ['a', 'b'] AS choices, 'A' AS gold
  facts: { sql: \"SELECT 'Iron rusts.' AS fact\" }
  recalled: { retrieve: { from: questions, query: question, memory: facts, index: bm25, top_k: 2 } }
  blocked: { sql: \"SELECT 'x' AS hypothesis, ['y'] AS premises\" }
  hypotheses:
    hypothesize: { from: questions, question: question, choices: choices, hypothesis: \"question || answer\", keep: [gold] }
  beliefs: { verify: { from: hypotheses, model: reader } }
  searched:
    proof_search: { from: hypotheses, model: reader, context: recalled, threshold: 0.6, blocked: blocked }
  answers: { select_answer: { from: beliefs, proofs: searched } }
",
    );
    base.add_model("t5", "models/reader");
    let all = set(&["searched", "answers"]);
    for (old, new) in [
        ("threshold: 0.6", "threshold: 0.7"),
        ("threshold: 0.6", "threshold: 0.6, depth: 2"),
        ("threshold: 0.6", "threshold: 0.6, probability: renormalized"),
        ("threshold: 0.6", "threshold: 0.6, include_eos: false"),
        ("threshold: 0.6", "threshold: 0.6, trust_memory: true"),
        ("threshold: 0.6", "threshold: 0.6, question: false"),
        ("threshold: 0.6", "threshold: 0.6, forced: false"),
        ("threshold: 0.6", "threshold: 0.6, free: false"),
        ("threshold: 0.6", "threshold: 0.6, memory: facts"),
        ("threshold: 0.6", "threshold: 0.6, truncate: 50"),
        ("threshold: 0.6", "threshold: 0.6, options: { max_tokens: 9 }"),
        ("threshold: 0.6", "threshold: 0.6, keep: [gold]"),
        (", blocked: blocked", ""),
        (", context: recalled", ""),
    ] {
        let found = changed(&base, |workspace| workspace.edit("p.yaml", old, new));
        assert_eq!(found, all, "`{old}` -> `{new}`");
    }
    for (old, new) in [
        ("threshold: 0.6", "threshold: 0.6, depth: 3"),
        (
            "threshold: 0.6",
            "threshold: 0.6, options: { samples: 6, temperature: 1.0, top_p: 0.95 }",
        ),
    ] {
        let found = changed(&base, |workspace| workspace.edit("p.yaml", old, new));
        assert_eq!(found, set(&[]), "`{old}` -> `{new}`");
    }
    for (new, says) in [
        (
            "free: false, forced: false",
            "no proofs would be written: `free` and `forced` are both off",
        ),
        ("keep: [root]", "the input has no column `root`"),
        ("keep: [label]", "the table already has a column `label`"),
        ("options: { top_p: 2 }", "top_p"),
        ("depth: 11", "depth"),
    ] {
        let workspace = Workspace::with(&base.read("p.yaml"));
        workspace.add_model("t5", "models/reader");
        workspace.edit("p.yaml", "threshold: 0.6", new);
        workspace.proofmill(&["check", "p.yaml"]).expect(3).says(says);
    }
}
