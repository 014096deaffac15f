//! Verdicts as objects: derived again, refused when changed, entered in the audit log; what may differ; channels.

use std::fs;
use std::process::Command;

use serde_json::{Value as Json, json};

use super::{ACCURACY, Gated, answers};
use crate::support::{Workspace, forge};

#[test]
fn a_verdict_is_derived_again_and_refused_if_its_evidence_does_not_entail_it() {
    let gated = Gated::new(ACCURACY);
    gated.run(&answers(20, 10), &[]);
    gated.run(&answers(20, 2), &[]);
    gated.gate(&["--out", "verdict.json"]).expect(1);
    let elsewhere = Workspace::new();
    let original = gated.0.read("verdict.json");
    elsewhere.write("verdict.json", &original);
    let check = || elsewhere.proofmill(&["gate", "--check", "verdict.json"]);
    check().expect(0).says("the evidence entails the verdict");

    let value: Json = serde_json::from_str(&original).unwrap();
    let mut changed = 0;
    // Every word and number of the judgement, and the counts that it rests on.
    for pointer in pointers(&value["judgement"], "/judgement")
        .into_iter()
        .chain(["/evidence/metrics/0/found/paired/answered/worse".to_owned()])
        .chain(["/evidence/candidate/how".to_owned(), "/gate/level".to_owned()])
    {
        let mut other = value.clone();
        let place = other.pointer_mut(&pointer).unwrap();
        *place = match &*place {
            Json::Number(number) if number.is_u64() => json!(number.as_u64().unwrap() + 90),
            Json::Number(number) => json!(number.as_f64().unwrap() / 2.0 + 1e-4),
            Json::String(word) if word == "fail" => json!("pass"),
            Json::String(_) => json!("stopped"),
            other => panic!("{pointer}: {other}"),
        };
        elsewhere.write("verdict.json", serde_json::to_vec(&other).unwrap());
        check().expect(1).says("verdict.json");
        changed += 1;
    }
    assert!(changed >= 8, "{changed}");
    elsewhere.write("verdict.json", "{}");
    check().expect(1).says("no verdict");
}

/// The leaves of a value that hold something.
fn pointers(value: &Json, at: &str) -> Vec<String> {
    let below = |name: String, value: &Json| pointers(value, &format!("{at}/{name}"));
    match value {
        Json::Object(entries) => entries.iter().flat_map(|(k, v)| below(k.clone(), v)).collect(),
        Json::Array(items) => {
            items.iter().enumerate().flat_map(|(i, v)| below(i.to_string(), v)).collect()
        }
        Json::Null => Vec::new(),
        _ => vec![at.to_owned()],
    }
}

