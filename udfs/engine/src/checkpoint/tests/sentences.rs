//! Folders of sentence-transformers.

use safetensors::Dtype;
use serde_json::{Value, json};

use super::made::Made;
use crate::checkpoint::{VectorMode, VectorSettings};

/// A folder whose transformer lies at `transformer`, with a pooling and perhaps a normalisation.
fn sentence(transformer: &str, pooling: &Value, normalize: bool) -> Made {
    let at = |name: &str| {
        if transformer.is_empty() { name.to_owned() } else { format!("{transformer}/{name}") }
    };
    let module = |path: &str, kind: &str| json!({"path": path, "type": format!("sentence_transformers.models.{kind}")});
    let mut modules = vec![module(transformer, "Transformer"), module("1_Pooling", "Pooling")];
    if normalize {
        modules.push(module("2_Normalize", "Normalize"));
    }
    Made::empty()
        .json("modules.json", &Value::from(modules))
        .json("1_Pooling/config.json", pooling)
        .json(&at("config.json"), &json!({"model_type": "bert"}))
        .json(&at("sentence_bert_config.json"), &json!({"max_seq_length": 256}))
        .weights(&at("model.safetensors"), &[], Dtype::F32)
}

#[test]
fn pooling_and_normalisation_are_read() {
    let mean = json!({"pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true});
    let cls = json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false});
    let last = json!({"pooling_mode": "lasttoken"});
    for (pooling, normalize, mode) in [
        (&mean, true, VectorMode::Mean),
        (&cls, false, VectorMode::First),
        (&last, true, VectorMode::Last),
    ] {
        let folder = sentence("", pooling, normalize).open().unwrap();
        assert_eq!(folder.vector(), Some(VectorSettings { mode, normalize }));
        assert_eq!(folder.max_tokens(), Some(256));
        let names: Vec<&str> = folder.settings().iter().map(|(name, _)| name.as_str()).collect();
        let expected =
            ["1_Pooling/config.json", "config.json", "modules.json", "sentence_bert_config.json"];
        assert_eq!(names, expected);
    }
}

#[test]
fn the_transformer_may_lie_in_a_folder_of_its_own() {
    let made = sentence("0_Transformer", &json!({"pooling_mode_mean_tokens": true}), false);
    let folder = made.open().unwrap();
    assert_eq!(folder.file("tokenizer.json"), made.path().join("0_Transformer/tokenizer.json"));
    assert_eq!(folder.max_tokens(), Some(256));
}

#[test]
fn the_caller_may_choose_otherwise() {
    let chosen = VectorSettings { mode: VectorMode::Pooler, normalize: true };
    let folder = Made::with_tensors(&[]).open().unwrap();
    assert_eq!(folder.vector(), None);
    assert_eq!(folder.with_vector(chosen).vector(), Some(chosen));
}

#[test]
fn what_is_not_supported_is_refused() {
    let refused = |pooling: &Value| sentence("", pooling, false).refused();
    assert_eq!(
        refused(&json!({"pooling_mode_max_tokens": true})),
        "./1_Pooling/config.json: `pooling_mode_max_tokens` is true, expected false: supported are \
         mean, cls and lasttoken"
    );
    assert_eq!(
        refused(&json!({"pooling_mode": "weightedmean"})),
        "./1_Pooling/config.json: `pooling_mode` is \"weightedmean\", expected one of mean, cls and \
         lasttoken"
    );
    assert_eq!(
        refused(&json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})),
        "./1_Pooling/config.json: `pooling_mode` is absent, expected one of mean, cls and \
         lasttoken, or just one pooling_mode_* true"
    );
    let made = sentence("", &json!({"pooling_mode": "mean"}), false);
    let dense = json!([{"path": "3_Dense", "type": "sentence_transformers.models.Dense"}]);
    let made = made.json("modules.json", &dense);
    assert_eq!(
        made.refused(),
        "./modules.json: module `Dense` is not supported; supported are Transformer, Pooling and \
         Normalize"
    );
    let outside = json!([{"path": "../other", "type": "sentence_transformers.models.Transformer"}]);
    assert_eq!(
        made.json("modules.json", &outside).refused(),
        "./modules.json: expected a list of modules, each with a `type` and a `path` inside the \
         folder"
    );
    let made = sentence("", &json!({"pooling_mode": "mean"}), false);
    assert_eq!(
        made.json("sentence_bert_config.json", &json!({"do_lower_case": true})).refused(),
        "./sentence_bert_config.json: `do_lower_case` is true, expected false: the other is not \
         supported"
    );
    let made = sentence("", &json!({"pooling_mode": "mean"}), false);
    let prompt = json!({"default_prompt_name": "query"});
    assert_eq!(
        made.json("config_sentence_transformers.json", &prompt).refused(),
        "./config_sentence_transformers.json: `default_prompt_name` is \"query\", expected null: no \
         prompt is added by itself; write it into the text"
    );
}
