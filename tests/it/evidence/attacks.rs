//! A stranger's attacks on a store: every object damaged in every way, and logs rewritten by those who know the format.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proofmill_audit::checkpoint::Anchor;
use proofmill_audit::finding::{Fault, Level, Verified};
use proofmill_audit::note::{Signer, Verifier};
use proofmill_audit::verify::all::verify;
use proofmill_audit::verify::scope::{Scope, Step, Watcher};
use proofmill_base::clock::SystemClock;
use proofmill_base::digest::Digest;
use proofmill_base::rng::SeededRng;
use proofmill_catalog::audit::entry::{AuditEntry, AuditEvent, LogState};
use proofmill_store::{Location, LogFolder, Store, StoredEntry, seal, unseal};

use crate::support::Workspace;

struct Unwatched;

impl Watcher for Unwatched {
    fn step(&self, _: Step) {}
}

/// A store with five runs of two pipelines, one of which failed; with a verdict, a pinned run, a memory, recorded answers, sources and signed
/// checkpoints; and its key and anchor.
pub struct Evidence {
    pub workspace: Workspace,
    pub key: Verifier,
    anchor: Anchor,
}

impl Evidence {
    pub fn new() -> Self {
        let workspace = Workspace::new();
        workspace.add_model("gpt2", "tiny");
        workspace.write("say.txt", "Say {{ x }}");
        workspace.write(
            "p.yaml",
            "pipeline: nightly\nparams: { least: 1 }\n\
             models: { tiny: { path: tiny, device: cpu, kv_cache_mib: 8 } }\n\
             stages:\n  \
             heard: { memory: { name: science } }\n  \
             a: { sql: \"SELECT ${params.least} AS x\" }\n  \
             b: { sql: \"SELECT 'r' || x AS row_id, x + 0 * (1 / x) AS x FROM a\" }\n  \
             text: { prompt: { from: b, file: say.txt } }\n  \
             said: { generate: { from: text, model: tiny, prompt: prompt, options: { max_tokens: 2, min_tokens: 2 } } }\n  \
             m: { measure: { from: b, metrics: { x: x } } }\n",
        );
        workspace.write("other.yaml", "pipeline: other\nstages: { b: { sql: SELECT 2 AS y } }\n");
        let done = workspace.proofmill(&["audit", "key", "new", "--out", "key"]).expect(0);
        let key = done.stdout.trim().parse().unwrap();
        let run = |args: &[&str], code: i32| {
            let mut command = workspace.command(args);
            let output = command.env("PROOFMILL_SIGN_KEY", workspace.path("key")).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        };
        for fact in ["Iron rusts.", "Water is wet."] {
            run(&["teach", "add", "science", fact, "--author", "mia"], 0);
        }
        run(&["run", "p.yaml"], 0);
        run(&["run", "other.yaml"], 0);
        run(&["run", "p.yaml", "--param", "least=0"], 1);
        run(&["run", "p.yaml", "--param", "least=2"], 0);
        // A verdict, that the runs cannot be compared: they have other rows.
        workspace.write(
            "gate.yaml",
            "kind: gate\nname: g\nmetrics: [{ metric: m.x, min_effect: 0.1, unit: [row_id] }]\n",
        );
        run(&["channel", "pin", "nightly", "--owner", "ana", "--reason", "the first"], 0);
        run(&["gate", "nightly@baseline", "nightly~1", "--file", "gate.yaml"], 6);
        run(&["run", "other.yaml", "--rerun", "b"], 0);
        run(&["audit", "anchor", "--out", "head.txt"], 0);
        let anchor = workspace.read("head.txt").parse().unwrap();
        Self { workspace, key, anchor }
    }

    /// A copy of the store.
    pub fn copy(&self) -> Workspace {
        let copy = Workspace::new();
        for key in self.workspace.keys("") {
            let content = fs::read(self.workspace.path("store").join(&key)).unwrap();
            copy.write(&format!("store/{key}"), content);
        }
        copy
    }

    fn verified(&self, folder: &Path) -> Verified {
        self.verified_at(Level::Rows, folder)
    }

    fn verified_at(&self, level: Level, folder: &Path) -> Verified {
        let scope = Scope {
            level,
            run: None,
            anchors: vec![("head.txt".to_owned(), self.anchor.clone())],
            key: Some(self.key.clone()),
            journal: None,
        };
        let work = async {
            let location = Location::Local(folder.to_owned());
            let clock = Arc::new(SystemClock::default());
            let store = Store::open(&location, clock, Arc::new(SeededRng::new(1))).await.unwrap();
            verify(&store, &scope, &Unwatched).await.unwrap()
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work)
    }

