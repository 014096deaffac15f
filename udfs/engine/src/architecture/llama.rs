//! Llama, Mistral, Qwen2 and Qwen3: pre-norm without means, rotary positions, gated feed-forward, fewer heads
//! of keys than of queries. They differ in where biases and norms of heads stand.

use super::loader::{Norms, WeightLoader, activation, inverse_root};
use super::rope::Angles;
use crate::backend::{Embedding, LoadWeights, NormKind};
use crate::checkpoint::{Config, LoadError};
use crate::network::{Attention, Heads, Mlp, Network, Stack, Transformer, TransformerBlock};

/// The four relatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Llama,
    Mistral,
    Qwen2,
    Qwen3,
}

/// Where a block has biases and norms of heads.
struct Extras {
    qkv_bias: bool,
    out_bias: bool,
    mlp_bias: bool,
    head_norms: bool,
}

impl Extras {
    fn read(config: &Config, kind: Variant) -> Result<Self, LoadError> {
        let bias = || config.flag_or("attention_bias", false);
        Ok(match kind {
            Variant::Llama => Self {
                qkv_bias: bias()?,
                out_bias: bias()?,
                mlp_bias: config.flag_or("mlp_bias", false)?,
                head_norms: false,
            },
            Variant::Mistral => {
                Self { qkv_bias: false, out_bias: false, mlp_bias: false, head_norms: false }
            }
            Variant::Qwen2 => {
                Self { qkv_bias: true, out_bias: false, mlp_bias: false, head_norms: false }
            }
            Variant::Qwen3 => {
                Self { qkv_bias: bias()?, out_bias: bias()?, mlp_bias: false, head_norms: true }
            }
        })
    }
}

/// The decoder.
pub(super) fn load<B: LoadWeights>(
    loader: WeightLoader<'_, B>,
    kind: Variant,
) -> Result<Network<B>, LoadError> {
    let config = loader.config();
    let loader = loader.with_prefix(&["model."]);
    let width = config.size("hidden_size")?;
    let layers = config.size("num_hidden_layers")?;
    let norms =
        Norms { kind: NormKind::Rms, eps: config.positive_or("rms_norm_eps", 1e-6)?, width };
    let heads = heads(config, kind, width)?;
    let mlp_width = config.size("intermediate_size")?;
    let activation = activation(config, "hidden_act", "silu")?;
    let extras = Extras::read(config, kind)?;
    let max_positions = config.size("max_position_embeddings")?;
    let positions = loader.positions(max_positions);
    if config.texts("layer_types")?.iter().any(|kind| *kind != "full_attention") {
        return Err(config.refuse("layer_types", "only \"full_attention\""));
    }
    match kind {
        Variant::Mistral => refuse_short_window(config, positions)?,
        Variant::Llama | Variant::Qwen2 | Variant::Qwen3 => refuse_windows(config, layers)?,
    }
    let angles = Angles::read(config, max_positions)?;
    let tokens = loader.tensor("embed_tokens.weight", &[config.size("vocab_size")?, width])?;
    let inner = heads.heads * heads.head_dim;
    let kv_inner = heads.kv_heads * heads.head_dim;
    let head_norms = Norms { width: heads.head_dim, ..norms };
    let block = |layer: usize| -> Result<TransformerBlock<B>, LoadError> {
        let at = |name: &str| format!("layers.{layer}.{name}");
        let [q, k, v] = ["q", "k", "v"].map(|part| at(&format!("self_attn.{part}_proj")));
        let qkv = [(q.as_str(), inner), (&k, kv_inner), (&v, kv_inner)];
        let [gate, up] = ["gate", "up"].map(|part| at(&format!("mlp.{part}_proj")));
        let out = at("self_attn.o_proj");
        let down = at("mlp.down_proj");
        let qk_norms = if extras.head_norms {
            let norm = |part: &str| loader.norm(&at(&format!("self_attn.{part}_norm")), head_norms);
            Some((norm("q")?, norm("k")?))
        } else {
            None
        };
        let up = [(gate.as_str(), mlp_width), (&up, mlp_width)];
        Ok(TransformerBlock {
            attention: Attention {
                qkv: loader.linear(&qkv, width, extras.qkv_bias)?,
                qk_norms,
                out: loader.linear(&[(&out, width)], inner, extras.out_bias)?,
                norm: loader.norm(&at("input_layernorm"), norms)?,
            },
            cross: None,
            mlp: Mlp {
                up: loader.linear(&up, width, extras.mlp_bias)?,
                down: loader.linear(&[(&down, width)], mlp_width, extras.mlp_bias)?,
                activation,
                gated: true,
                norm: loader.norm(&at("post_attention_layernorm"), norms)?,
            },
        })
    };
    let stack = Stack {
        embedding: Embedding {
            tokens: loader.backend.table(&tokens)?,
            scale: 1.0,
            positions: None,
            kind: None,
            width,
        },
        embedding_norm: None,
        blocks: (0..layers).map(block).collect::<Result<_, _>>()?,
        norm_first: true,
        final_norm: Some(loader.norm("norm", norms)?),
        project_out: None,
        heads,
        causal: true,
        rope: Some(angles.load(loader.backend, positions, heads.head_dim)?),
        relative: None,
        width,
        mlp_width,
    };
    let tied = config.flag_or("tie_word_embeddings", false)?;
    let head = loader.head(&tokens, tied, 1.0, None)?;
    Ok(loader.network(Transformer::Decoder(stack), head, loader.plain_pooling()?, Some(positions)))
}

