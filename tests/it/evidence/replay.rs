//! `audit replay`: what a run computed, computed again from what it kept.

use std::fs;

use serde_json::{Value as Json, json};

use crate::support::Workspace;

const PIPELINE: &str = "\
pipeline: p
params: { least: 2 }
models: { tiny: { path: tiny, device: cpu, kv_cache_mib: 8 } }
stages:
  rows: { read: { path: rows.csv } }
  few: { sql: \"SELECT 'r' || x AS row_id, x, y FROM rows WHERE x >= ${params.least}\" }
  text: { prompt: { from: few, file: say.txt } }
  said: { generate: { from: text, model: tiny, prompt: prompt, options: { max_tokens: 2, min_tokens: 2 } } }
  twice: { command: { from: few, run: [sh, twice.sh], columns: { z: integer }, code: [twice.sh] } }
  when: { sql: SELECT now() AS t }
  out: { write: { from: few, path: out.csv } }
  m: { measure: { from: few, metrics: { x: x } } }
";

fn workspace() -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    workspace.add_model("gpt2", "tiny");
    workspace.write("rows.csv", "x,y\n1,a\n2,b\n3,c\n");
    workspace.write("say.txt", "the {{ y }}");
    workspace.write("twice.sh", "sed 's/.*\"x\":\\([0-9]*\\).*/{\"z\":\\1}/'\n");
    workspace.proofmill(&["run", "p.yaml", "--param", "least=1"]).expect(0);
    workspace
}

fn results(replayed: &Json) -> Vec<(String, String)> {
    let stages = replayed["stages"].as_object().unwrap();
    let result =
        |(stage, it): (&String, &Json)| (stage.clone(), it["result"].as_str().unwrap().to_owned());
    stages.iter().map(result).collect()
}

#[test]
fn a_run_comes_out_as_it_was_and_nothing_changes() {
    let workspace = workspace();
    // What ran is in the store; what is in the folder now is something else.
    workspace.write("p.yaml", "pipeline: p\nstages: { a: { sql: SELECT 1 AS x } }\n");
    workspace.write("say.txt", "something else");
    let before = workspace.keys("");
    fs::remove_file(workspace.path("out.csv")).unwrap();
    let cases = [(&[][..], "from_record", 0.625), (&["--recompute"][..], "same_rows", 0.75)];
    for (more, said, attested) in cases {
        let args = [&["audit", "replay"][..], more].concat();
        let replayed = workspace.json(&args);
        let expected = [
            ("rows", "same_rows"),
            ("few", "same_rows"),
            ("text", "same_rows"),
            ("said", said),
            ("twice", "same_rows"),
            ("when", "not_covered"),
            ("out", "not_covered"),
            ("m", "same_rows"),
        ];
        let expected = expected.map(|(stage, result)| (stage.to_owned(), result.to_owned()));
        let mut found = results(&replayed);
        found.sort_by_key(|(stage, _)| expected.iter().position(|(it, _)| it == stage));
        assert_eq!(found, expected, "{replayed}");
        assert_eq!(replayed["attested"], json!(attested));
    }
    assert_eq!(workspace.keys(""), before);
    assert!(!workspace.path("out.csv").exists(), "nothing is written outside");
}

#[test]
fn what_comes_out_otherwise_is_named_with_its_first_row() {
    let workspace = workspace();
    // Data that changed since: the table that is computed again is another.
    workspace.write("rows.csv", "x,y\n1,a\n2,B\n3,c\n");
    let done = workspace.proofmill(&["audit", "replay", "--json"]);
    let replayed = done.json();
    let rows = &replayed["stages"]["rows"];
    assert_eq!(rows["result"], "not_covered", "{replayed}");
    assert!(rows["detail"].as_str().unwrap().contains("source"), "{replayed}");
    // Code that is not what ran.
    workspace.write("rows.csv", "x,y\n1,a\n2,b\n3,c\n");
    workspace.write("twice.sh", "cat >/dev/null\n");
    let replayed = workspace.json(&["audit", "replay"]);
    assert_eq!(replayed["stages"]["twice"]["result"], "not_covered", "{replayed}");
}

#[test]
fn an_answer_that_was_not_the_models_is_found() {
    let workspace = workspace();
    // A forger who knows the formats: other rows under their own digests.
    let record = workspace
        .keys("artifacts/")
        .into_iter()
        .find(|key| workspace.read(&format!("store/{key}")).contains(r#""stage":"few""#));
    let record = workspace.path("store").join(record.unwrap());
    let other = Workspace::with(
        "pipeline: p\nstages: { few: { sql: \"SELECT 'r' || x AS row_id, x, y FROM (VALUES (1, 'a'), (2, 'b'), (9, 'c')) AS t(x, y)\" } }\n",
    );
    other.run();
    let part = other.keys("/data/few").remove(0);
    let bytes = fs::read(other.path("store").join(&part)).unwrap();
    workspace.write(&format!("store/{part}"), &bytes);
    let text = fs::read_to_string(&record).unwrap();
    let mut json: Json = serde_json::from_str(&text).unwrap();
    let theirs = other.keys("artifacts/").remove(0);
    let theirs: Json = serde_json::from_str(&other.read(&format!("store/{theirs}"))).unwrap();
    for field in ["parts", "rows", "bytes", "rows_root"] {
        json[field] = theirs[field].clone();
    }
    json.as_object_mut().unwrap().remove("sha256");
    let body = json.to_string();
    let body = &body[..body.len() - 1];
    let seal = proofmill_base::digest::Digest::of(body.as_bytes());
    let sealed = format!("{body},\"sha256\":\"{seal}\"}}\n");
    fs::write(&record, &sealed).unwrap();
    // The manifest names the record by its digest, so that it has to be forged as well.
    let manifest = workspace.path("store").join(workspace.keys("manifest.json").remove(0));
    let old = proofmill_base::digest::Digest::of(text.as_bytes()).to_string();
    let new = proofmill_base::digest::Digest::of(sealed.as_bytes()).to_string();
    crate::support::forge(&manifest, &old, &new);
    let done = workspace.proofmill(&["audit", "replay", "--json"]).expect(1);
    assert_eq!(done.json()["stages"]["few"]["result"], "differs", "{done:#?}");
    let said = done.says("stage `few` does not come out as it was");
    assert!(said.stderr.contains("row 3"), "{said:#?}");
}

#[test]
fn a_sample_is_the_same_each_time_and_has_a_stage_at_least() {
    let workspace = workspace();
    let sample = |share: &str| {
        let replayed = workspace.json(&["audit", "replay", "--sample", share]);
        let mut computed = results(&replayed);
        computed.retain(|(_, result)| result != "not_covered");
        computed
    };
    assert_eq!(sample("30%"), sample("30%"));
    assert!(sample("1%").len() <= 1);
    assert_eq!(sample("100%").len(), 6);
    workspace.proofmill(&["audit", "replay", "--sample", "0%"]).expect(2);
}

#[test]
fn a_run_without_texts_cannot_be_computed_again() {
    let workspace = workspace();
    fs::remove_dir_all(workspace.path("store/sources")).unwrap();
    workspace.proofmill(&["audit", "replay"]).expect(4).says("sources/");
}
