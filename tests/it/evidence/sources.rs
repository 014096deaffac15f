//! The texts that a run was made of: kept once, found again, and never changed unseen.

use std::fs;

use serde_json::json;

use crate::support::Workspace;

const PIPELINE: &str = "\
pipeline: p
stages:
  part: { use: part.yaml }
  text: { prompt: { from: part.out, file: prompt.txt } }
  code: { command: { from: part.out, run: [sh, keep.sh], columns: { x: integer }, code: [keep.sh] } }
";

fn workspace() -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    workspace.write("part.yaml", "template: part\nstages: { out: { sql: SELECT 1 AS x } }\n");
    workspace.write("prompt.txt", "Number {{ x }}?");
    workspace.write("keep.sh", "cat\n");
    workspace
}

#[test]
fn all_texts_of_a_run_are_kept_once_and_printed() {
    let workspace = workspace();
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    assert_eq!(workspace.keys("sources/").len(), 4);
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    assert_eq!(workspace.keys("sources/").len(), 4);
    for name in ["p.yaml", "part.yaml", "prompt.txt", "keep.sh"] {
        let kept = workspace.read(name);
        workspace.write(name, "gone");
        let shown = workspace.proofmill(&["show", "--source", "latest", name]).expect(0).stdout;
        assert_eq!(shown, kept, "{name}");
    }
    let sources = workspace.json(&["show", "--source", "latest"])["sources"].clone();
    let role = |name: &str| sources[name]["role"].clone();
    assert_eq!(
        [role("p.yaml"), role("part.yaml"), role("prompt.txt"), role("keep.sh")],
        [json!("pipeline"), json!("template"), json!("setting"), json!("code")]
    );
    workspace.proofmill(&["show", "--source", "latest", "kep.sh"]).expect(2).says("`keep.sh`");
}

#[test]
fn code_can_be_left_out() {
    let workspace = workspace();
    workspace.proofmill(&["run", "p.yaml", "--no-code-copy"]).expect(0);
    assert_eq!(workspace.keys("sources/").len(), 3);
    workspace
        .proofmill(&["show", "--source", "latest", "keep.sh"])
        .expect(2)
        .says("--no-code-copy");
    assert_eq!(workspace.json(&["audit", "verify"])["findings"], json!([]));
}

#[test]
fn a_replaced_text_is_found_and_not_shown() {
    let workspace = workspace();
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let kept =
        workspace.json(&["show", "--source", "latest"])["sources"]["prompt.txt"]["sha256"].clone();
    let key = workspace.keys(kept.as_str().unwrap()).pop().unwrap();
    fs::write(workspace.path("store").join(&key), "Number {{ y }}?").unwrap();
    workspace.proofmill(&["show", "--source", "latest", "prompt.txt"]).expect(4).says("corrupt");
    let found = workspace.proofmill(&["audit", "verify", "--json"]).expect(1).json();
    let finding = &found["findings"][0];
    assert_eq!((&finding["fault"], &finding["object"]), (&json!("changed"), &json!(key)));
    assert!(finding["detail"].as_str().unwrap().contains("prompt.txt"), "{finding}");
    assert_eq!(finding["runs"].as_array().unwrap().len(), 1);
}