/// Heads need not share the width: Qwen3 gives each 128 unless configured otherwise.
fn heads(config: &Config, kind: Variant, width: usize) -> Result<Heads, LoadError> {
    let heads = config.size("num_attention_heads")?;
    let kv_heads = match kind {
        Variant::Llama => config.size_or("num_key_value_heads", heads)?,
        Variant::Mistral | Variant::Qwen2 | Variant::Qwen3 => config.size("num_key_value_heads")?,
    };
    if !heads.is_multiple_of(kv_heads) {
        let expected = format!("a divisor of the {heads} heads");
        return Err(config.refuse("num_key_value_heads", expected));
    }
    let head_dim = match (config.size_if_there("head_dim")?, kind) {
        (Some(head_dim), _) => head_dim,
        (None, Variant::Qwen3) => 128,
        (None, _) if width.is_multiple_of(heads) => width / heads,
        (None, Variant::Llama | Variant::Mistral | Variant::Qwen2) => {
            let expected = format!("a divisor of the width {width}, or `head_dim` beside it");
            return Err(config.refuse("num_attention_heads", expected));
        }
    };
    if head_dim % 2 == 1 {
        return Err(config.refuse("head_dim", "an even number: halves of it are rotated"));
    }
    Ok(Heads { heads, kv_heads, head_dim, scale: inverse_root(head_dim) })
}

/// Mistral's window is no matter where no text is longer; one that its file does not mention has the default of
/// transformers' configuration class, and `null` is none.
fn refuse_short_window(config: &Config, positions: usize) -> Result<(), LoadError> {
    const DEFAULT: usize = 4096;
    let window = match config.mentions("sliding_window") {
        true => config.size_if_there("sliding_window")?,
        false => Some(DEFAULT),
    };
    if window.is_none_or(|window| window >= positions) {
        return Ok(());
    }
    let expected = format!(
        "null, or at least the {positions} tokens that a text may have: windows are not supported"
    );
    Err(config.refuse("sliding_window", expected))
}

/// Every row reads all that stands before it, or the model is refused.
fn refuse_windows(config: &Config, layers: usize) -> Result<(), LoadError> {
    let window = config.flag_or("use_sliding_window", false)?
        && config.has("sliding_window")
        && config.texts("layer_types")?.is_empty();
    // The first so many layers have no window.
    let spared = config.size_or("max_window_layers", 28);
    if window && !spared.is_ok_and(|spared| spared >= layers) {
        return Err(config.refuse("use_sliding_window", "false: windows are not supported"));
    }
    Ok(())
}
