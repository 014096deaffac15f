//! BERT: the shape of a stack, and the parameters of an encoder alone or of two stacks of which the second writes.

use proofmill_engine::checkpoint::{Config, LoadError};
use serde_json::{Map, Value, json};

use crate::graph::ops::{Heads, Inner, MlpShape};
use crate::model::origin::object;
use crate::model::places::{
    Attention, Block, Cross, Drops, Head, Learned, Mlp, NormPlace, Places, Stack, Transform,
};
use crate::model::weights::{Draft, Kind, Plan};
use proofmill_settings::fit::{DecoderSizes, Sizes};

/// The standard deviation of first values (`initializer_range` of transformers).
const SPREAD: f32 = 0.02;

/// Everything that decides which parameters a stack has and what is computed with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BertShape {
    vocabulary: usize,
    width: usize,
    heads: Heads,
    mlp: MlpShape,
    layers: usize,
    /// Most tokens of a text.
    pub positions: usize,
    types: usize,
    eps: f32,
}

impl BertShape {
    /// The shape of a checkpoint, read as the engine reads it.
    pub fn read(config: &Config) -> Result<Self, LoadError> {
        if config.text("position_embedding_type")?.is_some_and(|kind| kind != "absolute") {
            return Err(config.refuse("position_embedding_type", "\"absolute\""));
        }
        let (width, count) = (config.size("hidden_size")?, config.size("num_attention_heads")?);
        if !width.is_multiple_of(count) {
            let expected = format!("a divisor of the width {width}");
            return Err(config.refuse("num_attention_heads", expected));
        }
        let inner = match config.text("hidden_act")?.unwrap_or("gelu") {
            "gelu" => Inner::Gelu,
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => Inner::GeluTanh,
            "relu" => Inner::Relu,
            _ => return Err(config.refuse("hidden_act", "gelu, gelu_new or relu")),
        };
        Ok(Self {
            vocabulary: config.size("vocab_size")?,
            width,
            heads: Heads { count, width: width / count },
            mlp: MlpShape { inner, width: config.size("intermediate_size")? },
            layers: config.size("num_hidden_layers")?,
            positions: config.size("max_position_embeddings")?,
            types: config.size_or("type_vocab_size", 2)?,
            eps: config.positive_or("layer_norm_eps", 1e-12)? as f32,
        })
    }

    /// An encoder of these sizes, for texts of up to so many tokens.
    pub fn new(sizes: &Sizes, vocabulary: usize, positions: usize) -> Self {
        Self {
            vocabulary,
            width: sizes.d_model,
            heads: Heads { count: sizes.heads, width: sizes.d_kv },
            mlp: MlpShape { inner: Inner::Relu, width: sizes.d_ff },
            layers: sizes.layers,
            positions,
            types: 1,
            eps: 1e-12,
        }
    }

    /// The settings of an encoder of [`Self::new`], as `BertModel` reads them.
    pub fn config(&self, pad: u32) -> Map<String, Value> {
        let config = json!({
            "architectures": ["BertModel"],
            "attention_probs_dropout_prob": 0.0,
            "hidden_act": "relu",
            "hidden_dropout_prob": 0.0,
            "hidden_size": self.width,
            "initializer_range": SPREAD,
            "intermediate_size": self.mlp.width,
            "layer_norm_eps": f64::from(self.eps),
            "max_position_embeddings": self.positions,
            "model_type": "bert",
            "num_attention_heads": self.heads.count,
            "num_hidden_layers": self.layers,
            "pad_token_id": pad,
            "type_vocab_size": self.types,
            "vocab_size": self.vocabulary,
        });
        object(config)
    }

    /// That of a decoder of these sizes behind an encoder of this shape; `None` if heads do not divide the width.
    pub fn decoder(self, sizes: &DecoderSizes) -> Option<Self> {
        let count = sizes.heads.unwrap_or(self.heads.count);
        self.width.is_multiple_of(count).then(|| Self {
            layers: sizes.layers,
            heads: Heads { count, width: self.width / count },
            mlp: MlpShape { width: sizes.d_ff.unwrap_or(self.mlp.width), ..self.mlp },
            ..self
        })
    }

    /// Numbers of a token.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The settings of the encoder's `config.json` as those of a decoder of this shape.
    pub fn decoder_config(&self, encoder: &Map<String, Value>) -> Map<String, Value> {
        let mut config = encoder.clone();
        let own = [
            ("add_cross_attention", json!(true)),
            ("intermediate_size", json!(self.mlp.width)),
            ("is_decoder", json!(true)),
            ("num_attention_heads", json!(self.heads.count)),
            ("num_hidden_layers", json!(self.layers)),
            ("tie_word_embeddings", json!(true)),
        ];
        config.extend(own.map(|(key, value)| (key.to_owned(), value)));
        config
    }

