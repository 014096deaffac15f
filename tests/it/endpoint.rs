//! A model behind an endpoint: asked once, then replayed without it. Its key stays where it is.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value as Json, json};

use crate::support::{Done, Workspace};

const KEY: &str = "sk-6f1c0a9e-never-to-be-seen";

/// What the server was sent: the head and the body of each request.
type Received = Arc<Mutex<Vec<(String, Json)>>>;

/// A server for `/v1/completions` that says each prompt in capitals. Every third request is refused
/// once. It ends with the test.
fn serve() -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let received = Received::default();
    let log = Arc::clone(&received);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let log = Arc::clone(&log);
            thread::spawn(move || answer(stream, &log));
        }
    });
    (url, received)
}

fn answer(mut stream: TcpStream, log: &Received) -> Option<()> {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str::<Json>(body)
        {
            break (head.to_owned(), body);
        }
    };
    let place = {
        let mut log = log.lock().unwrap();
        log.push((head, body.clone()));
        log.len()
    };
    let (status, reply) = match place {
        3 => ("503 Busy", json!({ "error": { "message": "try again" } })),
        _ => {
            let text = body["prompt"].as_str()?.to_uppercase();
            let usage = json!({ "prompt_tokens": 3, "completion_tokens": 2 });
            let choice = json!({ "index": 0, "text": text, "finish_reason": "stop" });
            ("200 OK", json!({ "choices": [choice], "usage": usage }))
        }
    };
    let (reply, more) = (reply.to_string(), "retry-after: 0\r\nconnection: close\r\n");
    let length = reply.len();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{more}\r\n{reply}").ok()
}

/// A run with the key in the environment.
fn run(workspace: &Workspace, args: &[&str]) -> Done {
    let output = workspace.command(args).env("PROOFMILL_TEST_KEY", KEY).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Done { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Files that hold a text anywhere.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if fs::read(&path).unwrap().windows(text.len()).any(|it| it == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn is_asked_once_and_replayed_when_it_is_gone() {
    let (url, received) = serve();
    let workspace = Workspace::with(&format!(
        "pipeline: far\nmodels:\n  far: {{ url: \"{url}\", model: small, key_env: \
         PROOFMILL_TEST_KEY }}\nstages:\n  asked: {{ sql: \"SELECT 'r' || n AS row_id, 'cat ' || n \
         AS q FROM (SELECT unnest(range(5)) AS n)\" }}\n  answers:\n    generate: {{ from: asked, \
         model: far, prompt: q, options: {{ max_tokens: 9, stop: [x] }} }}\n"
    ));
    let first = run(&workspace, &["run", "p.yaml"]).expect(0);
    let first = first.says("; 5 asked, 0 replayed, 0 failed");
    let sent = received.lock().unwrap().clone();
    assert_eq!(sent.len(), 6, "five requests, one of them twice");
    for (head, body) in &sent {
        assert!(head.starts_with("POST /v1/completions HTTP/1.1"), "{head}");
        assert!(head.to_lowercase().contains(&format!("authorization: bearer {KEY}")), "{head}");
        assert_eq!((&body["model"], &body["max_tokens"]), (&json!("small"), &json!(9)));
        assert_eq!(body["stop"], json!(["x"]));
    }
    let answers = "SELECT row_id, text, prompt_tokens, output_tokens FROM answers ORDER BY row_id";
    let rows = workspace.sql(answers);
    assert_eq!(rows.len(), 5);
    let last = json!({ "row_id": "r4", "text": "CAT 4", "prompt_tokens": 3, "output_tokens": 2 });
    assert_eq!(rows[4], last);

    // The server need not be there, nor its key, for what it has said.
    let again = workspace.proofmill(&["run", "p.yaml", "--rerun", "answers"]).expect(0);
    assert_eq!(received.lock().unwrap().len(), 6, "it was asked again");
    assert_eq!(workspace.sql(answers), rows);
    let outputs = [&first, &again].map(|done| done.stdout.clone() + &done.stderr).concat();
    assert!(again.stderr.contains("; 0 asked, 5 replayed, 0 failed"), "{}", again.stderr);
    assert!(!outputs.contains(KEY));
    workspace.write("probe", KEY);
    assert_eq!(holding(&workspace.path(""), KEY), [workspace.path("probe").display().to_string()]);
}

#[test]
fn says_what_is_wrong_and_never_the_key() {
    let workspace = Workspace::with(
        "pipeline: far\nmodels:\n  far: { url: \"http://127.0.0.1:9/v1\", model: small, retries: 0, \
         key_env: PROOFMILL_TEST_KEY }\nstages:\n  asked: { sql: \"SELECT 'r' AS row_id, 'cat' AS q\" \
         }\n  answers: { generate: { from: asked, model: far, prompt: q } }\n",
    );
    let done = run(&workspace, &["run", "p.yaml"])
        .expect(1)
        .says("model `far` cannot be used: http://127.0.0.1:9/v1/completions cannot be reached");
    assert!(!(done.stdout + &done.stderr).contains(KEY));
    assert_eq!(holding(&workspace.path(""), KEY), [""; 0]);
    workspace.proofmill(&["run", "p.yaml"]).expect(1).says("PROOFMILL_TEST_KEY");
}
