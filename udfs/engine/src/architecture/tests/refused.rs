//! Settings that change the mathematics and are not followed.

use serde_json::{Value, json};

use super::configs::{self, Tiny};
use super::plain::Plain;
use crate::architecture::load;
use crate::backend::Precision;

fn why(tiny: Tiny, key: &str, value: Value) -> String {
    let made = tiny.with(key, value).make();
    let network = load(&made.open().unwrap(), &Plain, Precision::F32, 100);
    made.why(network)
}

#[test]
fn each_is_told_with_what_is_supported() {
    let only_false = "expected false: the other is not supported";
    let activations =
        "expected one of relu, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, silu, swish";
    let cases: Vec<(Tiny, &str, Value, String)> = vec![
        (
            configs::t5(false),
            "feed_forward_proj",
            json!("gated-tanh"),
            "is \"gated-tanh\", expected relu, gated-gelu, gated-silu or the like".into(),
        ),
        (
            configs::t5(false),
            "relative_attention_num_buckets",
            json!(5),
            "is 5, expected an even number from 4".into(),
        ),
        (
            configs::t5(false),
            "relative_attention_max_distance",
            json!(3),
            "is 3, expected from 4 to 65536".into(),
        ),
        (configs::bart(), "normalize_before", json!(true), format!("is true, {only_false}")),
        (
            configs::bart(),
            "decoder_attention_heads",
            json!(3),
            "is 3, expected a divisor of the width 4".into(),
        ),
        (
            configs::bart(),
            "activation_function",
            json!("mish"),
            format!("is \"mish\", {activations}"),
        ),
        (configs::bert(), "is_decoder", json!(true), format!("is true, {only_false}")),
        (configs::bert(), "add_cross_attention", json!(true), format!("is true, {only_false}")),
        (
            configs::bert(),
            "position_embedding_type",
            json!("relative_key"),
            "is \"relative_key\", expected \"absolute\"".into(),
        ),
        (configs::bert(), "hidden_act", json!("mish"), format!("is \"mish\", {activations}")),
        (
            configs::gpt2(),
            "scale_attn_by_inverse_layer_idx",
            json!(true),
            format!("is true, {only_false}"),
        ),
        (configs::gpt2(), "add_cross_attention", json!(true), format!("is true, {only_false}")),
        (
            configs::llama(),
            "num_key_value_heads",
            json!(3),
            "is 3, expected a divisor of the 2 heads".into(),
        ),
        (
            configs::llama(),
            "head_dim",
            json!(3),
            "is 3, expected an even number: halves of it are rotated".into(),
        ),
        (
            configs::qwen2(),
            "layer_types",
            json!(["sliding_attention"]),
            "is [\"sliding_attention\"], expected only \"full_attention\"".into(),
        ),
        (
            configs::qwen2().with("sliding_window", json!(4)).with("max_window_layers", json!(0)),
            "use_sliding_window",
            json!(true),
            "is true, expected false: windows are not supported".into(),
        ),
        (
            configs::mistral(),
            "sliding_window",
            json!(15),
            "is 15, expected null, or at least the 16 tokens that a text may have: windows are not \
             supported"
                .into(),
        ),
        (
            configs::dpr("question_encoder.bert_model.", "DPRQuestionEncoder"),
            "projection_dim",
            json!(3),
            "is 3, expected 0: projections are not supported".into(),
        ),
        (configs::qwen3(), "partial_rotary_factor", json!(0.5), "is 0.5, expected 1".into()),
    ];
    for (tiny, key, value, expected) in cases {
        assert_eq!(why(tiny, key, value), format!("./config.json: `{key}` {expected}"));
    }
}

