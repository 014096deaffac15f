//! The smallest models of each family: their settings, and the tensors that transformers would save.

use serde_json::{Value, json};

use crate::checkpoint::tests::made::{Made, Shape};

/// Settings and tensors of a model.
pub struct Tiny {
    pub config: Value,
    pub tensors: Vec<Shape>,
}

impl Tiny {
    fn new(config: Value) -> Self {
        Self { config, tensors: Vec::new() }
    }

    pub fn add(&mut self, name: impl Into<String>, shape: &[usize]) {
        self.tensors.push((name.into(), shape.to_vec()));
    }

    /// A matrix with its bias.
    fn affine(&mut self, name: &str, outputs: usize, inputs: usize) {
        self.add(format!("{name}.weight"), &[outputs, inputs]);
        self.add(format!("{name}.bias"), &[outputs]);
    }

    /// A layer norm.
    fn norm(&mut self, name: &str, width: usize) {
        self.add(format!("{name}.weight"), &[width]);
        self.add(format!("{name}.bias"), &[width]);
    }

    /// The stack of a BERT of width 4 with these attentions.
    fn bert_stack(&mut self, at: &str, attentions: &[&str]) {
        for (name, rows) in [("word", 7), ("position", 8), ("token_type", 2)] {
            self.add(format!("{at}embeddings.{name}_embeddings.weight"), &[rows, 4]);
        }
        self.norm(&format!("{at}embeddings.LayerNorm"), 4);
        let at = format!("{at}encoder.layer.0");
        for attention in attentions {
            for name in ["self.query", "self.key", "self.value", "output.dense"] {
                self.affine(&format!("{at}.{attention}.{name}"), 4, 4);
            }
            self.norm(&format!("{at}.{attention}.output.LayerNorm"), 4);
        }
        self.affine(&format!("{at}.intermediate.dense"), 5, 4);
        self.affine(&format!("{at}.output.dense"), 4, 5);
        self.norm(&format!("{at}.output.LayerNorm"), 4);
    }

    /// The same with another setting.
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.config[key] = value;
        self
    }

    /// The same with `from` at the beginning of names replaced.
    pub fn renamed(mut self, from: &str, to: &str) -> Self {
        for (name, _) in &mut self.tensors {
            if let Some(rest) = name.strip_prefix(from) {
                *name = format!("{to}{rest}");
            }
        }
        self
    }

    /// The same without one tensor.
    pub fn without(mut self, name: &str) -> Self {
        self.tensors.retain(|(other, _)| other != name);
        self
    }

    pub fn make(&self) -> Made {
        Made::new(&self.config, &self.tensors)
    }
}

/// Width 4, two heads of 3, four buckets.
pub fn t5(gated: bool) -> Tiny {
    let mut tiny = Tiny::new(json!({
        "architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "vocab_size": 7,
        "d_model": 4, "d_kv": 3, "d_ff": 5, "num_layers": 1, "num_heads": 2,
        "relative_attention_num_buckets": 4, "relative_attention_max_distance": 6,
        "feed_forward_proj": if gated { "gated-gelu" } else { "relu" }
    }));
    tiny.add("shared.weight", &[7, 4]);
    for (stack, parts) in
        [("encoder", &["SelfAttention"][..]), ("decoder", &["SelfAttention", "EncDecAttention"])]
    {
        let at = format!("{stack}.block.0.layer");
        for (number, part) in parts.iter().enumerate() {
            for name in ["q", "k", "v"] {
                tiny.add(format!("{at}.{number}.{part}.{name}.weight"), &[6, 4]);
            }
            tiny.add(format!("{at}.{number}.{part}.o.weight"), &[4, 6]);
            tiny.add(format!("{at}.{number}.layer_norm.weight"), &[4]);
        }
        tiny.add(format!("{at}.0.SelfAttention.relative_attention_bias.weight"), &[4, 2]);
        let last = parts.len();
        for name in if gated { &["wi_0", "wi_1"][..] } else { &["wi"] } {
            tiny.add(format!("{at}.{last}.DenseReluDense.{name}.weight"), &[5, 4]);
        }
        tiny.add(format!("{at}.{last}.DenseReluDense.wo.weight"), &[4, 5]);
        tiny.add(format!("{at}.{last}.layer_norm.weight"), &[4]);
        tiny.add(format!("{stack}.final_layer_norm.weight"), &[4]);
    }
    tiny
}