#[test]
fn verdicts_are_entered_and_channels_move_on_a_pass_only() {
    let gated = Gated::new(&format!("baseline: nightly@baseline\nchannel: good\n{ACCURACY}"));
    let store = &gated.0;
    let first = gated.run(&answers(100, 80), &[]);
    // Nobody has pinned anything.
    let verdict = gated.gate(&[]).expect(6).says("no run of `nightly` is pinned").json();
    assert_eq!(verdict["judgement"]["word"], "not_comparable");
    store.proofmill(&["channel", "list", "nightly"]).expect(0);
    store
        .proofmill(&["channel", "pin", "nightly", "--owner", "me", "--reason", " "])
        .expect(2)
        .says("`--reason` is empty");
    let pin = ["channel", "pin", "nightly", "--owner", "ana", "--reason", "reviewed by hand"];
    store.proofmill(&pin).expect(0).says("nightly@baseline");
    let second = gated.run(&answers(100, 81), &[]);
    gated.gate(&[]).expect(0);
    let third = gated.run(&answers(100, 60), &[]);
    gated.gate(&[]).expect(1);
    let channels = store.json(&["channel", "list", "nightly"]);
    let of = |at: usize| (&channels["channels"][at]["channel"], &channels["channels"][at]["run"]);
    assert_eq!(of(0), (&json!("baseline"), &json!(first)));
    assert_eq!(of(1), (&json!("good"), &json!(second)), "{channels:#}");
    assert_eq!(channels["channels"][0]["why"], "pinned by ana: reviewed by hand");
    assert_eq!(store.json(&["show", "--run", "nightly@good"])["run"], json!(second));
    assert_eq!(store.json(&["show", "--run", "nightly"])["run"], json!(third));
    store.proofmill(&["show", "--run", "nightly@other"]).expect(2).says("has passed a gate");

    let log = store.json(&["audit", "log"]);
    // The latest comes first.
    let judged = &log[0]["event"]["judged"];
    assert_eq!((&judged["word"], &judged["candidate"]), (&json!("fail"), &json!(third)));
    let verified = store.json(&["audit", "verify", "--all"]);
    assert_eq!(verified["findings"], json!([]));
    // So is what the log says of a verdict, and a channel that no pass moved.
    let entry = store.keys("audit/log/").pop().unwrap();
    let entry = store.path("store").join(entry);
    let original = fs::read(&entry).unwrap();
    store.write("verify.py", store.proofmill(&["audit", "verifier"]).stdout);
    let good = format!("\"good\":\"{second}\"");
    let moved = good.replace(&second, &third);
    for (old, new, said) in [
        ("\"word\":\"fail\"", "\"word\":\"cannot_tell\"", "says something else"),
        (good.as_str(), moved.as_str(), "it moves channel `good`"),
    ] {
        forge(&entry, old, new);
        let verified = store.proofmill(&["audit", "verify", "--all", "--json"]).expect(1).json();
        assert!(verified["findings"].to_string().contains(said), "{verified:#}");
        let mut theirs = Command::new("python3");
        theirs.args(["-B", "verify.py", "store"]).current_dir(store.path(""));
        let theirs = theirs.output().unwrap();
        let theirs = String::from_utf8_lossy(&theirs.stdout).into_owned();
        assert!(theirs.contains(said), "{theirs}");
        fs::write(&entry, &original).unwrap();
    }
    // A verdict that was changed afterwards is found.
    let sha256 = judged["verdict"]["sha256"].as_str().unwrap();
    let key = format!("sources/{}/{sha256}", &sha256[..2]);
    let path = store.path("store").join(&key);
    let text = fs::read_to_string(&path).unwrap().replace("\"fail\"", "\"pass\"");
    fs::write(&path, text).unwrap();
    let verified = store.proofmill(&["audit", "verify", "--all", "--json"]).expect(1).json();
    assert_eq!(verified["findings"][0]["object"], json!(key), "{verified:#}");
}

#[test]
fn runs_that_do_not_measure_the_same_are_not_compared() {
    let gated = Gated::new(ACCURACY);
    let reason = |gated: &Gated| gated.shown();
    // A question is gone, or new.
    let (word, _) = gated.judge(&answers(20, 10), &answers(19, 10));
    assert_eq!(word, "not_comparable");
    assert!(
        reason(&gated).contains("1 question of the baseline missing in the candidate: `q0019`")
    );
    let (word, _) = gated.judge(&answers(20, 10), &answers(21, 10));
    assert_eq!(word, "not_comparable");
    // The measure counts something else.
    gated.run(&answers(20, 10), &[]);
    gated.0.edit("p.yaml", "correct: correct }", "correct: correct AND id <> 'q0003' }");
    gated.run(&answers(20, 9), &[]);
    let verdict = gated.gate(&[]).expect(6).json();
    assert_eq!(verdict["judgement"]["word"], "not_comparable", "{verdict:#}");
    assert!(reason(&gated).contains("measure different things"), "{}", reason(&gated));
    // A candidate that did not succeed has no verdict.
    gated.0.edit("p.yaml", "judged:", "broken: { sql: SELECT 1/0 AS x }\n  judged:");
    gated.0.proofmill(&["run", "p.yaml"]).expect(1);
    let failed = gated.0.json(&["runs"])[0]["run"].as_str().unwrap().to_owned();
    let verdict = gated.gate(&["nightly", &failed]).expect(6).json();
    assert_eq!(verdict["judgement"]["word"], "not_finished");
}