    /// What is found at level 2, which the second verifier reaches.
    pub fn faults_of_digests(&self, workspace: &Workspace) -> BTreeSet<Fault> {
        let verified = self.verified_at(Level::Digests, &workspace.path("store"));
        verified.findings.iter().map(|finding| finding.fault).collect()
    }

    fn faults(&self, workspace: &Workspace) -> BTreeSet<Fault> {
        let verified = self.verified(&workspace.path("store"));
        verified.findings.iter().map(|finding| finding.fault).collect()
    }
}

/// The damaged contents of an object, each with what was done.
pub fn damages(bytes: &[u8], sibling: Option<&[u8]>) -> Vec<(String, Option<Vec<u8>>)> {
    let mut all: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    for n in 0..8 {
        let at = bytes.len() * n / 8;
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << n;
        all.push((format!("bit {n} of byte {at} flipped"), Some(flipped)));
    }
    for part in [1, 2, 3] {
        all.push((format!("cut to {part} of 4"), Some(bytes[..bytes.len() * part / 4].to_vec())));
    }
    all.push(("emptied".to_owned(), Some(Vec::new())));
    all.push(("deleted".to_owned(), None));
    let longer = bytes.iter().copied().chain([b'\n']).collect();
    all.push(("one byte longer".to_owned(), Some(longer)));
    if let Some(sibling) = sibling.filter(|sibling| *sibling != bytes) {
        all.push(("swapped with its sibling".to_owned(), Some(sibling.to_vec())));
    }
    all
}

/// What a process writes while it runs proves nothing.
pub fn is_evidence(key: &str) -> bool {
    !key.ends_with("/lock") && !key.ends_with("/lease.json")
}

#[test]
fn every_object_damaged_in_every_way_is_found_and_named() {
    let evidence = Evidence::new();
    let clean = evidence.verified(&evidence.workspace.path("store"));
    assert_eq!(clean.findings, [], "{clean:#?}");
    assert_eq!(clean.examined.unnamed, 0, "{clean:#?}");
    assert_eq!(clean.attested.len(), 2, "{clean:#?}");
    let copy = evidence.copy();
    let keys: Vec<String> = copy.keys("").into_iter().filter(|key| is_evidence(key)).collect();
    let mut cases = 0;
    for (n, key) in keys.iter().enumerate() {
        // Without its own record there is no store to verify.
        if key == "format.json" {
            continue;
        }
        let path = copy.path("store").join(key);
        let bytes = fs::read(&path).unwrap();
        let folder = |key: &str| Path::new(key).parent().map(Path::to_owned);
        let sibling = keys[n + 1..].iter().find(|other| folder(other) == folder(key));
        let sibling = sibling.map(|other| fs::read(copy.path("store").join(other)).unwrap());
        for (what, damaged) in damages(&bytes, sibling.as_deref()) {
            match &damaged {
                Some(damaged) => fs::write(&path, damaged).unwrap(),
                None => fs::remove_file(&path).unwrap(),
            }
            let verified = evidence.verified(&copy.path("store"));
            let named = verified
                .findings
                .iter()
                .any(|finding| finding.object == *key || finding.detail.contains(key.as_str()));
            // A log that lost its last entry is found by what names its end.
            let is_log = key.contains("/log/") || key.starts_with("memories/");
            let allowed = is_log && !verified.findings.is_empty();
            // The copy of a replaced record that no run names, and checkpoints, may go without a trace.
            let may_go = what == "deleted"
                && (key.starts_with("artifacts/") || key.starts_with("audit/checkpoints/"));
            assert!(named || allowed || may_go, "{key} {what}: {verified:#?}");
            cases += 1;
            fs::write(&path, &bytes).unwrap();
        }
    }
    assert!(cases > 600, "{cases} cases");
    assert_eq!(evidence.faults(&copy), BTreeSet::new());
}

/// The entries of the audit log of a workspace.
fn entries(workspace: &Workspace) -> Vec<AuditEntry> {
    let folder = LogFolder::of_audit();
    let count = workspace.keys("audit/log/").len() as u64;
    let entry = |seq| {
        let key = folder.entry(seq);
        unseal(&key, &fs::read(workspace.path("store").join(key.as_str())).unwrap()).unwrap()
    };
    (0..count).map(entry).collect()
}

/// Writes another audit log, with every seal, link and tree as it should be: as anybody can who may write there.
pub fn rewrite(workspace: &Workspace, entries: Vec<AuditEntry>) {
    fs::remove_dir_all(workspace.path("store/audit/log")).unwrap();
    let (folder, mut state, mut prev) = (LogFolder::of_audit(), LogState::default(), None);
    for (seq, entry) in (0..).zip(entries) {
        let (tree, open) = (state.tree.peaks().to_vec(), state.open.clone());
        let entry = AuditEntry { seq, prev, tree, open, ..entry };
        let key = folder.entry(seq);
        let bytes = seal(&key, &entry).unwrap();
        workspace.write(&format!("store/{key}"), &bytes);
        prev = Some(Digest::of(&bytes));
        state.add(&StoredEntry { entry, sha256: Digest::of(&bytes), bytes });
    }
}

