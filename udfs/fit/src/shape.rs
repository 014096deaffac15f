//! The shape of a network: that of a checkpoint, or sizes with a vocabulary.

use proofmill_engine::architecture::Buckets;
use proofmill_engine::checkpoint::{Config, Folder, LoadError};
use serde_json::{Map, Value, json};

use crate::error::FitError;
use crate::ops::Heads;
use crate::sizes::{Activation, Sizes};

/// Everything that decides which parameters there are and what is computed with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    pub vocabulary: usize,
    pub width: usize,
    pub heads: Heads,
    pub mlp_width: usize,
    pub activation: Activation,
    pub layers: usize,
    pub decoder_layers: usize,
    pub buckets: usize,
    pub max_distance: usize,
    pub eps: f32,
    /// Whether the head is a matrix of its own.
    pub own_head: bool,
    /// Whether logits are divided by the root of the width.
    pub scaled: bool,
}

impl Shape {
    /// Sizes that were checked, with a vocabulary.
    pub fn new(sizes: &Sizes, vocabulary: usize) -> Self {
        Self {
            vocabulary,
            width: sizes.d_model,
            heads: Heads { count: sizes.heads, width: sizes.d_kv },
            mlp_width: sizes.d_ff,
            activation: sizes.activation,
            layers: sizes.layers,
            decoder_layers: sizes.decoder_layers.unwrap_or(sizes.layers),
            buckets: sizes.buckets,
            max_distance: sizes.max_distance,
            eps: 1e-6,
            own_head: false,
            scaled: true,
        }
    }

    /// The shape of a T5 checkpoint, read as the engine reads it.
    pub fn read(folder: &Folder) -> Result<Self, FitError> {
        let config = folder.config();
        let layers = config.size("num_layers")?;
        let tied = config.flag_or("tie_word_embeddings", true)?;
        let shape = Self {
            vocabulary: config.size("vocab_size")?,
            width: config.size("d_model")?,
            heads: Heads { count: config.size("num_heads")?, width: config.size("d_kv")? },
            mlp_width: config.size("d_ff")?,
            activation: activation(config)?,
            layers,
            decoder_layers: config.size_or("num_decoder_layers", layers)?,
            buckets: config.size_or("relative_attention_num_buckets", 32)?,
            max_distance: config.size_or("relative_attention_max_distance", 128)?,
            eps: config.positive_or("layer_norm_epsilon", 1e-6)? as f32,
            own_head: folder.has("lm_head.weight"),
            scaled: config.flag_or("scale_decoder_outputs", tied)?,
        };
        Sizes {
            d_model: shape.width,
            d_kv: shape.heads.width,
            d_ff: shape.mlp_width,
            heads: shape.heads.count,
            layers,
            decoder_layers: Some(shape.decoder_layers),
            activation: shape.activation,
            matching_heads: 0,
            buckets: shape.buckets,
            max_distance: shape.max_distance,
        }
        .check()?;
        Ok(shape)
    }

    /// Numbers of all heads together.
    pub fn inner(&self) -> usize {
        self.heads.count * self.heads.width
    }

    /// How distances fall into buckets in the encoder, which looks both ways, or in the decoder.
    pub fn relative(&self, both_ways: bool) -> Buckets {
        Buckets { count: self.buckets, max_distance: self.max_distance, both_ways }
    }

    /// `config.json` of a model that began from nothing.
    pub fn config(&self, pad: u32, end: u32) -> Map<String, Value> {
        let config = json!({
            "architectures": ["T5ForConditionalGeneration"],
            "d_ff": self.mlp_width,
            "d_kv": self.heads.width,
            "d_model": self.width,
            "decoder_start_token_id": pad,
            "dropout_rate": 0.0,
            "eos_token_id": end,
            "feed_forward_proj": self.activation.name(),
            "initializer_factor": 1.0,
            "is_encoder_decoder": true,
            "layer_norm_epsilon": 1e-6,
            "model_type": "t5",
            "num_decoder_layers": self.decoder_layers,
            "num_heads": self.heads.count,
            "num_layers": self.layers,
            "pad_token_id": pad,
            "relative_attention_max_distance": self.max_distance,
            "relative_attention_num_buckets": self.buckets,
            "scale_decoder_outputs": true,
            "tie_word_embeddings": true,
            "use_cache": true,
            "vocab_size": self.vocabulary,
        });
        match config {
            Value::Object(config) => config,
            // `json!` of braces is an object.
            _ => Map::new(),
        }
    }
}

/// `feed_forward_proj`, of which two are trained.
fn activation(config: &Config) -> Result<Activation, LoadError> {
    const KEY: &str = "feed_forward_proj";
    match config.text(KEY)?.unwrap_or("relu") {
        "relu" => Ok(Activation::Relu),
        "gated-gelu" => Ok(Activation::GatedGelu),
        _ => Err(config.refuse(KEY, "relu or gated-gelu, which can be trained")),
    }
}
