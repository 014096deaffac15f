//! A model's answers are those of the bytes that were digested: its files are swapped between the plan and
//! the first question, and while it answers, by another stage of the same run.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::server::serve;
use crate::support::{Workspace, set};

/// Fits a model into `made`.
pub const FITS: &str = r#"
pipeline: fits
stages:
  pairs:
    sql: SELECT 'say ' || column1 AS asked, column2 AS said FROM (VALUES ('a', 'one two'), ('b', 'two three'), ('c', 'three one')) AS t
  model:
    fit:
      from: pairs
      input: asked
      output: said
      path: made
      sizes: { d_model: 8, d_kv: 4, d_ff: 16, heads: 2, layers: 1 }
      settings: { steps: 4, batch: 2, warmup: 1, seed: 3 }
"#;

/// The same fit, and a question to the model in `linked` when it is done.
const ASKS: &str = r#"
models:
  other: { path: linked, device: cpu }
"#;
const QUESTION: &str = r#"
  asked:
    sql: SELECT 'x' AS row_id, 'say a' AS question FROM model
  said:
    generate: { from: asked, model: other, prompt: question, options: { max_tokens: 3 } }
"#;

/// A workspace with the first model in `made`, and `p.yaml`, which fits another into it before it asks
/// `linked`: a copy of the first but for the links to `made` of these names.
fn swapped(links: &[&str]) -> Workspace {
    let workspace = Workspace::with(FITS);
    workspace.run();
    fs::create_dir(workspace.path("linked")).unwrap();
    for file in fs::read_dir(workspace.path("made")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let (from, to) = (format!("made/{name}"), workspace.path(&format!("linked/{name}")));
        match links.contains(&name.as_str()) {
            true => symlink(workspace.path(&from), to).unwrap(),
            false => drop(fs::copy(workspace.path(&from), to).unwrap()),
        }
    }
    // Other weights, another order of words, another type of numbers.
    let other =
        FITS.replace("seed: 3", "seed: 4, save: bf16").replace("'three one'", "'three three'");
    workspace.write("p.yaml", format!("{other}{QUESTION}{ASKS}"));
    workspace
}

/// Answers that are recorded.
fn recorded(workspace: &Workspace) -> u64 {
    let models = workspace.json(&["ledger", "list"])["models"].clone();
    models.as_array().unwrap().iter().map(|model| model["answers"].as_u64().unwrap()).sum()
}

#[test]
fn files_that_are_swapped_before_the_first_question_are_not_asked() {
    for name in ["model.safetensors", "tokenizer.json", "config.json"] {
        let workspace = swapped(&[name]);
        let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
        done.says(name).says("changed after the model's identity was taken").says("run again");
        assert_eq!(recorded(&workspace), 0, "{name}");
    }
    // All of them: nothing but the identity tells that the model is another. The next run knows it.
    let workspace = swapped(&["model.safetensors", "tokenizer.json", "config.json"]);
    workspace.proofmill(&["run", "p.yaml"]).expect(1).says("changed after");
    assert_eq!(recorded(&workspace), 0);
    assert_eq!(workspace.run(), set(&["said"]));
    let said = workspace.sql("SELECT text, request_digest FROM said");
    // It is the model in `made`, asked by its own name.
    let question = QUESTION.replace(" FROM model", "");
    let asks = ASKS.replace("linked", "made");
    workspace.write("p.yaml", format!("pipeline: asks\nstages:{question}{asks}"));
    workspace.run();
    assert_eq!(workspace.sql("SELECT text, request_digest FROM said"), said);
    assert_eq!(recorded(&workspace), 1);
}

