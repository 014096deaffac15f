//! `audit prove`: a number in a folder, which a stranger checks without the store and without this program.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::evidence::attacks::Evidence;
use crate::support::Workspace;

/// Checks a bundle in a folder where there is nothing else: the exit code, and what was printed.
fn check(bundle: &Path, key: Option<&str>) -> (i32, String) {
    let mut command = Command::new("python3");
    command.arg("-B").arg(bundle.join("verify.py")).arg("--bundle").arg(bundle).current_dir("/");
    let output =
        command.args(key.map(|key| ["--key", key]).into_iter().flatten()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("Traceback"), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap(), text + &said)
}

fn proved(evidence: &Evidence, out: &str, more: &[&str]) {
    let args = [&["audit", "prove", "nightly", "m.x", "--out", out][..], more].concat();
    // Without the key: the checkpoint that the run signed is in the store.
    evidence.workspace.proofmill(&args).expect(0);
}

#[test]
fn a_number_is_proved_down_to_its_rows() {
    let evidence = Evidence::new();
    proved(&evidence, "bundle", &[]);
    proved(&evidence, "texts", &["--with-text"]);
    let elsewhere = Workspace::new();
    for (name, shown) in
        [("bundle", "0 of them with their values"), ("texts", "1 of them with their values")]
    {
        let bundle = elsewhere.path(name);
        fs::rename(evidence.workspace.path(name), &bundle).unwrap();
        let (code, text) = check(&bundle, Some(&evidence.key.to_string()));
        assert_eq!(code, 0, "{text}");
        assert!(text.contains(shown) && text.contains(r#""name": "x""#), "{text}");
    }
    let found = elsewhere.read("bundle/rows.b.jsonl");
    assert!(!found.contains("cbor"), "digests only, unless texts are wanted");
    let bundle: serde_json::Value =
        serde_json::from_str(&elsewhere.read("bundle/bundle.json")).unwrap();
    let properties = bundle["properties"].as_array().unwrap();
    let status = |name: &str| {
        let found = properties.iter().find(|property| property["property"] == name);
        found.unwrap()["status"].clone()
    };
    assert_eq!(status("the number"), "attested");
    assert_eq!(status("by when it ran"), "asserted");
    assert_eq!(status("licence of the data"), "not_covered");
    let named = |name: &str| properties.iter().any(|property| property["property"] == name);
    assert!(!named("weights of models"), "no model is upstream of the number");

    let other = evidence.workspace.proofmill(&["audit", "key", "new", "--out", "k", "--name", "o"]);
    let (code, text) = check(&elsewhere.path("bundle"), Some(other.expect(0).stdout.trim()));
    assert!(code == 1 && text.contains("bad signature"), "{text}");
}

#[test]
fn the_path_of_an_item_is_proved_table_by_table() {
    let evidence = Evidence::new();
    proved(&evidence, "hashes", &["--item", "r2"]);
    proved(&evidence, "texts", &["--item", "r2", "--with-text"]);
    let bundle = evidence.workspace.path("texts");
    let (code, text) = check(&bundle, None);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("the item: 1 rows in 1 tables about r2"), "{text}");
    assert!(text.contains("  b: row_id = \"r2\"; x = 2"), "{text}");
    let (code, text) = check(&evidence.workspace.path("hashes"), None);
    assert!(code == 0 && !text.contains("row_id = r2"), "{text}");
    // The row of another item in its place, with its own path.
    let file = bundle.join("item.b.jsonl");
    let lines = fs::read_to_string(&file).unwrap();
    fs::write(&file, lines.replace(r#""row":0"#, r#""row":1"#)).unwrap();
    let (code, text) = check(&bundle, None);
    assert!(code == 1 && text.contains("wrong table"), "{text}");
    fs::write(&file, "").unwrap();
    let (code, text) = check(&bundle, None);
    assert!(code == 1 && text.contains("0 rows of `b`, not 1"), "{text}");
    let nothing = ["audit", "prove", "nightly", "m.x", "--out", "none", "--item", "r9"];
    evidence.workspace.proofmill(&nothing).expect(2).says("has rows of `r9`");
    assert!(!evidence.workspace.path("none").exists(), "a part of a proof is none");
}

/// A timestamp authority of one's own, by the program `openssl`; `None` without it.
fn authority(workspace: &Workspace) -> Option<()> {
    workspace.write(
        "ca.cnf",
        "[tsa]\ndefault_tsa = own\n[own]\nserial = serial\nsigner_cert = tsa.pem\ncerts = ca.pem\nsigner_key = tsa.key\n\
         signer_digest = sha256\ndefault_policy = 1.2.3.4.1\ndigests = sha256\nclock_precision_digits = 3\n",
    );
    workspace.write("serial", "01");
    workspace.write("ext", "extendedKeyUsage = critical,timeStamping\n");
    let steps = [
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 9 -subj /CN=root",
        "req -new -newkey rsa:2048 -nodes -keyout tsa.key -out tsa.csr -subj /CN=tsa",
        "x509 -req -in tsa.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out tsa.pem -days 9 -extfile ext",
        "ts -query -data head.txt -sha256 -cert -out head.tsq",
        "ts -reply -config ca.cnf -queryfile head.tsq -out head.tsr",
        "req -x509 -newkey rsa:2048 -nodes -keyout other.key -out other.pem -days 9 -subj /CN=other",
    ];
    for step in steps {
        let mut command = Command::new("openssl");
        command.args(step.split(' ')).current_dir(workspace.path(""));
        let Ok(output) = command.output() else {
            let why = "there is no program `openssl`";
            let _ = writeln!(std::io::stderr(), "SKIPPED: timestamps: {why}");
            return None;
        };
        assert!(output.status.success(), "{step}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Some(())
}

#[test]
fn a_timestamp_of_the_anchor_attests_by_when_a_run_was() {
    let evidence = Evidence::new();
    let workspace = &evidence.workspace;
    let Some(()) = authority(workspace) else { return };
    let anchor = |tsr: &str, pem: &str| {
        let args = ["audit", "anchor", "--check", "head.txt", "--tsa-response", tsr];
        workspace.proofmill(&[&args[..], &["--tsa-authority", pem]].concat())
    };
    let fits = anchor("head.tsr", "ca.pem").expect(0);
    assert!(fits.stdout.contains("the anchor existed by 20"), "{fits:#?}");
    anchor("head.tsr", "other.pem").expect(1).says("certificate of its signer is not one of");
    anchor("head.tsr", "head.txt").expect(1).says("no certificate in PEM form");
    anchor("head.tsq", "ca.pem").expect(1).says("not a response of a timestamp authority");
    let response = fs::read(workspace.path("head.tsr")).unwrap();
    for at in (0..response.len()).step_by(7) {
        let mut damaged = response.clone();
        damaged[at] ^= 0x10;
        workspace.write("damaged.tsr", &damaged);
        let done = anchor("damaged.tsr", "ca.pem");
        // What is not signed may change, such as the text beside the status; the time may not.
        assert!(done.code == Some(1) || done.stdout == fits.stdout, "byte {at}: {done:#?}");
    }

    let stamped =
        ["--anchor", "head.txt", "--tsa-response", "head.tsr", "--tsa-authority", "ca.pem"];
    proved(&evidence, "bundle", &stamped);
    let bundle = workspace.path("bundle");
    let time = |text: &str| -> String {
        text.lines().find(|line| line.contains("by when it ran")).unwrap_or_default().to_owned()
    };
    let verified = |more: &[&str]| {
        let mut command = Command::new("python3");
        command.arg("-B").arg(bundle.join("verify.py")).arg("--bundle").arg(&bundle).args(more);
        let output = command.current_dir(workspace.path("")).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, text) = verified(&["--tsa-authority", "ca.pem"]);
    assert!(code == Some(0) && time(&text).starts_with("attested"), "{text}");
    let (code, text) = verified(&[]);
    assert!(code == Some(0) && time(&text).starts_with("asserted"), "{text}");
    let (code, text) = verified(&["--tsa-authority", "other.pem"]);
    assert!(code == Some(1) && text.contains("bad signature: checkpoint.tsr"), "{text}");
    fs::remove_file(bundle.join("checkpoint.tsr")).unwrap();
    let (code, text) = verified(&["--tsa-authority", "ca.pem"]);
    assert!(code == Some(0) && time(&text).contains("has no timestamp"), "{text}");

    // The anchor of another file, and one from before the run.
    workspace.proofmill(&["audit", "anchor", "--out", "later.txt"]).expect(0);
    let done = workspace.proofmill(&[
        "audit",
        "anchor",
        "--check",
        "later.txt",
        "--tsa-response",
        "head.tsr",
        "--tsa-authority",
        "ca.pem",
    ]);
    match workspace.read("later.txt") == workspace.read("head.txt") {
        true => done.expect(0),
        false => done.expect(1).says("a timestamp of another file"),
    };
    workspace.proofmill(&["run", "p.yaml", "--rerun", "b"]).expect(0);
    let late = ["audit", "prove", "nightly", "m.x", "--out", "late", "--anchor", "head.txt"];
    workspace.proofmill(&late).expect(2).says("not of a log that has run");
    let alone = ["audit", "prove", "nightly", "m.x", "--out", "late", "--tsa-response", "head.tsr"];
    workspace.proofmill(&alone).expect(2);
}

#[test]
fn a_bundle_that_was_changed_is_refused_by_name() {
    let evidence = Evidence::new();
    proved(&evidence, "bundle", &["--with-text"]);
    let key = evidence.key.to_string();
    let bundle = evidence.workspace.path("bundle");
    let mut files = Vec::new();
    let mut folders = vec![bundle.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.retain(|path| path.file_name().unwrap() != "verify.py");
    assert!(files.len() >= 7, "{files:?}");
    for path in files {
        let bytes = fs::read(&path).unwrap();
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 3] ^= 4;
        for damaged in [Some(flipped), Some(bytes[..bytes.len() / 2].to_vec()), None] {
            match &damaged {
                Some(damaged) => fs::write(&path, damaged).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let (code, text) = check(&bundle, Some(&key));
            assert_eq!(code, 1, "{}: {text}", path.display());
            fs::write(&path, &bytes).unwrap();
        }
    }
    // A better number, everywhere in the bundle that names it.
    let json = evidence.workspace.read("bundle/bundle.json");
    let better = json.replace(r#""value": 2.0"#, r#""value": 3.0"#);
    assert_ne!(better, json);
    evidence.workspace.write("bundle/bundle.json", better);
    let (code, text) = check(&bundle, Some(&key));
    assert!(code == 1 && text.contains("contradicts"), "{text}");
}

#[test]
fn a_root_that_a_record_does_not_have_is_entered_once() {
    let workspace = Workspace::with(
        "pipeline: p\nstages:\n  a: { sql: \"SELECT value AS x FROM generate_series(1, 1000001)\" }\n  \
         few: { sql: SELECT x FROM a WHERE x < 4 }\n",
    );
    workspace.run();
    let root = |stage: &str| workspace.json(&["audit", "root", "p", stage])["root"].clone();
    let entries = || workspace.keys("audit/log/").len();
    let few = root("few");
    assert_eq!(entries(), 2, "its record has it");
    let many = root("a");
    assert_eq!((root("a"), entries()), (many.clone(), 3));
    assert_ne!(many, few);
    let log = workspace.json(&["audit", "log", "--limit", "1"]);
    assert_eq!(log[0]["event"]["rows_root"]["rows"], 1_000_001);
    let verified = workspace.json(&["audit", "verify", "--all", "--level", "3"]);
    assert_eq!(verified["findings"], json!([]));
    // Another root in its place is found by whoever decodes the table.
    let entry = workspace.path("store").join(workspace.keys("audit/log/").pop().unwrap());
    crate::support::forge(&entry, many.as_str().unwrap(), few.as_str().unwrap());
    let found =
        workspace.proofmill(&["audit", "verify", "--all", "--level", "3", "--json"]).expect(1);
    assert_eq!(found.json()["findings"][0]["fault"], "wrong_table");
    workspace.proofmill(&["audit", "root", "p", "few_"]).expect(2).says("`few`");
}

#[test]
fn what_cannot_be_proved_is_named() {
    let workspace = Workspace::with(
        "pipeline: p\nstages:\n  a: { sql: SELECT 1 AS x }\n  m: { measure: { from: a, metrics: { x: x } } }\n",
    );
    workspace.run();
    let prove = |metric: &str| workspace.proofmill(&["audit", "prove", "p", metric, "--out", "b"]);
    prove("m.y").expect(2).says("it has `m.x`");
    prove("n").expect(2).says("no stage `n`");
    fs::create_dir(workspace.path("b")).unwrap();
    prove("m").expect(2).says("cannot be made");
    fs::remove_dir(workspace.path("b")).unwrap();
    // The rows of a stage without metrics are its numbers.
    workspace.proofmill(&["audit", "prove", "p", "a", "--out", "rows", "--with-text"]).expect(0);
    let (code, text) = check(&workspace.path("rows"), None);
    assert!(code == 0 && text.contains("the rows of `a`"), "{text}");
    let json = workspace.read("rows/bundle.json");
    workspace
        .write("rows/bundle.json", json.replace(r#""input": null"#, r#""input": "input.from""#));
    let (code, text) = check(&workspace.path("rows"), None);
    assert!(code == 1 && text.contains("neither a metric nor the rows"), "{text}");
    let view = workspace.json(&["audit", "prove", "p", "m", "--out", "b"]);
    assert_eq!(view["measured"][0]["rows"], json!(1));
    let (code, text) = check(&workspace.path("b"), None);
    assert!(code == 0 && text.contains("signatures not checked"), "{text}");
}