fn run_of(entry: &AuditEntry) -> Option<String> {
    entry.event.run().map(ToString::to_string)
}

/// Removes all that lies in the store of a run.
fn remove_run(workspace: &Workspace, run: &str) {
    fs::remove_dir_all(workspace.path("store/runs").join(run)).unwrap();
}

#[test]
fn a_log_rewritten_without_the_key_is_found_by_an_anchor() {
    let evidence = Evidence::new();
    let runs: Vec<String> = {
        let all = entries(&evidence.workspace);
        let began = all.iter().filter(|it| matches!(it.event, AuditEvent::RunBegan { .. }));
        began.filter_map(run_of).collect()
    };
    assert_eq!(runs.len(), 5);

    // The failed run never was: "run until it passes".
    let copy = evidence.copy();
    let all = entries(&copy);
    rewrite(&copy, all.into_iter().filter(|it| run_of(it).as_ref() != Some(&runs[2])).collect());
    remove_run(&copy, &runs[2]);
    let faults = evidence.faults(&copy);
    assert!(faults.contains(&Fault::CutOff) || faults.contains(&Fault::Rewritten), "{faults:?}");

    // The last three runs are cut off, with what names them.
    let copy = evidence.copy();
    let all = entries(&copy);
    rewrite(
        &copy,
        all.into_iter().filter(|it| !runs[2..].contains(&run_of(it).unwrap())).collect(),
    );
    runs[2..].iter().for_each(|run| remove_run(&copy, run));
    fs::remove_dir_all(copy.path("store/audit/checkpoints")).unwrap();
    assert!(evidence.faults(&copy).contains(&Fault::CutOff));

    // A run is replaced by a better one: manifest, its seal, and the whole log after it.
    let copy = evidence.copy();
    let manifest = copy.path("store/runs").join(&runs[3]).join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let body = text[..text.len() - 78].replace(r#""value":2.0"#, r#""value":9.0"#);
    assert_ne!(body, text[..text.len() - 78], "{text}");
    let sealed = format!("{body},\"sha256\":\"{}\"}}\n", Digest::of(body.as_bytes()));
    fs::write(&manifest, &sealed).unwrap();
    assert_eq!(evidence.faults(&copy), BTreeSet::from([Fault::Contradicts]));
    let mut all = entries(&copy);
    for entry in &mut all {
        if let AuditEvent::RunEnded(end) = &mut entry.event
            && end.run.as_str() == runs[3]
        {
            end.manifest = Some(Digest::of(sealed.as_bytes()));
        }
    }
    rewrite(&copy, all);
    assert_eq!(evidence.faults(&copy), BTreeSet::from([Fault::Rewritten]));
    // Signed with a key of the forger.
    let forger = Signer::of_seed(evidence.key.name(), [9; 32]).unwrap();
    let head = copy.keys("audit/checkpoints/").pop().unwrap();
    let anchor: Anchor = copy.read(&format!("store/{head}")).parse().unwrap();
    let forged = Anchor::new(anchor.checkpoint, Some(&forger)).text;
    copy.write(&format!("store/{head}"), forged);
    assert!(evidence.faults(&copy).contains(&Fault::Rewritten));

    // A checkpoint with another signature, of a log that is as it was.
    let copy = evidence.copy();
    let anchor: Anchor = copy.read(&format!("store/{head}")).parse().unwrap();
    copy.write(&format!("store/{head}"), Anchor::new(anchor.checkpoint, Some(&forger)).text);
    assert_eq!(evidence.faults(&copy), BTreeSet::from([Fault::BadSignature]));
}

#[test]
fn an_anchor_is_compared_with_the_log_and_its_signature_with_the_key() {
    let evidence = Evidence::new();
    let workspace = &evidence.workspace;
    let key = evidence.key.to_string();
    let check = |more: &[&str]| {
        workspace.proofmill(&[&["audit", "anchor", "--check", "head.txt"][..], more].concat())
    };
    let fits = check(&["--key", &key]).expect(0);
    assert!(fits.stdout.contains("begins with these entries; it has 12 now"), "{fits:#?}");
    check(&[]).expect(0).says("the signature was not checked");
    let other = workspace.proofmill(&["audit", "key", "new", "--out", "k"]).expect(0).stdout;
    check(&["--key", other.trim()]).expect(1).says("no signature of the key");
    workspace.proofmill(&["audit", "key", "announce", &key]).expect(0);
    let log = workspace.json(&["audit", "log", "--limit", "1"]);
    assert_eq!(log[0]["event"]["key"]["verifier"], key.as_str());
    check(&["--key", "nonsense"]).expect(2).says("name+id+");
    let secret = workspace.read("key");
    let refused = check(&["--key", secret.trim()]).expect(2).says("must stay with its owner");
    assert!(!refused.stderr.contains(secret.trim()), "a secret is not repeated");
    workspace
        .proofmill(&["audit", "anchor", "--out", "head.txt"])
        .expect(2)
        .says("never overwritten");
    workspace.proofmill(&["audit", "key", "new", "--out", "k"]).expect(2).says("never overwritten");
    // Cut off, with what names it.
    let entries = workspace.keys("audit/log/");
    for entry in &entries[6..] {
        fs::remove_file(workspace.path("store").join(entry)).unwrap();
    }
    check(&["--key", &key]).expect(1).says("entries were cut off");
    // Of another store.
    let elsewhere = Workspace::with("pipeline: o\nstages: { a: { sql: SELECT 1 AS x } }\n");
    elsewhere.run();
    elsewhere.write("head.txt", workspace.read("head.txt"));
    let done = elsewhere.proofmill(&["audit", "anchor", "--check", "head.txt"]).expect(1);
    assert!(done.stderr.contains("not of this store"), "{done:#?}");
}

#[test]
fn a_verification_that_was_interrupted_continues() {
    let evidence = Evidence::new();
    let workspace = &evidence.workspace;
    let verify = |level: &str| {
        workspace.proofmill(&["audit", "verify", "--all", "--level", level, "--resume", "done"])
    };
    let first = verify("3").expect(0);
    assert!(!workspace.path("done").exists(), "it goes when the verification ends");
    // As if it had been killed: half of its lines, and a part of another one.
    let format: serde_json::Value =
        serde_json::from_str(&workspace.read("store/format.json")).unwrap();
    let head = format!("proofmill verify 1 {}\n", format["store"].as_str().unwrap());
    let parts: Vec<String> = workspace.keys("/data/");
    let digest = |key: &str| Digest::of(&fs::read(workspace.path("store").join(key)).unwrap());
    let lines: Vec<String> = parts.iter().map(|key| format!("{} {key}", digest(key))).collect();
    workspace.write("done", format!("{head}{}\n{}", lines[0], &lines[1][..70]));
    let again = verify("3").expect(0);
    assert!(again.stderr.contains("1 object compared before"), "{again:#?}");
    let counts = |text: &str| text.split(" in ").next().unwrap_or_default().to_owned();
    let shown = |text: &str| counts(text.split("objects of").next().unwrap_or_default());
    assert_eq!(shown(&again.stdout), shown(&first.stdout), "it counts what was compared before");
    // What was compared and what was not are told apart by digest and place.
    let path = workspace.path("store").join(&parts[1]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[9] ^= 1;
    fs::write(&path, bytes).unwrap();
    workspace.write("done", format!("{head}{}\n{}", lines[0], &lines[1][..70]));
    assert!(verify("2").expect(1).stdout.contains(&parts[1]));
    workspace.write("done", "something else");
    verify("2").expect(2).says("not of a verification of this store");
    assert_eq!(workspace.read("done"), "something else");
}

#[test]
fn a_run_that_no_entry_names_is_found() {
    let evidence = Evidence::new();
    let other = Workspace::with("pipeline: hidden\nstages: { a: { sql: SELECT 1 AS x } }\n");
    other.run();
    let copy = evidence.copy();
    for key in other.keys("runs/").into_iter().chain(other.keys("artifacts/")) {
        copy.write(&format!("store/{key}"), fs::read(other.path("store").join(&key)).unwrap());
    }
    assert!(evidence.faults(&copy).contains(&Fault::NotLogged));
}

#[test]
fn a_finding_names_the_runs_and_metrics_that_rest_on_it() {
    let evidence = Evidence::new();
    let copy = evidence.copy();
    let part = copy.keys("/data/a.").remove(0);
    let path: PathBuf = copy.path("store").join(&part);
    let mut bytes = fs::read(&path).unwrap();
    bytes[20] ^= 1;
    fs::write(&path, bytes).unwrap();
    let verified = evidence.verified(&copy.path("store"));
    let [finding] = verified.findings.as_slice() else { panic!("{verified:#?}") };
    assert_eq!((finding.object.as_str(), finding.fault), (part.as_str(), Fault::Changed));
    assert_eq!(finding.runs.len(), 1, "{finding:#?}");
    let metrics: Vec<&str> = finding.metrics.iter().map(|it| it.stage.as_str()).collect();
    assert_eq!(metrics, ["m"], "{finding:#?}");
}
