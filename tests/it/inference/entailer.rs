//! The entailer that ships: it is the one that is documented, and does what its page says of it.

use std::path::Path;
use std::process::Command;

use proofmill_base::digest::Digest;
use serde_json::{Value as Json, json};

use crate::support::Workspace;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a pipeline of the tree with a store in the workspace.
fn run(workspace: &Workspace, pipeline: &str, options: &[&str], params: &[&str]) {
    let store = workspace.path("store").display().to_string();
    let mut args = vec!["run", pipeline];
    args.extend(options);
    args.extend(params.iter().flat_map(|param| ["--param", param]));
    let mut run: Command = workspace.command(&args);
    let output = run.current_dir(root()).env("PROOFMILL_STORE", &store).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Teaching helps the model that ships, by the facts that are recalled, and because they are true: on all
/// questions about some things of each relation, most of which it was told nothing of, or something wrong.
#[test]
fn teaching_helps_the_model_that_ships() {
    const RELATIONS: [&str; 3] = ["kind_of", "made_of", "runs_on"];
    /// Things of each relation that it does not know, and that it knows.
    const EACH: [(bool, usize); 2] = [(false, 4), (true, 2)];
    const UNKNOWN: u64 = 12;
    let workspace = Workspace::new();
    let all = std::fs::read_to_string(root().join("data/science/questions.jsonl")).unwrap();
    let rows: Vec<(&str, Json)> =
        all.lines().map(|line| (line, serde_json::from_str(line).unwrap())).collect();
    let things_of = |relation: &str, known: bool, many: usize| {
        let asked = rows.iter().map(|(_, row)| row).filter(|row| {
            let relation = row["fact_id"].as_str().unwrap().starts_with(relation);
            relation && row["split"] == "test" && (row["state"] == "known") == known
        });
        let mut things: Vec<&Json> = asked.map(|row| &row["fact_id"]).collect();
        things.sort_by_key(|thing| thing.as_str());
        things.dedup();
        things.truncate(many);
        things
    };
    let mut things: Vec<&Json> = Vec::new();
    for relation in RELATIONS {
        EACH.iter().for_each(|(known, many)| things.extend(things_of(relation, *known, *many)));
    }
    let about = |row: &Json| row["split"] != "dev" && things.contains(&&row["fact_id"]);
    let some: Vec<&str> =
        rows.iter().filter(|(_, row)| about(row)).map(|(line, _)| *line).collect();
    workspace.write("questions.jsonl", some.join("\n"));
    let questions = format!("questions={}", workspace.path("questions.jsonl").display());
    let report = format!("output={}", workspace.path("report").display());
    run(
        &workspace,
        "pipelines/teachme.yaml",
        &[],
        &[&questions, &report, "orders=0", "percents=0,100"],
    );

    let right = |system: &str| {
        let query = format!(
            "SELECT count(*) AS n FROM study.results WHERE system = '{system}' AND correct"
        );
        workspace.sql(&query)[0]["n"].as_u64().unwrap()
    };
    let (before, after) = (right("before"), right("after"));
    // Three questions about each thing that it does not know, one about each that it knows.
    assert_eq!(workspace.sql("SELECT count(*) AS n FROM test")[0]["n"], 3 * UNKNOWN + 6);
    assert!(after >= before + UNKNOWN / 2, "{before} of 42 right before, {after} after");
    // Without a question's own fact, and with sentences that are not so, the gain is gone.
    for system in ["hidden", "wrong", "shuffled", "exchanged"] {
        let right = right(system);
        assert!(after >= right + UNKNOWN / 2, "{after} right, {right} of `{system}`");
    }
    let known = "SELECT count(*) AS n FROM study.results
                 WHERE system IN ('before', 'after') AND state = 'known' AND correct GROUP BY system";
    let known = workspace.sql(known);
    assert_eq!(known[0], known[1], "teaching changed what was known");
    the_lot_decides(&workspace);
    // What is hidden from a question is hidden in all of its proofs.
    let read = |of: &str| {
        let query = format!(
            "SELECT count(*) AS n FROM study_{of}.proofs AS p JOIN test AS t ON t.id = p.question_id
             WHERE p.prompt LIKE '%[HIGH]%' || t.core_fact || '%'"
        );
        workspace.sql(&query)[0]["n"].as_u64().unwrap()
    };
    assert!(read("after") > 0);
    assert_eq!(read("hidden"), 0);
}

/// Of what was taught, the facts that were drawn help with their questions, and those that were not do not.
fn the_lot_decides(workspace: &Workspace) {
    let lots = workspace.sql("SELECT question, questions, before, after FROM study.lots");
    let of = |question: &str| {
        let found = lots.iter().find(|row| row["question"] == question);
        found.unwrap_or_else(|| panic!("{question}: {lots:?}"))
    };
    let (drawn, not) = (of("its fact was drawn"), of("its fact was not drawn"));
    let gain = |row: &Json| row["after"].as_f64().unwrap() - row["before"].as_f64().unwrap();
    assert!(gain(drawn) > 0.3 && gain(not).abs() < 0.1, "{lots:?}");
    let forced = "SELECT count(*) AS n FROM study_controls_half_then.proofs AS p
                  JOIN study.drawn AS d ON d.fact = p.forced_fact WHERE NOT d.drawn";
    assert_eq!(workspace.sql(forced)[0]["n"], 0, "a fact that was not drawn was recalled");
}

/// The headline: what the tour and the page say of the model that ships is what comes out, over all questions.
#[test]
fn the_study_has_the_numbers_of_its_page() {
    const RIGHT: [(&str, &str, u64); 6] = [
        ("direct", "direct, no proofs", 143),
        ("before", "before teaching", 187),
        ("after", "after teaching", 264),
        ("all", "all facts of train taught", 293),
        ("hidden", "after, own core fact hidden", 184),
        ("half", "after, a random half of the facts", 225),
    ];
    let workspace = Workspace::new();
    let report = format!("output={}", workspace.path("report").display());
    let only = ["--select", "study.before_after,in_the_world"];
    run(&workspace, "pipelines/teachme.yaml", &only, &[&report, "orders=0", "controls=half"]);

    let rows = workspace
        .sql("SELECT configuration, n, accuracy, won, lost, p_mcnemar FROM study.before_after");
    let page = std::fs::read_to_string(root().join("docs/papers/teachme.md")).unwrap();
    let tour = std::fs::read_to_string(root().join("docs/guides/tour.md")).unwrap();
    for (system, configuration, right) in RIGHT {
        let row = rows.iter().find(|row| row["configuration"] == configuration);
        let row = row.unwrap_or_else(|| panic!("no {system}: {rows:?}"));
        assert_eq!(row["n"], 328, "{system}");
        let accuracy = row["accuracy"].as_f64().unwrap();
        assert_eq!((accuracy * 328.0).round() as u64, right, "{system}: {row}");
        // As the documents round it.
        let line = tour.lines().find(|line| line.starts_with(configuration));
        let line = line.unwrap_or_else(|| panic!("the tour has no line `{configuration}`"));
        assert!(line.contains(&format!("{accuracy:.4}")), "{line}: {row}");
        let short = format!("{accuracy:.3}").trim_start_matches('0').to_owned();
        let line = page.lines().find(|line| line.starts_with(&format!("| {configuration} |")));
        let line = line.unwrap_or_else(|| panic!("the page has no row `{configuration}`"));
        assert!(line.contains(&short), "{line}: {row}");
        if let (Some(won), Some(lost)) = (row["won"].as_u64(), row["lost"].as_u64()) {
            assert!(line.contains(&format!("| {won} | {lost} |")), "{line}: {row}");
        }
    }
    let world = workspace.sql(
        "SELECT round(in_the_world, 3) AS share FROM in_the_world
         WHERE system IN ('before', 'after') ORDER BY share",
    );
    let of_world = ["0.694", "0.836"].map(|share| json!({"share": share.parse::<f64>().unwrap()}));
    assert_eq!(world, of_world);
    assert!(page.contains("| .694 |") && page.contains("| .836 |"));
}

/// The model that ships is the one that its page names, so that a number can be held against its model.
#[test]
fn the_model_that_ships_is_the_one_that_is_documented() {
    let bytes = std::fs::read(root().join("data/models/tiny-entailer/model.safetensors")).unwrap();
    let digest = Digest::of(&bytes).to_string();
    for (page, shown) in
        [("data/README.md", digest.clone()), ("docs/papers/teachme.md", digest[..8].to_owned())]
    {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        assert!(text.contains(&shown), "{page} names another model than {digest}");
    }
}

/// Questions that take two inferences are answered by proofs of two steps, and not by those of one.
#[test]
fn two_steps_are_better_than_one() {
    let workspace = Workspace::new();
    let output = format!("output={}", workspace.path("page").display());
    run(&workspace, "pipelines/search.yaml", &[], &[&output, "depths=1,2"]);

    let rows = workspace.sql("SELECT system, n, accuracy, won, lost, p_mcnemar FROM \"table\"");
    let of = |system: &str| rows.iter().find(|row| row["system"] == system).unwrap().clone();
    let (one, two) = (of("search 1"), of("search 2"));
    assert_eq!(two["n"], 66);
    assert!(two["p_mcnemar"].as_f64().unwrap() < 0.001, "{two}");
    assert!(
        two["accuracy"].as_f64().unwrap() > one["accuracy"].as_f64().unwrap() + 0.2,
        "{one} {two}"
    );
    // A kept proof of the second step proves a premise of a kept one of the first.
    let count = |query: &str| workspace.sql(query)[0]["n"].as_u64().unwrap();
    let second = "trees.searched AS b WHERE b.most_steps = 2 AND b.depth = 2 AND b.kept";
    let kept = count(&format!("SELECT count(*) AS n FROM {second}"));
    assert!(kept >= 20, "{kept} proofs of two steps were kept");
    let joined = format!(
        "SELECT count(*) AS n FROM (SELECT * FROM {second}) AS b JOIN trees.searched AS a
           ON a.most_steps = 2 AND a.proof_id = b.parent_proof_id AND a.kept
          AND a.premises[b.premise]['text'] = b.hypothesis"
    );
    assert_eq!(count(&joined), kept);
}

/// "This is not so" takes the proof away that used it, is hardly ever a premise, and never one for the same answer.
#[test]
fn denials_and_strange_words() {
    let workspace = Workspace::of_case("entailer");
    let science = format!("science={}", root().join("data/science").display());
    let model = format!("model={}", root().join("data/models/tiny-entailer").display());
    let args = ["run", "denials.yaml", "--param", &science, "--param", &model];
    workspace.proofmill(&args).expect(0);
    denied_proofs_are_gone(&workspace);
    strange_words_are_read(&workspace);
}

fn denied_proofs_are_gone(workspace: &Workspace) {
    let count = |query: &str| workspace.sql(query)[0]["n"].as_u64().unwrap();
    let rest_on_the_mistake = |turn: &str| {
        count(&format!(
            "SELECT count(DISTINCT question_id) AS n
             FROM (SELECT question_id, denial, unnest(premises) AS premise FROM turns_{turn}.verified WHERE accepted)
             WHERE contradicts(premise['text'], denial)"
        ))
    };
    let (before, after) = (rest_on_the_mistake("before"), rest_on_the_mistake("after"));
    assert!(before >= 20, "{before} questions rest on a mistake before anybody spoke");
    assert_eq!(after, 0, "a proof rests on what the memory denies");
    // A denial proves nothing here; that the model sees it nearly always is what its page says.
    let begun = |filter: &str| {
        count(&format!(
            "SELECT count(*) AS n FROM turns_after.verified
             WHERE lower(premises[1]['text']) = lower(denial) AND {filter}"
        ))
    };
    let (all, accepted) = (begun("true"), begun("accepted"));
    assert!(all >= 200 && accepted * 10 < all, "{accepted} of {all} proofs rest on a denial");
    let turned = begun("reject_reason = 'premise_is_denial'");
    assert!(turned >= 5, "{turned} of {all} proofs rest on what denies another proof");
    let helped = count(
        "SELECT count(*) AS n FROM turns_after.verified AS after
         WHERE after.accepted AND lower(after.premises[1]['text']) = lower(after.denial)
           AND EXISTS (SELECT 1 FROM turns_before.verified AS before
             WHERE before.accepted AND before.hypothesis_id = after.hypothesis_id)",
    );
    assert_eq!(helped, 0, "a denial proves what the denied mistake had proved");
}

/// A forced proof begins with the fact as the memory has it, whatever its words; most of them are read.
fn strange_words_are_read(workspace: &Workspace) {
    let rows = workspace.sql(
        "SELECT v.fact, p.text, v.strategy, v.accepted, v.premises
         FROM strange_verified AS v JOIN strange_proofs AS p ON p.proof_id = v.proof_id ORDER BY v.proof_id",
    );
    assert_eq!(rows.len(), 8, "a free and a forced proof of each");
    for row in rows.iter().filter(|row| row["strategy"] == "forced") {
        let fact = row["fact"].as_str().unwrap();
        let text = row["text"].as_str().unwrap();
        assert!(text.starts_with(&format!("$proof$ = [PREMISE] {fact}")), "{row}");
        assert_eq!(row["premises"][0]["text"], fact, "{row}");
        assert_eq!(row["premises"][0]["origin"], "memory", "{row}");
    }
    let read = rows.iter().filter(|row| row["accepted"] == true);
    assert!(read.count() >= 3, "{rows:#?}");
}

/// What is said of a heard thing is believed if it is so, and not if it is wrong; mistakes are defended.
#[test]
fn what_is_said_is_weighed() {
    let workspace = Workspace::new();
    let output = format!("output={}", workspace.path("page").display());
    run(&workspace, "pipelines/teachme.yaml", &["--select", "judgement"], &[&output]);
    let rows = workspace.sql("SELECT state, said, believed FROM judgement");
    let believed = |state: &str, said: &str| {
        let row = rows.iter().find(|row| row["state"] == state && row["said"] == said).unwrap();
        row["believed"].as_f64().unwrap()
    };
    assert!(believed("heard", "what is so") > 0.7, "{rows:#?}");
    for said in ["wrong", "shuffled"] {
        assert!(believed("heard", said) < 0.1 && believed("known", said) < 0.1, "{rows:#?}");
    }
    assert!(believed("known", "what is so") > 0.95 && believed("mistaken", "what is so") < 0.2);
}
