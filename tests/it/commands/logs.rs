//! The log: what a job that nobody watches leaves behind.

use serde_json::{Value as Json, json};

use crate::server::serve;
use crate::support::Workspace;

const PIPELINE: &str = "pipeline: small\nstages:\n  a: { sql: \"SELECT unnest(range(3)) AS n\" }\n  \
                        b:\n    sql: \"SELECT n FROM a\"\n    checks:\n      - { rows: { min: 9 }, \
                        severity: warn }\n";

/// The entries on standard error, each of which must be JSON; a command still ends with words for people.
#[track_caller]
fn entries(workspace: &Workspace, args: &[&str]) -> Vec<Json> {
    let args = [args, &["--log-format", "json"]].concat();
    let done = workspace.proofmill(&args).expect(0);
    let lines = done.stderr.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The one entry with these fields.
#[track_caller]
fn entry<'e>(entries: &'e [Json], fields: &Json) -> &'e Json {
    let has = |entry: &&Json| {
        fields.as_object().unwrap().iter().all(|(name, value)| entry.get(name) == Some(value))
    };
    let found: Vec<&Json> = entries.iter().filter(has).collect();
    assert_eq!(found.len(), 1, "{fields} in {entries:#?}");
    found[0]
}

#[test]
fn says_what_runs_stages_and_attempts_do() {
    let workspace = Workspace::with(PIPELINE);
    let all = entries(&workspace, &["run", "p.yaml", "--log", "info"]);
    let started = entry(&all, &json!({"message": "run started", "stages": 2, "cached": 0}));
    assert_eq!(started["level"], "info");
    assert_eq!(started["spans"], json!(["run"]));
    let attempt = entry(&all, &json!({"message": "stage started", "stage": "b", "attempt": 1}));
    assert_eq!(attempt["spans"], json!(["run", "stage", "attempt"]));
    assert_eq!(attempt["run"], started["run"]);
    assert_eq!(attempt["kind"], "sql");
    let finished =
        json!({"message": "stage finished", "stage": "b", "status": "computed", "rows": 3});
    let finished = entry(&all, &finished);
    assert_eq!(finished["fingerprint"], attempt["fingerprint"]);
    assert!(finished["ms"].is_u64() && finished["fingerprint"].as_str().unwrap().len() == 64);
    let check = entry(&all, &json!({"message": "check failed", "stage": "b"}));
    assert_eq!(check["level"], "warn");
    entry(&all, &json!({"message": "run succeeded"}));
    let times: Vec<&str> = all.iter().map(|entry| entry["t_utc"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let utc = |time: &&str| time.len() == 24 && time.ends_with('Z');
    assert!(times.iter().all(utc), "{times:?}");

    let again = entries(&workspace, &["run", "p.yaml", "--log", "info"]);
    entry(&again, &json!({"message": "stage finished", "stage": "a", "status": "cached"}));
    assert!(!again.iter().any(|entry| entry["message"] == "stage started"), "{again:#?}");
    let warnings = entries(&workspace, &["run", "p.yaml", "--log", "warn"]);
    let [warning] = &warnings[..] else { panic!("{warnings:#?}") };
    assert_eq!((&warning["message"], &warning["stage"]), (&json!("check failed"), &json!("b")));
    assert!(warning["run"].is_string(), "{warning}");
}

#[test]
fn a_line_of_text_is_one_entry() {
    let workspace = Workspace::with(PIPELINE);
    let done = workspace.proofmill(&["run", "p.yaml", "--log", "warn"]).expect(0);
    let (line, summary) = done.stderr.split_once("\n\n").unwrap();
    let (time, rest) = line.split_once(' ').unwrap();
    assert!(time.len() == 24 && time.ends_with('Z'), "{line}");
    assert!(rest.starts_with("WARN  check failed run="), "{line}");
    assert!(rest.contains(" stage=b ") && !rest.contains('\n'), "{line}");
    assert!(summary.starts_with("2 stages computed"), "{summary}");
    // Without a log there is none.
    let silent = Workspace::with(PIPELINE).proofmill(&["run", "p.yaml"]).expect(0);
    assert!(silent.stderr.starts_with("run "), "{}", silent.stderr);
}

#[test]
fn a_filter_that_is_none_is_refused() {
    let workspace = Workspace::with(PIPELINE);
    workspace.proofmill(&["run", "p.yaml", "--log", "inof"]).expect(2).says("or MODULE=LEVEL");
}

#[test]
fn requests_say_where_how_and_when_they_are_sent_again() {
    let (url, _) = serve(|place, _| match place {
        2 => (
            "503 Busy",
            json!({"error": {"message": "\u{1b}[31mtry\u{202e} http://me:hunter2canary@h/ again"}}),
        ),
        _ => ("200 OK", json!({"choices": [{"index": 0, "text": "x", "finish_reason": "stop"}]})),
    });
    let workspace = Workspace::with(&format!(
        "pipeline: far\nmodels:\n  far: {{ url: \"{url}\", model: small, concurrency: 1 }}\nstages:\n  asked: \
         {{ sql: \"SELECT 'r' || n AS row_id, 'cat ' || n AS q FROM (SELECT unnest(range(3)) AS n)\" }}\n  \
         answers: {{ generate: {{ from: asked, model: far, prompt: q }} }}\n"
    ));
    let all = entries(&workspace, &["run", "p.yaml", "--log", "debug"]);
    let answered: Vec<&Json> =
        all.iter().filter(|entry| entry["message"] == "endpoint answered").collect();
    assert_eq!(answered.len(), 3, "{all:#?}");
    for entry in answered {
        assert_eq!(entry["spans"], json!(["run", "stage", "attempt", "request"]), "{entry}");
        assert_eq!((&entry["stage"], &entry["endpoint"]), (&json!("answers"), &json!(url)));
        assert_eq!(entry["status"], 200);
        assert!(entry["ms"].is_u64(), "{entry}");
    }
    let refused = entry(&all, &json!({"message": "endpoint refused", "status": 503, "sent": 1}));
    assert_eq!(refused["stage"], "answers");
    let again = entry(&all, &json!({"message": "request is sent again", "stage": "answers"}));
    assert!(again["wait_ms"].is_u64());
    let reason = again["reason"].as_str().unwrap();
    assert!(reason.contains("503") && reason.contains("try"), "{reason}");
    let batch = json!({"message": "batch finished", "model": "far", "rows": 3, "requests": 3, "replayed": 0});
    assert_eq!(entry(&all, &batch)["stage"], "answers");

    // What a server says neither controls a terminal nor shows a secret, in either format.
    let text = Workspace::with(&workspace.read("p.yaml").replace("cat ", "dog "));
    let (url_again, _) = serve(|place, _| match place {
        1 => (
            "503 Busy",
            json!({"error": {"message": "\u{1b}[31mtry\u{202e} http://me:hunter2canary@h/ again"}}),
        ),
        _ => ("200 OK", json!({"choices": [{"index": 0, "text": "x", "finish_reason": "stop"}]})),
    });
    text.edit("p.yaml", &url, &url_again);
    for format in ["text", "json"] {
        let args =
            ["run", "p.yaml", "--log", "trace", "--log-format", format, "--rerun", "answers"];
        let done = text.proofmill(&args).expect(0);
        let said = done.stderr;
        assert!(!said.contains('\u{1b}') && !said.contains('\u{202e}'), "{said}");
        assert!(!said.contains("hunter2canary"), "{said}");
    }
}

#[test]
fn a_local_model_says_when_it_is_opened_and_what_it_is_asked() {
    let workspace = Workspace::with(
        "pipeline: near\nmodels:\n  tiny: { path: gpt2 }\nstages:\n  asked: { sql: \"SELECT 'r' AS row_id, \
         'the' AS q\" }\n  answers: { generate: { from: asked, model: tiny, prompt: q, options: { max_tokens: 2 } } }\n",
    );
    workspace.add_model("gpt2", "gpt2");
    let all = entries(&workspace, &["run", "p.yaml", "--log", "debug"]);
    let open = entry(&all, &json!({"message": "model is open", "stage": "answers"}));
    assert!(open["ms"].is_u64() && open["path"].as_str().unwrap().ends_with("gpt2"), "{open}");
    entry(
        &all,
        &json!({"message": "batch finished", "model": "tiny", "rows": 1, "stage": "answers"}),
    );
}

#[test]
fn a_local_model_is_unloaded_when_the_last_stage_that_asks_it_has_ended() {
    let workspace = Workspace::with(
        r#"
pipeline: turns
models:
  first: { path: first }
  second: { path: second }
stages:
  asked: { sql: "SELECT 'the cat' AS q" }
  a: { sql: "SELECT q, array_length(embed('first', q)['vector']) AS n FROM asked" }
  b: { sql: "SELECT q || ' sat' AS q, array_length(embed('first', q)['vector']) AS n FROM a" }
  c: { sql: "SELECT q, array_length(embed('first', q)['vector']) AS n FROM b" }
  d: { sql: "SELECT array_length(hidden('second', q)['vector']) AS n FROM c" }
"#,
    );
    workspace.add_model("bert-sentence", "first");
    workspace.add_model("gpt2", "second");
    let all = entries(&workspace, &["run", "p.yaml", "--log", "info"]);
    let said = all.iter().filter(|entry| {
        ["model is open", "model is unloaded"].iter().any(|known| entry["message"] == *known)
    });
    let said: Vec<String> = said
        .map(|entry| {
            let path = entry["path"].as_str().unwrap();
            format!("{} {}", entry["message"].as_str().unwrap(), path.rsplit('/').next().unwrap())
        })
        .collect();
    assert_eq!(
        said,
        [
            "model is open first",
            "model is unloaded first",
            "model is open second",
            "model is unloaded second"
        ]
    );
    // What it did before counts all the same.
    let usage = &workspace.json(&["show"])["local_models"];
    assert_eq!(usage["first"]["answers"], 2);
    assert_eq!(usage["second"]["answers"], 1);
}
