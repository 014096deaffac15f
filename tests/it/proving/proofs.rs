//! Hypotheses, proofs, beliefs and answers: the strings that are asked, the numbers that come of them,
//! and the reasons that are given.

use std::collections::{BTreeMap, BTreeSet};

use proofmill_base::sentence;
use serde_json::{Value as Json, json};

use crate::inference::models::asked;
use crate::oracle;
use crate::support::Workspace;

fn case(name: &str) -> Workspace {
    let workspace = Workspace::of_case("proofs");
    workspace.add_model("t5", "reader");
    workspace.write("p.yaml", workspace.read(name));
    workspace
}

/// The case of the tiny model, run.
fn tiny() -> (Workspace, String) {
    let workspace = case("tiny.yaml");
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    (workspace, done.stderr)
}

/// The column `name` of rows, as texts.
fn texts<'a>(rows: &'a [Json], name: &str) -> Vec<&'a str> {
    rows.iter().map(|row| row[name].as_str().unwrap_or("NULL")).collect()
}

fn number(value: &Json) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[track_caller]
fn close(found: &Json, expected: f64) {
    assert!((number(found) - expected).abs() < 1e-12, "{found} is not {expected}");
}

/// What a result of `score_choices` for `true` and `false` says, by the rules of the released code.
fn released(said: &Json) -> f64 {
    let p = |choice: usize| number(&said["choices"][choice]["logprob"]).exp();
    if p(0) >= p(1) { p(0) } else { 1.0 - p(1) }
}

fn shared(said: &Json) -> f64 {
    let p = |choice: usize| number(&said["choices"][choice]["logprob"]).exp();
    p(0) / (p(0) + p(1))
}

#[test]
fn a_penny_is_not_attracted_after_two_corrections() {
    let (url, received) = oracle::start();
    let workspace = case("penny.yaml");
    let url = format!("url={url}");
    let run = ["run", "p.yaml", "--param", &url];
    workspace.proofmill(&run).expect(0);

    let answers = workspace.sql(
        "SELECT step, answer, status, score, direct, margin, proof_id, proved, gold FROM answers ORDER BY step",
    );
    assert_eq!(texts(&answers, "answer"), ["yes", "yes", "no"]);
    assert_eq!(texts(&answers, "status"), ["proved"; 3]);
    // The published numbers: s_r = 0.9987981 beats what is believed without a proof.
    let believed = 1.0 - number(&answers[2]["direct"]);
    close(&json!(believed), 0.97117);
    close(&answers[2]["score"], 0.999_983_2 * 0.999_047_1 * 0.999_767_6);
    assert!((number(&answers[2]["score"]) - 0.998_798_1).abs() < 5e-8, "{}", answers[2]);
    assert!(number(&answers[2]["score"]) > believed);
    close(&answers[0]["score"], 0.95 * (0.9 * 0.99));
    close(&answers[1]["score"], 0.95 * (0.999_047_1 * 0.98));
    close(&answers[2]["margin"], number(&answers[2]["score"]) - number(&answers[1]["score"]));
    assert_eq!(answers[2]["proof_id"], "penny#1/fact1");
    let direct = workspace.sql("SELECT answer, status, score, proof_id, proved FROM direct");
    let expected =
        json!({"answer": "yes", "status": "direct", "score": 0.95, "proof_id": null, "proved": 0});
    assert_eq!(direct, [expected]);

    // r forced proofs and a free one for each hypothesis; rejected ones stay, with their reasons.
    let count = workspace.sql(
        "SELECT step, strategy, count(*) AS n FROM proofs GROUP BY step, strategy ORDER BY step, strategy",
    );
    let counts: Vec<_> = count.iter().map(|row| row["n"].as_i64().unwrap()).collect();
    assert_eq!(counts, [2, 2, 2, 4, 2]);
    let rejected = workspace.sql(
        "SELECT step, proof_id, reject_reason, score FROM verified WHERE NOT accepted ORDER BY step, proof_id",
    );
    assert_eq!(rejected.len(), 5, "{rejected:#?}");
    assert!(rejected.iter().all(|row| row["reject_reason"] == "not_entailed"), "{rejected:#?}");
    assert!(rejected.iter().all(|row| number(&row["score"]) < 0.5), "{rejected:#?}");

    the_last_proof_is_whole(&workspace);
    blocked_entailments_do_not_count(&workspace);
    a_trusted_memory_is_not_asked_about(&workspace, &received.lock().unwrap());

    let asked = received.lock().unwrap().len();
    workspace.proofmill(&run).expect(0).says("0 stages computed");
    assert_eq!(received.lock().unwrap().len(), asked, "something was asked again");
}

