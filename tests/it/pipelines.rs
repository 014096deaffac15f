//! Every pipeline of the tree has no mistakes and passes its own tests.

use std::path::PathBuf;
use std::process::Command;

fn pipelines() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("pipelines");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
    found.sort();
    assert!(found.len() >= 2, "the pipelines have moved");
    found
}

fn proofmill(command: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_proofmill"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg(command)
        .args(pipelines())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success(),
        "{command}: {stderr}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    stderr
}

#[test]
fn have_no_mistakes() {
    assert!(proofmill("check").contains("no mistakes"));
}

#[test]
fn pass_their_own_tests() {
    let stderr = proofmill("test");
    assert!(stderr.contains("passed") && !stderr.starts_with("0 "), "{stderr}");
}
