//! Models behind endpoints: asked anew or replayed, what they call themselves, and what a run may spend on them.

use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::server::{Received, serve};
use crate::support::Workspace;

/// After ten answers the endpoint is another model, which answers one question of ten otherwise.
fn answer(place: usize, body: &Json) -> (&'static str, Json) {
    let is_new = place > 10;
    let is_other = is_new && body["prompt"].as_str().unwrap().contains("q3");
    let (text, model) = (if is_other { "no" } else { "yes" }, if is_new { "m-2" } else { "m-1" });
    let choice = json!({ "index": 0, "text": text, "finish_reason": "stop" });
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 1 });
    let fingerprint = format!("fp_{model}");
    (
        "200 OK",
        json!({ "choices": [choice], "usage": usage, "model": model, "system_fingerprint": fingerprint }),
    )
}

fn slowly(place: usize, body: &Json) -> (&'static str, Json) {
    thread::sleep(Duration::from_millis(80));
    answer(place, body)
}

/// Ten questions to an endpoint.
fn asking(reply: fn(usize, &Json) -> (&'static str, Json), more: &str) -> (Workspace, Received) {
    let (url, received) = serve(reply);
    let workspace = Workspace::with(&format!(
        "pipeline: nightly
models: {{ reader: {{ url: '{url}', model: m, concurrency: 1{more} }} }}
stages:
  questions: {{ sql: \"SELECT 'q' || value AS id, value FROM generate_series(0, 9) AS t(value)\" }}
  said:
    generate: {{ from: questions, model: reader, id: id, prompt: \"'Is it ' || id\", options: {{ max_tokens: 4 }} }}
  judged: {{ measure: {{ from: said, correct: \"text LIKE 'yes%'\" }} }}
"
    ));
    let gate = "kind: gate\nname: answers\nmetrics: [{ metric: judged.accuracy, min_effect: 0.05, unit: [row_id] }]\n";
    workspace.write("gate.yaml", gate);
    (workspace, received)
}

fn accuracy(run: &Json) -> f64 {
    run["metrics"][0]["value"].as_f64().unwrap_or_else(|| panic!("{run:#}"))
}

#[test]
fn endpoints_are_asked_anew_where_that_is_wanted_and_what_they_call_themselves_is_compared() {
    let (workspace, received) = asking(answer, "");
    let sent = || received.lock().unwrap().len();
    let gate = || workspace.proofmill(&["gate", "--file", "gate.yaml"]);
    assert_eq!(accuracy(&workspace.json(&["run", "p.yaml"])), 1.0);
    // The ledger answers: this night says nothing about the model.
    assert_eq!(accuracy(&workspace.json(&["run", "p.yaml"])), 1.0);
    assert_eq!(sent(), 10);
    let shown = gate().expect(0).stdout;
    assert!(
        shown.contains("0 requests were asked: this run says nothing about the models"),
        "{shown}"
    );
    // All are asked again: other answers, other tables, and the change is named.
    let plan = workspace.json(&["plan", "p.yaml", "--ask", "all"]);
    assert!(plan.to_string().contains("generation"), "{plan:#}");
    assert_eq!(sent(), 10, "a plan asks nothing");
    assert_eq!(accuracy(&workspace.json(&["run", "p.yaml", "--ask", "all"])), 0.9);
    assert_eq!(sent(), 20);
    let shown = gate().expect(6).stdout;
    assert!(
        shown.contains("model `reader` calls itself m-2 fp_m-2, and was m-1 fp_m-1"),
        "{shown}"
    );
    assert!(!shown.contains("0 requests were asked"), "{shown}");
    workspace.edit("gate.yaml", "metrics:", "reported_models: same\nmetrics:");
    gate().expect(1);
    // The same run again, from the answers that it recorded.
    workspace.proofmill(&["audit", "replay", "nightly"]).expect(0);
    // The first answers are still those of the ledger.
    assert_eq!(accuracy(&workspace.json(&["run", "p.yaml"])), 1.0);
    assert_eq!(sent(), 20);
    // Only an asking differs: `vary` has nothing to say of it.
    workspace.json(&["run", "p.yaml", "--ask", "all"]);
    workspace.edit("gate.yaml", "reported_models: same", "vary: [stages.questions]");
    let verdict = workspace.proofmill(&["gate", "--file", "gate.yaml", "--json"]).json();
    assert_eq!(verdict["evidence"]["differences"], Json::Null, "{verdict:#}");
}

#[test]
fn a_schedule_asks_under_its_instant() {
    let (workspace, received) = asking(answer, "");
    workspace.write(
        "s.yaml",
        "kind: schedule\nname: nights\npipeline: p.yaml\ncron: '0 2 * * *'\nask: all\n",
    );
    workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    for night in 1..=2 {
        workspace.proofmill(&["schedule", "trigger", "nights"]).expect(0);
        workspace.proofmill(&["schedule", "tick"]).expect(0);
        assert_eq!(received.lock().unwrap().len(), 10 * night);
    }
    // A night of the ledger says nothing about the model, and its status says so.
    assert!(!workspace.proofmill(&["schedule", "status"]).stdout.contains("0 requests were asked"));
    workspace.edit("s.yaml", "ask: all", "ask: ledger");
    workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    for (asked, is_silent) in [(30, false), (30, true)] {
        workspace.proofmill(&["schedule", "trigger", "nights"]).expect(0);
        workspace.proofmill(&["schedule", "tick"]).expect(0);
        assert_eq!(received.lock().unwrap().len(), asked);
        let status = workspace.proofmill(&["schedule", "status"]).stdout;
        assert_eq!(status.contains("nights: 0 requests were asked"), is_silent, "{status}");
    }
    let run = workspace.json(&["show", "--run", "nightly~2"]);
    let generation = run["params"]["--ask"].as_str().unwrap_or_else(|| panic!("{run:#}"));
    assert!(generation.ends_with('z') && generation.contains('t'), "{generation}");
    workspace.proofmill(&["audit", "replay", "nightly~2"]).expect(0);
    assert_eq!(received.lock().unwrap().len(), 30);
}

/// A model that changes behind its name is seen by a sample, and the night stays as the ledger has it.
#[test]
fn a_sample_of_the_answers_is_requested_once_more_and_compared() {
    let (workspace, received) = asking(answer, "");
    let sent = || received.lock().unwrap().len();
    let schedule = "kind: schedule\nname: nights\npipeline: p.yaml\ncron: '0 2 * * *'\nask: { sample: 100% }\n";
    workspace.write("s.yaml", schedule);
    workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    // From the first answer on it is another model: the first sample has none before it.
    for sent_then in [20, 30] {
        workspace.proofmill(&["schedule", "trigger", "nights"]).expect(0);
        workspace.proofmill(&["schedule", "tick"]).expect(0);
        assert_eq!(sent(), sent_then);
        let run = workspace.json(&["show", "--run", "nightly"]);
        assert_eq!(workspace.json(&["runs"])[0]["metrics"][0]["value"], 1.0, "{run:#}");
    }
    let status = workspace.json(&["schedule", "status"]);
    let sampled = &status[0]["last"]["sampled"][0];
    assert_eq!((&sampled["again"], &sampled["differ"]), (&json!(10), &json!(1)), "{status:#}");
    assert_eq!(sampled["reported"], json!(["m-2"]));
    assert_eq!(sampled.get("reported_before"), None, "it is the same as on the night before");
    assert_eq!(sampled["examples"], json!([{ "row": "q3", "before": "yes", "now": "no" }]));
    let shown = workspace.proofmill(&["schedule", "status"]).stdout;
    assert!(
        shown.contains("requested once more, 1 of 10 answers of `said` differ (95 %: "),
        "{shown}"
    );
    assert!(!shown.contains("says nothing about the models"), "{shown}");
    let rows = workspace.json(&["sql", "SELECT stage, models, again, differ, low < 0.1 AND high > 0.1 AS is_in FROM system.asked_again"]);
    let row =
        json!({ "stage": "said", "models": "reader", "again": 10, "differ": 1, "is_in": true });
    assert_eq!(rows, json!([row, row]));
    // The answers of the run are still those of the ledger, and those of the sample are kept beside them.
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    assert_eq!(sent(), 30);
    workspace.write("s.yaml", schedule.replace("100%", "1%"));
    workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    workspace.proofmill(&["schedule", "trigger", "nights"]).expect(0);
    workspace.proofmill(&["schedule", "tick"]).expect(0);
    assert_eq!(sent(), 31, "a sample has at least one");
    for wrong in ["0%", "101%", "two", "2"] {
        workspace.write("s.yaml", schedule.replace("100%", wrong));
        workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(3).says("s.yaml:5:");
    }
    let verified = workspace.json(&["audit", "verify", "--all", "--level", "3"]);
    assert_eq!(verified["findings"], json!([]));
}

/// A model that gets another name with each ten answers, and answers as ever.
fn renamed(place: usize, body: &Json) -> (&'static str, Json) {
    let (status, mut answer) = answer(1, body);
    answer["model"] = json!(format!("m-{}", (place - 1) / 10));
    (status, answer)
}

#[test]
fn a_model_that_calls_itself_otherwise_is_named_on_that_night() {
    let (workspace, _received) = asking(renamed, "");
    let schedule = "kind: schedule\nname: nights\npipeline: p.yaml\ncron: '0 2 * * *'\nask: { sample: 100% }\n";
    workspace.write("s.yaml", schedule);
    workspace.proofmill(&["schedule", "apply", "s.yaml"]).expect(0);
    for (now, before) in [("m-1", None), ("m-2", Some("m-1")), ("m-3", Some("m-2"))] {
        workspace.proofmill(&["schedule", "trigger", "nights"]).expect(0);
        workspace.proofmill(&["schedule", "tick"]).expect(0);
        let status = workspace.json(&["schedule", "status"]);
        let sampled = &status[0]["last"]["sampled"][0];
        assert_eq!((&sampled["reported"], &sampled["differ"]), (&json!([now]), &json!(0)));
        assert_eq!(sampled["reported_before"][0].as_str(), before, "{status:#}");
        let said = format!("the endpoint calls itself {now}, and m-1 in the sample before");
        let shown = workspace.proofmill(&["schedule", "status"]).stdout;
        assert_eq!(shown.contains(&said), before == Some("m-1"), "{shown}");
    }
}

#[test]
fn a_run_requests_a_sample_of_its_answers_once_more_where_that_is_wanted() {
    let (workspace, received) = asking(answer, "");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let run = workspace.json(&["run", "p.yaml", "--ask", "sample:100%"]);
    assert_eq!(received.lock().unwrap().len(), 20);
    assert_eq!(accuracy(&run), 1.0, "its numbers are those of the ledger");
    let sampled = &run["sample"][0];
    assert_eq!((&sampled["again"], &sampled["differ"]), (&json!(10), &json!(1)), "{run:#}");
    workspace
        .proofmill(&["run", "p.yaml", "--ask", "sample:100%"])
        .expect(0)
        .says("requested once more, 1 of 10 answers of `said` differ (95 %: ");
    for wrong in ["sample", "sample:0%", "sample:2", "nothing"] {
        workspace.proofmill(&["run", "p.yaml", "--ask", wrong]).expect(2).says("--ask");
    }
}

#[test]
fn a_budget_of_requests_or_money_stops_a_run_which_is_not_finished_then() {
    let prices = ", prices: { prompt: 100000, completion: 500000 }";
    for budget in ["requests=3", "money=2.5"] {
        let (workspace, received) = asking(slowly, prices);
        workspace.proofmill(&["run", "p.yaml"]).expect(0);
        let spent = received.lock().unwrap().len();
        let args = ["run", "p.yaml", "--ask", "all", "--budget", budget];
        let stopped = workspace.proofmill(&args).expect(5).says("--budget").says("--ask all");
        drop(stopped);
        let asked = received.lock().unwrap().len() - spent;
        // Requests are counted before they are sent, and money when they are answered.
        let most = if budget == "requests=3" { 3..4 } else { 2..9 };
        assert!(most.contains(&asked), "{budget}: {asked}");
        let run = workspace.json(&["runs"])[0]["run"].as_str().unwrap().to_owned();
        let args = ["gate", "latest", &run, "--file", "gate.yaml", "--json"];
        let verdict = workspace.proofmill(&args).expect(6).json();
        assert_eq!(verdict["judgement"]["word"], "not_finished", "{verdict:#}");
        // The rest is asked under the same word.
        workspace.proofmill(&["run", "p.yaml", "--ask", "all", "--resume", &run]).expect(0);
        assert_eq!(received.lock().unwrap().len() - spent, 10, "{budget}");
    }
    // A budget that is as large as the run is enough, also of a fast endpoint that is asked by many at once.
    let (workspace, received) = asking(answer, "");
    workspace.edit("p.yaml", "concurrency: 1", "concurrency: 8");
    workspace
        .proofmill(&["run", "p.yaml", "--budget", "requests=4"])
        .expect(5)
        .says("4 requests were sent");
    assert_eq!(received.lock().unwrap().len(), 4);
    let run = workspace.json(&["runs"])[0]["run"].as_str().unwrap().to_owned();
    workspace.proofmill(&["run", "p.yaml", "--budget", "requests=6", "--resume", &run]).expect(0);
    assert_eq!(received.lock().unwrap().len(), 10);
    let (workspace, received) = asking(answer, "");
    workspace.proofmill(&["run", "p.yaml", "--budget", "money=1"]).expect(2).says("needs `prices`");
    assert_eq!(received.lock().unwrap().len(), 0);
}

/// After ten answers the endpoint refuses one question.
fn refusing(place: usize, body: &Json) -> (&'static str, Json) {
    match place > 10 && body["prompt"].as_str().unwrap().contains("q3") {
        true => ("400 Bad Request", json!({ "error": { "message": "no" } })),
        false => answer(1, body),
    }
}

#[test]
fn questions_whose_rows_failed_are_unanswered_in_either_run() {
    let (workspace, _) = asking(refusing, "");
    workspace.edit(
        "p.yaml",
        "options: { max_tokens: 4 } }",
        "options: { max_tokens: 4 } }\n    max_error_rate: 0.5",
    );
    workspace.json(&["run", "p.yaml"]);
    workspace.json(&["run", "p.yaml", "--ask", "all"]);
    for (runs, newly, no_longer) in
        [(["nightly~1", "nightly"], 1, 0), (["nightly", "nightly~1"], 0, 1)]
    {
        let args = [&["gate"], &runs[..], &["--file", "gate.yaml", "--json"]].concat();
        let verdict = workspace.proofmill(&args).expect(6).json();
        let paired = &verdict["evidence"]["metrics"][0]["found"]["paired"];
        assert_eq!(paired["unanswered"]["newly"], newly, "{verdict:#}");
        assert_eq!(paired["unanswered"]["no_longer"], no_longer, "{verdict:#}");
        assert_eq!(paired["answered"]["questions"], 9);
    }
}
