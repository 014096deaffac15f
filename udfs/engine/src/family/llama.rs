//! Llama, Qwen2 and Qwen3: pre-norm without means, rotary positions, gated feed-forward, fewer heads
//! of keys than of queries. They differ in where biases and norms of heads stand.

use super::rope::Angles;
use super::source::{Norms, Source, activation, inverse_root};
use crate::backend::{Backend, Embedding, NormKind};
use crate::checkpoint::{Config, LoadError};
use crate::network::{Attention, Block, Feed, Heads, Network, Reader, Stack};

/// The three relatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Llama,
    Qwen2,
    Qwen3,
}

/// Where a block has biases and norms of heads.
struct Extras {
    qkv_bias: bool,
    out_bias: bool,
    feed_bias: bool,
    head_norms: bool,
}

impl Extras {
    fn read(config: &Config, kind: Kind) -> Result<Self, LoadError> {
        let bias = || config.flag_or("attention_bias", false);
        Ok(match kind {
            Kind::Llama => Self {
                qkv_bias: bias()?,
                out_bias: bias()?,
                feed_bias: config.flag_or("mlp_bias", false)?,
                head_norms: false,
            },
            Kind::Qwen2 => {
                Self { qkv_bias: true, out_bias: false, feed_bias: false, head_norms: false }
            }
            Kind::Qwen3 => {
                Self { qkv_bias: bias()?, out_bias: bias()?, feed_bias: false, head_norms: true }
            }
        })
    }
}

/// The decoder.
pub(super) fn load<B: Backend>(source: Source<'_, B>, kind: Kind) -> Result<Network<B>, LoadError> {
    let config = source.config();
    let source = source.with_prefix(&["model."]);
    let width = config.size("hidden_size")?;
    let layers = config.size("num_hidden_layers")?;
    refuse_windows(config, layers)?;
    let norms =
        Norms { kind: NormKind::Rms, eps: config.positive_or("rms_norm_eps", 1e-6)?, width };
    let heads = heads(config, kind, width)?;
    let feed_width = config.size("intermediate_size")?;
    let activation = activation(config, "hidden_act", "silu")?;
    let extras = Extras::read(config, kind)?;
    let max_positions = config.size("max_position_embeddings")?;
    let angles = Angles::read(config, max_positions)?;
    let tokens = source.tensor("embed_tokens.weight", &[config.size("vocab_size")?, width])?;
    let inner = heads.heads * heads.head_dim;
    let kv_inner = heads.kv_heads * heads.head_dim;
    let head_norms = Norms { width: heads.head_dim, ..norms };
    let block = |layer: usize| -> Result<Block<B>, LoadError> {
        let at = |name: &str| format!("layers.{layer}.{name}");
        let [q, k, v] = ["q", "k", "v"].map(|part| at(&format!("self_attn.{part}_proj")));
        let qkv = [(q.as_str(), inner), (&k, kv_inner), (&v, kv_inner)];
        let [gate, up] = ["gate", "up"].map(|part| at(&format!("mlp.{part}_proj")));
        let out = at("self_attn.o_proj");
        let down = at("mlp.down_proj");
        let qk_norms = if extras.head_norms {
            let norm = |part: &str| source.norm(&at(&format!("self_attn.{part}_norm")), head_norms);
            Some((norm("q")?, norm("k")?))
        } else {
            None
        };
        let up = [(gate.as_str(), feed_width), (&up, feed_width)];
        Ok(Block {
            attention: Attention {
                qkv: source.linear(&qkv, width, extras.qkv_bias)?,
                qk_norms,
                out: source.linear(&[(&out, width)], inner, extras.out_bias)?,
                norm: source.norm(&at("input_layernorm"), norms)?,
            },
            cross: None,
            feed: Feed {
                up: source.linear(&up, width, extras.feed_bias)?,
                down: source.linear(&[(&down, width)], feed_width, extras.feed_bias)?,
                activation,
                gated: true,
                norm: source.norm(&at("post_attention_layernorm"), norms)?,
            },
        })
    };
    let positions = source.positions(max_positions);
    let stack = Stack {
        embedding: Embedding {
            tokens: source.backend.table(&tokens)?,
            scale: 1.0,
            positions: None,
            kind: None,
            width,
        },
        embedding_norm: None,
        blocks: (0..layers).map(block).collect::<Result<_, _>>()?,
        norm_first: true,
        final_norm: Some(source.norm("norm", norms)?),
        project_out: None,
        heads,
        causal: true,
        rope: Some(angles.load(source.backend, positions, heads.head_dim)?),
        relative: None,
        width,
        feed_width,
    };
    let tied = config.flag_or("tie_word_embeddings", false)?;
    let head = source.head(&tokens, tied, 1.0, None)?;
    Ok(source.network(Reader::Decoder(stack), head, source.plain_pooling()?, Some(positions)))
}

/// Heads need not share the width: Qwen3 gives each 128 unless told otherwise.
fn heads(config: &Config, kind: Kind, width: usize) -> Result<Heads, LoadError> {
    let heads = config.size("num_attention_heads")?;
    let kv_heads = match kind {
        Kind::Llama => config.size_or("num_key_value_heads", heads)?,
        Kind::Qwen2 | Kind::Qwen3 => config.size("num_key_value_heads")?,
    };
    if !heads.is_multiple_of(kv_heads) {
        let expected = format!("a divisor of the {heads} heads");
        return Err(config.refuse("num_key_value_heads", expected));
    }
    let head_dim = match (config.size_if_there("head_dim")?, kind) {
        (Some(head_dim), _) => head_dim,
        (None, Kind::Qwen3) => 128,
        (None, Kind::Llama | Kind::Qwen2) if width.is_multiple_of(heads) => width / heads,
        (None, Kind::Llama | Kind::Qwen2) => {
            let expected = format!("a divisor of the width {width}, or `head_dim` beside it");
            return Err(config.refuse("num_attention_heads", expected));
        }
    };
    if head_dim % 2 == 1 {
        return Err(config.refuse("head_dim", "an even number: halves of it are rotated"));
    }
    Ok(Heads { heads, kv_heads, head_dim, scale: inverse_root(head_dim) })
}

/// Every row reads all that stands before it, or the model is refused.
fn refuse_windows(config: &Config, layers: usize) -> Result<(), LoadError> {
    let types = config.texts("layer_types")?;
    if types.iter().any(|kind| *kind != "full_attention") {
        return Err(config.refuse("layer_types", "only \"full_attention\""));
    }
    let window = config.flag_or("use_sliding_window", false)?
        && config.has("sliding_window")
        && types.is_empty();
    // The first so many layers have no window.
    let spared = config.size_or("max_window_layers", 28);
    if window && !spared.is_ok_and(|spared| spared >= layers) {
        return Err(config.refuse("use_sliding_window", "false: windows are not supported"));
    }
    Ok(())
}