fn the_last_proof_is_whole(workspace: &Workspace) {
    let row = &workspace.sql(
        "SELECT premises, entailment, direct, accepted, array_length(request_digests) AS digests,
           text, forced_fact_id = context[1]['fact_id'] OR forced_fact_id = context[2]['fact_id'] AS recalled
         FROM verified WHERE step = '2' AND proof_id = 'penny#1/fact1'",
    )[0];
    assert_eq!(
        (&row["accepted"], &row["recalled"], &row["digests"]),
        (&json!(true), &json!(true), &json!(4))
    );
    close(&row["entailment"], 0.999_983_2);
    close(&row["direct"], 0.028_83);
    let premises = row["premises"].as_array().unwrap();
    assert_eq!(premises.len(), 2);
    for premise in premises {
        close(&premise["belief"], oracle::belief(premise["text"].as_str().unwrap()));
        assert_eq!((&premise["origin"], &premise["believed"]), (&json!("memory"), &json!(true)));
        assert!(premise["fact_id"].is_string(), "{premise}");
    }
}

fn blocked_entailments_do_not_count(workspace: &Workspace) {
    let reasons =
        workspace.sql("SELECT proof_id, reject_reason FROM without_bad ORDER BY proof_id");
    let blocked: Vec<_> = reasons.iter().filter(|row| row["reject_reason"] == "blocked").collect();
    assert_eq!(blocked.len(), 2, "the free and the forced proof are the same: {reasons:#?}");
    assert!(blocked.iter().all(|row| row["proof_id"].as_str().unwrap().starts_with("penny#0/")));
    // Nothing else is left: the belief decides, or nobody.
    let what = "answer, status, score, hypothesis_id, label, direct, margin, proof_id, proved";
    let instead = workspace.sql(&format!("SELECT {what} FROM instead"));
    assert_eq!(
        instead[0],
        json!({"answer": "yes", "status": "fallback_direct", "score": 0.0, "hypothesis_id": "penny#0",
            "label": "A", "direct": 0.95, "margin": 0.0, "proof_id": null, "proved": 0})
    );
    let nobody = workspace.sql(&format!("SELECT {what}, gold FROM instead_nothing"));
    assert_eq!(
        nobody[0],
        json!({"answer": null, "status": "no_proof", "score": 0.0, "hypothesis_id": null, "label": null,
            "direct": null, "margin": 0.0, "proof_id": null, "proved": 0, "gold": "no"})
    );
}

fn a_trusted_memory_is_not_asked_about(workspace: &Workspace, asked: &[(String, Json)]) {
    let row = |table: &str| {
        let sql = format!(
            "SELECT premises[1]['belief'] AS belief, premises[1]['origin'] AS origin, accepted, reject_reason,
               score, array_length(request_digests) AS digests
             FROM {table} WHERE hypothesis_id = 'penny#0'"
        );
        workspace.sql(&sql).remove(0)
    };
    let doubted = row("doubted");
    close(&doubted["belief"], 0.3);
    assert_eq!(
        (&doubted["origin"], &doubted["reject_reason"]),
        (&json!("memory"), &json!("premise_not_believed"))
    );
    let trusted = row("trusted");
    assert_eq!((&trusted["belief"], &trusted["accepted"]), (&json!(1.0), &json!(true)));
    close(&trusted["score"], 0.95);
    assert_eq!((&doubted["digests"], &trusted["digests"]), (&json!(3), &json!(2)));
    // Once for `doubted`, in two requests, and never for `trusted`.
    let prompt = "$valid$ ; $hypothesis$ = Nothing attracts copper.$valid$";
    let asked =
        asked.iter().filter(|(_, body)| body["prompt"].as_str().unwrap().starts_with(prompt));
    assert_eq!(asked.count(), 2);
}

