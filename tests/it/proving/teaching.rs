//! `teach` does what its steps do as stages of their own, question after question.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde_json::Value as Json;

use crate::inference::models::asked;
use crate::support::Workspace;

const QUESTIONS: usize = 7;
/// What an answer is compared by.
const ANSWER: &str =
    "question_id, hypothesis_id, answer, status, score, direct, margin, proof_id, proved";

fn case() -> Workspace {
    let workspace = Workspace::of_case("proofs");
    workspace.add_model("t5", "reader");
    workspace.write("p.yaml", workspace.read("teach.yaml"));
    workspace
}

fn lessons(workspace: &Workspace, table: &str) -> Vec<Json> {
    let rows = workspace.sql(&format!("SELECT * FROM {table} ORDER BY place"));
    let places: Vec<_> = rows.iter().map(|row| row["place"].as_u64().unwrap()).collect();
    assert_eq!(places, (1..=QUESTIONS as u64).collect::<Vec<_>>(), "{table}");
    rows
}

fn column<'a>(rows: &'a [Json], name: &str) -> Vec<&'a Json> {
    rows.iter().map(|row| &row[name]).collect()
}

/// Stages that answer the questions in rounds of `round`, each with what those before it taught.
fn unrolled(round: usize) -> String {
    let mut stages = String::new();
    let verified = "model: reader, probability: renormalized, threshold: 0.000057";
    let questions: Vec<usize> = (1..=QUESTIONS).collect();
    for (number, some) in questions.chunks(round).enumerate() {
        let name = format!("u{round}_{number}");
        let ids: Vec<String> = some.iter().map(|n| format!("'q{n}'")).collect();
        let before: String = (0..number)
            .map(|before| format!(" UNION ALL SELECT place, fact FROM u{round}_{before}_taught"))
            .collect();
        write!(
            stages,
            "
  {name}_questions: {{ sql: \"SELECT * FROM questions WHERE row_id IN ({ids})\" }}
  {name}_hypotheses: {{ sql: \"SELECT * FROM hypotheses WHERE question_id IN ({ids})\" }}
  {name}_memory: {{ sql: \"SELECT fact FROM (SELECT 0 AS place, fact FROM first{before}) AS f ORDER BY place\" }}
  {name}_recalled: {{ retrieve: {{ from: {name}_questions, query: question, memory: {name}_memory, index: bm25, top_k: 3 }} }}
  {name}_proofs: {{ prove: {{ from: {name}_hypotheses, context: {name}_recalled, model: reader, options: {{ max_tokens: 8, min_tokens: 4 }} }} }}
  {name}_verified: {{ verify: {{ from: {name}_proofs, {verified} }} }}
  {name}_beliefs: {{ verify: {{ from: {name}_hypotheses, {verified}, keep: [gold, core_fact] }} }}
  {name}_answers: {{ select_answer: {{ from: {name}_beliefs, proofs: {name}_verified, keep: [gold, core_fact] }} }}
  {name}_taught: {{ sql: \"SELECT CAST(substr(question_id, 2) AS BIGINT) AS place, core_fact AS fact FROM {name}_answers WHERE hypothesis_id <> gold\" }}
",
            ids = ids.join(", ")
        )
        .unwrap();
    }
    stages
}

#[track_caller]
fn agree(workspace: &Workspace, round: usize, table: &str) {
    let taught = lessons(workspace, table);
    let by_id = |rows: Vec<Json>| -> BTreeMap<String, Json> {
        rows.into_iter().map(|row| (row["question_id"].to_string(), row)).collect()
    };
    let answers = by_id(workspace.sql(&format!("SELECT {ANSWER} FROM {table}")));
    for number in 0..QUESTIONS.div_ceil(round) {
        let name = format!("u{round}_{number}");
        let expected = by_id(workspace.sql(&format!("SELECT {ANSWER} FROM {name}_answers")));
        for (id, answer) in &expected {
            assert_eq!(answers[id], *answer, "{table}, {name}");
        }
        let facts = workspace.sql(&format!("SELECT count(*) AS n FROM {name}_memory__bm25"));
        let of_round = taught.iter().filter(|row| row["round"] == number as i64 + 1);
        let of_round: Vec<_> = of_round.collect();
        assert_eq!(of_round.len(), expected.len());
        assert!(of_round.iter().all(|row| row["memory"] == facts[0]["n"]), "{name}: {facts:?}");
        // The proofs of a lesson are those of the stages, with what became of each.
        let proofs = workspace.sql(&format!(
            "SELECT proof_id, reject_reason, score FROM {name}_verified ORDER BY proof_id"
        ));
        let of_lessons = workspace.sql(&format!(
            "SELECT p['proof_id'] AS proof_id, p['reject_reason'] AS reject_reason, p['score'] AS score
             FROM (SELECT unnest(proofs) AS p FROM {table} WHERE round = {}) ORDER BY proof_id",
            number + 1
        ));
        assert_eq!(of_lessons, proofs, "{table}, {name}");
    }
}

#[test]
fn a_lesson_is_what_its_steps_are_as_stages() {
    let workspace = case();
    let text = workspace.read("p.yaml") + &unrolled(1) + &unrolled(3);
    workspace.write("p.yaml", text);
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    agree(&workspace, 1, "by_one");
    agree(&workspace, 3, "by_three");
    let by_one = lessons(&workspace, "by_one");
    let right = by_one.iter().filter(|row| row["correct"] == true).count();
    assert!(right > 0 && right < QUESTIONS, "all alike: {right}");
    for row in &by_one {
        assert_eq!(row["correct"], row["hypothesis_id"] == row["gold"]);
        assert_eq!(row["taught"], row["correct"] == false);
        let fact = if row["taught"] == true { &row["core_fact"] } else { &Json::Null };
        assert_eq!((&row["fact"], row["fact_id"].is_string()), (fact, row["taught"] == true));
    }
    // One sentence of three is new, and said twice; one is nothing.
    assert_eq!(by_one[0]["memory"], 1);
    let memory: Vec<_> = column(&by_one, "memory").iter().map(|n| n.as_u64().unwrap()).collect();
    assert!(memory.windows(2).all(|pair| pair[1] - pair[0] <= 1), "{memory:?}");
    assert!(memory[QUESTIONS - 1] > 1, "{memory:?}");

    the_order_is_of_the_seed(&workspace);
    what_the_user_says(&workspace);

    workspace.proofmill(&["run", "p.yaml"]).expect(0).says("0 stages computed");
    let again = workspace.proofmill(&["run", "p.yaml", "--rerun", "by_one,by_three"]).expect(0);
    for stage in ["by_one", "by_three"] {
        assert_eq!(asked(&again.stderr, stage)[0], 0, "{}", done.stderr);
    }
    assert_eq!(lessons(&workspace, "by_one"), by_one);
}

fn the_order_is_of_the_seed(workspace: &Workspace) {
    let ordered = lessons(workspace, "ordered");
    assert_eq!(lessons(workspace, "ordered_backwards"), ordered, "the order of the table counts");
    let ids = |table: &str| -> Vec<String> {
        lessons(workspace, table).iter().map(|row| row["question_id"].to_string()).collect()
    };
    let orders = ["by_one", "ordered", "otherwise"].map(ids);
    let different: BTreeSet<_> = orders.iter().collect();
    assert_eq!(different.len(), 3, "{orders:?}");
    let sorted = orders.map(|mut ids| {
        ids.sort();
        ids
    });
    assert!(sorted.iter().all(|ids| *ids == sorted[0]));
}

fn what_the_user_says(workspace: &Workspace) {
    let all = lessons(workspace, "all");
    assert!(all.iter().all(|row| row["taught"] == true && row["fact"] == row["core_fact"]));
    assert_eq!(all[QUESTIONS - 1]["memory"], QUESTIONS as u64, "one before, and six more");
    let from_nothing = lessons(workspace, "from_nothing");
    assert_eq!(from_nothing[0]["memory"], 0);
    for (table, right) in [("always_right", true), ("wordless", false)] {
        let rows = lessons(workspace, table);
        assert!(rows.iter().all(|row| row["taught"] == false && row["fact"].is_null()), "{table}");
        assert!(rows.iter().all(|row| row["fact_id"].is_null() && row["memory"] == 1), "{table}");
        assert!(!right || rows.iter().all(|row| row["correct"] == true));
    }
    // Without a fact, and without free proofs, there is no proof, so no answer, which is wrong.
    let forced = lessons(workspace, "only_forced");
    let first = &forced[0];
    assert_eq!((&first["status"], &first["taught"]), (&"no_proof".into(), &true.into()));
    assert!(first["hypothesis_id"].is_null() && first["proofs"].is_null(), "{first}");
    assert!(forced.iter().any(|row| row["status"] == "proved"), "{forced:#?}");
}

#[test]
fn a_question_that_cannot_be_asked_fails_the_lessons() {
    let workspace = case();
    workspace.edit("p.yaml", "kv_cache_mib: 8", "kv_cache_mib: 8, max_batch_tokens: 80");
    let done = workspace.proofmill(&["run", "p.yaml", "--select", "+by_one"]).expect(1);
    done.says("rows have no answer, the first (too_long)")
        .says("a lesson depends on all previous ones");
}
