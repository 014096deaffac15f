//! T5: its shape, which is that of a checkpoint or sizes with a vocabulary, and its parameters.

use proofmill_engine::architecture::Buckets;
use proofmill_engine::checkpoint::{Config, Folder, LoadError};
use serde_json::{Map, Value, json};

use crate::error::FitError;
use crate::graph::ops::{Heads, Inner, MlpShape};
use crate::model::origin::object;
use crate::model::places::{
    Attention, Block, Cross, Drops, Head, Linear, Mlp, NormPlace, Places, Stack,
};
use crate::model::weights::{Draft, Kind, Plan};
use crate::settings::Checked;
use crate::sizes::{BUCKETS, MAX_DISTANCE, check_positions, config_name, projections};
use proofmill_settings::fit::{Activation, Sizes};

/// Everything that decides which parameters there are and what is computed with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct T5Shape {
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

impl T5Shape {
    /// Sizes that were checked, with a vocabulary.
    pub fn new(sizes: &Sizes, vocabulary: usize) -> Self {
        Self {
            vocabulary,
            width: sizes.d_model,
            heads: Heads { count: sizes.heads, width: sizes.d_kv },
            mlp_width: sizes.d_ff,
            activation: sizes.activation(),
            layers: sizes.layers,
            decoder_layers: sizes.decoder_layers(),
            buckets: BUCKETS,
            max_distance: MAX_DISTANCE,
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
            ..Sizes::tiny()
        }
        .check()?;
        check_positions(shape.buckets, shape.max_distance)?;
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

    /// Its parameters.
    pub fn plan(&self) -> Plan {
        let mut draft = Draft::default();
        let rows = Kind::Embedding { rows: self.vocabulary, width: self.width };
        // Files made by other tools than transformers keep only one of the shared names.
        let shared =
            ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
        let embedding = draft.add(shared.map(str::to_owned).to_vec(), rows, vec![1.0]);
        let own = self.own_head;
        let head = own.then(|| draft.add(vec!["lm_head.weight".to_owned()], rows, vec![1.0]));
        let encoder = self.stack(&mut draft, embedding, "encoder", self.layers);
        let decoder = self.stack(&mut draft, embedding, "decoder", self.decoder_layers);
        let head = Head {
            transform: None,
            scale: if self.scaled { (self.width as f32).sqrt().recip() } else { 1.0 },
            matrix: head.unwrap_or(embedding),
            bias: None,
        };
        let places = Places::EncoderDecoder { encoder, decoder, head };
        Plan { parameters: draft.parameters, places, vocabulary: self.vocabulary }
    }

    fn stack(&self, draft: &mut Draft, tokens: usize, name: &str, layers: usize) -> Stack {
        let decoder = name == "decoder";
        let at = format!("{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
        let kind = Kind::Positions { buckets: self.buckets, heads: self.heads.count };
        let positions = draft.add(vec![at], kind, vec![(self.width as f32).sqrt().recip()]);
        let blocks = (0..layers)
            .map(|layer| self.block(draft, &format!("{name}.block.{layer}.layer"), decoder))
            .collect();
        let inner = match self.activation {
            Activation::Relu => Inner::Relu,
            Activation::GatedGelu => Inner::GatedGeluTanh,
        };
        Stack {
            tokens,
            learned: None,
            embedding_norm: None,
            relative: Some((positions, self.relative(!decoder))),
            blocks,
            norm: Some(self.norm(draft, &format!("{name}.final_layer_norm"))),
            norm_first: true,
            causal: decoder,
            drops: Drops::T5,
            heads: self.heads,
            scale: 1.0,
            mlp: MlpShape { inner, width: self.mlp_width },
        }
    }

    fn norm(&self, draft: &mut Draft, at: &str) -> NormPlace {
        let kind = Kind::Norm { width: self.width };
        let weight = draft.add(vec![format!("{at}.weight")], kind, Vec::new());
        NormPlace { weight, bias: None, eps: self.eps }
    }

    /// Matrices side by side, whose results begin about as large as what they are given. Queries
    /// begin smaller by the root of their width, as nothing scales their products with keys.
    fn matrix(
        &self,
        draft: &mut Draft,
        at: &str,
        names: &[&str],
        (inputs, outputs): (usize, usize),
    ) -> Linear {
        let spread = |name: &&str| match *name {
            "q" => ((inputs * self.heads.width) as f32).sqrt().recip(),
            _ => (inputs as f32).sqrt().recip(),
        };
        let spreads = names.iter().map(spread).collect();
        let names = names.iter().map(|name| format!("{at}.{name}.weight")).collect();
        let matrix = draft.add(names, Kind::Matrix { inputs, outputs }, spreads);
        Linear { matrix, bias: None }
    }

    fn block(&self, draft: &mut Draft, at: &str, decoder: bool) -> Block {
        let (width, inner, mlp_width) = (self.width, self.inner(), self.mlp_width);
        let norm = |number: usize| format!("{at}.{number}.layer_norm");
        let own = format!("{at}.0.SelfAttention");
        let attention = Attention {
            norm: self.norm(draft, &norm(0)),
            qkv: self.matrix(draft, &own, &["q", "k", "v"], (width, inner)),
            out: self.matrix(draft, &own, &["o"], (inner, width)),
        };
        let other = format!("{at}.1.EncDecAttention");
        let cross = decoder.then(|| Cross {
            norm: self.norm(draft, &norm(1)),
            q: self.matrix(draft, &other, &["q"], (width, inner)),
            kv: self.matrix(draft, &other, &["k", "v"], (width, inner)),
            out: self.matrix(draft, &other, &["o"], (inner, width)),
        });
        let last = if decoder { 2 } else { 1 };
        let dense = format!("{at}.{last}.DenseReluDense");
        let up: &[&str] = match projections(self.activation) {
            1 => &["wi"],
            _ => &["wi_0", "wi_1"],
        };
        let mlp = Mlp {
            norm: self.norm(draft, &norm(last)),
            up: self.matrix(draft, &dense, up, (width, mlp_width)),
            down: self.matrix(draft, &dense, &["wo"], (mlp_width, width)),
        };
        Block { attention, cross, mlp }
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
            "feed_forward_proj": config_name(self.activation),
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
        object(config)
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