#[test]
fn prompts_are_those_of_the_released_code() {
    let (workspace, _) = tiny();
    let prompts = |table: &str, of: &str| {
        let rows = workspace.sql(&format!(
            "SELECT proof_id, prompt, forced_fact, text FROM {table} WHERE hypothesis_id = '{of}' ORDER BY proof_id"
        ));
        let line = |row: &Json| {
            let fact = row["forced_fact"].as_str().map(|fact| format!(" <{fact}>"));
            format!(
                "{}{} {}",
                row["proof_id"].as_str().unwrap(),
                fact.unwrap_or_default(),
                row["prompt"].as_str().unwrap()
            )
        };
        for row in rows.iter().filter(|row| row["forced_fact"].is_string()) {
            let begin = format!("$proof$ = [PREMISE] {}", row["forced_fact"].as_str().unwrap());
            assert!(row["text"].as_str().unwrap().starts_with(&begin), "{row}");
        }
        rows.iter().map(line).collect::<Vec<_>>()
    };
    let with_context = "$proof$ ; $question$ = What is a penny made of? ; $answer$ = wood ; $hypothesis$ = What \
        is a penny made of? wood ; $context$ = [HIGH] A penny is made of copper. Copper is not magnetic";
    let two = ["fact1 <A penny is made of copper.>", "fact2 <Copper is not magnetic>"];
    let forced = two.map(|fact| format!("q2#1/{fact} {with_context}"));
    let free = |name: &str| format!("q2#1/{name} {with_context}");
    let all = |free: &[String]| [&forced, free].concat();
    assert_eq!(prompts("proofs", "q2#1"), all(&[free("free")]));
    assert_eq!(prompts("only_forced", "q2#1"), forced);
    assert_eq!(prompts("only_free", "q2#1"), [free("free")]);
    assert_eq!(prompts("sampled", "q2#1"), all(&["free0", "free1", "free2"].map(free)));
    assert_eq!(prompts("searched", "q2#1"), all(&["free0", "free1"].map(free)));
    let bare = "$proof$ ; $hypothesis$ = What is a penny made of? wood";
    assert_eq!(prompts("bare", "q2#1"), [format!("q2#1/free {bare}")]);
    let asked = "$proof$ ; $question$ = Why? ; $answer$ = because ; $hypothesis$ = Why? because";
    assert_eq!(prompts("proofs", "q3#0"), [format!("q3#0/free {asked}")], "nothing was recalled");
    assert_eq!(prompts("of_nothing", "q3#0"), [format!("q3#0/free {asked}")], "there is no memory");

    // Forced proofs do not depend on how free ones are sampled, but a search is one for both.
    let forced = |table: &str| {
        workspace.sql(&format!("SELECT proof_id, text, premises FROM {table} WHERE strategy = 'forced' ORDER BY proof_id"))
    };
    assert_eq!(forced("proofs").len(), 2 + 6);
    assert_eq!(forced("only_forced"), forced("proofs"));
    assert_eq!(texts(&forced("sampled"), "text"), texts(&forced("proofs"), "text"));
    assert_eq!(
        workspace.sql("SELECT count(*) AS n, count(gold) AS g FROM proofs")[0],
        json!({"n": 14, "g": 14})
    );
    let context = workspace.sql("SELECT context FROM proofs WHERE proof_id = 'q2#1/free'");
    let context = context[0]["context"].as_array().unwrap();
    assert_eq!(texts(context, "fact"), ["A penny is made of copper.", "Copper is not magnetic"]);
    let ranks: Vec<_> = context.iter().map(|fact| fact["rank"].as_i64().unwrap()).collect();
    assert_eq!(ranks, [1, 2]);
}