/// Width 4, two heads.
pub fn bart() -> Tiny {
    let mut tiny = Tiny::new(json!({
        "architectures": ["BartForConditionalGeneration"], "model_type": "bart", "vocab_size": 7,
        "d_model": 4, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 5, "decoder_ffn_dim": 5,
        "max_position_embeddings": 8, "scale_embedding": true
    }));
    tiny.add("model.shared.weight", &[7, 4]);
    tiny.add("final_logits_bias", &[1, 7]);
    for (stack, parts) in
        [("encoder", &["self_attn"][..]), ("decoder", &["self_attn", "encoder_attn"])]
    {
        tiny.add(format!("model.{stack}.embed_positions.weight"), &[10, 4]);
        tiny.norm(&format!("model.{stack}.layernorm_embedding"), 4);
        let at = format!("model.{stack}.layers.0");
        for part in parts {
            for name in ["q_proj", "k_proj", "v_proj", "out_proj"] {
                tiny.affine(&format!("{at}.{part}.{name}"), 4, 4);
            }
            tiny.norm(&format!("{at}.{part}_layer_norm"), 4);
        }
        tiny.affine(&format!("{at}.fc1"), 5, 4);
        tiny.affine(&format!("{at}.fc2"), 4, 5);
        tiny.norm(&format!("{at}.final_layer_norm"), 4);
    }
    tiny
}

/// Width 4, two heads, with a pooler.
pub fn bert() -> Tiny {
    let mut tiny = Tiny::new(json!({
        "architectures": ["BertModel"], "model_type": "bert", "vocab_size": 7, "hidden_size": 4,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 5,
        "max_position_embeddings": 8
    }));
    tiny.bert_stack("", &["attention"]);
    tiny.affine("pooler.dense", 4, 4);
    tiny
}

/// Two of them, of which the second writes.
pub fn bert2bert() -> Tiny {
    let side = |decoder: bool| {
        let mut config = bert().config;
        config["is_decoder"] = json!(decoder);
        config["add_cross_attention"] = json!(decoder);
        config
    };
    let mut tiny = Tiny::new(json!({
        "architectures": ["EncoderDecoderModel"], "model_type": "encoder-decoder",
        "encoder": side(false), "decoder": side(true), "decoder_start_token_id": 2
    }));
    tiny.bert_stack("encoder.", &["attention"]);
    tiny.bert_stack("decoder.bert.", &["attention", "crossattention"]);
    tiny.affine("decoder.cls.predictions.transform.dense", 4, 4);
    tiny.norm("decoder.cls.predictions.transform.LayerNorm", 4);
    tiny.add("decoder.cls.predictions.bias", &[7]);
    tiny
}

/// The same as it lies in a question or a context encoder, which has no pooler.
pub fn dpr(prefix: &str, architecture: &str) -> Tiny {
    let bert =
        bert().without("pooler.dense.weight").without("pooler.dense.bias").renamed("", prefix);
    bert.with("architectures", json!([architecture])).with("model_type", json!("dpr"))
}

/// The same with one token type and two rows before the first position.
pub fn roberta() -> Tiny {
    let mut tiny = bert()
        .with("architectures", json!(["RobertaModel"]))
        .with("model_type", json!("roberta"))
        .with("type_vocab_size", json!(1))
        .without("embeddings.token_type_embeddings.weight");
    tiny.add("embeddings.token_type_embeddings.weight", &[1, 4]);
    tiny
}

/// BERT with a head of three classes.
pub fn bert_classifier() -> Tiny {
    let mut tiny = bert()
        .renamed("", "bert.")
        .with("architectures", json!(["BertForSequenceClassification"]))
        .with("num_labels", json!(3));
    tiny.affine("classifier", 3, 4);
    tiny
}

/// RoBERTa with a head of one class.
pub fn roberta_classifier() -> Tiny {
    let mut tiny = roberta()
        .without("pooler.dense.weight")
        .without("pooler.dense.bias")
        .renamed("", "roberta.")
        .with("architectures", json!(["RobertaForSequenceClassification"]))
        .with("id2label", json!({"0": "fits"}));
    tiny.affine("classifier.dense", 4, 4);
    tiny.affine("classifier.out_proj", 1, 4);
    tiny
}

