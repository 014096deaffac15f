//! Where models compute: what `show models` says of them, and devices that are not there. No test
//! depends on whether this machine has a GPU.

use crate::support::Workspace;

const PIPELINE: &str = r#"
pipeline: devices
models:
  writer: { path: models/writer, device: cpu, workers: 2, kv_cache_mib: 8 }
  reader: { path: models/reader, device: cpu, workers: 1, dtype: int8 }
  encoder: { path: models/encoder, device: cpu, workers: 1 }
  judge: { url: "http://localhost:9/v1", model: large, api: chat }
stages:
  asked:
    sql: SELECT 'a' AS row_id, 'the cat sat' AS question
  written:
    generate: { from: asked, model: writer, prompt: question, options: { max_tokens: 4 } }
"#;

fn workspace() -> Workspace {
    let workspace = Workspace::with(PIPELINE);
    workspace.add_model("gpt2", "models/writer");
    workspace.add_model("t5", "models/reader");
    workspace.add_model("bert-sentence", "models/encoder");
    workspace
}

#[test]
fn models_are_shown_with_what_they_take() {
    let workspace = workspace();
    let shown = workspace.proofmill(&["show", "models", "p.yaml"]).expect(0).stdout;
    let mut shown = shown.replace("avx512  ", "ISA  ").replace("avx2  ", "ISA  ");
    shown = shown.replace("portable  ", "ISA  ");
    let words: Vec<String> =
        shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let gpus = words.last().unwrap();
    assert!(gpus.starts_with("no GPU: ") || gpus.starts_with("GPUs: cuda:0 "), "{gpus}");
    let expected = [
        "model family parameters dtype device kernels weights cache",
        "writer gpt2 45,056 f32 cpu, 2 workers, ISA - 238.5 KiB 8.0 MiB",
        "reader t5 86,272 int8 cpu, 1 worker, ISA - 192.9 KiB 1.0 GiB",
        "encoder bert 50,824 f32 cpu, 1 worker, ISA - 145.4 KiB -",
        "",
        "model remote name api url",
        "judge large chat http://localhost:9/v1",
        "",
    ];
    let rows: Vec<&str> =
        words.iter().map(String::as_str).filter(|line| !line.contains('─')).collect();
    assert_eq!(rows[..rows.len() - 1], expected);
    let json = workspace.json(&["show", "models", "p.yaml"]);
    assert_eq!(json["models"][1]["dtype"], "int8");
    assert_eq!(json["models"][2]["cache_bytes"], serde_json::Value::Null);
    assert_eq!(json["gpus"].as_array().unwrap().is_empty(), json["no_gpu"].is_string());
}

#[test]
fn without_a_pipeline_only_gpus_are_shown() {
    let shown = Workspace::new().proofmill(&["show", "models"]).expect(0).stdout;
    assert_eq!(shown.lines().count(), 1, "{shown}");
}

#[test]
fn a_stage_may_still_be_shown() {
    let workspace = workspace();
    workspace.run();
    assert!(workspace.proofmill(&["show", "written"]).expect(0).stdout.contains("written"));
    assert!(workspace.proofmill(&["show"]).expect(0).stdout.contains("asked"));
}

#[test]
fn a_gpu_that_is_not_there_is_a_mistake_with_its_place() {
    let workspace = workspace();
    let check = |old: &str, new: &str| {
        let workspace = workspace.copy();
        workspace.edit("p.yaml", old, new);
        workspace.proofmill(&["check", "p.yaml"]).expect(3)
    };
    let writer = "path: models/writer, device: cpu";
    check(writer, "path: models/writer, device: cuda:4711").says("E0403").says("p.yaml:4:42");
    check(writer, "path: models/writer, device: cpu, dtype: bf16")
        .says("`dtype: bf16` needs a GPU, but the model runs on the processor")
        .says("write `dtype: f32` or `dtype: int8`");
}

#[test]
fn no_gpu_is_remarked_on_only_where_one_was_wanted() {
    let workspace = workspace();
    let remark = "no GPU is used: ";
    assert!(!workspace.proofmill(&["run", "p.yaml"]).expect(0).stderr.contains(remark));
    let has_gpu = workspace.json(&["show", "models"])["no_gpu"].is_null();
    let remarks = || {
        let said = workspace.proofmill(&["run", "p.yaml"]).expect(0).stderr;
        said.matches(remark).count()
    };
    // No stage asks it.
    workspace.edit("p.yaml", "path: models/encoder, device: cpu", "path: models/encoder");
    assert_eq!(remarks(), 0);
    workspace.edit("p.yaml", "path: models/writer, device: cpu", "path: models/writer");
    assert_eq!(remarks(), usize::from(!has_gpu));
    // It was said.
    assert_eq!(remarks(), 0);
}
