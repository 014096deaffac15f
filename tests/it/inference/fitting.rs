//! `fit`: a model of a few pairs, its folder, and when it is made anew.

use crate::support::{Workspace, set};

const PIPELINE: &str = r#"
pipeline: fitting
stages:
  pairs:
    sql: SELECT 'say ' || column1 AS asked, column2 AS said FROM (VALUES ('a', 'one two'), ('b', 'two three'), ('c', 'three one')) AS t
  model:
    fit:
      from: pairs
      input: asked
      output: said
      path: made/model
      sizes: { d_model: 8, d_kv: 4, d_ff: 16, heads: 2, layers: 1 }
      settings: { steps: 4, batch: 2, warmup: 1, seed: 3 }
"#;

const ASKS: &str = r#"
pipeline: asks
models:
  made: { path: made/model, device: cpu }
stages:
  asked:
    sql: SELECT 'x' AS row_id, 'say a' AS question
  said:
    generate: { from: asked, model: made, prompt: question, options: { max_tokens: 3 } }
"#;

#[test]
fn the_folder_is_a_model_and_the_same_bytes_every_time() {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    let weights = || std::fs::read(workspace.path("made/model/model.safetensors")).unwrap();
    let first = weights();
    let looks = workspace.sql("SELECT step, loss, weights FROM model");
    assert_eq!(looks.len(), 1);
    assert_eq!(looks[0]["step"], 4);
    // Words are guessed among a handful of tokens at first.
    assert!(looks[0]["loss"].as_f64().unwrap() > 0.5, "{looks:?}");

    workspace.write("asks.yaml", ASKS);
    workspace.proofmill(&["run", "asks.yaml"]).expect(0);

    // Nothing is trained twice, but a folder that is not what it was is made again.
    assert_eq!(workspace.run(), set(&[]));
    std::fs::remove_dir_all(workspace.path("made")).unwrap();
    assert_eq!(workspace.run(), set(&["model"]));
    assert!(weights() == first);
    workspace.edit("p.yaml", "seed: 3", "seed: 4");
    assert_eq!(workspace.run(), set(&["model"]));
    assert!(weights() != first);
}

#[test]
fn epochs_are_counted_in_pairs() {
    let workspace = Workspace::with(PIPELINE);
    workspace.run();
    let weights = || std::fs::read(workspace.path("made/model/model.safetensors")).unwrap();
    let by_steps = weights();
    // Three pairs in batches of two: an epoch is two steps.
    workspace.edit("p.yaml", "steps: 4", "epochs: 2");
    assert_eq!(workspace.run(), set(&["model"]));
    assert_eq!(workspace.sql("SELECT step FROM model")[0]["step"], 4);
    assert!(weights() == by_steps);
    workspace.edit("p.yaml", "warmup: 1", "warmup: 5");
    workspace
        .proofmill(&["run", "p.yaml"])
        .expect(1)
        .says("`warmup` is 5, expected a whole number from 0 to 4");
    workspace.edit("p.yaml", "warmup: 5", "warmup: 1, steps: 4");
    workspace
        .proofmill(&["check", "p.yaml"])
        .expect(3)
        .says("`epochs` and `steps` cannot be given together");
}

#[test]
fn what_cannot_be_learnt_is_said_at_its_place() {
    let workspace = Workspace::with(PIPELINE);
    let check = |old: &str, new: &str| {
        let workspace = workspace.copy();
        workspace.edit("p.yaml", old, new);
        workspace.proofmill(&["check", "p.yaml"]).expect(3)
    };
    check("output: said", "output: sayd").says("there is no column `sayd`").says("p.yaml:10:15");
    check("warmup: 1", "warmup: 9").says("`warmup`").says("p.yaml:13:17");
    check("seed: 3", "sed: 3").says("did you mean `seed`?");
    check("from: pairs", "from: pears").says("expected one of `pairs`");
    check("path: made", "objective: similarity\n      path: made")
        .says("vectors of outputs need a `checkpoint`")
        .says("p.yaml:11:18");
    check(
        "d_kv: 4, d_ff: 16, heads: 2, layers: 1 }",
        "d_kv: 3, d_ff: 16, heads: 2, layers: 1 }\n      objective: contrastive",
    )
    .says("`d_model` over `heads`")
    .says("p.yaml:12:14");
    check("path: made", "decoder: { layers: 1 }\n      path: made")
        .says("a new decoder needs the `checkpoint` of an encoder")
        .says("p.yaml:11:16");
    check("seed: 3", "patience: 3").says("`patience` needs dev pairs").says("p.yaml:13");
    check("seed: 3", "evaluate_start: true").says("`evaluate_start` needs dev pairs");
    let empty = workspace.copy();
    empty.edit("p.yaml", "'one two'", "''");
    empty.proofmill(&["run", "p.yaml"]).expect(1).says("empty output");
}

/// A model that begins with a BERT, and a pipeline that asks it.
const FROM_BERT: &str = r#"
pipeline: from_bert
stages:
  pairs:
    sql: SELECT 'ba ne ' || n AS asked, 'ko da ' || (n % 7) AS said FROM (SELECT unnest(range(20)) AS n)
  model:
    fit:
      from: pairs
      input: asked
      output: said
      checkpoint: start
      path: made/model
      objective: contrastive
      settings: { steps: 3, batch: 4, warmup: 1 }
"#;

#[test]
fn a_fitted_sentence_encoder_and_two_fitted_berts_can_be_asked() {
    for (start, made, ask, parts) in [
        ("bert-sentence", "objective: contrastive", "embed('made', 'ba ne')['vector']", true),
        ("bert-sentence", "objective: similarity", "embed('made', 'ba ne')['vector']", true),
        (
            "bert",
            "decoder: { layers: 1 }",
            "generate('made', 'ba ne', {max_tokens: 3})['text']",
            false,
        ),
    ] {
        let workspace = Workspace::with(FROM_BERT);
        workspace.add_model(start, "start");
        workspace.edit("p.yaml", "objective: contrastive", made);
        workspace.run();
        assert_eq!(workspace.path("made/model/1_Pooling/config.json").exists(), parts, "{made}");
        let asks = format!(
            "pipeline: asks\nmodels:\n  made: {{ path: made/model, device: cpu }}\nstages:\n  said:\n    sql: |\n      SELECT {ask} AS said\n"
        );
        workspace.write("asks.yaml", asks);
        workspace.proofmill(&["run", "asks.yaml"]).expect(0);
        // Every file of the folder counts, those in folders inside too.
        assert_eq!(workspace.run(), set(&[]), "{made}");
        let file =
            if parts { "made/model/1_Pooling/config.json" } else { "made/model/config.json" };
        std::fs::remove_file(workspace.path(file)).unwrap();
        assert_eq!(workspace.run(), set(&["model"]), "{made}");
        assert!(workspace.path(file).exists());
    }
}