#[test]
fn a_fit_begins_with_what_was_digested() {
    let workspace = swapped(&["model.safetensors", "tokenizer.json", "config.json"]);
    let more = QUESTION.split("  said:").next().unwrap().to_owned()
        + "  more:\n    fit: { from: asked, input: question, output: \"'one two'\", checkpoint: linked, path: more, settings: { steps: 1, batch: 1, warmup: 0 } }\n";
    let fits = workspace.read("p.yaml");
    let fits = fits.split(QUESTION).next().unwrap();
    workspace.write("p.yaml", format!("{fits}{more}"));
    workspace.proofmill(&["run", "p.yaml"]).expect(1).says("changed after");
    assert!(!workspace.path("more").exists());
    assert_eq!(workspace.run(), set(&["more"]));
    // Every file that goes into the result counts, not the weights alone.
    assert_eq!(workspace.run(), set(&[]));
    workspace.write(
        "linked/generation_config.json",
        "{\"decoder_start_token_id\": 0, \"eos_token_id\": 1}",
    );
    assert_eq!(workspace.run(), set(&["more"]));
}

#[test]
fn a_model_is_not_what_the_same_pipeline_is_about_to_write() {
    let workspace = Workspace::new();
    fs::create_dir(workspace.path("real")).unwrap();
    symlink(workspace.path("real"), workspace.path("link")).unwrap();
    let check = |fits: &str, path: &str| {
        let fits = FITS.replace("path: made", &format!("path: {fits}"));
        workspace.write(
            "p.yaml",
            format!("{fits}models:\n  other: {{ path: {path} }}\nparams:\n  where: real/new\n"),
        );
        workspace.proofmill(&["check", "p.yaml"])
    };
    let absolute = workspace.path("real/new");
    for path in
        ["real/new", "./real//new/", "link/new", "real/x/../new", absolute.to_str().unwrap()]
    {
        let done = check("real/new", path).expect(3);
        done.says("the model `other` lies in the folder that this stage writes")
            .says("p.yaml:11:13");
    }
    check("${params.where}", "link/new").expect(3).says("the model `other` lies in the folder");
    check("real/new", "\"${params.where}\"").expect(3).says("the model `other` lies in the folder");
    check("real/new", "real/other").expect(0);
    // Nor does a fit begin with what another writes.
    let more = "  more:\n    fit: { from: pairs, input: asked, output: said, checkpoint: link/m, path: m2 }\n";
    workspace.add_model("t5", "real/m");
    workspace.write("p.yaml", FITS.replace("path: made", "path: real/m") + more);
    workspace.proofmill(&["check", "p.yaml"]).expect(3).says("`more` starts from the folder");
    workspace.write("p.yaml", FITS.replace("path: made", "path: m2") + more);
    workspace
        .proofmill(&["check", "p.yaml"])
        .expect(3)
        .says("writes the folder that this stage writes");
}

/// Does to a file what the prompt says, `what:path`, and answers.
fn meddles(_: usize, body: &Json) -> (&'static str, Json) {
    let (what, path) = body["prompt"].as_str().unwrap().split_once(':').unwrap();
    let before = fs::metadata(path).unwrap();
    let mut bytes = fs::read(path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 0x40;
    if what == "replace" {
        fs::write(format!("{path}.draft"), bytes).unwrap();
        fs::rename(format!("{path}.draft"), path).unwrap();
    } else {
        rewrite(Path::new(path), &bytes, &before);
    }
    ("200 OK", json!({ "choices": [{ "index": 0, "text": "done", "finish_reason": "stop" }] }))
}

/// Writes in place and puts the time of before back.
fn rewrite(path: &Path, bytes: &[u8], before: &fs::Metadata) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let changed = |it: fs::Metadata| (it.ctime(), it.ctime_nsec());
    while changed(fs::metadata(path).unwrap()) == changed(before.clone()) {
        file.write_all_at(bytes, 0).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
    }
}

