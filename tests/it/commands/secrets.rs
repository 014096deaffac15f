//! A secret in an address: refused, and shown by no command.

use std::fs;
use std::path::Path;

use crate::support::Workspace;

const CANARY: &str = "hunter2canary";

fn pipeline(url: &str, more: &str) -> String {
    format!(
        "pipeline: far\nmodels:\n  far: {{ url: \"{url}\", model: small{more} }}\nstages:\n  asked: {{ \
         sql: \"SELECT 'r' AS row_id, 'cat' AS q\" }}\n  answers: {{ generate: {{ from: asked, model: far, \
         prompt: q }} }}\n"
    )
}

/// Every command over `p.yaml`; none may succeed or say the canary.
fn refused(workspace: &Workspace, more: &[&str], code: i32) {
    let commands: [&[&str]; 8] = [
        &["check", "p.yaml"],
        &["plan", "p.yaml"],
        &["run", "p.yaml"],
        &["run", "p.yaml", "--color", "always"],
        &["why", "p.yaml", "answers"],
        &["show", "models", "p.yaml"],
        &["test", "p.yaml"],
        &["sql", "--models", "p.yaml", "SELECT 1 AS n"],
    ];
    for command in commands {
        if command[0] == "sql" && !more.is_empty() {
            continue;
        }
        for json in [&[][..], &["--json"]] {
            let args: Vec<&str> = [command, more, json].concat();
            let done = workspace.proofmill(&args);
            let said = done.stdout.clone() + &done.stderr;
            assert!(!said.contains(CANARY), "{args:?}: {said}");
            if command[0] != "sql" {
                assert_eq!(done.code, Some(code), "{args:?}: {said}");
            }
        }
    }
    assert!(!kept(&workspace.path("store")), "it is in the store");
}

/// Whether the canary is in any file below.
fn kept(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.map(|entry| entry.unwrap().path()).any(|path| {
        let holds = || {
            let bytes = fs::read(&path).unwrap();
            bytes.windows(CANARY.len()).any(|part| part == CANARY.as_bytes())
        };
        if path.is_dir() { kept(&path) } else { holds() }
    })
}

#[test]
fn an_address_with_a_secret_is_refused_and_never_shown() {
    let urls = [
        format!("http://user:{CANARY}@127.0.0.1:9/v1"),
        format!("http://{CANARY}@127.0.0.1:9/v1"),
        format!("http://127.0.0.1:9/v1?key={CANARY}"),
        format!("http://127.0.0.1:9/v1?x={CANARY}"),
        format!("http://127.0.0.1:9/v1#{CANARY}"),
        format!("http:\\/\\/user:{CANARY}@127.0.0.1:9/v1"),
        format!("http://user:a {CANARY}@127.0.0.1:9/v1"),
        format!("HTTP://user:{CANARY}/x@127.0.0.1:9/v1"),
    ];
    for url in &urls {
        let workspace = Workspace::with(&pipeline(url, ""));
        workspace.proofmill(&["check", "p.yaml"]).expect(3).says("E0112").says("p.yaml:3:15");
        refused(&workspace, &[], 3);
        // Nor is it shown when something else on the line is wrong.
        for more in [", retrys: 1", ", concurrency: 0", ", path: x", ", api: [1]"] {
            let workspace = Workspace::with(&pipeline(url, more));
            refused(&workspace, &[], 3);
        }
    }
    let workspace = Workspace::with(&pipeline("http://127.0.0.1:9/v1", ""));
    workspace.proofmill(&["check", "p.yaml"]).expect(0);
}

#[test]
fn nor_is_one_that_a_parameter_brings() {
    let secret = format!("user:{CANARY}");
    let workspace = Workspace::with(
        &("params: { who: nobody, where: \"http://127.0.0.1:9/v1\" }\n".to_owned()
            + &pipeline("http://${params.who}@127.0.0.1:9/v1", "")),
    );
    let who = format!("who={secret}");
    refused(&workspace, &["--param", &who], 3);
    workspace.edit("p.yaml", "http://${params.who}@127.0.0.1:9/v1", "${params.where}");
    workspace.proofmill(&["check", "p.yaml"]).expect(0);
    let place = format!("where=http://{secret}@127.0.0.1:9/v1");
    refused(&workspace, &["--param", &place], 3);
    // Also where nothing uses it.
    workspace.edit("p.yaml", "${params.where}", "http://127.0.0.1:9/v1");
    refused(&workspace, &["--param", &place], 3);
    workspace.edit("p.yaml", "where: \"http://", &format!("where: \"http://{secret}@"));
    refused(&workspace, &[], 3);
}

#[test]
fn nor_one_in_the_address_of_a_store_or_a_source() {
    let workspace = Workspace::with("pipeline: p\nstages:\n  a: { sql: SELECT 1 AS n }\n");
    let stores = [
        format!("s3://key:{CANARY}@bucket/p"),
        format!("s3://key:{CANARY}@:x/p"),
        format!("az://box/p?sig={CANARY}"),
        format!("ftp://key:{CANARY}@host/p"),
    ];
    for store in &stores {
        for args in [&["run", "p.yaml"][..], &["runs"], &["ledger", "list"], &["--help"]] {
            let args = [args, &["--store", store]].concat();
            let done = workspace.proofmill(&args);
            let said = done.stdout + &done.stderr;
            assert!(!said.contains(CANARY), "{args:?}: {said}");
        }
        let mut help = workspace.command(&["run", "--help"]);
        let said = help.env("PROOFMILL_STORE", store).output().unwrap().stdout;
        assert!(!String::from_utf8_lossy(&said).contains(CANARY));
    }
    let read =
        |path: &str| format!("pipeline: p\nstages:\n  a: {{ read: {{ path: \"{path}\" }} }}\n");
    workspace.write("p.yaml", read(&format!("http://me:{CANARY}@host/x.csv")));
    let done = workspace.proofmill(&["check", "p.yaml"]).expect(3);
    assert!(!(done.stdout + &done.stderr).contains(CANARY));
}