/// Width 4, two heads; the embedding of width 4, or narrower with norms after.
pub fn opt(narrow: usize) -> Tiny {
    let before = narrow == 4;
    let mut tiny = Tiny::new(json!({
        "architectures": ["OPTForCausalLM"], "model_type": "opt", "vocab_size": 7, "hidden_size": 4,
        "word_embed_proj_dim": narrow, "num_hidden_layers": 1, "num_attention_heads": 2,
        "ffn_dim": 5, "max_position_embeddings": 8, "do_layer_norm_before": before
    }));
    let at = "model.decoder";
    tiny.add(format!("{at}.embed_tokens.weight"), &[7, narrow]);
    tiny.add(format!("{at}.embed_positions.weight"), &[10, 4]);
    if before {
        tiny.norm(&format!("{at}.final_layer_norm"), 4);
    } else {
        tiny.add(format!("{at}.project_in.weight"), &[4, narrow]);
        tiny.add(format!("{at}.project_out.weight"), &[narrow, 4]);
    }
    let at = "model.decoder.layers.0";
    for name in ["q_proj", "k_proj", "v_proj", "out_proj"] {
        tiny.affine(&format!("{at}.self_attn.{name}"), 4, 4);
    }
    tiny.norm(&format!("{at}.self_attn_layer_norm"), 4);
    tiny.affine(&format!("{at}.fc1"), 5, 4);
    tiny.affine(&format!("{at}.fc2"), 4, 5);
    tiny.norm(&format!("{at}.final_layer_norm"), 4);
    tiny
}

/// Width 4, two heads, four times as wide inside.
pub fn gpt2() -> Tiny {
    let mut tiny = Tiny::new(json!({
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 7, "n_embd": 4,
        "n_layer": 1, "n_head": 2, "n_positions": 8
    }));
    tiny.add("transformer.wte.weight", &[7, 4]);
    tiny.add("transformer.wpe.weight", &[8, 4]);
    tiny.norm("transformer.ln_f", 4);
    for (name, inputs, outputs) in
        [("attn.c_attn", 4, 12), ("attn.c_proj", 4, 4), ("mlp.c_fc", 4, 16), ("mlp.c_proj", 16, 4)]
    {
        tiny.add(format!("transformer.h.0.{name}.weight"), &[inputs, outputs]);
        tiny.add(format!("transformer.h.0.{name}.bias"), &[outputs]);
    }
    tiny.norm("transformer.h.0.ln_1", 4);
    tiny.norm("transformer.h.0.ln_2", 4);
    tiny
}

/// Width 8, two heads of 4 over one of keys, an output matrix of its own.
pub fn llama() -> Tiny {
    rotary("llama", "LlamaForCausalLM", false)
}

/// The same without a window.
pub fn mistral() -> Tiny {
    rotary("mistral", "MistralForCausalLM", false).with("sliding_window", Value::Null)
}

/// The same with biases of q, k and v.
pub fn qwen2() -> Tiny {
    rotary("qwen2", "Qwen2ForCausalLM", true)
}

/// The same with norms of heads and heads wider than their share.
pub fn qwen3() -> Tiny {
    let mut tiny = rotary("qwen3", "Qwen3ForCausalLM", false).with("head_dim", json!(4));
    for part in ["q", "k"] {
        tiny.add(format!("model.layers.0.self_attn.{part}_norm.weight"), &[4]);
    }
    tiny
}

fn rotary(kind: &str, architecture: &str, bias: bool) -> Tiny {
    let mut tiny = Tiny::new(json!({
        "architectures": [architecture], "model_type": kind, "vocab_size": 7, "hidden_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
        "intermediate_size": 5, "max_position_embeddings": 16
    }));
    tiny.add("model.embed_tokens.weight", &[7, 8]);
    tiny.add("lm_head.weight", &[7, 8]);
    tiny.add("model.norm.weight", &[8]);
    let at = "model.layers.0";
    for (name, outputs) in [("q", 8), ("k", 4), ("v", 4)] {
        tiny.add(format!("{at}.self_attn.{name}_proj.weight"), &[outputs, 8]);
        if bias {
            tiny.add(format!("{at}.self_attn.{name}_proj.bias"), &[outputs]);
        }
    }
    tiny.add(format!("{at}.self_attn.o_proj.weight"), &[8, 8]);
    for name in ["input_layernorm", "post_attention_layernorm"] {
        tiny.add(format!("{at}.{name}.weight"), &[8]);
    }
    for name in ["gate_proj", "up_proj"] {
        tiny.add(format!("{at}.mlp.{name}.weight"), &[5, 8]);
    }
    tiny.add(format!("{at}.mlp.down_proj.weight"), &[8, 5]);
    tiny
}
