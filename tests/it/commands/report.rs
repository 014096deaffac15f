//! `report`: what a run prints, what it writes beside it, and what makes it draw the page again.

use std::fs;

use serde_json::Value as Json;

use crate::caching::model_cache::changed;
use crate::support::{Workspace, executed, set};

const PIPELINE: &str = r#"
pipeline: page
params: { what: magnets }
stages:
  answers:
    sql: |
      SELECT * FROM (VALUES ('before', 'q1', false), ('before', 'q2', true), ('before', 'q3', false),
        ('after', 'q1', true), ('after', 'q2', true), ('after', 'q3', false)) AS t(system, id, correct)
  metrics: { measure: { from: answers, correct: correct, by: [system] } }
  elsewhere: { measure: { from: answers, correct: correct } }
  curve:
    sql: |
      SELECT * FROM (VALUES ('first', 0, 0.25, 0.125, 0.375), ('first', 50, 0.5, 0.375, 0.625),
        ('first', 100, 0.75, 0.625, 0.875), ('second', 0, 0.25, 0.125, 0.375),
        ('second', 100, 0.5, 0.375, 0.625)) AS t(memory, percent, accuracy, least, most)
  proofs:
    sql: |
      SELECT 'q1#1/fact1' AS proof_id, 'Does a penny stick to a magnet?' AS question, 'no' AS answer,
        'no' AS gold, 'a penny does not stick to a magnet' AS hypothesis,
        make_array(
          named_struct('text', 'a penny is made of copper', 'origin', 'memory', 'belief', 0.99995, 'believed', true),
          named_struct('text', 'copper is not magnetic', 'origin', 'model', 'belief', 0.75, 'believed', true)) AS premises,
        0.9 AS entailment, 0.25 AS direct, 0.67 AS score, true AS accepted
      UNION ALL
      SELECT 'q2#0/free', 'Why?', 'because', 'no', 'it is so',
        make_array(named_struct('text', 'so it is', 'origin', 'model', 'belief', 0.1, 'believed', false)),
        0.5, 0.5, 0.05, false
      ORDER BY proof_id
  story:
    sql: |
      SELECT * FROM (VALUES ('Why?', 'written', 'because', -1.5, 'first'), ('Why?', 'found', 'it is so', 0.9, NULL),
        ('Why?', 'found', 'so it is', 0.5, NULL), ('How?', NULL, 'lost', 0.1, 'nothing was found')) AS t(question, part, text, score, note)
  page:
    report:
      title: Teaching
      path: out/page
      blocks:
        - text: |
            Questions about ${params.what}, of which the model was told nothing.

            * Nobody knows how they work.
        - table: { from: metrics, title: Before and after, columns: [system, value, ci_low, ci_high, n_attempted], limit: 20 }
        - plot: { from: curve, title: Learning curve, x: percent, y: accuracy, low: least, high: most, by: memory, x_label: questions taught (%) }
        - bars: { from: curve, title: At the end, name: ends, label: memory, value: accuracy, low: least, high: most }
        - histogram: { from: curve, title: How spread, name: spread, x: accuracy, by: memory, bins: 4 }
        - tree: { from: story, title: One question, levels: [question, part, text], details: [score, note] }
        - proofs: { from: proofs, title: The most instructive proof, limit: 1 }
"#;

/// The text without what differs from run to run.
fn plain(text: &str) -> String {
    let stable = |line: &str| match line.split_once("runs/") {
        Some((before, _)) => format!("{before}runs/…"),
        None => line.to_owned(),
    };
    text.lines().map(|line| stable(line) + "\n").collect()
}

