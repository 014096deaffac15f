//! What a folder must have, and which models there are.

use safetensors::Dtype;
use serde_json::{Value, json};

use super::made::{Made, shapes};
use crate::checkpoint::Family;

#[test]
fn a_folder_without_configuration_is_no_model() {
    assert_eq!(
        Made::empty().refused(),
        "./config.json: not found; give the folder that holds config.json, model.safetensors and \
         tokenizer.json"
    );
}

#[test]
fn a_folder_without_weights_is_refused() {
    let made = Made::empty().json("config.json", &json!({"model_type": "opt"}));
    assert_eq!(
        made.refused(),
        "./model.safetensors: not found; a model's folder holds its weights there, or in several \
         files beside model.safetensors.index.json"
    );
}

#[test]
fn a_pickle_is_refused_with_the_way_out() {
    let made = Made::empty().json("config.json", &json!({"model_type": "opt"}));
    assert_eq!(
        made.file("pytorch_model.bin", b"").refused(),
        "./pytorch_model.bin: a pickle can run code when it is read; convert it once with \
         transformers: OPTForCausalLM.from_pretrained(folder).save_pretrained(folder)"
    );
}

#[test]
fn a_configuration_must_be_an_object() {
    let refused = |text: &str| Made::empty().file("config.json", text.as_bytes()).refused();
    assert_eq!(refused("[]"), "./config.json: expected an object of settings");
    assert_eq!(refused("{"), "./config.json: EOF while parsing an object at line 1 column 1");
}

fn refused(config: Value) -> String {
    Made::new(&config, &[]).refused()
}

const SUPPORTED: &str = "is not supported; supported are T5, BART, BERT, DPR, RoBERTa, OPT, GPT-2, \
                         Llama, Mistral, Qwen2 and Qwen3";

#[test]
fn other_models_are_refused_by_name() {
    assert_eq!(
        refused(json!({"architectures": ["MambaForCausalLM"], "model_type": "mamba"})),
        format!("./config.json: architecture `MambaForCausalLM` {SUPPORTED}")
    );
    assert_eq!(
        refused(json!({"architectures": ["BertForTokenClassification"], "model_type": "bert"})),
        format!("./config.json: architecture `BertForTokenClassification` {SUPPORTED}")
    );
    assert_eq!(
        refused(json!({"model_type": "mamba"})),
        format!("./config.json: model type `mamba` {SUPPORTED}")
    );
    assert_eq!(
        refused(json!({})),
        "./config.json: `model_type` is absent, expected the type of the model"
    );
    assert_eq!(
        refused(json!({"architectures": ["GPT2Model"], "model_type": "opt"})),
        "./config.json: `model_type` is \"opt\", expected \"gpt2\" for architecture GPT2Model"
    );
    assert_eq!(
        refused(json!({"model_type": "llama", "quantization_config": {"bits": 4}})),
        "./config.json: `quantization_config` is {\"bits\":4}, expected absent: weights must be \
         f32, f16 or bf16"
    );
}

#[test]
fn a_type_alone_is_enough() {
    let made = Made::new(&json!({"model_type": "qwen3"}), &[]);
    let folder = made.open().unwrap();
    assert_eq!(folder.family(), Family::Qwen3);
    assert_eq!(folder.architecture(), "Qwen3ForCausalLM");
}

#[test]
fn parameters_are_counted_without_masks_and_copies() {
    let tensors = shapes(&[
        ("model.shared.weight", &[5, 2]),
        ("model.encoder.embed_tokens.weight", &[5, 2]),
        ("model.decoder.embed_tokens.weight", &[5, 2]),
        ("h.0.attn.bias", &[1, 1, 4, 4]),
        ("final_logits_bias", &[1, 5]),
        ("h.0.attn.c_attn.bias", &[6]),
    ]);
    let made = Made::empty().json("config.json", &json!({"model_type": "bart"}));
    let made = made.weights("model.safetensors", &tensors, Dtype::F32);
    assert_eq!(made.open().unwrap().parameters(), 16);
}