#[test]
fn what_may_not_differ_is_refused_at_its_place_before_anything_runs() {
    let gated = Gated::new(&format!("vary: [stages.answers]\n{ACCURACY}"));
    gated.run(&answers(100, 80), &[]);
    gated.run(&answers(100, 79), &["--param", "wording=was it"]);
    let verdict = gated.gate(&[]).expect(6).json();
    assert_eq!(verdict["judgement"]["word"], "not_comparable");
    let difference = &verdict["evidence"]["differences"][0];
    assert_eq!(
        (&difference["stage"], &difference["component"]),
        (&json!("scored"), &json!("settings.sql"))
    );
    assert_eq!(difference["place"], "p.yaml:6:10", "{difference:#}");
    // The same before it runs.
    let runs = gated.0.json(&["runs"]).as_array().unwrap().len();
    let refused = gated.gate(&["latest", "p.yaml"]).expect(3);
    refused.says("p.yaml:6:10: `scored` differs in `settings.sql`");
    assert_eq!(gated.0.json(&["runs"]).as_array().unwrap().len(), runs, "nothing ran");
    // What is named may.
    let wanted =
        format!("kind: gate\nname: answers\nvary: [stages.answers, stages.scored.sql]\n{ACCURACY}");
    gated.0.write("gate.yaml", wanted);
    gated.gate(&[]).expect(0);
    gated.gate(&["latest", "p.yaml"]).expect(0);
    assert_eq!(gated.0.json(&["runs"]).as_array().unwrap().len(), runs + 1);
}

#[test]
fn a_search_for_the_change_is_told_pass_fail_or_nothing() {
    let gated = Gated::new(ACCURACY);
    let bisect = |more: &[&str]| gated.gate(&[&["--bisect"], more].concat());
    let good = gated.run(&answers(100, 80), &[]);
    gated.run(&answers(100, 80), &[]);
    bisect(&[]).expect(0);
    gated.run(&answers(100, 60), &[]);
    bisect(&[&good]).expect(1);
    gated.run(&answers(99, 60), &[]);
    bisect(&[&good]).expect(125);
    bisect(&[&good, "none.yaml"]).expect(125);
    gated.0.edit("p.yaml", "judged:", "broken: { sql: SELECT 1/0 AS x }\n  judged:");
    bisect(&[&good, "p.yaml"]).expect(125);
}

#[test]
fn a_wrong_gate_is_refused_at_its_place() {
    let gated = Gated::new("metrics: [{ metric: judged.f1, min_effect: 0.05, unit: [id] }]\n");
    gated.run(&answers(9, 5), &[]);
    gated.run(&answers(9, 6), &[]);
    let entries = || gated.0.json(&["audit", "log"]).as_array().unwrap().len();
    let before = entries();
    let gate = || gated.0.proofmill(&["gate", "--file", "gate.yaml"]);
    gate().expect(3).says("gate.yaml:3:21").says("has no metric `f1`").says("`accuracy`");
    gated.0.edit("gate.yaml", "judged.f1", "judged.accuracy");
    gated.0.edit("gate.yaml", "[id]", "[idd]");
    gate().expect(3).says("gate.yaml:3:21").says("has no column `idd`").says("`id`");
    gated.0.edit("gate.yaml", "[idd]", "[id]");
    gated.0.edit("gate.yaml", "judged.accuracy", "other.f1");
    gate().expect(3).says("no run has").says("`judged`");
    gated.0.edit("gate.yaml", "other.f1", "f1");
    gate().expect(3).says("is not a metric of a stage");
    gated.0.edit("gate.yaml", "kind: gate", "kind: schedule");
    gate().expect(3);
    assert_eq!(entries(), before, "nothing was judged");
    gated.0.proofmill(&["gate"]).expect(2);
    gated.0.proofmill(&["gate", "--file", "none.yaml"]).expect(2).says("none.yaml");
    assert!(gated.0.json(&["schema", "gate"])["properties"]["metrics"].is_object());
}