#[test]
fn sides_that_do_not_fit_are_told_by_their_section() {
    let why = |side: &str, key: &str, value: Value| {
        let mut tiny = configs::bert2bert();
        tiny.config[side][key] = value;
        let made = tiny.make();
        made.why(load(&made.open().unwrap(), &Plain, Precision::F32, 100))
    };
    let cases = [
        (
            "encoder",
            "model_type",
            json!("gpt2"),
            "is \"gpt2\", expected \"bert\": other sides are not supported",
        ),
        ("encoder", "is_decoder", json!(true), "is true, expected false"),
        ("decoder", "is_decoder", json!(null), "is absent, expected true"),
        ("decoder", "add_cross_attention", json!(false), "is false, expected true"),
        (
            "decoder",
            "hidden_size",
            json!(8),
            "is 8, expected 4, as the encoder has: a projection between them is not supported",
        ),
        (
            "decoder",
            "vocab_size",
            json!(9),
            "is 9, expected 7, as the encoder has: one tokenizer serves both",
        ),
        (
            "decoder",
            "cross_attention_hidden_size",
            json!(8),
            "is 8, expected absent, or the `hidden_size` of both sides",
        ),
        (
            "decoder",
            "position_embedding_type",
            json!("relative_key"),
            "is \"relative_key\", expected \"absolute\"",
        ),
    ];
    for (side, key, value, expected) in cases {
        assert_eq!(why(side, key, value), format!("./config.json: `{side}.{key}` {expected}"));
    }
    assert_eq!(
        why("encoder", "hidden_act", json!("mish")),
        "./config.json: `encoder.hidden_act` is \"mish\", expected one of relu, gelu, gelu_new, gelu_fast, \
         gelu_pytorch_tanh, silu, swish"
    );
}

#[test]
fn other_rotations_are_refused_in_old_and_new_files() {
    let known = "expected one of default, linear and llama3";
    assert_eq!(
        why(configs::llama(), "rope_scaling", json!({"type": "yarn", "factor": 4.0})),
        format!("./config.json: `rope_scaling.type` is \"yarn\", {known}")
    );
    assert_eq!(
        why(configs::llama(), "rope_parameters", json!({"rope_type": "dynamic", "factor": 4.0})),
        format!("./config.json: `rope_parameters.rope_type` is \"dynamic\", {known}")
    );
    assert_eq!(
        why(configs::llama(), "rope_parameters", json!({"rope_type": "llama3"})),
        "./config.json: `rope_parameters.factor` is absent, expected a number above 0"
    );
}

#[test]
fn a_window_of_mistral_that_no_text_fills_is_no_matter() {
    assert_eq!(why(configs::mistral(), "sliding_window", json!(16)), "it loads");
    // Where nothing is said there is one.
    let mut unsaid = configs::mistral().with("max_position_embeddings", json!(5000));
    unsaid.config.as_object_mut().unwrap().remove("sliding_window");
    let made = unsaid.make();
    let with_texts_of = |most| made.why(load(&made.open().unwrap(), &Plain, Precision::F32, most));
    assert_eq!(with_texts_of(4096), "it loads");
    assert_eq!(
        with_texts_of(4097),
        "./config.json: `sliding_window` is absent, expected null, or at least the 4097 tokens that \
         a text may have: windows are not supported"
    );
}

#[test]
fn a_table_of_positions_without_room_for_a_text_is_refused() {
    assert_eq!(
        why(configs::roberta(), "pad_token_id", json!(7)),
        "./config.json: `max_position_embeddings` is 8, expected more than the 8 rows before a text"
    );
}

#[test]
fn windows_that_no_layer_has_are_no_matter() {
    let tiny =
        configs::qwen2().with("sliding_window", json!(4)).with("max_window_layers", json!(1));
    assert_eq!(why(tiny, "use_sliding_window", json!(true)), "it loads");
}

#[test]
fn a_shape_that_the_settings_contradict_is_refused() {
    assert_eq!(
        why(configs::llama(), "intermediate_size", json!(6)),
        "./model.safetensors: tensor `model.layers.0.mlp.gate_proj.weight` has shape [5, 8], \
         expected [6, 8] by config.json"
    );
    assert_eq!(
        why(configs::gpt2(), "vocab_size", json!(8)),
        "./model.safetensors: tensor `transformer.wte.weight` has shape [7, 4], expected [8, 4] by \
         config.json"
    );
}

#[test]
fn an_untied_model_needs_its_output_matrix() {
    assert_eq!(
        why(configs::llama().without("lm_head.weight"), "tie_word_embeddings", json!(false)),
        "./model.safetensors: no tensor `lm_head.weight`"
    );
}
