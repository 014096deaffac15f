//! `audit trace`: the whole path of an answer, from the records of the store alone.

use std::sync::OnceLock;

use serde_json::{Value as Json, json};

use crate::oracle;
use crate::server::serve;
use crate::support::Workspace;

/// The case, run: one run for all tests that only look.
fn ran() -> &'static Workspace {
    static RAN: OnceLock<Workspace> = OnceLock::new();
    RAN.get_or_init(|| {
        let workspace = Workspace::of_case("audit");
        let url = format!("url={}", refusing());
        workspace.proofmill(&["run", "p.yaml", "--param", &url]).expect(0);
        // What was run is all that counts.
        workspace.write("p.yaml", "not a pipeline any more");
        workspace
    })
}

/// The oracle, which refuses to prove that nails are not attracted.
fn refusing() -> String {
    let (url, _) = serve(|_, body| {
        let prompt = body["prompt"].as_str().unwrap_or_default();
        if prompt.starts_with("$proof$ ; $question$ = Can a magnet attract a nail? ; $answer$ = no")
        {
            return ("400 Bad Request", json!({"error": {"message": "not about nails"}}));
        }
        ("200 OK", oracle::reply(prompt))
    });
    url
}

/// The one trace of a question.
#[track_caller]
fn trace(workspace: &Workspace, args: &[&str]) -> Json {
    let all = workspace.json(&[&["audit", "trace"], args].concat());
    let traces = all["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 1, "{all:#}");
    traces[0].clone()
}

#[track_caller]
fn drawn(workspace: &Workspace, args: &[&str]) -> String {
    workspace.proofmill(&[&["audit", "trace"], args].concat()).expect(0).stdout
}

/// Checks a drawing without what differs between runs: names of runs, digests that cover the address
/// of the model.
macro_rules! assert_drawn {
    ($drawn:expr, @$expected:literal) => {
        insta::with_settings!({ filters => vec![
            (r"\d{8}-\d{9}-[0-9a-z]{6}", "[run]"),
            (r"\b[0-9a-f]{12}\b", "hex"),
        ] }, { insta::assert_snapshot!($drawn, @$expected) });
    };
}

/// Proofs of a trace, by their ids.
fn proofs(trace: &Json) -> Vec<&Json> {
    let hypotheses = trace["hypotheses"].as_array().unwrap().iter();
    hypotheses.flat_map(|one| one["proofs"].as_array().unwrap()).collect()
}

#[test]
fn the_path_of_an_answer_is_a_tree() {
    assert_drawn!(drawn(ran(), &["penny"]), @r"
    question penny: Can a magnet attract a penny?
    run [run] of audit

       stage    answer  status   score  margin         also called
    ─  ───────  ──────  ──────  ──────  ──────  ─────  ─────────────
       direct   A yes   direct  0.9500  0.9212  wrong
    ▶  answers  B no    proved  0.9988  0.0687  right  answers_again

    answers (select_answer)
    │ kept: gold = no
    ├─ 3 facts recalled by recalled
    │  ├─ 1  0.8203  A magnet cannot attract copper.  [hex]
    │  │  ├─ taught by lesson 2 of lessons: t2 Does a magnet attract copper?
    │  │  │  the wrong answer was `yes`, by proof t2#0/fact2
    │  │  ├─ through facts ← memory
    │  │  └─ premise of penny#1/fact1, penny#1/fact2
    │  ├─ 2  0.5539  A penny is made of copper.  [hex]
    │  │  ├─ taught by lesson 1 of lessons: t1 What is a penny made of?
    │  │  │  the wrong answer was `yes`, by proof t1#0/free
    │  │  │  said again by lesson 3
    │  │  ├─ through facts ← memory
    │  │  └─ premise of penny#0/free, penny#0/fact2, penny#1/fact1, penny#1/fact2
    │  └─ 3  0.3272  A magnet is made of iron.  [hex]
    │     ├─ a row of seed (sql), column fact: number = 7
    │     └─ through facts ← seed
    ├─ A yes: a magnet can attract a penny  [penny#0]
    │  │ belief 0.9500, score 0.9301
    │  │ requests: asked about it hex
    │  ├─ prompt: $proof$ ; $question$ = Can a magnet attract a penny? ; $answer$ = yes ; $hypothesis$ =
    │  │  a magnet can attract a penny ; $context$ = [HIGH] A magnet cannot attract copper. A penny is
    │  │  made of copper. A magnet is made of iron.
    │  ├─ proof penny#0/free: accepted
    │  │  │ score 0.9301, entailment 0.9500
    │  │  ├─ wrote: $proof$ = [PREMISE] A penny is made of copper. [PREMISE] A magnet can attract
    │  │  │  copper.  (end, 2 tokens)
    │  │  ├─ premise 0.9990  A penny is made of copper.  (memory hex)
    │  │  ├─ premise 0.9800  A magnet can attract copper.  (model)
    │  │  └─ requests: wrote it hex, judged it hex hex hex
    │  │     hex
    │  ├─ proof penny#0/fact1: rejected, not_entailed (0.1000 is below 0.5000)
    │  │  │ score 0.0999, entailment 0.1000
    │  │  ├─ wrote: $proof$ = [PREMISE] A magnet cannot attract copper. [PREMISE] A penny is made of
    │  │  │  copper.  (end, 2 tokens)
    │  │  ├─ premise 0.9998  A magnet cannot attract copper.  (memory hex)
    │  │  ├─ premise 0.9990  A penny is made of copper.  (memory hex)
    │  │  └─ requests: wrote it hex, judged it hex hex hex
    │  │     hex
    │  ├─ proof penny#0/fact2: accepted
    │  │  │ score 0.9301, entailment 0.9500
    │  │  ├─ wrote: $proof$ = [PREMISE] A penny is made of copper. [PREMISE] A magnet can attract
    │  │  │  copper.  (end, 2 tokens)
    │  │  ├─ premise 0.9990  A penny is made of copper.  (memory hex)
    │  │  ├─ premise 0.9800  A magnet can attract copper.  (model)
    │  │  └─ requests: wrote it hex, judged it hex hex hex
    │  │     hex
    │  └─ proof penny#0/fact3: accepted
    │     │ score 0.4750, entailment 0.9500
    │     ├─ wrote: $proof$ = [PREMISE] A magnet is made of iron..  (end, 2 tokens)
    │     ├─ premise 0.5000  A magnet is made of iron..  (model)
    │     └─ requests: wrote it hex, judged it hex hex hex
    ├─ B no: a magnet will not attract a penny  [penny#1]
    │  │ gold, belief 0.0288, score 0.9988
    │  │ requests: asked about it hex
    │  ├─ prompt: $proof$ ; $question$ = Can a magnet attract a penny? ; $answer$ = no ; $hypothesis$ =
    │  │  a magnet will not attract a penny ; $context$ = [HIGH] A magnet cannot attract copper. A penny
    │  │  is made of copper. A magnet is made of iron.
    │  ├─ proof penny#1/free: rejected, not_entailed (0.2000 is below 0.5000)
    │  │  │ score 0.1958, entailment 0.2000
    │  │  ├─ wrote: $proof$ = [PREMISE] A penny is made of copper. [PREMISE] A magnet can attract
    │  │  │  copper.  (end, 2 tokens)
    │  │  ├─ premise 0.9990  A penny is made of copper.  (memory hex)
    │  │  ├─ premise 0.9800  A magnet can attract copper.  (model)
    │  │  └─ requests: wrote it hex, judged it hex hex hex
    │  │     hex
    │  ├─ proof penny#1/fact1: accepted; the answer rests on it
    │  │  │ score 0.9988, entailment 0.99998
    │  │  ├─ wrote: $proof$ = [PREMISE] A magnet cannot attract copper. [PREMISE] A penny is made of
    │  │  │  copper.  (end, 2 tokens)
    │  │  ├─ premise 0.9998  A magnet cannot attract copper.  (memory hex)
    │  │  ├─ premise 0.9990  A penny is made of copper.  (memory hex)
    │  │  └─ requests: wrote it hex, judged it hex hex hex
    │  │     hex
    │  ├─ proof penny#1/fact2: accepted
    │  │  │ score 0.9988, entailment 0.99998
    │  │  ├─ wrote: $proof$ = [PREMISE] A penny is made of copper. [PREMISE] A magnet cannot attract
    │  │  │  copper.  (end, 2 tokens)
    │  │  ├─ premise 0.9990  A penny is made of copper.  (memory hex)
    │  │  ├─ premise 0.9998  A magnet cannot attract copper.  (memory hex)
    │  │  └─ requests: wrote it hex, judged it hex hex hex
    │  │     hex
    │  └─ proof penny#1/fact3: rejected, not_entailed (0.2000 is below 0.5000)
    │     │ score 0.1000, entailment 0.2000
    │     ├─ wrote: $proof$ = [PREMISE] A magnet is made of iron..  (end, 2 tokens)
    │     ├─ premise 0.5000  A magnet is made of iron..  (model)
    │     └─ requests: wrote it hex, judged it hex hex hex
    └─ decision: B no, proved, right
       score 0.9988, margin 0.0687 over A yes (0.9301), belief 0.0288
       by proof penny#1/fact1
    ");
}

#[test]
fn a_lesson_has_a_path_too() {
    assert_drawn!(drawn(ran(), &["t3", "--answers", "lessons"]), @r"
    question t3: Is a penny made of iron?
    run [run] of audit

    lessons (teach)
    │ kept: gold = no, core_fact = a penny is made of  COPPER.
    ├─ 3 facts recalled
    │  ├─ 1  A magnet is made of iron.  [hex]
    │  │  ├─ a row of seed (sql), column fact: number = 7
    │  │  └─ through seed
    │  ├─ 2  A penny is made of copper.  [hex]
    │  │  ├─ taught by lesson 1 of lessons: t1 What is a penny made of?
    │  │  │  the wrong answer was `yes`, by proof t1#0/free
    │  │  └─ premise of t3#0/free, t3#0/fact2, t3#0/fact3, t3#1/free, t3#1/fact2, t3#1/fact3
    │  └─ 3  A magnet cannot attract copper.  [hex]
    │     ├─ taught by lesson 2 of lessons: t2 Does a magnet attract copper?
    │     │  the wrong answer was `yes`, by proof t2#0/fact2
    │     └─ premise of t3#0/fact3, t3#1/fact3
    ├─ A yes: yes to Is a penny made of iron?  [t3#0]
    │  │ belief 0.5000, score 0.4994
    │  ├─ proof t3#0/free: accepted
    │  │  │ score 0.4895, entailment 0.5000
    │  │  ├─ premise 0.9990  A penny is made of copper.  (memory hex)
    │  │  └─ premise 0.9800  A magnet can attract copper.  (model)
    │  ├─ proof t3#0/fact1: accepted
    │  │  │ score 0.2500, entailment 0.5000
    │  │  └─ premise 0.5000  A magnet is made of iron..  (model)
    │  ├─ proof t3#0/fact2: accepted
    │  │  │ score 0.4895, entailment 0.5000
    │  │  ├─ premise 0.9990  A penny is made of copper.  (memory hex)
    │  │  └─ premise 0.9800  A magnet can attract copper.  (model)
    │  └─ proof t3#0/fact3: accepted; the answer rests on it
    │     │ score 0.4994, entailment 0.5000
    │     ├─ premise 0.9998  A magnet cannot attract copper.  (memory hex)
    │     └─ premise 0.9990  A penny is made of copper.  (memory hex)
    ├─ B no: no to Is a penny made of iron?  [t3#1]
    │  │ gold, belief 0.5000, score 0.4994
    │  ├─ proof t3#1/free: accepted
    │  │  │ score 0.4895, entailment 0.5000
    │  │  ├─ premise 0.9990  A penny is made of copper.  (memory hex)
    │  │  └─ premise 0.9800  A magnet can attract copper.  (model)
    │  ├─ proof t3#1/fact1: accepted
    │  │  │ score 0.2500, entailment 0.5000
    │  │  └─ premise 0.5000  A magnet is made of iron..  (model)
    │  ├─ proof t3#1/fact2: accepted
    │  │  │ score 0.4895, entailment 0.5000
    │  │  ├─ premise 0.9990  A penny is made of copper.  (memory hex)
    │  │  └─ premise 0.9800  A magnet can attract copper.  (model)
    │  └─ proof t3#1/fact3: accepted
    │     │ score 0.4994, entailment 0.5000
    │     ├─ premise 0.9998  A magnet cannot attract copper.  (memory hex)
    │     └─ premise 0.9990  A penny is made of copper.  (memory hex)
    ├─ decision: A yes, proved, wrong
    │  score 0.4994, margin 0 over B no (0.4994), belief 0.5000
    │  by proof t3#0/fact3
    └─ lesson 3 of round 3, with 3 facts in memory
       the user said: a penny is made of  COPPER.  [hex]
    ");
}

#[test]
fn programs_get_every_row() {
    let workspace = ran();
    let trace = trace(workspace, &["penny", "--answers", "answers"]);
    assert_eq!(
        trace["tables"],
        json!({"answers": "answers", "beliefs": "beliefs", "hypotheses": "hypotheses",
            "proofs_judged": "verified", "proofs_written": "proofs", "recalled": "recalled"})
    );
    assert_eq!((&trace["kept"], &trace["threshold"]), (&json!({"gold": "no"}), &json!(0.5)));

    // The numbers are those of the tables.
    let decided = &workspace.sql("SELECT * FROM answers WHERE question_id = 'penny'")[0];
    for column in
        ["hypothesis_id", "label", "answer", "status", "score", "direct", "margin", "proof_id"]
    {
        assert_eq!(trace["decision"][column], decided[column], "{column}");
    }
    assert_eq!(trace["decision"]["correct"], true);
    let next = &trace["decision"]["runner_up"];
    assert_eq!(next["hypothesis_id"], "penny#0");
    let margin = decided["score"].as_f64().unwrap() - next["score"].as_f64().unwrap();
    assert!((margin - decided["margin"].as_f64().unwrap()).abs() < 1e-12, "{next}");
    assert_eq!(trace["hypotheses"][0]["gold"], false);
    assert_eq!(trace["hypotheses"][1]["gold"], true);

    let written = workspace.sql("SELECT * FROM proofs WHERE question_id = 'penny'");
    let judged = workspace.sql("SELECT * FROM verified WHERE question_id = 'penny'");
    let proofs = proofs(&trace);
    assert_eq!((written.len(), judged.len(), proofs.len()), (8, 8, 8));
    for proof in &proofs {
        let row = |rows: &[Json]| {
            let found = rows.iter().find(|row| row["proof_id"] == proof["proof_id"]);
            found.unwrap_or_else(|| panic!("{proof}")).clone()
        };
        let (written, judged) = (row(&written), row(&judged));
        for column in
            ["prompt", "text", "strategy", "forced_fact", "finish_reason", "output_tokens"]
        {
            assert_eq!(proof[column], written[column], "{column} of {proof}");
        }
        let premises: Vec<Json> = proof["premises"]
            .as_array()
            .unwrap()
            .iter()
            .map(|premise| {
                let mut premise = premise.clone();
                // Only a `proof_search` proves premises.
                assert_eq!(
                    premise.as_object_mut().unwrap().shift_remove("proofs"),
                    Some(json!([]))
                );
                premise
            })
            .collect();
        assert_eq!(json!(premises), judged["premises"]);
        for column in ["entailment", "score", "accepted", "reject_reason"] {
            assert_eq!(proof[column], judged[column], "{column} of {proof}");
        }
        assert_eq!(proof["written_digest"], written["request_digest"]);
        assert_eq!(proof["judged_digests"], judged["request_digests"]);
        assert_eq!(proof["decides"], proof["proof_id"] == decided["proof_id"]);
    }
    // Tried in this order.
    let ids: Vec<_> = proofs[..4].iter().map(|proof| proof["proof_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["penny#0/free", "penny#0/fact1", "penny#0/fact2", "penny#0/fact3"]);
}

#[test]
fn every_fact_says_who_put_it_there() {
    let trace = trace(ran(), &["penny"]);
    let of = |fact: &str| {
        let facts = trace["recalled"].as_array().unwrap();
        facts.iter().find(|row| row["fact"] == fact).unwrap_or_else(|| panic!("{trace:#}"))
    };
    let copper = of("A penny is made of copper.");
    assert_eq!(copper["through"], json!(["facts", "memory"]));
    assert_eq!(
        copper["origins"],
        json!([{"kind": "lesson", "stage": "lessons", "place": 1, "round": 1, "question_id": "t1",
            "question": "What is a penny made of?", "answer": "yes", "correct": false,
            "proof_id": "t1#0/free", "again": [3]}])
    );
    assert!(copper["used_by"].as_array().unwrap().contains(&json!("penny#1/fact1")), "{copper}");
    let iron = of("A magnet is made of iron.");
    assert_eq!(
        iron["origins"],
        json!([{"kind": "row", "stage": "seed", "stage_kind": "sql", "column": "fact", "rows": 1,
            "columns": {"number": 7}}])
    );
    // A lesson knows what was there from the start, and what lessons before it taught.
    let lesson = self::trace(ran(), &["t3", "--answers", "lessons"]);
    let kinds: Vec<_> = lesson["recalled"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fact| (fact["origins"][0]["kind"].as_str(), fact["origins"][0]["place"].as_i64()))
        .collect();
    assert!(kinds.contains(&(Some("row"), None)), "{kinds:?}");
    assert!(kinds.contains(&(Some("lesson"), Some(1))), "{kinds:?}");
    assert_eq!(lesson["lesson"]["place"], 3);
    let first = self::trace(ran(), &["t1", "--answers", "lessons"]);
    assert_eq!(first["lesson"]["memory"], 1);
    assert!(first["recalled"].as_array().unwrap().iter().all(|fact| {
        fact["origins"].as_array().unwrap().iter().all(|origin| origin["kind"] == "row")
    }));
}

#[test]
fn rows_that_failed_are_part_of_the_path() {
    let trace = trace(ran(), &["nail"]);
    let failures = trace["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 4, "{failures:#?}");
    for failure in failures {
        assert_eq!(failure["stage"], "proofs");
        assert!(failure["source"].as_str().unwrap().starts_with("nail#1/"), "{failure}");
        assert!(failure["message"].as_str().unwrap().contains("not about nails"), "{failure}");
    }
    assert_eq!(trace["hypotheses"][1]["proofs"], json!([]));
    assert_eq!(trace["decision"]["correct"], true);

    // A question without a hypothesis has no answer, and says why.
    let lost = self::trace(ran(), &["lost"]);
    assert_eq!((&lost["decision"], &lost["hypotheses"]), (&Json::Null, &json!([])));
    let failures: Vec<_> = lost["failures"].as_array().unwrap().iter().collect();
    assert_eq!(failures.len(), 2);
    assert!(failures.iter().all(|it| it["stage"] == "hypotheses" && it["class"] == "invalid"));
    assert!(drawn(ran(), &["lost"]).contains("there is no hypothesis for this answer"));
}

#[test]
fn questions_are_found_by_id_or_text() {
    let workspace = ran();
    let id = |wanted: &str| workspace.json(&["audit", "trace", wanted])["question"]["id"].clone();
    assert_eq!(id("penny"), "penny");
    assert_eq!(id("  can a MAGNET attract a penny? "), "penny");
    assert_eq!(id("a nail"), "nail");
    assert_eq!(id("penny#1/fact1"), "penny", "a proof is one of its question");
    let refused = |wanted: &str| workspace.proofmill(&["audit", "trace", wanted]).expect(2);
    refused("can a magnet")
        .says("`can a magnet` matches 2 questions:")
        .says("  nail   Can a magnet attract a nail?\n")
        .says("  penny  Can a magnet attract a penny?\n")
        .says("give the id");
    refused("pennny").says("no question `pennny`").says("did you mean `penny` (Can a magnet");
    refused("quantum electrodynamics").says("questions of the run have ids such as");
}

#[test]
fn one_of_several_answers_is_chosen() {
    let workspace = ran();
    let all = workspace.json(&["audit", "trace", "penny"]);
    let answers = all["answers"].as_array().unwrap();
    let stages: Vec<_> = answers.iter().map(|one| (&one["stage"], &one["traced"])).collect();
    assert_eq!(stages, [(&json!("direct"), &json!(false)), (&json!("answers"), &json!(true))]);
    assert_eq!(answers[1]["same_as"], json!(["answers_again"]), "what is the same is one");
    let said = |one: &Json| (one["decision"]["answer"].clone(), one["decision"]["correct"].clone());
    assert_eq!(said(&answers[0]), (json!("yes"), json!(false)));
    assert_eq!(said(&answers[1]), (json!("no"), json!(true)));

    let direct = trace(workspace, &["penny", "--answers", "direct"]);
    assert_eq!(direct["decision"]["status"], "direct");
    assert_eq!((direct["recalled"].clone(), proofs(&direct).len()), (json!([]), 0));
    assert_eq!(direct["decision"]["runner_up"]["hypothesis_id"], "penny#1");
    assert_eq!(trace(workspace, &["penny", "--answers", "answers_again"])["stage"], "answers");
    let every = workspace.json(&["audit", "trace", "penny", "--answers", "all"]);
    assert_eq!(every["traces"].as_array().unwrap().len(), 2);

    let done = workspace.proofmill(&["audit", "trace", "penny"]).expect(0);
    done.says("1 of 2 answers traced; `--answers STAGE`");
    let refused = |stage: &str| {
        workspace.proofmill(&["audit", "trace", "penny", "--answers", stage]).expect(2)
    };
    refused("anwsers").says("no stage `anwsers`").says("did you mean `answers`?");
    refused("lessons")
        .says("does not answer question `penny`")
        .says("these do: `direct`, `answers`");
}

#[test]
fn fewer_proofs_are_shown_on_demand() {
    let accepted = trace(ran(), &["penny", "--proofs", "accepted"]);
    let shown = proofs(&accepted);
    assert!(!shown.is_empty() && shown.iter().all(|proof| proof["accepted"] == true));
    assert_eq!(accepted["proofs_hidden"].as_u64().unwrap() as usize, 8 - shown.len());
    let best = trace(ran(), &["penny", "--proofs", "best"]);
    let ids: Vec<_> = proofs(&best).iter().map(|proof| proof["proof_id"].clone()).collect();
    assert_eq!(ids, [best["decision"]["proof_id"].clone()]);
    assert_eq!(best["recalled"], accepted["recalled"], "what is hidden counts all the same");
    assert!(drawn(ran(), &["penny", "--proofs", "best"]).contains("7 proofs not shown"));
}

#[test]
fn any_run_of_the_store_can_be_traced() {
    let (url, _) = oracle::start();
    let workspace = Workspace::of_case("audit");
    let run = ["run", "p.yaml", "--param", &format!("url={url}")];
    let first = workspace.json(&run)["run"].as_str().unwrap().to_owned();
    workspace.edit("p.yaml", "top_k: 3", "top_k: 1");
    workspace.proofmill(&run).expect(0);
    let recalled = |args: &[&str]| trace(&workspace, args)["recalled"].as_array().unwrap().len();
    assert_eq!(recalled(&["penny"]), 1);
    assert_eq!(recalled(&["penny", "--run", &first]), 3);
    workspace
        .proofmill(&["audit", "trace", "penny", "--run", "20200101-000000000-aaaaaa"])
        .expect(2)
        .says("has no run");

    workspace.write("none.yaml", "pipeline: none\nstages:\n  one: { sql: SELECT 1 AS n }\n");
    workspace.proofmill(&["run", "none.yaml"]).expect(0);
    workspace
        .proofmill(&["audit", "trace", "penny"])
        .expect(2)
        .says("no stage of the run has rows of");
}

#[test]
fn a_stage_that_does_not_answer_shows_its_rows() {
    let trace = ran().json(&["audit", "trace", "penny", "--answers", "proofs"]);
    let last = trace["steps"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["stage"], &last["kind"]), (&json!("proofs"), &json!("prove")));
    assert_eq!(last["rows"].as_array().unwrap().len(), 8);
    let nail = ran().json(&["audit", "trace", "nail", "--answers", "proofs"]);
    let failures = nail["failures"].as_array().unwrap();
    assert!(
        failures.iter().any(|one| one["message"].as_str().unwrap().contains("not about nails"))
    );
}

#[test]
fn instances_of_a_matrix_are_traced_by_their_union() {
    let (url, _) = oracle::start();
    let workspace = Workspace::of_case("proofs");
    workspace.proofmill(&["run", "penny.yaml", "--param", &format!("url={url}")]).expect(0);
    let steps = workspace.json(&["audit", "trace", "penny", "--answers", "steps.answers"]);
    let answers: Vec<_> = steps["traces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trace| {
            let recalled = trace["recalled"].as_array().unwrap().len();
            (
                trace["stage"].as_str().unwrap(),
                trace["decision"]["answer"].as_str().unwrap(),
                recalled,
            )
        })
        .collect();
    let expected = [
        ("steps_0.answers", "yes", 0),
        ("steps_1.answers", "yes", 1),
        ("steps_2.answers", "no", 2),
    ];
    assert_eq!(answers, expected);
    for (fact, step) in steps["traces"][2]["recalled"].as_array().unwrap().iter().zip([2, 1]) {
        assert_eq!(fact["through"], json!(["steps_2.memory", "said"]));
        assert_eq!(fact["origins"][0]["columns"]["step"], step, "{fact}");
    }

    // Nobody is the answer where nothing is proved.
    let nobody = trace(&workspace, &["penny", "--answers", "instead_nothing"]);
    assert_eq!(
        (&nobody["decision"]["status"], &nobody["decision"]["correct"]),
        (&json!("no_proof"), &json!(false))
    );
    assert_eq!(nobody["decision"]["runner_up"], Json::Null);
    let blocked: Vec<_> =
        proofs(&nobody).into_iter().filter(|proof| proof["reject_reason"] == "blocked").collect();
    assert_eq!(blocked.len(), 2);
    assert!(blocked.iter().all(|proof| proof["prompt"].is_string()), "{blocked:#?}");
}

#[test]
fn entries_of_a_memory_say_who_taught_and_why() {
    let (url, _) = oracle::start();
    let workspace = Workspace::of_case("proofs");
    let copper = "A penny is made of copper.";
    let teach = |args: &[&str]| {
        workspace.proofmill(&[&["teach"], args, &["--author", "ada"]].concat()).expect(0)
    };
    teach(&["add", "science", copper, "--reason", "I melted one", "--proof", "penny#0/free"]);
    let penny = "Can a magnet attract a penny?";
    teach(&["confirm", "science", "--question", penny, "--answer", "no"]);
    workspace.proofmill(&["run", "taught.yaml", "--param", &format!("url={url}")]).expect(0);
    let trace = trace(&workspace, &["penny"]);
    let fact = &trace["recalled"][0];
    assert_eq!(fact["through"], json!(["recalled", "memory", "facts"]));
    let origins = fact["origins"].as_array().unwrap();
    assert_eq!(origins.len(), 1, "{fact:#}");
    assert_eq!((&origins[0]["kind"], &origins[0]["stage"]), (&json!("entry"), &json!("memory")));
    let said = &origins[0]["columns"];
    for (column, value) in
        [("author", "ada"), ("reason", "I melted one"), ("proof_id", "penny#0/free")]
    {
        assert_eq!(said[column], value, "{said}");
    }
    let decision = &trace["decision"];
    assert_eq!((&decision["status"], &decision["confirmed"]), (&json!("confirmed"), &json!("no")));
    let drawn = drawn(&workspace, &["penny"]);
    assert!(drawn.contains("author = ada") && drawn.contains("a user confirmed: no"), "{drawn}");
}

#[test]
fn proofs_of_premises_hang_below_them() {
    let (url, _) = oracle::start();
    let workspace = Workspace::of_case("proofs");
    workspace.proofmill(&["run", "search.yaml", "--param", &format!("url={url}")]).expect(0);
    let all = trace(&workspace, &["nail", "--answers", "depths_3.answers"]);
    let rows = workspace.sql(
        "SELECT proof_id, depth, parent_proof_id, premise FROM depths_3.searched WHERE question_id = 'nail'",
    );
    let mut hanging = Vec::new();
    for proof in proofs(&all) {
        gather(proof, (&Json::Null, &Json::Null), 1, &mut hanging);
    }
    assert_eq!(hanging.len(), rows.len(), "each proof hangs somewhere, once");
    for row in &rows {
        let place = [&row["proof_id"], &row["parent_proof_id"], &row["premise"], &row["depth"]];
        assert!(hanging.contains(&place.map(Json::clone)), "{row} is not in {hanging:#?}");
    }
    assert!(rows.iter().any(|row| row["depth"] == 2), "nothing hangs: {rows:#?}");

    let best = trace(&workspace, &["nail", "--answers", "depths_3.answers", "--proofs", "best"]);
    let mut shown = Vec::new();
    for proof in proofs(&best) {
        assert_eq!(proof["proof_id"], best["decision"]["proof_id"]);
        gather(proof, (&Json::Null, &Json::Null), 1, &mut shown);
    }
    let hidden = best["proofs_hidden"].as_u64().unwrap() as usize;
    assert_eq!(shown.len() + hidden, rows.len(), "{best:#}");

    // The scores of hypotheses are those that decided.
    let decided = &workspace.sql("SELECT * FROM depths_3.answers WHERE question_id = 'penny'")[0];
    let penny = trace(&workspace, &["penny", "--answers", "depths_3.answers"]);
    let chosen = penny["hypotheses"].as_array().unwrap().iter();
    let chosen = chosen.clone().find(|one| one["hypothesis_id"] == decided["hypothesis_id"]);
    assert_eq!(chosen.unwrap()["score"], decided["score"]);
    let next = penny["decision"]["runner_up"]["score"].as_f64().unwrap();
    let margin = decided["score"].as_f64().unwrap() - next;
    assert!((margin - decided["margin"].as_f64().unwrap()).abs() < 1e-12, "{penny:#}");
    assert_eq!(penny["tables"]["recalled"], "recalled");
}

/// A proof and those of its premises: each with the proof above it, the place of the premise and the
/// depth.
fn gather(proof: &Json, (parent, place): (&Json, &Json), depth: u64, out: &mut Vec<[Json; 4]>) {
    let id = &proof["proof_id"];
    out.push([id.clone(), parent.clone(), place.clone(), json!(depth)]);
    for (place, premise) in (1..).zip(proof["premises"].as_array().unwrap()) {
        for below in premise["proofs"].as_array().unwrap() {
            gather(below, (id, &json!(place)), depth + 1, out);
        }
    }
}