#[test]
fn a_run_prints_the_page_and_writes_its_folder() {
    let workspace = Workspace::with(PIPELINE);
    let first = workspace.proofmill(&["run", "p.yaml"]).expect(0).stdout;
    insta::assert_snapshot!("page", plain(&first));
    insta::assert_snapshot!("markdown", workspace.read("out/page/report.md"));
    let picture = workspace.read("out/page/curve.svg");
    assert!(picture.starts_with("<svg ") && picture.contains("questions taught (%)"), "{picture}");
    // The keys are those of objects that are there.
    for key in first.lines().filter_map(|line| line.split_whitespace().last()) {
        let is_key = key.ends_with(".parquet");
        assert!(!is_key || workspace.path("store").join(key).exists(), "{key}");
    }
    let second = workspace.proofmill(&["run", "p.yaml"]).expect(0).stdout;
    assert_eq!(first, second, "a page from the store is the same page");
    let shown = workspace.proofmill(&["show", "page"]).expect(0).stdout;
    let (_, page) = first.split_once("Teaching\n").unwrap();
    assert_eq!(shown, format!("Teaching\n{page}"));
}

#[test]
fn a_page_is_there_for_programs() {
    let workspace = Workspace::with(PIPELINE);
    let run = workspace.json(&["run", "p.yaml"]);
    let page = &run["pages"][0];
    assert_eq!(page["stage"], "page");
    let blocks = page["blocks"].as_array().unwrap();
    let kinds: Vec<_> = blocks.iter().map(|block| block["block"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["title", "text", "table", "plot", "bars", "histogram", "tree", "proofs"]);
    let sources: Vec<_> = blocks.iter().map(|block| block["source"].clone()).collect();
    let expected = ["metrics", "curve", "curve", "curve", "story", "proofs"];
    assert_eq!(sources[2..], expected.map(Json::from));
    assert!(page["tables"]["proofs"][0].as_str().unwrap().ends_with(".parquet"), "{page}");
    assert_eq!(run["metrics"].as_array().unwrap().len(), 3, "numbers are not hidden: {run}");
    let rows = workspace.sql("SELECT place, svg IS NOT NULL AS drawn FROM page ORDER BY place");
    let drawn: Vec<_> = rows.iter().map(|row| row["drawn"].as_bool().unwrap()).collect();
    assert_eq!(drawn, [false, false, false, true, true, true, false, false]);
}

#[test]
fn files_are_written_again_if_they_are_not_what_was_drawn() {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    assert_eq!(workspace.run(), set(&[]));
    let files = ["report.md", "curve.svg", "ends.svg", "spread.svg"].map(|name| {
        let name = format!("out/page/{name}");
        (name.clone(), workspace.read(&name))
    });
    for (name, content) in &files {
        workspace.write(name, "edited by hand\n");
        assert!(workspace.reason("page").contains("differs from what was written"));
        assert_eq!(workspace.run(), set(&["page"]), "{name}");
        assert_eq!(&workspace.read(name), content);
        fs::remove_file(workspace.path(name)).unwrap();
        assert_eq!(workspace.run(), set(&["page"]), "{name}");
        assert_eq!(&workspace.read(name), content);
    }
    assert_eq!(workspace.run(), set(&[]));
    let names: Vec<_> = fs::read_dir(workspace.path("out/page")).unwrap().collect();
    assert_eq!(names.len(), files.len(), "nothing is left beside them: {names:?}");
    // Without a folder, nothing is looked for.
    workspace.edit("p.yaml", "      path: out/page\n", "");
    assert_eq!(workspace.run(), set(&["page"]));
    fs::remove_dir_all(workspace.path("out")).unwrap();
    assert_eq!(workspace.run(), set(&[]));
}

#[test]
fn every_setting_counts_and_names_of_other_things_do_not() {
    let base = Workspace::with(PIPELINE);
    let page: &[&str] = &["page"];
    let edits: &[(&str, &str, &[&str])] = &[
        ("title: Teaching", "title: Learning", page),
        ("path: out/page", "path: out/other", page),
        ("what: magnets", "what: coins", page),
        ("n_attempted], limit: 20", "n_answered], limit: 20", page),
        ("limit: 20", "limit: 1", page),
        ("title: Before and after", "title: After and before", page),
        ("title: Learning curve", "title: Curve", page),
        ("x: percent", "x: most", page),
        ("y: accuracy", "y: least", page),
        ("low: least, high: most, by", "low: accuracy, high: most, by", page),
        ("low: least, high: most, by", "low: least, high: accuracy, by", page),
        (", by: memory, x_label", ", x_label", page),
        ("title: At the end", "title: The end", page),
        ("name: ends", "name: end", page),
        ("label: memory", "label: percent", page),
        ("value: accuracy", "value: least", page),
        ("low: least, high: most }", "low: accuracy, high: most }", page),
        ("low: least, high: most }", "low: least, high: accuracy }", page),
        ("low: least, high: most }", "low: least, high: most, x_label: share }", page),
        ("title: How spread", "title: Spread", page),
        ("name: spread", "name: spreads", page),
        ("x: accuracy", "x: least", page),
        (", by: memory, bins", ", bins", page),
        ("bins: 4", "bins: 5", page),
        ("bins: 4", "bins: 4, x_label: right", page),
        ("title: One question", "title: Question", page),
        ("levels: [question, part, text]", "levels: [question, text]", page),
        ("details: [score, note]", "details: [note]", page),
        ("details: [score, note]", "details: [score, note], limit: 2", page),
        ("x_label: questions taught (%)", "x_label: taught", page),
        ("x_label: questions taught (%)", "y_label: right", page),
        ("x_label: questions taught (%)", "name: picture", page),
        ("x_label: questions taught (%)", "lines: false", page),
        ("limit: 1 }", "limit: 2 }", page),
        ("title: The most instructive proof", "title: Best", page),
        ("table: { from: metrics,", "table: { from: metrics, # what it was\n              ", &[]),
        ("'second', 100, 0.5", "'second', 100, 0.6", &["curve", "page"]),
    ];
    for (old, new, stages) in edits {
        let found = changed(&base, |workspace| workspace.edit("p.yaml", old, new));
        assert_eq!(found, set(stages), "`{old}` -> `{new}`");
    }
}

#[test]
fn what_cannot_be_told_apart_is_not_drawn() {
    let of = |sql: &str, block: &str| {
        let text = format!(
            "pipeline: p\nstages:\n  many: {{ sql: \"{sql}\" }}\n  page: {{ report: {{ blocks: [{{ {block} }}] }} }}\n"
        );
        Workspace::with(&text).proofmill(&["run", "p.yaml"])
    };
    let rows =
        "SELECT value AS x, value * 2 AS y, value % 9 AS kind FROM generate_series(1, 30000)";
    of(rows, "plot: { from: many, x: x, y: y }").expect(1).says("more than 20000 rows to plot");
    let few = format!("{rows} WHERE value < 100");
    of(&few, "plot: { from: many, x: x, y: y, by: kind }").expect(1).says("9 series, but only 8");
    of(&few, "histogram: { from: many, x: x, by: y }").expect(1).says("25 series, but only 24");
    of(&few, "bars: { from: many, label: x, value: y }").expect(1).says("more than 60 rows");
    of(rows, "histogram: { from: many, x: x, by: kind }").expect(0);
    let done = of(&few, "plot: { from: many, x: x, y: y }").expect(0);
    assert!(done.stdout.contains('●'), "{done:?}");
    let done = of(rows, "table: { from: many, limit: 2 }").expect(0);
    assert!(done.stdout.contains("2 of 30000 rows\n"), "{done:?}");
    let done = of(&format!("{rows} WHERE false"), "table: { from: many }").expect(0);
    assert!(done.stdout.contains("no rows\n"), "{done:?}");
}

#[test]
fn a_page_that_fails_hides_no_numbers() {
    let text = PIPELINE.replace("path: out/page", "path: p.yaml/page");
    let workspace = Workspace::with(&text);
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(1).says("cannot be written");
    assert!(done.stdout.contains("metrics  (intervals: wilson)"), "{done:?}");
    let run = workspace.proofmill(&["run", "p.yaml", "--json"]).expect(1).json();
    assert_eq!(executed(&run), set(&[]), "all else is in the store");
}