    /// An encoder alone, as `BertModel` names its tensors.
    pub fn encoder_plan(&self) -> Plan {
        let mut draft = Draft::default();
        let encoder = self.stack(&mut draft, "", false);
        let places = Places::Encoder(encoder);
        Plan { parameters: draft.parameters, places, vocabulary: self.vocabulary }
    }

    /// Two stacks, as `EncoderDecoderModel` names their tensors. With `own_head` the matrix to logits is not the
    /// decoder's embedding.
    pub fn two_plan(&self, decoder: &Self, own_head: bool) -> Plan {
        let mut draft = Draft::default();
        let encoder = self.stack(&mut draft, "encoder.", false);
        let writes = decoder.stack(&mut draft, "decoder.bert.", true);
        let at = "decoder.cls.predictions.";
        let transform = Transform {
            linear: draft.linear(
                &format!("{at}transform."),
                &["dense"],
                (decoder.width, decoder.width),
                SPREAD,
            ),
            activation: MlpShape { inner: decoder.mlp.inner, width: decoder.width },
            norm: decoder.norm(&mut draft, &format!("{at}transform.LayerNorm")),
        };
        let matrix = own_head.then(|| {
            let kind = Kind::Embedding { rows: decoder.vocabulary, width: decoder.width };
            draft.add(vec![format!("{at}decoder.weight")], kind, vec![SPREAD])
        });
        let bias = if own_head { format!("{at}decoder.bias") } else { format!("{at}bias") };
        let bias = draft.add(vec![bias], Kind::Bias { width: decoder.vocabulary }, Vec::new());
        let head = Head {
            transform: Some(transform),
            scale: 1.0,
            matrix: matrix.unwrap_or(writes.tokens),
            bias: Some(bias),
        };
        let places = Places::EncoderDecoder { encoder, decoder: writes, head };
        Plan { parameters: draft.parameters, places, vocabulary: decoder.vocabulary }
    }

    fn stack(&self, draft: &mut Draft, at: &str, decoder: bool) -> Stack {
        let mut table = |name: &str, rows: usize| {
            let name = format!("{at}embeddings.{name}_embeddings.weight");
            draft.add(vec![name], Kind::Embedding { rows, width: self.width }, vec![SPREAD])
        };
        let tokens = table("word", self.vocabulary);
        let learned = Learned {
            positions: table("position", self.positions),
            offset: 0,
            types: Some(table("token_type", self.types)),
        };
        let embedding_norm = self.norm(draft, &format!("{at}embeddings.LayerNorm"));
        let blocks = (0..self.layers)
            .map(|layer| self.block(draft, &format!("{at}encoder.layer.{layer}."), decoder))
            .collect();
        Stack {
            tokens,
            learned: Some(learned),
            embedding_norm: Some(embedding_norm),
            relative: None,
            blocks,
            norm: None,
            norm_first: false,
            causal: decoder,
            drops: Drops::Bert,
            heads: self.heads,
            scale: (self.heads.width as f64).powf(-0.5) as f32,
            mlp: self.mlp,
        }
    }

    fn block(&self, draft: &mut Draft, at: &str, decoder: bool) -> Block {
        let (width, inside) = (self.width, self.mlp.width);
        let square = (width, width);
        let own = ["self.query", "self.key", "self.value"];
        let part = format!("{at}attention.");
        let attention = Attention {
            qkv: draft.linear(&part, &own, square, SPREAD),
            out: draft.linear(&part, &["output.dense"], square, SPREAD),
            norm: self.norm(draft, &format!("{part}output.LayerNorm")),
        };
        let part = format!("{at}crossattention.");
        let cross = decoder.then(|| Cross {
            q: draft.linear(&part, &own[..1], square, SPREAD),
            kv: draft.linear(&part, &own[1..], square, SPREAD),
            out: draft.linear(&part, &["output.dense"], square, SPREAD),
            norm: self.norm(draft, &format!("{part}output.LayerNorm")),
        });
        let mlp = Mlp {
            up: draft.linear(at, &["intermediate.dense"], (width, inside), SPREAD),
            down: draft.linear(at, &["output.dense"], (inside, width), SPREAD),
            norm: self.norm(draft, &format!("{at}output.LayerNorm")),
        };
        Block { attention, cross, mlp }
    }

    fn norm(&self, draft: &mut Draft, at: &str) -> NormPlace {
        draft.layer_norm(at, self.width, self.eps)
    }
}

#[cfg(test)]
impl BertShape {
    /// Two layers for texts of up to 100 tokens.
    pub fn for_tests(vocabulary: usize, width: usize, heads: Heads, inner: Inner) -> Self {
        let mlp = MlpShape { inner, width: 20 };
        Self { vocabulary, width, heads, mlp, layers: 2, positions: 100, types: 2, eps: 1e-5 }
    }
}
