//! OPT, a decoder-only model: its shape, which is that of a checkpoint or sizes with a vocabulary, and its parameters.

use proofmill_engine::checkpoint::{Config, LoadError};
use serde_json::{Map, Value, json};

use crate::graph::ops::{Heads, Inner, MlpShape};
use crate::model::origin::object;
use crate::model::places::{Attention, Block, Drops, Head, Learned, Mlp, NormPlace, Places, Stack};
use crate::model::weights::{Draft, Kind, Plan};
use proofmill_settings::fit::Sizes;

/// The standard deviation of first values (`init_std` of transformers).
const SPREAD: f32 = 0.02;
/// The row of position 0 in the table of positions.
const OFFSET: usize = 2;
const EPS: f32 = 1e-5;

/// Everything that decides which parameters there are and what is computed with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptShape {
    vocabulary: usize,
    width: usize,
    heads: Heads,
    mlp_width: usize,
    layers: usize,
    /// Most tokens of a text.
    pub positions: usize,
}

impl OptShape {
    /// A decoder of these sizes, for texts of up to so many tokens.
    pub fn new(sizes: &Sizes, vocabulary: usize, positions: usize) -> Self {
        Self {
            vocabulary,
            width: sizes.d_model,
            heads: Heads { count: sizes.heads, width: sizes.d_kv },
            mlp_width: sizes.d_ff,
            layers: sizes.layers,
            positions,
        }
    }

    /// The shape of a checkpoint; what is not as in most sizes of OPT is refused.
    pub fn read(config: &Config) -> Result<Self, LoadError> {
        config.only("do_layer_norm_before", true)?;
        config.only("_remove_final_layer_norm", false)?;
        config.only("enable_bias", true)?;
        config.only("layer_norm_elementwise_affine", true)?;
        config.only("tie_word_embeddings", true)?;
        let (width, count) = (config.size("hidden_size")?, config.size("num_attention_heads")?);
        if config.size_or("word_embed_proj_dim", width)? != width {
            return Err(config.refuse("word_embed_proj_dim", width.to_string()));
        }
        if !width.is_multiple_of(count) {
            let expected = format!("a divisor of the width {width}");
            return Err(config.refuse("num_attention_heads", expected));
        }
        if config.text("activation_function")?.is_some_and(|name| name != "relu") {
            return Err(config.refuse("activation_function", "\"relu\""));
        }
        Ok(Self {
            vocabulary: config.size("vocab_size")?,
            width,
            heads: Heads { count, width: width / count },
            mlp_width: config.size("ffn_dim")?,
            layers: config.size("num_hidden_layers")?,
            positions: config.size_or("max_position_embeddings", 2048)?,
        })
    }

    /// `config.json` of a model that began from nothing.
    pub fn config(&self, (pad, begin, end): (u32, u32, u32)) -> Map<String, Value> {
        let config = json!({
            "activation_function": "relu",
            "architectures": ["OPTForCausalLM"],
            "attention_dropout": 0.0,
            "bos_token_id": begin,
            "do_layer_norm_before": true,
            "dropout": 0.0,
            "enable_bias": true,
            "eos_token_id": end,
            "ffn_dim": self.mlp_width,
            "hidden_size": self.width,
            "init_std": SPREAD,
            "layer_norm_elementwise_affine": true,
            "layerdrop": 0.0,
            "max_position_embeddings": self.positions,
            "model_type": "opt",
            "num_attention_heads": self.heads.count,
            "num_hidden_layers": self.layers,
            "pad_token_id": pad,
            "tie_word_embeddings": true,
            "vocab_size": self.vocabulary,
            "word_embed_proj_dim": self.width,
        });
        object(config)
    }

    /// Its parameters, as `OPTForCausalLM` names them.
    pub fn plan(&self) -> Plan {
        let mut draft = Draft::default();
        let mut table = |name: &str, rows: usize| {
            let name = format!("model.decoder.{name}.weight");
            draft.add(vec![name], Kind::Embedding { rows, width: self.width }, vec![SPREAD])
        };
        let tokens = table("embed_tokens", self.vocabulary);
        let positions = table("embed_positions", OFFSET + self.positions);
        let blocks = (0..self.layers)
            .map(|layer| self.block(&mut draft, &format!("model.decoder.layers.{layer}.")))
            .collect();
        let decoder = Stack {
            tokens,
            learned: Some(Learned { positions, offset: OFFSET, types: None }),
            embedding_norm: None,
            relative: None,
            blocks,
            norm: Some(self.norm(&mut draft, "model.decoder.final_layer_norm")),
            norm_first: true,
            causal: true,
            drops: Drops::Opt,
            heads: self.heads,
            scale: (self.heads.width as f64).powf(-0.5) as f32,
            mlp: MlpShape { inner: Inner::Relu, width: self.mlp_width },
        };
        let head = Head { transform: None, scale: 1.0, matrix: tokens, bias: None };
        let places = Places::Decoder { decoder, head };
        Plan { parameters: draft.parameters, places, vocabulary: self.vocabulary }
    }

    fn block(&self, draft: &mut Draft, at: &str) -> Block {
        let (width, inside) = (self.width, self.mlp_width);
        let own = format!("{at}self_attn.");
        let parts = ["q_proj", "k_proj", "v_proj"];
        let attention = Attention {
            qkv: draft.linear(&own, &parts, (width, width), SPREAD),
            out: draft.linear(&own, &["out_proj"], (width, width), SPREAD),
            norm: self.norm(draft, &format!("{at}self_attn_layer_norm")),
        };
        let mlp = Mlp {
            up: draft.linear(at, &["fc1"], (width, inside), SPREAD),
            down: draft.linear(at, &["fc2"], (inside, width), SPREAD),
            norm: self.norm(draft, &format!("{at}final_layer_norm")),
        };
        Block { attention, cross: None, mlp }
    }

    fn norm(&self, draft: &mut Draft, at: &str) -> NormPlace {
        draft.layer_norm(at, self.width, EPS)
    }
}