#[test]
fn weights_that_are_written_while_they_are_mapped_answer_nothing_more() {
    let (url, _) = serve(meddles);
    let pipeline = |what: &str, path: &Path| {
        format!(
            "pipeline: meddled\nmodels:\n  local: {{ path: local, device: cpu, kv_cache_mib: 8 }}\n  far: {{ url: \
             \"{url}\", model: far }}\nstages:\n  asked: {{ sql: \"SELECT 'x' AS row_id, 'the cat' AS q\" \
             }}\n  one: {{ generate: {{ from: asked, model: local, prompt: q, options: {{ max_tokens: 2, \
             min_tokens: 2 }} }} }}\n  told: {{ generate: {{ from: one, model: far, id: row_id, prompt: \
             \"'{what}:{}'\" }} }}\n  two: {{ score: {{ from: told, model: local, prompt: \"'a dog'\", continuation: \"' sat'\" }} }}\n",
            path.display()
        )
    };
    let meddled = |what: &str, file: &str| {
        let workspace = Workspace::new();
        workspace.add_model("gpt2", "local");
        workspace.write("p.yaml", pipeline(what, &workspace.path(&format!("local/{file}"))));
        workspace
    };
    for file in ["model.safetensors", "tokenizer.json"] {
        let workspace = meddled("write", file);
        let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
        done.says(file).says("changed after the model's identity was taken");
        assert_eq!(recorded(&workspace), 2, "what was answered before it stays");
    }
    // What is mapped is not what lies there: a replaced file is another.
    let workspace = meddled("replace", "model.safetensors");
    workspace.proofmill(&["run", "p.yaml"]).expect(0);
    let two = workspace.sql("SELECT logprob FROM two");
    let clean = Workspace::new();
    clean.add_model("gpt2", "local");
    clean.write("probe", "probe");
    clean.write("p.yaml", pipeline("replace", &clean.path("probe")));
    clean.proofmill(&["run", "p.yaml"]).expect(0);
    assert_eq!(clean.sql("SELECT logprob FROM two"), two);
}

#[test]
fn a_fitted_folder_is_whole_or_made_again() {
    let workspace = Workspace::with(FITS);
    workspace.run();
    let files = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json"];
    for name in files {
        let path = format!("made/{name}");
        let before = fs::read(workspace.path(&path)).unwrap();
        workspace.write(&path, "{}");
        workspace.write("made/.fitted-1-config.json", "half");
        assert_eq!(workspace.run(), set(&["model"]), "{name}");
        assert!(fs::read(workspace.path(&path)).unwrap() == before, "{name}");
        assert!(!workspace.path("made/.fitted-1-config.json").exists());
    }
    // What is not of the model stays, unless it would be read with it.
    workspace.write("made/README.md", "mine");
    assert_eq!(workspace.run(), set(&[]));
    workspace.write("made/special_tokens_map.json", "{}");
    let done = workspace.proofmill(&["run", "p.yaml"]).expect(1);
    done.says("special_tokens_map.json: is not of the fitted model");
    assert_eq!(workspace.read("made/README.md"), "mine");
    assert_eq!(workspace.read("made/special_tokens_map.json"), "{}");
}

#[test]
fn no_clip_is_not_the_default_one() {
    let workspace = Workspace::with(FITS);
    workspace.run();
    workspace.edit("p.yaml", "seed: 3", "seed: 3, clip: null");
    assert_eq!(workspace.run(), set(&["model"]));
    let weights = || fs::read(workspace.path("made/model.safetensors")).unwrap();
    let unclipped = weights();
    workspace.edit("p.yaml", "clip: null", "clip: 1000000000.0");
    workspace.run();
    assert!(weights() == unclipped);
    workspace.edit("p.yaml", ", clip: 1000000000.0", "");
    assert_eq!(workspace.run(), set(&["model"]), "another model lies there");
}

/// A different failure for each prompt.
fn fails(_: usize, body: &Json) -> (&'static str, Json) {
    let status = match body["prompt"].as_str().unwrap() {
        "busy" => "429 Too Many Requests",
        "broken" => "503 Service Unavailable",
        "wrong" => "400 Bad Request",
        _ => {
            let choice = json!({ "index": 0, "text": "done", "finish_reason": "stop" });
            return ("200 OK", json!({ "choices": [choice] }));
        }
    };
    (status, json!({ "error": { "message": "said the server" } }))
}

