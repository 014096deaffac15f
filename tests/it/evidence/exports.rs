//! `audit export`: what other tools accept, by their own libraries; and what is refused.

use std::io::Write as _;
use std::process::Command;

use serde_json::{Value as Json, json};

use crate::evidence::attacks::Evidence;
use crate::server::serve;
use crate::support::Workspace;

/// Has the official library of a format read a file; without it, says so.
fn accepted(workspace: &Workspace, format: &str, file: &str, more: &[&str]) {
    let Some(python) = std::env::var_os("PROOFMILL_PYTHON") else {
        let why = "PROOFMILL_PYTHON is not set";
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: exports by the libraries of their formats: {why}"
        );
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/parity/exports.py");
    let mut command = Command::new(python);
    let output = command.args(["-B", script, format]).arg(workspace.path(file)).args(more).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{format} {file}: {said}");
}

/// Exports a run into a file.
fn export(evidence: &Evidence, run: &str, format: &str, out: &str, is_signed: bool) {
    let workspace = &evidence.workspace;
    let mut command = workspace.command(&["audit", "export", run, "--as", format, "--out", out]);
    if is_signed {
        command.env("PROOFMILL_SIGN_KEY", workspace.path("key"));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_libraries_of_the_formats_accept_a_run() {
    let evidence = Evidence::new();
    let key = evidence.key.to_string();
    let failed = {
        let runs = evidence.workspace.json(&["runs"]);
        let all = runs["runs"].as_array().or(runs.as_array()).unwrap().clone();
        let found = all.iter().find(|run| run["outcome"] == "failed" || run["ended"] == "failed");
        found.unwrap()["run"].as_str().unwrap().to_owned()
    };
    for (n, run) in ["nightly", "other", failed.as_str()].into_iter().enumerate() {
        for format in ["in-toto", "slsa"] {
            let (signed, bare) = (format!("{format}{n}.dsse"), format!("{format}{n}.json"));
            export(&evidence, run, format, &signed, true);
            accepted(&evidence.workspace, format, &signed, &["--key", &key]);
            export(&evidence, run, format, &bare, false);
            accepted(&evidence.workspace, format, &bare, &["--bare"]);
        }
        let events = format!("events{n}.jsonl");
        export(&evidence, run, "openlineage", &events, false);
        accepted(&evidence.workspace, "openlineage", &events, &[]);
    }
    let statement =
        |file: &str| -> Json { serde_json::from_str(&evidence.workspace.read(file)).unwrap() };
    let result = |n: usize| statement(&format!("in-toto{n}.json"))["predicate"]["result"].clone();
    assert_eq!(
        [result(0), result(1), result(2)],
        [json!("PASSED"), json!("PASSED"), json!("FAILED")]
    );
    let tested = statement("in-toto0.json");
    let subject = tested["subject"].as_array().unwrap();
    assert!(
        subject.iter().any(|it| it["name"] == "said/model.weights"),
        "the model that was evaluated: {tested:#}"
    );
    let made = statement("slsa0.json");
    let sources = made["predicate"]["buildDefinition"]["resolvedDependencies"].as_array().unwrap();
    let pipeline = sources.iter().find(|it| it["name"] == "p.yaml").unwrap();
    let digest = proofmill_base::digest::Digest::of(evidence.workspace.read("p.yaml").as_bytes());
    assert_eq!(pipeline["digest"]["sha256"], digest.to_string());
    // The subjects are files of the store.
    for one in made["subject"].as_array().unwrap() {
        let path = evidence.workspace.path("store").join(one["name"].as_str().unwrap());
        let digest = proofmill_base::digest::Digest::of(&std::fs::read(path).unwrap());
        assert_eq!(one["digest"]["sha256"], digest.to_string(), "{one:#}");
    }
    let events: Vec<Json> = evidence
        .workspace
        .read("events0.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let stage =
        |event: &&Json| event["eventType"] == "COMPLETE" && event["job"]["name"] == "nightly.b";
    let complete = events.iter().find(stage).unwrap();
    assert_eq!(complete["inputs"][0]["name"], "nightly.a");
    assert_eq!(complete["outputs"][0]["facets"]["schema"]["fields"][1]["name"], "x");
}

#[test]
fn events_are_sent_to_an_endpoint_and_a_refusal_is_named() {
    let evidence = Evidence::new();
    let workspace = &evidence.workspace;
    let to = |url: &str, format: &str| {
        workspace.proofmill(&["audit", "export", "other", "--as", format, "--to", url])
    };
    let (url, received) = serve(|_, _| ("201 Created", Json::Null));
    to(&url, "openlineage").expect(0).says("4 events sent");
    assert_eq!(received.lock().unwrap().len(), 4);
    let (url, _) = serve(|_, _| ("503 Service Unavailable", json!("busy")));
    to(&url, "openlineage").expect(5).says("503");
    // A refusal that repeats the token does not bring it into a message.
    let (echo, _) = serve(|_, _| ("403 Forbidden", json!("no such key: hush-hush")));
    let mut command =
        workspace.command(&["audit", "export", "other", "--as", "openlineage", "--to", &echo]);
    let output = command.env("PROOFMILL_OPENLINEAGE_KEY", "hush-hush").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("403") && !said.contains("hush-hush"), "{said}");
    to("ftp://a/b", "openlineage").expect(2).says("not a URL");
    let secret = to("http://me:secret@127.0.0.1/", "openlineage").expect(2);
    assert!(!secret.stderr.contains("secret@"), "{secret:#?}");
    to(&url, "slsa").expect(2).says("only events of OpenLineage");
    workspace.write("there", "");
    let again = ["audit", "export", "other", "--as", "slsa", "--out", "there"];
    workspace.proofmill(&again).expect(2).says("that does not exist");
}