#[test]
fn beliefs_and_scores_are_those_of_score_choices() {
    let (workspace, stderr) = tiny();
    let said = |table: &str| {
        let rows = workspace.sql(&format!("SELECT * FROM {table}"));
        let mut by_proof: BTreeMap<String, Vec<Json>> = BTreeMap::new();
        for row in rows {
            by_proof.entry(row["proof_id"].as_str().unwrap().to_owned()).or_default().push(row);
        }
        by_proof.values_mut().for_each(|rows| rows.sort_by_key(|row| row["place"].as_i64()));
        by_proof
    };
    let premises = said("said_of_premises");
    let (hypotheses, proofs) = (said("said_of_hypotheses"), said("said_of_proofs"));
    let mut reasons = BTreeSet::new();
    for (table, belief, threshold) in
        [("judged", released as fn(&Json) -> f64, 0.5), ("judged_shares", shared, 0.000_17)]
    {
        let rows = workspace.sql(&format!("SELECT * FROM {table}"));
        assert_eq!(rows.len(), 40);
        for row in &rows {
            let id = row["proof_id"].as_str().unwrap();
            close(&row["direct"], belief(&hypotheses[id][0]["said"]));
            let Some(parts) = premises.get(id) else {
                assert_eq!(
                    (&row["accepted"], &row["reject_reason"]),
                    (&json!(false), &json!("no_premises"))
                );
                let empty = [&row["entailment"], &row["score"], &row["premises"]];
                assert!(empty.iter().all(|value| value.is_null()), "{row}");
                assert_eq!(row["request_digests"].as_array().unwrap().len(), 1);
                reasons.insert("no_premises".to_owned());
                continue;
            };
            let beliefs: Vec<f64> = parts.iter().map(|part| belief(&part["said"])).collect();
            let entailment = belief(&proofs[id][0]["said"]);
            for (premise, belief) in row["premises"].as_array().unwrap().iter().zip(&beliefs) {
                close(&premise["belief"], *belief);
                assert_eq!(premise["believed"], *belief >= threshold);
                assert_eq!(
                    (&premise["origin"], &premise["fact_id"]),
                    (&json!("model"), &Json::Null)
                );
            }
            close(&row["entailment"], entailment);
            close(&row["score"], entailment * beliefs.iter().product::<f64>());
            let reason = match () {
                () if beliefs.iter().any(|belief| *belief < threshold) => {
                    json!("premise_not_believed")
                }
                () if entailment < threshold => json!("not_entailed"),
                () => Json::Null,
            };
            assert_eq!(
                (&row["reject_reason"], &row["accepted"]),
                (&reason, &json!(reason.is_null())),
                "{row}"
            );
            reasons.insert(reason.as_str().unwrap_or("accepted").to_owned());
            let digests = row["request_digests"].as_array().unwrap();
            let mut asked: Vec<&Json> =
                parts.iter().map(|part| &part["said"]["request_digest"]).collect();
            asked.push(&proofs[id][0]["said"]["request_digest"]);
            asked.push(&hypotheses[id][0]["said"]["request_digest"]);
            assert_eq!(digests.iter().collect::<Vec<_>>(), asked);
        }
    }
    let all = ["accepted", "no_premises", "not_entailed", "premise_not_believed"];
    assert_eq!(reasons.iter().map(String::as_str).collect::<Vec<_>>(), all);
    assert_eq!(workspace.sql("SELECT count(place) AS n FROM judged")[0]["n"], 40);

    // Every request of the recomputation is one that was answered before, to the byte.
    let recomputed = workspace
        .proofmill(&["run", "p.yaml", "--rerun", "said_of_premises,said_of_proofs"])
        .expect(0);
    for table in ["said_of_premises", "said_of_proofs"] {
        assert_eq!(asked(&recomputed.stderr, table)[0], 0, "{stderr}");
    }
    let other = workspace.sql(
        "SELECT count(*) AS n FROM judged_shares AS a JOIN judged_bare_ends AS b ON a.proof_id = b.proof_id
         WHERE a.entailment <> b.entailment",
    );
    assert!(other[0]["n"].as_i64().unwrap() > 0, "the end of the output makes no difference");
}