#[test]
fn failures_that_may_pass_are_told_from_those_of_the_row() {
    let (url, _) = serve(fails);
    let workspace = Workspace::with(&format!(
        "pipeline: fails\nmodels:\n  far: {{ url: \"{url}\", model: small, retries: 0 }}\nstages:\n  \
         asked: {{ sql: \"SELECT column1 AS row_id, column1 AS q FROM (VALUES ('busy'), ('broken'), \
         ('wrong'), ('right')) AS t\" }}\n  said:\n    generate: {{ from: asked, model: far, prompt: q \
         }}\n    max_error_rate: 0.9\n"
    ));
    workspace.proofmill(&["run", "p.yaml"]).expect(0).says("3 error rows");
    let classes = "SELECT source, class FROM said__errors ORDER BY source";
    let expected = [("broken", "transient"), ("busy", "transient"), ("wrong", "invalid")]
        .map(|(source, class)| json!({ "source": source, "class": class }));
    assert_eq!(workspace.sql(classes), expected);
}

/// Takes no `wrong` request, and none but `right` in the first run.
fn recovers(place: usize, body: &Json) -> (&'static str, Json) {
    match body["prompt"].as_str().unwrap() {
        "right" => fails(place, &json!({ "prompt": "right" })),
        "busy" | "broken" if place > 4 => fails(place, &json!({ "prompt": "right" })),
        _ => fails(place, body),
    }
}

#[test]
fn only_what_may_pass_is_asked_again() {
    let (url, received) = serve(recovers);
    let workspace = Workspace::with(&format!(
        "pipeline: fails\nmodels:\n  far: {{ url: \"{url}\", model: small, retries: 0 }}\nstages:\n  \
         asked: {{ sql: \"SELECT column1 AS row_id, column1 AS q FROM (VALUES ('busy'), ('broken'), \
         ('wrong'), ('right')) AS t\" }}\n  said:\n    generate: {{ from: asked, model: far, prompt: q \
         }}\n    max_error_rate: 0.9\n"
    ));
    let mut seen = 0;
    let mut prompts = || {
        let sent = received.lock().unwrap();
        let new = sent[std::mem::replace(&mut seen, sent.len())..].iter();
        let mut prompts: Vec<String> =
            new.map(|(_, body)| body["prompt"].as_str().unwrap().to_owned()).collect();
        prompts.sort();
        prompts
    };
    workspace.proofmill(&["run", "p.yaml"]).expect(0).says("3 error rows");
    assert_eq!(prompts(), ["broken", "busy", "right", "wrong"]);
    let digests = "SELECT request_digest FROM said__errors WHERE source = 'wrong'";
    let failed = workspace.sql(digests);
    assert_eq!(failed[0]["request_digest"].as_str().unwrap().len(), 64);
    let plan = workspace.proofmill(&["plan", "p.yaml"]).expect(0);
    assert!(plan.stdout.contains("~3, 1 recorded"), "{}", plan.stdout);
    workspace.proofmill(&["run", "p.yaml"]).expect(0).says("2 asked, 1 replayed, 1 failed");
    assert_eq!(prompts(), ["broken", "busy"]);
    assert_eq!(workspace.sql("SELECT count(*) AS n FROM said")[0]["n"], 3);
    assert_eq!(workspace.sql(digests), failed);
    workspace.proofmill(&["run", "p.yaml"]).expect(0).says("2 from the store");
    // Who asks for it has all failures asked.
    workspace.proofmill(&["run", "p.yaml", "--rerun", "said"]).expect(0);
    assert_eq!(prompts(), ["wrong"]);
    // Another pipeline reads the error rows with their digests.
    workspace.write(
        "q.yaml",
        "pipeline: q\nstages:\n  read: { read: { run: fails, stage: said__errors, limit: 1 } }\n  \
         told: { sql: \"SELECT class, request_digest FROM read\" }\n",
    );
    workspace.proofmill(&["run", "q.yaml"]).expect(0);
    assert_eq!(workspace.sql("SELECT request_digest FROM told"), failed);
}
