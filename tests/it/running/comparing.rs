//! Runs side by side: `diff`, `trends`, `errors`, and tables of past runs that other pipelines read.

use serde_json::{Value as Json, json};

use crate::support::{Workspace, set};

/// The answers depend on a parameter; every third question is asked of a hard set.
const NIGHTLY: &str = "\
pipeline: nightly
params: { cut: 3 }
stages:
  asked: { sql: \"SELECT value AS i, concat('q', value) AS q, value % 2 = 0 AS hard FROM generate_series(1, 60)\" }
  answers: { checks: [{ unique: q }], sql: \"SELECT q, i, hard, i % 7 >= ${params.cut} AS correct, 1.0 / i AS score FROM asked\" }
  accuracy: { measure: { from: answers, correct: correct, metrics: { mean score: score }, by: [hard] } }
  same: { measure: { from: asked, correct: hard } }
";

fn two_nights() -> Workspace {
    let workspace = Workspace::with(NIGHTLY);
    workspace.run();
    workspace.json(&["run", "p.yaml", "--param", "cut=5"]);
    workspace
}

#[test]
fn two_runs_differ_in_settings_metrics_and_rows() {
    let workspace = two_nights();
    let found = workspace.json(&["diff", "nightly~1", "nightly"]);
    assert_eq!(found["params"], json!([{"component": "cut", "old": "3", "new": "5"}]));
    assert_eq!((&found["code"], &found["files"]), (&json!([]), &json!([])));
    let stage = |name: &str| {
        let stages = found["stages"].as_array().unwrap().iter();
        stages.clone().find(|stage| stage["stage"] == name).unwrap().clone()
    };
    assert_eq!(
        (stage("asked")["state"].as_str(), stage("same")["state"].as_str()),
        (Some("same"), Some("same"))
    );
    let answers = stage("answers");
    assert_eq!((&answers["state"], &answers["inputs"]), (&json!("changed"), &json!([])));
    assert_eq!(answers["changes"][0]["component"], "settings.sql");
    let accuracy = stage("accuracy");
    assert_eq!((&accuracy["changes"], &accuracy["inputs"]), (&json!([]), &json!(["from"])));

    // The numbers are those that `compare` gives for the same tables, read from both runs.
    workspace.write(
        "both.yaml",
        "\
pipeline: both
stages:
  a: { read: { run: nightly~1, stage: answers } }
  b: { read: { run: nightly, stage: answers } }
  a_easy: { sql: SELECT * FROM a WHERE NOT hard }
  b_easy: { sql: SELECT * FROM b WHERE NOT hard }
  tested: { compare: { baseline: a_easy, candidate: b_easy, key: q, correct: correct } }
",
    );
    let tested = workspace.json(&["run", "both.yaml"])["metrics"][0].clone();
    let metrics = found["metrics"].as_array().unwrap();
    let easy = metrics.iter().find(|m| m["by"][0][1] == "false" && m["metric"] == "accuracy");
    let easy = easy.unwrap();
    assert_eq!(easy["values"][0], tested["baseline_value"]);
    assert_eq!(easy["values"][1], tested["candidate_value"]);
    for (ours, theirs) in [
        ("diff", "diff"),
        ("ci_low", "ci_low"),
        ("ci_high", "ci_high"),
        ("p", "p_mcnemar"),
        ("only_a", "only_baseline"),
        ("only_b", "only_candidate"),
        ("n", "n"),
    ] {
        assert_eq!(easy["test"][ours], tested[theirs], "{ours}");
        assert!(!easy["test"][ours].is_null(), "{ours}");
    }
    // A metric that did not change is no evidence of anything.
    let score = metrics.iter().find(|m| m["metric"] == "mean score").unwrap();
    assert_eq!((&score["test"]["diff"], &score["test"]["p"]), (&json!(0.0), &json!(1.0)));
    assert!(metrics.iter().any(|m| m["stage"] == "same" && m["test"].is_null()));

    // By hand: cut 3 against cut 5, rows of 60 whose remainder by 7 is 3 or 4.
    let flipped = (1..=60).filter(|i| [3, 4].contains(&(i % 7))).count();
    let rows = &found["rows"][0];
    assert_eq!((&rows["stage"], &rows["on"]), (&json!("answers"), &json!(["q"])));
    assert_eq!(
        (&rows["both"], &rows["changed"], &rows["only_a"], &rows["only_b"]),
        (&json!(60), &json!(flipped), &json!(0), &json!(0))
    );
    assert_eq!(rows["columns"], json!([["correct", flipped]]));

    let text = workspace.proofmill(&["diff", "nightly~1", "nightly"]).expect(0).stdout;
    for said in
        ["a: run ", "cut", "settings.sql", "input from", "p holm", "paired by q", "proofmill diff"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    workspace.proofmill(&["diff", "nightly", "nightly~0"]).expect(2).says("the same run");
    workspace.proofmill(&["diff", "nightly~2", "nightly"]).expect(2).says("fewer than 3 runs");
}

#[test]
fn rows_are_shown_with_both_values() {
    let workspace = Workspace::with(
        "\
pipeline: rows
params: { night: 1 }
stages:
  t:
    sql: \"SELECT * FROM (VALUES (1, 'a', 'x', [1.0, 2.0]), (1, 'b', NULL, [3.0, 4.0]), (2, 'a', 'old', [5.0, 6.0]))
      AS t(id, part, text, v) WHERE ${params.night} = 1
      UNION ALL SELECT * FROM (VALUES (1, 'a', 'x', [1.0, 2.0]), (1, 'b', 'new', [3.0, 4.5]), (3, 'a', 'other', [0.0, 0.0]))
      AS t(id, part, text, v) WHERE ${params.night} = 2\"
",
    );
    workspace.run();
    workspace.json(&["run", "p.yaml", "--param", "night=2"]);
    let unknown = workspace.proofmill(&["diff", "latest~1", "latest", "t"]).expect(2);
    unknown.says("`id,part` is unique");
    let on = |rest: &[&'static str]| {
        [&["diff", "latest~1", "latest", "t", "--on", "id,part"], rest].concat()
    };
    let found = workspace.json(&on(&[]))["rows"].clone();
    assert_eq!(
        (&found["both"], &found["changed"], &found["only_a"], &found["only_b"]),
        (&json!(2), &json!(1), &json!(1), &json!(1))
    );
    assert_eq!(found["columns"], json!([["text", 1], ["v", 1]]));
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows[0]["key"], json!([1, "b"]));
    assert_eq!(rows[0]["a"], json!({"text": null, "v": [3.0, 4.0]}));
    assert_eq!(rows[0]["b"], json!({"text": "new", "v": [3.0, 4.5]}));
    assert_eq!((&rows[1]["key"], &rows[1]["b"]), (&json!([2, "a"]), &Json::Null));
    assert_eq!((&rows[2]["key"], &rows[2]["a"]), (&json!([3, "a"]), &Json::Null));
    assert_eq!(workspace.json(&on(&["--ignore", "text,v"]))["rows"]["changed"], 0);
    let first = workspace.proofmill(&on(&["--limit", "1"]));
    let first = first.expect(0).says("the first 1 of 3 rows");
    assert!(
        first.stdout.contains("NULL") && !first.stdout.contains("(absent)"),
        "{}",
        first.stdout
    );
    let refused = |args: &[&str]| {
        let args: Vec<&str> = ["diff", "latest~1", "latest"].iter().chain(args).copied().collect();
        workspace.proofmill(&args).expect(2)
    };
    refused(&["t", "--on", "id"]).says("several rows of `t` have the same `id`");
    refused(&["t", "--on", "idd"]).says("no column `idd` in both runs").says("`id`");
    refused(&["u"]).says("`u` is not a table in both runs").says("did you mean `t`?");
}

#[test]
fn rows_of_a_changed_file_are_paired_by_what_both_have() {
    let workspace = Workspace::with("pipeline: p\nstages:\n  raw: { read: { path: raw.csv } }\n");
    for second in ["no", "yes"] {
        workspace.write("raw.csv", format!("id,answer\na,yes\nb,{second}\nc,yes\n"));
        workspace.run();
    }
    // Their `row_id` tells of the file, and no two rows of the two files share one.
    let diff = workspace.proofmill(&["diff", "p~1", "p"]).expect(0).stdout;
    assert!(diff.contains("raw: of 3 rows in both runs, paired by id, 1 differ"), "{diff}");
}

/// Latencies tell the rows of each run apart too, and pair rows of two items.
#[test]
fn a_key_is_named_and_never_guessed() {
    let rows = |key: &str| {
        format!(
            "
params: {{ night: 0 }}
stages:
  answers: {{ sql: \"SELECT (value * 7 + ${{params.night}}) % 40 AS latency, concat('q', value) AS {key}, value % (2 + ${{params.night}}) = 0 AS ok
    FROM range(0, 40)\" }}
  accuracy: {{ measure: {{ from: answers, correct: ok }} }}
"
        )
    };
    let workspace = Workspace::new();
    let two_nights = |name: &str, text: &str| {
        workspace.write("p.yaml", format!("pipeline: {name}{text}"));
        workspace.run();
        workspace.json(&["run", "p.yaml", "--param", "night=1"]);
    };
    two_nights("unnamed", &rows("asked"));
    let diff = workspace.proofmill(&["diff", "unnamed~1", "unnamed"]).expect(0);
    assert!(!diff.stdout.contains("answers: of"), "{}", diff.stdout);
    assert!(
        diff.stdout.contains("accuracy: of 1 row in both runs, paired by name"),
        "{}",
        diff.stdout
    );
    diff.says("`accuracy` is not tested: the columns that identify a row of `answers` are unknown; name them with `--on` or a check `unique`; `latency` is unique")
        .says("rows of tables without known key columns are not compared: `answers`");
    workspace.proofmill(&["diff", "unnamed~1", "unnamed", "answers"]).expect(2).says("`--on`");
    let diff = workspace.proofmill(&["diff", "unnamed~1", "unnamed", "--on", "asked"]).expect(0);
    assert!(diff.stdout.contains("40 by asked"), "{}", diff.stdout);
    assert!(diff.stdout.contains("answers --on asked"), "{}", diff.stdout);

    // Called like a key; named by the stage that reads the rows; named by a check.
    two_nights("called", &rows("id"));
    let compared = "  other: { sql: SELECT * FROM answers }
  versus: { compare: { baseline: answers, candidate: other, key: asked, correct: ok } }
";
    two_nights("read", &(rows("asked") + compared));
    two_nights(
        "checked",
        &rows("asked")
            .replace("range(0, 40)", "range(0, 40) WHERE true")
            .replace("answers: {", "answers: { checks: [{ unique: [asked] }],"),
    );
    for (pipeline, key) in [("called", "id"), ("read", "asked"), ("checked", "asked")] {
        let diff = workspace.json(&["diff", &format!("{pipeline}~1"), pipeline]);
        assert_eq!(diff["metrics"][0]["test"]["on"], json!([key]), "{pipeline}");
        assert_eq!(diff["rows"][0]["on"], json!([key]), "{pipeline}");
    }
}

#[test]
fn a_metric_is_followed_from_run_to_run() {
    let workspace = two_nights();
    let listed = workspace.proofmill(&["trends", "nightly"]).expect(0).stdout;
    assert_eq!(listed, "accuracy.accuracy\naccuracy.mean score\nsame.accuracy\n");
    let points = workspace.json(&["trends", "nightly", "accuracy.accuracy"]);
    let of = |of: &str| -> Vec<f64> {
        let points = points.as_array().unwrap().iter().filter(|point| point["of"] == of);
        points.map(|point| point["value"].as_f64().unwrap()).collect()
    };
    // Oldest first: the share of odd i up to 60 whose remainder by 7 is at least 3, then 5.
    let share = |cut: usize| (1..=60).filter(|i| i % 2 == 1 && i % 7 >= cut).count() as f64 / 30.0;
    assert_eq!(of("hard=false"), [share(3), share(5)]);
    assert_eq!(points.as_array().unwrap().len(), 4);
    let text = workspace.proofmill(&["trends", "nightly", "accuracy.accuracy"]).expect(0).stdout;
    assert!(text.contains("change") && text.contains("before the newest run"), "{text}");
    let last = ["trends", "nightly", "accuracy.accuracy", "--limit", "1"];
    assert_eq!(workspace.json(&last).as_array().unwrap().len(), 2);
    workspace.proofmill(&["trends", "nightly", "acuracy.accuracy"]).expect(2).says("did you mean");
    workspace.proofmill(&["trends", "weekly"]).expect(2).says("no run of a pipeline `weekly`");
}

#[test]
fn a_past_table_counts_by_what_it_holds() {
    let workspace = two_nights();
    workspace.write(
        "after.yaml",
        "\
pipeline: after
params: { of: nightly }
stages:
  past: { read: { run: \"${params.of}\", stage: answers } }
  n: { sql: SELECT count(*) AS n FROM past WHERE correct }
",
    );
    let run = |of: &str| {
        let of = format!("of={of}");
        crate::support::executed(&workspace.json(&["run", "after.yaml", "--param", &of]))
    };
    workspace.proofmill(&["check", "after.yaml"]).expect(0).says("no errors");
    let before = workspace.keys("").iter().filter(|key| key.ends_with(".parquet")).count();
    assert_eq!(run("nightly"), set(&["past", "n"]));
    let parts = workspace.keys("").iter().filter(|key| key.ends_with(".parquet")).count();
    assert_eq!(parts, before + 1, "the rows stay where they are");
    // Another way to name the same run; another run with the same table.
    assert_eq!(run("nightly~0"), set(&[]));
    workspace.json(&["run", "p.yaml", "--param", "cut=5"]);
    assert_eq!(run("nightly"), set(&[]));
    assert_eq!(run("nightly~2"), set(&["past", "n"]), "another table");
    let count = |cut: usize| (1..=60).filter(|i| i % 7 >= cut).count();
    assert_eq!(workspace.sql("SELECT n FROM n")[0]["n"], count(3));

    let refused = |old: &str, new: &str| {
        let text = workspace.read("after.yaml").replace(old, new);
        workspace.write("wrong.yaml", text);
        workspace.proofmill(&["check", "wrong.yaml"]).expect(3)
    };
    refused("answers", "answer").says("has no table `answer`").says("did you mean `answers`?");
    refused("of: nightly", "of: weekly").says("no run of a pipeline `weekly`");
    refused("stage: answers", "stage: answers, format: csv").says("`format` applies to files");
    refused(", stage: answers", "").says("run");
}

#[test]
fn what_is_written_can_be_read() {
    let workspace = Workspace::with(
        "\
pipeline: written
stages:
  raw: { read: { path: raw.jsonl } }
  out: { write: { from: raw, path: out.parquet } }
  lines: { write: { from: raw, path: out.jsonl } }
",
    );
    workspace.write("raw.jsonl", "{\"q\": \"one\"}\n{\"q\": \"two\"}\n");
    workspace.run();
    let expected = workspace.sql("SELECT row_id, q FROM raw ORDER BY q");
    for file in ["out.parquet", "out.jsonl"] {
        workspace.write(
            "back.yaml",
            format!("pipeline: back\nstages:\n  again: {{ read: {{ path: {file} }} }}\n"),
        );
        workspace.json(&["run", "back.yaml"]);
        assert_eq!(workspace.sql("SELECT row_id, q FROM again ORDER BY q"), expected, "{file}");
    }
}

#[test]
fn failed_rows_are_listed_with_the_command_that_asks_again() {
    let workspace = Workspace::with(
        "\
pipeline: half
stages:
  raw: { read: { path: raw.jsonl, columns: { n: { type: integer } } }, max_error_rate: 0.9 }
  n: { sql: SELECT count(*) AS n FROM raw }
",
    );
    workspace.write("raw.jsonl", "{\"n\": 1}\n{\"n\": \"x\"}\nnot json\n");
    workspace.run();
    let found = workspace.json(&["errors"]);
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[0]["stage"], &rows[0]["line"]), (&json!("raw"), &json!(2)));
    assert_eq!(found["ask_again"]["raw"], "proofmill run p.yaml --store store");
    let classes: Vec<_> =
        found["counts"].as_array().unwrap().iter().map(|count| count["class"].clone()).collect();
    assert_eq!(classes, ["syntax", "type"]);
    let said = workspace.proofmill(&["errors", "latest", "raw", "--limit", "1"]).expect(0);
    assert!(said.stdout.contains("raw.jsonl") && said.stdout.contains("line 2"), "{}", said.stdout);
    said.says("the first 1 of 2 rows").says("proofmill run p.yaml");
    workspace.proofmill(&["errors", "raw"]).expect(2).says("`proofmill errors latest STAGE`");
    workspace.proofmill(&["errors", "latest", "rax"]).expect(2).says("did you mean `raw`?");
    workspace.write("raw.jsonl", "{\"n\": 1}\n");
    workspace.run();
    let none = workspace.proofmill(&["errors"]).expect(0).stdout;
    assert!(none.starts_with("no row of run "), "{none}");
}
