//! The second verifier, in Python: it accepts what the first one accepts, and finds what the first one finds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::evidence::attacks::{Evidence, damages, is_evidence};
use crate::support::Workspace;

/// Verifies the store of a workspace: the exit code, and what was printed.
pub fn second(program: &Path, evidence: &Evidence, workspace: &Workspace) -> (i32, String) {
    let output = Command::new("python3")
        .arg("-B")
        .arg(program)
        .arg(workspace.path("store"))
        .arg("--anchor")
        .arg(evidence.workspace.path("head.txt"))
        .args(["--key", &evidence.key.to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("Traceback"), "{said}");
    (output.status.code().unwrap(), text + &said)
}

pub fn program(evidence: &Evidence) -> PathBuf {
    let printed = evidence.workspace.proofmill(&["audit", "verifier"]).expect(0).stdout;
    evidence.workspace.write("verify.py", printed);
    evidence.workspace.path("verify.py")
}

#[test]
fn it_finds_what_the_first_one_finds() {
    let evidence = Evidence::new();
    let program = program(&evidence);
    let (code, text) = second(&program, &evidence, &evidence.workspace);
    assert_eq!(code, 0, "{text}");
    let copy = evidence.copy();
    let keys: Vec<String> = copy.keys("").into_iter().filter(|key| is_evidence(key)).collect();
    let mut cases = 0;
    for (n, key) in keys.iter().enumerate().filter(|(_, key)| *key != "format.json") {
        let path = copy.path("store").join(key);
        let bytes = fs::read(&path).unwrap();
        let all = damages(&bytes, None);
        // Two of the damages for each object, others for the next.
        for (what, damaged) in all.iter().cycle().skip(n * 5).step_by(3).take(2) {
            match damaged {
                Some(damaged) => fs::write(&path, damaged).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let theirs = second(&program, &evidence, &copy);
            let ours = !evidence.faults_of_digests(&copy).is_empty();
            assert_eq!(theirs.0 == 1, ours, "{key} {what}: {}", theirs.1);
            cases += 1;
            fs::write(&path, &bytes).unwrap();
        }
    }
    assert!(cases >= 80, "{cases} cases");
}

#[test]
fn its_primitives_are_those_of_the_published_vectors() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/attacks/second_verifier.py");
    let output = Command::new("python3").arg("-B").arg(script).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{said}", String::from_utf8_lossy(&output.stdout));
}
