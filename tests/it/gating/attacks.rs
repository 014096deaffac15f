//! What a stranger, or bad luck, does to gates: sources that are gone, names that name nothing, texts that would be more than text, numbers
//! that no runs give.

use serde_json::{Value as Json, json};

use super::{ACCURACY, Answer, Gated, answers};
use crate::server::{Received, serve};
use crate::support::Workspace;

/// Every model says yes, but questions whose prompt has `q3` are refused by a model called `picky`.
fn answer(_: usize, body: &Json) -> (&'static str, Json) {
    if body["model"] == "picky" && body["prompt"].as_str().unwrap().contains("q3") {
        return ("400 Bad Request", json!({ "error": { "message": "no" } }));
    }
    let choice = json!({ "index": 0, "text": "yes", "finish_reason": "stop" });
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 1 });
    let name = "a\n::error::pwned\n# PASS";
    (
        "200 OK",
        json!({ "choices": [choice], "usage": usage, "model": format!("{name} {}", body["model"]) }),
    )
}

/// Sixty questions of a file, two samples each, to a judge.
fn judged_by(same: &str) -> (Workspace, Received) {
    let (url, received) = serve(answer);
    let workspace = Workspace::with(&format!(
        "pipeline: nightly
params: {{ model: first }}
models: {{ judge: {{ url: '{url}', model: \"${{params.model}}\", concurrency: 4 }} }}
stages:
  asked: {{ read: {{ path: a.csv }} }}
  said:
    generate: {{ from: asked, model: judge, id: nr, keep: [id], prompt: \"'Is it ' || id\", options: {{ max_tokens: 4 }} }}
    max_error_rate: 0.5
  judged: {{ measure: {{ from: said, correct: \"text LIKE 'yes%'\" }} }}
"
    ));
    let rows = (0..120).map(|n| format!("r{n:03},q{:02}\n", n / 2));
    workspace.write("a.csv", format!("nr,id\n{}", rows.collect::<String>()));
    workspace.write("gate.yaml", format!("kind: gate\nname: answers\n{same}{ACCURACY}"));
    (workspace, received)
}

#[test]
fn what_has_to_be_the_same_is_seen_wherever_and_whenever_one_looks() {
    let (workspace, _) = judged_by("same: [models.judge]\nchannel: good\n");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    workspace.proofmill(&["run", "p.yaml", "--param", "model=second"]).expect(0);
    let word = |expected: &str| {
        let verdict = workspace.proofmill(&["gate", "--file", "gate.yaml", "--json"]).expect(6);
        assert_eq!(verdict.json()["judgement"]["word"], expected);
    };
    word("not_comparable");
    // The sources of the runs are gone.
    std::fs::remove_file(workspace.path("a.csv")).unwrap();
    word("not_comparable");
    // Another name is no other model, and hides none.
    let rows = (0..120).map(|n| format!("r{n:03},q{:02}\n", n / 2));
    workspace.write("a.csv", format!("nr,id\n{}", rows.collect::<String>()));
    workspace.edit("p.yaml", "{ judge: {", "{ critic: {");
    workspace.edit("p.yaml", "model: judge", "model: critic");
    workspace.proofmill(&["run", "p.yaml", "--param", "model=third"]).expect(0);
    word("not_comparable");
    workspace
        .write("gate.yaml", format!("kind: gate\nname: answers\nsame: [models.jugde]\n{ACCURACY}"));
    workspace
        .proofmill(&["gate", "--file", "gate.yaml"])
        .expect(3)
        .says("gate.yaml:3:8")
        .says("neither run has `models.jugde`");
    workspace
        .write("gate.yaml", format!("kind: gate\nname: answers\nvary: [stages.sayd]\n{ACCURACY}"));
    workspace.proofmill(&["gate", "--file", "gate.yaml"]).expect(3).says("`stages.sayd`");
}

#[test]
fn failed_rows_are_unanswered_whatever_tells_questions_apart() {
    let (workspace, _) = judged_by("");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    workspace.proofmill(&["run", "p.yaml", "--param", "model=picky"]).expect(0);
    // Ten questions, q30 to q39, of two samples each.
    for (unit, questions, newly) in
        [("[id]", 60, 10), ("[row_id]", 120, 20), ("[id, row_id]", 120, 20)]
    {
        let gate = format!("kind: gate\nname: answers\n{}", ACCURACY.replace("[id]", unit));
        workspace.write("gate.yaml", gate);
        let verdict = workspace.proofmill(&["gate", "--file", "gate.yaml", "--json"]).json();
        let paired = &verdict["evidence"]["metrics"][0]["found"]["paired"];
        assert_eq!(paired["unanswered"]["newly"], newly, "{unit}: {verdict:#}");
        assert_eq!(paired["answered"]["questions"], questions - newly, "{unit}");
    }
}

#[test]
fn no_text_of_a_model_or_a_question_makes_a_line_of_its_own() {
    let (workspace, _) = judged_by("");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    workspace.proofmill(&["run", "p.yaml", "--param", "model=second"]).expect(0);
    let args =
        ["gate", "--file", "gate.yaml", "--annotations", "--summary", "s.md", "--junit", "j.xml"];
    let reported = workspace.proofmill(&args).stdout + &workspace.read("s.md");
    assert!(reported.contains("calls itself a⏎::error::pwned"), "{reported}");
    let gated = Gated::new(ACCURACY);
    let hostile = "a`\n::error file=x::pwned\n# PASS\n````\n- [x] done";
    let with = |id: &str| {
        let mut all = answers(100, 80);
        all.push(Answer { id: format!("\"{id}\""), ..all[0].clone() });
        all
    };
    gated.run(&with(hostile), &[]);
    gated.run(&with("other"), &[]);
    let args = ["gate", "--file", "gate.yaml", "--annotations", "--summary", "s.md"];
    let done = gated.0.proofmill(&args).expect(6);
    let said = done.stdout.clone() + &done.stderr + &gated.0.read("s.md") + &reported;
    for line in said.lines() {
        let is_ours = line.starts_with("::warning file=gate.yaml")
            || line.starts_with("::error file=gate.yaml");
        assert!(!line.starts_with("::") || is_ours, "{line}");
        assert!(!line.starts_with("# ") && !line.starts_with("- ["), "{line}");
    }
    assert!(said.contains("1 question of the baseline missing"), "{said}");
}

#[test]
fn two_nights_without_answers_are_no_pass_and_no_rate_drops_by_two() {
    let gated = Gated::new(
        "channel: good\nmetrics: [{ metric: judged.accuracy, min_effect: 0.05, unit: [id] }]\n",
    );
    gated.0.edit("p.yaml", "doc, correct,", "doc, CAST(NULL AS BOOLEAN) AS correct,");
    let (word, verdict) = gated.judge(&answers(100, 80), &answers(100, 80));
    assert_eq!(word, "cannot_tell", "{verdict:#}");
    assert!(gated.shown().contains("no question was answered"));
    let gated = Gated::new("metrics: [{ metric: judged.accuracy, min_effect: 2, unit: [id] }]\n");
    gated.run(&answers(100, 100), &[]);
    gated.run(&answers(100, 0), &[]);
    let refused = gated.0.proofmill(&["gate", "--file", "gate.yaml"]).expect(3);
    refused.says("no rate drops by 2").says("`0.02`").says("gate.yaml:3:");
}

#[test]
fn a_trial_run_is_judged_by_nobody() {
    let gated = Gated::new(
        "noise: 5\nchannel: good\nmetrics: [{ metric: judged.accuracy, min_effect: 0.05, unit: [id] }]\n",
    );
    gated.run(&answers(200, 160), &[]);
    gated.run(&answers(200, 160), &["--limit", "1"]);
    gated.gate(&[]).expect(2).says("is a trial");
    gated.0.proofmill(&["channel", "pin", "nightly", "--owner", "a", "--reason", "b"]).expect(2);
    gated.run(&answers(200, 161), &[]);
    let (word, verdict) = {
        gated.run(&answers(200, 100), &[]);
        let verdict = gated.verdict();
        (verdict["judgement"]["word"].as_str().unwrap().to_owned(), verdict)
    };
    assert_eq!(word, "fail", "a trial is no noise: {verdict:#}");
    assert_eq!(verdict["evidence"]["metrics"][0]["noise"]["runs"], 2);
}

#[test]
fn numbers_that_no_runs_give_are_refused() {
    let gated = Gated::new(ACCURACY);
    gated.run(&answers(100, 80), &[]);
    gated.run(&answers(100, 79), &[]);
    gated.gate(&["--out", "v.json"]);
    let verdict: Json = serde_json::from_str(&gated.0.read("v.json")).unwrap();
    let huge = [json!(u64::MAX), json!(1_u64 << 63), json!(1e300), json!(-1), json!("NaN")];
    let paired = "/evidence/metrics/0/found/paired";
    let places = [
        "answered/worse",
        "answered/better",
        "answered/questions",
        "worst/worse",
        "worst/questions",
        "unanswered/newly",
        "unanswered/both",
        "answered/drop",
    ];
    let mut pointers: Vec<String> =
        places.iter().map(|place| format!("{paired}/{place}")).collect();
    pointers.extend(
        ["/gate/level", "/gate/confidence", "/gate/metrics/0/min_effect"].map(str::to_owned),
    );
    for pointer in &pointers {
        for value in &huge {
            let mut forged = verdict.clone();
            *forged.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}: {verdict:#}")) =
                value.clone();
            gated.0.write("f.json", forged.to_string());
            let done = gated.0.proofmill(&["gate", "--check", "f.json"]);
            // A huge number of questions without a value is as good as any.
            let is_harmless = pointer.ends_with("/both") && value == &json!(1_u64 << 63);
            assert!(done.code == Some(1) || is_harmless, "{pointer} {value}: {done:?}");
        }
    }
    let pipe = gated.0.path("pipe.json");
    std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    gated.0.proofmill(&["gate", "--check", "pipe.json"]).expect(2).says("not a regular file");
}

#[test]
fn a_channel_is_where_the_gate_put_it_that_moved_it() {
    let gated = Gated::new(&format!("channel: good\n{ACCURACY}"));
    gated.run(&answers(100, 80), &[]);
    gated.run(&answers(100, 81), &[]);
    gated.gate(&[]).expect(0);
    let other = gated.0.read("gate.yaml").replace("name: answers", "name: other");
    gated.0.write("other.yaml", other.replace("channel: good\n", ""));
    gated.0.proofmill(&["gate", "--file", "other.yaml"]).expect(0);
    let shown = gated.0.proofmill(&["channel", "list", "nightly"]).stdout;
    assert!(shown.contains("answers") && !shown.contains("other"), "{shown}");
}

#[test]
fn what_is_written_cannot_be_what_is_read_and_a_refusal_leaves_no_old_report() {
    let gated = Gated::new(ACCURACY);
    gated.run(&answers(100, 80), &[]);
    gated.run(&answers(100, 81), &[]);
    gated.gate(&["--out", "gate.yaml"]).expect(2).says("named twice");
    gated.gate(&["--out", "v.json", "--junit", "./v.json"]).expect(2).says("named twice");
    gated.gate(&["--junit", "no/j.xml"]).expect(2).says("nothing was judged");
    gated.gate(&["--junit", "j.xml"]).expect(0);
    gated.0.edit("gate.yaml", "judged.accuracy", "juged.accuracy");
    gated.gate(&["--junit", "j.xml"]).expect(3);
    let report = gated.0.read("j.xml");
    assert!(report.contains("errors=\"1\"") && report.contains("juged"), "{report}");
    gated.0.write("gate.yaml", "kind: gate\nname: g\nmetrics: [{ metric: judged.accuracy, min_effect: 0.1, better: bigger }]\n");
    gated
        .0
        .proofmill(&["gate", "--file", "gate.yaml"])
        .expect(3)
        .says("gate.yaml:3:")
        .says("`bigger`");
}