#[test]
fn ci_gets_a_report_a_summary_and_lines_beside_the_gate_file() {
    let gated = Gated::new(ACCURACY);
    let mut before = answers(100, 80);
    gated.run(&before, &[]);
    gated.run(&answers(100, 60), &[]);
    let files = ["--junit", "j.xml", "--summary", "s.md", "--annotations"];
    let done =
        gated.0.proofmill(&[&["gate", "--file", "gate.yaml"], &files[..]].concat()).expect(1);
    done.says(
        "::error file=gate.yaml,line=3,title=answers judged.accuracy%3A fail::a drop of 0.2000",
    );
    let report = gated.0.read("j.xml");
    assert!(report.contains("tests=\"1\" failures=\"1\" errors=\"0\""), "{report}");
    assert!(gated.0.read("s.md").contains("| judged.accuracy | 0.8000 | 0.6000 |"));
    // Names of questions come from outside.
    before[0].id = "q\"/><!-- \u{1b}[31m|::error::x&%0A".to_owned();
    gated.run(&before, &[]);
    gated.run(&answers(100, 60), &[]);
    let done =
        gated.0.proofmill(&[&["gate", "--file", "gate.yaml"], &files[..]].concat()).expect(6);
    let done = done.says("title=answers judged.accuracy%3A not comparable::").says("%250A");
    drop(done);
    let report = gated.0.read("j.xml");
    assert!(report.contains("tests=\"1\" failures=\"0\" errors=\"1\""), "{report}");
    assert!(!report.contains('\u{1b}') && !report.contains("<!--"), "{report}");
    let parsed = Command::new("python3")
        .args(["-c", "import sys, xml.dom.minidom as m; m.parse(sys.argv[1])"])
        .arg(gated.0.path("j.xml"))
        .status();
    match parsed {
        Ok(status) => assert!(status.success(), "{report}"),
        Err(_) => {
            let mut out = std::io::stderr();
            let _ =
                std::io::Write::write_all(&mut out, b"SKIPPED: JUnit is not parsed: no python3\n");
        }
    }
    // A summary is appended.
    let summary = gated.0.read("s.md");
    assert!(summary.contains("FAIL: run") && summary.contains("NOT COMPARABLE: run"), "{summary}");
}

#[test]
fn what_has_to_be_the_same_is_no_more_than_that() {
    let gated = Gated::new(&format!("same: [stages.scored.sql]\n{ACCURACY}"));
    gated.run(&answers(100, 80), &[]);
    gated.run(&answers(100, 79), &[]);
    gated.gate(&[]).expect(0);
    gated.run(&answers(100, 79), &["--param", "wording=was it"]);
    let verdict = gated.gate(&[]).expect(6).json();
    assert_eq!(verdict["evidence"]["differences"].as_array().unwrap().len(), 1, "{verdict:#}");
    assert_eq!(verdict["evidence"]["differences"][0]["component"], "settings.sql");
}

#[test]
fn the_candidate_is_of_the_pipeline_of_the_baseline() {
    let gated = Gated::new(&format!("baseline: nightly~1\n{ACCURACY}"));
    gated.run(&answers(100, 80), &[]);
    let judged = gated.run(&answers(100, 79), &[]);
    gated.0.write("other.yaml", "pipeline: other\nstages: { a: { sql: SELECT 1 AS x } }\n");
    gated.0.proofmill(&["run", "other.yaml"]).expect(0);
    let verdict = gated.gate(&[]).expect(0).json();
    assert_eq!(verdict["evidence"]["candidate"]["run"], json!(judged));
    // Also where no run is pinned yet.
    gated.0.edit("gate.yaml", "nightly~1", "nightly@baseline");
    let verdict = gated.gate(&[]).expect(6).json();
    assert_eq!(verdict["evidence"]["candidate"]["run"], json!(judged));
}