#[test]
fn hypotheses_come_from_choices_statements_candidates_and_models() {
    let (workspace, _) = tiny();
    let rows = |table: &str| {
        workspace.sql(&format!(
            "SELECT hypothesis_id, question_id, choice, label, answer, hypothesis FROM {table} ORDER BY question_id, choice"
        ))
    };
    let hypotheses = rows("hypotheses");
    assert_eq!(
        texts(&hypotheses, "hypothesis_id"),
        ["q1#0", "q1#1", "q2#0", "q2#1", "q2#2", "q3#0"]
    );
    assert_eq!(texts(&hypotheses, "label"), ["A", "B", "A", "B", "C", "A"]);
    assert_eq!(texts(&hypotheses, "answer"), ["yes", "no", "copper", "wood", "air", "because"]);
    assert_eq!(hypotheses[3]["hypothesis"], "What is a penny made of? wood");
    let labelled = rows("labelled");
    assert_eq!(texts(&labelled, "label"), ["1", "2", "1", "2", "3", "1"]);
    let named = ["WHAT IS A PENNY MADE OF?", "second", "third"];
    assert_eq!(texts(&labelled[2..5], "hypothesis"), named);
    let statements = rows("statements");
    assert_eq!(texts(&statements, "label"), ["true", "false", "true", "false"]);
    assert_eq!(
        texts(&statements[..2], "hypothesis"),
        ["A penny is made of copper.", "Not: A penny is made of copper."]
    );

    // Samples by how often they were said; never more than asked for, and no two alike.
    let open = rows("open");
    for id in ["q1", "q2", "q3"] {
        let of: Vec<_> = open.iter().filter(|row| row["question_id"] == id).collect();
        let different: BTreeSet<_> = of.iter().map(|row| row["answer"].as_str().unwrap()).collect();
        assert!((1..=3).contains(&of.len()) && different.len() == of.len(), "{of:?}");
        assert!(of.iter().all(|row| row["answer"] == row["hypothesis"]), "{of:?}");
        let labels: Vec<_> = of.iter().map(|row| row["label"].as_str().unwrap()).collect();
        assert_eq!(labels, ["A", "B", "C"][..of.len()]);
    }
    let worded = workspace
        .sql("SELECT count(hypothesis) AS n, count(request_digest) AS digests FROM worded");
    assert_eq!(worded[0], json!({"n": 6, "digests": 6}));

    // What is lacking is said, row by row.
    let fine = rows("lacking_hypotheses");
    assert_eq!(texts(&fine, "hypothesis_id"), ["fine#0", "fine#1", "hole#0", "short#0"]);
    let errors = workspace
        .sql("SELECT source, class, message FROM lacking_hypotheses__errors ORDER BY source");
    assert_eq!(texts(&errors, "source"), ["empty#0", "hole#1", "no_list#0", "short#1", "silent#0"]);
    assert_eq!(texts(&errors, "class"), ["invalid"; 5]);
    let said = ["no answer", "no answer", "no answer", "no hypothesis", "no question"];
    for (message, said) in texts(&errors, "message").iter().zip(said) {
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn rows_that_fail_are_kept_beside_the_table() {
    let (workspace, _) = tiny();
    let sources = |table: &str| {
        let rows =
            workspace.sql(&format!("SELECT source, class FROM {table}__errors ORDER BY source"));
        assert!(rows.iter().all(|row| row["class"] == "too_long"), "{rows:?}");
        texts(&rows, "source").join(" ")
    };
    assert_eq!(sources("long_proofs"), "q2#1/fact1 q2#1/fact2 q2#1/free");
    assert_eq!(sources("long_beliefs"), "q2#1");
    let count =
        |table: &str| workspace.sql(&format!("SELECT count(*) AS n FROM {table}"))[0]["n"].clone();
    assert_eq!((count("long_proofs"), count("long_beliefs")), (json!(11), json!(5)));
    assert_eq!((count("long_proofs_cut"), count("long_beliefs_cut")), (json!(14), json!(6)));
    let strict = case("tiny.yaml");
    strict.edit(
        "p.yaml",
        "max_error_rate: 0.4\n  long_proofs_cut",
        "max_error_rate: 0.2\n  long_proofs_cut",
    );
    let done = strict.proofmill(&["run", "p.yaml", "--select", "+long_proofs"]).expect(1);
    done.says("3 of 14 rows have no answer").says("(too_long)");
}

#[test]
fn nothing_is_computed_twice() {
    let (workspace, _) = tiny();
    workspace.proofmill(&["run", "p.yaml"]).expect(0).says("0 stages computed");
    let all = "hypotheses,worded,open,beliefs,proofs,sampled,searched,verified,answers";
    let again = workspace.proofmill(&["run", "p.yaml", "--rerun", all]).expect(0);
    for stage in ["worded", "open", "beliefs", "proofs", "sampled", "searched", "verified"] {
        assert_eq!(asked(&again.stderr, stage)[0], 0, "{stage}");
    }
}

/// Ties, fallbacks and thresholds of `select_answer`, over tables that are written down.
#[test]
fn the_best_proof_decides_then_the_belief_then_the_order() {
    let done = case("decide.yaml").proofmill(&["test", "p.yaml"]).expect(0);
    assert!(done.stderr.contains("7 tests passed"), "{}", done.stderr);
}

/// Ids are made in Rust, and joins in SQL: both must take the same sentences for one.
#[test]
fn sentences_are_normalized_alike_in_sql() {
    let sentences = [
        "A penny is made of copper.",
        "  a PENNY\u{a0}is\tmade\n of copper . ",
        "etc..",
        " . ",
        "",
        "ÄPFEL sind ΣΟΦΟΣ. ΟΔΟΣ",
        "İstanbul\u{2003}.",
        "it''s 5 o''clock.",
    ];
    let workspace = Workspace::new();
    let rows: Vec<String> =
        sentences.iter().enumerate().map(|(i, text)| format!("({i}, '{text}')")).collect();
    let sql = format!(
        "SELECT place, {} AS kept, {} AS dropped FROM (VALUES {}) AS t(place, text)",
        sentence::normalized_sql("text"),
        sentence::without_stop_sql("text"),
        rows.join(", ")
    );
    workspace
        .write("p.json", json!({"pipeline": "said", "stages": {"said": {"sql": sql}}}).to_string());
    workspace.proofmill(&["run", "p.json"]).expect(0);
    let found = workspace.sql("SELECT * FROM said ORDER BY place");
    assert_eq!(found.len(), sentences.len());
    for (row, text) in found.iter().zip(sentences) {
        let text = text.replace("''", "'");
        assert_eq!(row["kept"], sentence::normalized(&text), "{text:?}");
        assert_eq!(row["dropped"], sentence::without_stop(&text), "{text:?}");
    }
}
