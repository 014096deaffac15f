//! Workers: processes that answer the requests of a run through the store, that die, and that are not who they should be.

use std::fs;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::server::{Received, Reply, serve};
use crate::support::Workspace;

/// A process that a test that fails does not leave behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn answer(_: usize, body: &Json) -> (&'static str, Json) {
    let text = body["prompt"].as_str().unwrap().to_uppercase();
    let choice = json!({ "index": 0, "text": text, "finish_reason": "stop" });
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 1 });
    ("200 OK", json!({ "choices": [choice], "usage": usage, "model": "m" }))
}

fn slowly(place: usize, body: &Json) -> (&'static str, Json) {
    sleep(Duration::from_millis(20));
    answer(place, body)
}

/// So many questions to an endpoint whose key only workers have.
fn asking(reply: Reply, rows: usize) -> (Workspace, String, Received) {
    let (url, received) = serve(reply);
    let workspace = Workspace::with(&format!(
        "pipeline: asking
models: {{ reader: {{ url: '{url}', model: m, concurrency: 8, api_key_env: READER_KEY }} }}
stages:
  questions: {{ sql: \"SELECT 'q' || value AS id FROM generate_series(1, {rows}) AS t(value)\" }}
  said: {{ generate: {{ from: questions, model: reader, id: id, prompt: \"'is ' || id\", options: {{ max_tokens: 4 }} }} }}
"
    ));
    (workspace, url, received)
}

fn worker(workspace: &Workspace, args: &[&str], log: &str) -> Running {
    let mut command = workspace.command(&[&["work"], args].concat());
    command.env("READER_KEY", "k").stderr(fs::File::create(workspace.path(log)).unwrap());
    Running(command.spawn().unwrap())
}

/// Waits until something is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(90), "{what}");
        sleep(Duration::from_millis(20));
    }
}

fn ends(child: &mut Running, code: i32, log: &str, workspace: &Workspace) {
    until("it does not end", || child.0.try_wait().unwrap().is_some());
    let ended = child.0.wait().unwrap().code();
    assert_eq!(ended, Some(code), "{}", workspace.read(log));
}

#[test]
fn workers_answer_what_the_run_itself_cannot() {
    let (workspace, url, received) = asking(answer, 700);
    let _workers = ["1.log", "2.log"].map(|log| worker(&workspace, &["--url", &url], log));
    let done = workspace.proofmill(&["run", "p.yaml", "--workers"]).expect(0);
    // Beside the run itself, which answers as a worker does.
    assert!(!done.stderr.contains("3 workers"), "{}", done.stderr);
    let rows = workspace.sql("SELECT count(*) AS n, count(DISTINCT text) AS texts, bool_and(text = upper('is ' || row_id)) AS right FROM said");
    assert_eq!(rows, [json!({ "n": 700, "texts": 700, "right": true })]);
    assert_eq!(received.lock().unwrap().len(), 700, "each is asked once");
    // What they used is the run's.
    let usage = workspace.json(&["show"])["models"]["reader"].clone();
    assert_eq!(
        (&usage["requests"], &usage["answers"], &usage["prompt_tokens"]),
        (&json!(700), &json!(700), &json!(3500))
    );
    workspace
        .proofmill(&["run", "p.yaml", "--workers", "--budget", "requests=3"])
        .expect(2)
        .says("does not bound");
    // What was published is taken away, and the ledger has the answers.
    let left: Vec<String> = workspace
        .keys("work/models")
        .into_iter()
        .filter(|key| !key.ends_with("model.json"))
        .collect();
    assert_eq!(left, [""; 0]);
    workspace.proofmill(&["run", "p.yaml", "--rerun", "said"]).expect(0);
    assert_eq!(received.lock().unwrap().len(), 700);
    let verified = workspace.json(&["audit", "verify", "--all", "--level", "3"]);
    assert_eq!(verified["findings"], json!([]));
}

/// The budget of a model is one for all workers, whatever each of them would allow itself.
#[test]
fn a_budget_holds_over_all_workers() {
    for (budget, most) in [("requests: 300", 300), ("prompt_tokens: 1000", 200 + 4 * 8)] {
        let (workspace, url, received) = asking(answer, 900);
        let text = workspace.read("p.yaml");
        let with_budget = format!("concurrency: 8, budget: {{ {budget} }}");
        workspace.write("p.yaml", text.replace("concurrency: 8", &with_budget));
        let _workers = ["1.log", "2.log"].map(|log| worker(&workspace, &["--url", &url], log));
        workspace.proofmill(&["run", "p.yaml", "--workers"]).expect(1).says("is used up");
        let asked = received.lock().unwrap().len();
        assert!((200..=most).contains(&asked), "{budget}: {asked}");
        assert_eq!(workspace.keys(".requests.json"), [""; 0], "nothing stays to be asked");
        // What was paid for is recorded: each run gets on by its budget, and the workers go on as well.
        if most == 300 {
            workspace.proofmill(&["run", "p.yaml", "--workers", "--resume", "latest"]).expect(1);
            workspace.proofmill(&["run", "p.yaml", "--workers", "--resume", "latest"]).expect(0);
            assert_eq!(received.lock().unwrap().len(), 900, "each is asked once");
        }
    }
}

/// A profile has workers answer, and a schedule too.
#[test]
fn workers_are_a_setting_of_a_place() {
    let (workspace, url, received) = asking(answer, 30);
    workspace.write("proofmill.yaml", "profile: farm\nprofiles: { farm: { workers: true } }\n");
    workspace.write(
        "nightly.yaml",
        "kind: schedule\nname: nightly\npipeline: p.yaml\ncron: '0 2 * * *'\nworkers: true\n",
    );
    let _worker = worker(&workspace, &["--url", &url], "1.log");
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(0);
    done.says("remark: 1 worker\n").says("requests to reader: worker ").says(" 30");
    let listed = "SELECT life, models, held, answered FROM system.workers";
    let shown = workspace.json(&["workers"]);
    let rows = workspace.sql(listed);
    assert_eq!((rows.len(), &rows[0]["life"]), (1, &json!("alive")));
    assert!(rows[0]["answered"].is_u64() && shown[0]["answered"].is_u64(), "{rows:?} {shown}");
    workspace.proofmill(&["schedule", "apply", "nightly.yaml"]).expect(0);
    workspace.proofmill(&["schedule", "trigger", "nightly"]).expect(0);
    workspace.write("p.yaml", workspace.read("p.yaml").replace("'is '", "'was '"));
    workspace.proofmill(&["schedule", "tick"]).expect(0);
    assert_eq!(received.lock().unwrap().len(), 60, "the schedule has no key of its own");
    let text = workspace.read("nightly.yaml") + "budget: requests=5\n";
    workspace.write("nightly.yaml", &text);
    let done = workspace.proofmill(&["schedule", "apply", "nightly.yaml"]).expect(3);
    done.says("nightly.yaml:6:9").says("does not bound what workers spend");
}

#[test]
fn a_worker_that_is_killed_costs_time_and_no_row() {
    let (workspace, url, received) = asking(slowly, 600);
    let mut first = worker(&workspace, &["--url", &url], "1.log");
    let mut run = Running(workspace.start(&["run", "p.yaml", "--workers"], "run.log"));
    until("nothing is asked", || received.lock().unwrap().len() > 100);
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let _second = worker(&workspace, &["--url", &url], "2.log");
    ends(&mut run, 0, "run.log", &workspace);
    assert_eq!(
        workspace.sql("SELECT count(*) AS n, count(DISTINCT text) AS texts FROM said")[0],
        json!({ "n": 600, "texts": 600 })
    );
    // The two segments that it held were asked for again.
    let asked = received.lock().unwrap().len();
    assert!((600..=600 + 2 * 256).contains(&asked), "{asked}");
}

#[test]
fn a_run_that_is_killed_finds_what_workers_answered() {
    let (workspace, url, received) = asking(slowly, 600);
    let _worker = worker(&workspace, &["--url", &url], "1.log");
    let mut run = Running(workspace.start(&["run", "p.yaml", "--workers"], "run.log"));
    until("nothing is asked", || received.lock().unwrap().len() > 30);
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    until("the worker is not done", || workspace.keys(".answers.json").len() == 3);
    workspace.proofmill(&["run", "p.yaml", "--workers", "--resume", "latest"]).expect(0);
    assert_eq!(received.lock().unwrap().len(), 600, "nothing is asked twice");
    assert_eq!(workspace.sql("SELECT count(*) AS n FROM said")[0]["n"], 600);
}

#[test]
fn a_run_that_is_stopped_withdraws_what_no_worker_has_begun() {
    fn slower(place: usize, body: &Json) -> (&'static str, Json) {
        sleep(Duration::from_millis(80));
        answer(place, body)
    }
    let (workspace, url, received) = asking(slower, 3000);
    let mut worker = worker(&workspace, &["--url", &url, "--until-idle", "3s"], "1.log");
    let mut run = Running(workspace.start(&["run", "p.yaml", "--workers"], "run.log"));
    until("nothing is asked", || received.lock().unwrap().len() > 30);
    workspace.proofmill(&["runs", "stop", "latest"]).expect(0);
    ends(&mut run, 130, "run.log", &workspace);
    let said = workspace.read("run.log");
    assert!(
        said.contains(" --workers ") && said.contains(" --resume "),
        "what resumes it has workers too: {said}"
    );
    ends(&mut worker, 0, "1.log", &workspace);
    let asked = received.lock().unwrap().len();
    assert!(asked < 3000 - 256, "{asked}");
    assert_eq!(workspace.keys(".requests.json").len(), workspace.keys(".answers.json").len());
}

/// Rows that no worker can answer fail as they do without workers.
#[test]
fn rows_fail_as_they_do_alone() {
    fn refusing(place: usize, body: &Json) -> (&'static str, Json) {
        match body["prompt"].as_str().unwrap().ends_with('7') {
            true => ("400 Bad Request", json!({ "error": { "message": "no sevens" } })),
            false => answer(place, body),
        }
    }
    let (url, _) = serve(refusing);
    let text = format!(
        "pipeline: asking
models: {{ reader: {{ url: '{url}', model: m, concurrency: 8 }} }}
stages:
  questions: {{ sql: \"SELECT 'q' || value AS id FROM generate_series(1, 40) AS t(value)\" }}
  said:
    generate: {{ from: questions, model: reader, id: id, prompt: \"'is ' || id\", options: {{ max_tokens: 4 }} }}
    max_error_rate: 0.2
"
    );
    let [alone, shared] = [(), ()].map(|()| Workspace::with(&text));
    let _worker = worker(&shared, &["--url", &url], "1.log");
    alone.proofmill(&["run", "p.yaml"]).expect(0);
    shared.proofmill(&["run", "p.yaml", "--workers"]).expect(0);
    let errors = |it: &Workspace| {
        it.sql("SELECT stage, source, class, message FROM system.errors ORDER BY source")
    };
    assert_eq!(errors(&alone).len(), 4);
    assert_eq!(errors(&shared), errors(&alone));
    let rows = |it: &Workspace| it.sql("SELECT * FROM said ORDER BY row_id");
    assert_eq!(rows(&shared), rows(&alone));
}

const LOCAL: &str = r#"
pipeline: local
models:
  writer: { path: writer, kv_cache_mib: 8 }
  encoder: { path: encoder }
stages:
  asked:
    sql: |
      SELECT 'r' || n AS row_id, CASE WHEN n = 5 THEN NULL ELSE 'the cat ' || n END AS question
      FROM (SELECT unnest(range(1500)) AS n)
  written:
    generate: { from: asked, model: writer, prompt: question, options: { max_tokens: 6, min_tokens: 3, temperature: 1, samples: 2 } }
    max_error_rate: 0.1
  embedded:
    embed: { from: asked, model: encoder, text: question }
    max_error_rate: 0.1
"#;

fn local() -> Workspace {
    let workspace = Workspace::with(LOCAL);
    workspace.add_model("gpt2", "writer");
    workspace.add_model("bert-sentence", "encoder");
    workspace
}

#[test]
fn tables_are_the_same_with_and_without_workers() {
    let (alone, shared) = (local(), local());
    let digests = |it: &Workspace| {
        let mut stages: Vec<(String, Json)> = Vec::new();
        for key in it.keys("artifacts/") {
            let record: Json = serde_json::from_str(&it.read(&format!("store/{key}"))).unwrap();
            stages.push((record["stage"].to_string(), record["rows_root"].clone()));
        }
        stages.sort_by(|a, b| a.0.cmp(&b.0));
        stages
    };
    alone.proofmill(&["run", "p.yaml"]).expect(0);
    let models = ["--model", "writer", "--model", "encoder=encoder"];
    let mut workers = ["1.log", "2.log"]
        .map(|log| worker(&shared, &[&models[..], &["--until-idle", "20s"]].concat(), log));
    until("the workers do not begin", || shared.keys("work/workers").len() >= 2);
    shared.proofmill(&["run", "p.yaml", "--workers"]).expect(0);
    assert_eq!(digests(&shared), digests(&alone));
    let listed = shared.json(&["workers"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed:#}");
    for (worker, log) in workers.iter_mut().zip(["1.log", "2.log"]) {
        ends(worker, 0, log, &shared);
    }
    let said = shared.read("1.log") + &shared.read("2.log");
    let answered: u64 = said
        .lines()
        .filter_map(|line| line.split_once(" requests answered"))
        .map(|(number, _)| number.replace(',', "").parse::<u64>().unwrap())
        .sum();
    assert!(answered > 0, "{said}");
    assert_eq!(shared.json(&["workers"]), json!([]));
    assert_eq!(shared.keys("work/workers"), [""; 0], "nothing of them stays");
}

#[test]
fn a_worker_that_is_another_model_is_refused_with_both_shown() {
    let workspace = local();
    workspace.add_model("llama", "other");
    let mut worker =
        worker(&workspace, &["--model", "writer=other", "--until-idle", "3s"], "w.log");
    workspace.proofmill(&["run", "p.yaml", "--workers"]).expect(0);
    ends(&mut worker, 0, "w.log", &workspace);
    let said = workspace.read("w.log");
    assert!(said.contains("model `writer`: it is another model here"), "{said}");
    assert!(said.contains("wanted: {") && said.contains("here:   {"), "{said}");
    assert!(said.contains("0 requests answered"), "{said}");
}

#[test]
fn what_is_wrong_in_the_store_is_named_and_left_open() {
    let (workspace, url, _received) = asking(answer, 300);
    // A run that nobody answers, and that is gone.
    let mut run = Running(workspace.start(&["run", "p.yaml", "--workers"], "run.log"));
    until("nothing is published", || workspace.keys(".requests.json").len() == 2);
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    let keys = workspace.keys(".requests.json");
    let path = workspace.path("store").join(&keys[0]);
    let whole = fs::read(&path).unwrap();
    // Cut short; of an unknown version; with a request that is not the one of its key.
    let text = String::from_utf8(whole.clone()).unwrap();
    for (bad, said) in [
        (text[..text.len() / 2].to_owned(), "damaged"),
        (resealed(&text, "\"v\":1", "\"v\":9"), "version"),
        (resealed(&text, "is q", "is x"), "is not the one of its key"),
    ] {
        fs::write(&path, bad).unwrap();
        let mut worker = worker(&workspace, &["--url", &url, "--until-idle", "2s"], "w.log");
        ends(&mut worker, 0, "w.log", &workspace);
        let log = workspace.read("w.log");
        assert!(log.contains(said) && log.contains(&keys[0][60..80]), "{said}: {log}");
        assert!(path.exists(), "it stays open");
        for key in workspace.keys(".answers.json") {
            fs::remove_file(workspace.path("store").join(key)).unwrap();
        }
    }
    fs::write(&path, &whole).unwrap();
    // Answers to other requests are asked for again.
    let id = keys[0].strip_suffix(".requests.json").unwrap();
    let answers = workspace.path("store").join(format!("{id}.answers.json"));
    fs::write(&answers, "{\"v\":1,\"segment\":\"no\"}").unwrap();
    let _worker = worker(&workspace, &["--url", &url], "w.log");
    workspace.proofmill(&["run", "p.yaml", "--workers", "--resume", "latest"]).expect(0);
    assert_eq!(workspace.sql("SELECT count(*) AS n FROM said")[0]["n"], 300);
}

/// A record with something replaced, sealed anew.
fn resealed(text: &str, old: &str, new: &str) -> String {
    let body = &text[..text.len() - 78];
    assert!(body.contains(old), "{old}");
    let body = body.replacen(old, new, 1);
    let seal = proofmill_base::digest::Digest::of(body.as_bytes());
    format!("{body},\"sha256\":\"{seal}\"}}\n")
}
