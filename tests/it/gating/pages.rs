//! One page about a run or a schedule: for the terminal, as JSON, and as one HTML document in which no text of a model is more than text.

use std::fmt::Write as _;

use super::{ACCURACY, Gated, answers};
use crate::support::Workspace;

/// Text of a model that would be more than text.
const HOSTILE: &str =
    "</pre><script>alert(1)</script><img src=x onerror=alert(2)> &amp; \u{1b}[31m \u{202e}";

/// Tags of a document that have to be closed.
const CLOSED: [&str; 9] =
    ["html", "head", "body", "pre", "table", "details", "summary", "h2", "tr"];

#[track_caller]
fn is_inert(page: &str) {
    assert!(page.starts_with("<!doctype html>"), "{page}");
    // The name of a vocabulary is no address.
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for word in ["<script", "<img src=x", "http://", "https://", "\u{1b}", "\u{202e}"] {
        let place = page.find(word);
        assert!(place.is_none(), "{word:?}: {}", &page[place.unwrap()..].lines().next().unwrap());
    }
    for tag in CLOSED {
        let open =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn the_page_of_a_run_has_its_verdict_metrics_trend_and_the_questions_that_changed() {
    let gated = Gated::new(ACCURACY);
    gated.run(&answers(100, 80), &[]);
    let baseline = gated.run(&answers(100, 81), &[]);
    let run = gated.run(&answers(100, 60), &[]);
    gated.gate(&[]);
    let page = gated.0.json(&["report"]);
    assert_eq!(page["run"]["run"], run.as_str());
    assert_eq!(page["against"], baseline.as_str());
    assert_eq!(page["verdict"]["judgement"]["word"], "fail");
    assert_eq!(page["metrics"][0]["population"], "over 100 rows of scored");
    assert_eq!(page["trends"][0].as_array().unwrap().len(), 3);
    let changed = &page["changed"][0];
    assert_eq!(changed["questions"].as_array().unwrap().len(), 21);
    assert_eq!(changed["questions"][0]["values"], serde_json::json!([1.0, 0.0]));
    assert_eq!(changed["proofs"].as_array().unwrap().len(), 20);
    let shown = gated.0.proofmill(&["report", "--proofs", "1"]).expect(0).stdout;
    for part in ["Verdict", "21 questions changed, 21 for the worse", "q0060: 1 → 0", "Made of"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    gated.0.proofmill(&["report", "--html", "--out", "page.html"]).expect(0);
    let html = gated.0.read("page.html");
    is_inert(&html);
    assert!(html.contains("data:image/svg+xml,") && html.contains("<summary>q0060"), "{html}");
    assert_eq!(gated.0.proofmill(&["report", "--html"]).expect(0).stdout, html);
    let other = gated.0.json(&["report", "--against", "latest~2", "--proofs", "0"]);
    assert_eq!(other["changed"][0]["questions"].as_array().unwrap().len(), 20);
    gated.0.proofmill(&["report", "--against", "latest"]).expect(2).says("compared with itself");
    gated.0.proofmill(&["report", "--html", "--out", "."]).expect(2).says("cannot be written");
}

#[test]
fn the_page_of_a_schedule_has_its_nights_and_its_last_run() {
    let gated = Gated::new(ACCURACY);
    gated.run(&answers(100, 80), &[]);
    gated.0.write(
        "s.yaml",
        "kind: schedule\nname: nights\npipeline: p.yaml\ncron: '0 2 * * *'\ngate: gate.yaml\n",
    );
    gated.0.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    let pin = ["channel", "pin", "nightly", "--owner", "ana", "--reason", "reviewed"];
    gated.0.proofmill(&pin).expect(0);
    let page = gated.0.json(&["report", "--schedule", "nights"]);
    assert_eq!(page["ended"], serde_json::json!([]));
    for _ in 0..2 {
        gated.0.proofmill(&["schedule", "trigger", "nights"]).expect(0);
        gated.0.proofmill(&["schedule", "tick"]);
    }
    let page = gated.0.json(&["report", "--schedule", "nights"]);
    assert_eq!(page["ended"].as_array().unwrap().len(), 2);
    assert_eq!(page["last"]["run"]["run"], page["ended"][0]["run"]);
    assert_eq!(page["last"]["verdict"]["judgement"]["word"], "pass");
    let html = gated.0.proofmill(&["report", "--schedule", "nights", "--html"]).expect(0).stdout;
    is_inert(&html);
    assert!(html.contains("<h2>Nights</h2>") && html.contains("succeeded, pass"), "{html}");
    gated.0.proofmill(&["report", "--schedule", "night"]).expect(2).says("did you mean `nights`");
}

#[test]
fn a_page_of_500_hostile_questions_is_inert_and_smaller_than_a_megabyte() {
    let workspace = Workspace::with(
        "pipeline: hostile
params: { answers: a.csv }
stages:
  answers: { read: { path: \"${params.answers}\" } }
  judged: { measure: { from: answers, correct: correct } }
  page:
    report:
      title: \"</pre><script>alert(3)</script>\"
      blocks: [{ table: { from: answers, limit: 500 } }, { plot: { from: points, x: x, y: x, name: p } }]
  points: { sql: 'SELECT value AS x FROM generate_series(1, 9) AS t(value)' }
",
    );
    for is_right in [true, false] {
        let mut text = "id,question,correct\n".to_owned();
        for n in 0..500 {
            let question = format!("{HOSTILE} {n} {}", "why ".repeat(500)).replace('"', "");
            writeln!(text, "\"q{n}{HOSTILE}\",\"{question}\",{is_right}").unwrap();
        }
        workspace.write("a.csv", text);
        workspace.proofmill(&["run", "p.yaml"]).expect(0);
    }
    let html = workspace.proofmill(&["report", "--html", "--proofs", "100"]).expect(0).stdout;
    is_inert(&html);
    assert!(html.len() < 1_000_000, "{}", html.len());
    assert!(html.contains("500 questions changed, 500 for the worse"), "{}", &html[..2_000]);
}
