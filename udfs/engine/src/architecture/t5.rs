//! T5 and Flan-T5: pre-norm without means or biases, unscaled attention with relative positions that
//! only the first block stores, and logits that some checkpoints scale.

use super::loader::{Norms, WeightLoader, activation_by_name, inverse_root};
use super::relative::Buckets;
use crate::backend::{Activation, Embedding, LoadWeights, NormKind};
use crate::checkpoint::{Config, LoadError, StoredTensor};
use crate::network::{
    Attention, CrossAttention, Heads, Mlp, Network, Stack, Transformer, TransformerBlock,
};

/// Settings that both stacks share.
struct Settings {
    vocabulary: usize,
    norms: Norms,
    heads: Heads,
    mlp_width: usize,
    activation: Activation,
    gated: bool,
    buckets: usize,
    max_distance: usize,
}

impl Settings {
    fn read(config: &Config) -> Result<Self, LoadError> {
        let heads = config.size("num_heads")?;
        let eps = config.positive_or("layer_norm_epsilon", 1e-6)?;
        let (activation, gated) = mlp(config)?;
        let settings = Self {
            vocabulary: config.size("vocab_size")?,
            norms: Norms { kind: NormKind::Rms, eps, width: config.size("d_model")? },
            heads: Heads { heads, kv_heads: heads, head_dim: config.size("d_kv")?, scale: 1.0 },
            mlp_width: config.size("d_ff")?,
            activation,
            gated,
            buckets: config.size_or("relative_attention_num_buckets", 32)?,
            max_distance: config.size_or("relative_attention_max_distance", 128)?,
        };
        if settings.buckets < 4 || settings.buckets % 2 == 1 {
            return Err(config.refuse("relative_attention_num_buckets", "an even number from 4"));
        }
        if !(settings.buckets..=1 << 16).contains(&settings.max_distance) {
            let expected = format!("from {} to 65536", settings.buckets);
            return Err(config.refuse("relative_attention_max_distance", expected));
        }
        Ok(settings)
    }
}

/// `feed_forward_proj`: an activation, or one behind `gated-`. Gated GELU is the approximation by
/// tanh, whatever its name says.
fn mlp(config: &Config) -> Result<(Activation, bool), LoadError> {
    const KEY: &str = "feed_forward_proj";
    let name = config.text(KEY)?.unwrap_or("relu");
    let found = match name.strip_prefix("gated-") {
        Some("gelu") => Some((Activation::GeluTanh, true)),
        Some(name) => activation_by_name(name).map(|activation| (activation, true)),
        None => activation_by_name(name).map(|activation| (activation, false)),
    };
    found.ok_or_else(|| config.refuse(KEY, "relu, gated-gelu, gated-silu or the like"))
}

/// Both stacks.
pub(super) fn load<B: LoadWeights>(loader: WeightLoader<'_, B>) -> Result<Network<B>, LoadError> {
    let config = loader.config();
    let settings = Settings::read(config)?;
    let layers = config.size("num_layers")?;
    let decoder_layers = config.size_or("num_decoder_layers", layers)?;
    // Files made by other tools than transformers keep only one of the shared names.
    let copies = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
    let name = copies.into_iter().find(|name| loader.has(name)).unwrap_or(copies[0]);
    let embedding = loader.tensor(name, &[settings.vocabulary, settings.norms.width])?;
    let encoder = stack(&loader, &settings, "encoder", layers, &embedding)?;
    let decoder = stack(&loader, &settings, "decoder", decoder_layers, &embedding)?;
    // transformers 5 writes `tie_word_embeddings: true` for all T5 and tells scaled from unscaled
    // logits by another key, which older files lack.
    let tied = config.flag_or("tie_word_embeddings", true)?;
    let scaled = config.flag_or("scale_decoder_outputs", tied)?;
    let scale = if scaled { inverse_root(settings.norms.width) } else { 1.0 };
    let head = loader.head(&embedding, true, scale, None)?;
    let transformer = Transformer::EncoderDecoder { encoder, decoder };
    Ok(loader.network(transformer, head, loader.plain_pooling()?, None))
}

fn stack<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    settings: &Settings,
    name: &str,
    layers: usize,
    embedding: &StoredTensor,
) -> Result<Stack<B>, LoadError> {
    let Norms { width, .. } = settings.norms;
    let decoder = name == "decoder";
    let blocks = (0..layers)
        .map(|layer| block(loader, settings, &format!("{name}.block.{layer}.layer"), decoder))
        .collect::<Result<_, _>>()?;
    let bias = format!("{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
    let bias = loader.tensor(&bias, &[settings.buckets, settings.heads.heads])?;
    let buckets = Buckets {
        count: settings.buckets,
        max_distance: settings.max_distance,
        both_ways: !decoder,
    };
    Ok(Stack {
        embedding: Embedding {
            tokens: loader.backend.table(embedding)?,
            scale: 1.0,
            positions: None,
            kind: None,
            width,
        },
        embedding_norm: None,
        blocks,
        norm_first: true,
        final_norm: Some(loader.norm(&format!("{name}.final_layer_norm"), settings.norms)?),
        project_out: None,
        heads: settings.heads,
        causal: decoder,
        rope: None,
        relative: Some(buckets.load(loader.backend, &bias)?),
        width,
        mlp_width: settings.mlp_width,
    })
}

/// The parts of a block are numbered; a decoder has one more in the middle.
fn block<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    settings: &Settings,
    at: &str,
    decoder: bool,
) -> Result<TransformerBlock<B>, LoadError> {
    let Norms { width, .. } = settings.norms;
    let inner = settings.heads.heads * settings.heads.head_dim;
    let norm = |part: usize| loader.norm(&format!("{at}.{part}.layer_norm"), settings.norms);
    let matrices = |part: &str, names: &[&str], outputs: usize, inputs: usize| {
        let names: Vec<String> = names.iter().map(|name| format!("{at}.{part}.{name}")).collect();
        let parts: Vec<_> = names.iter().map(|name| (name.as_str(), outputs)).collect();
        loader.linear(&parts, inputs, false)
    };
    let cross = if decoder {
        let part = "1.EncDecAttention";
        Some(CrossAttention {
            q: matrices(part, &["q"], inner, width)?,
            kv: matrices(part, &["k", "v"], inner, width)?,
            out: matrices(part, &["o"], width, inner)?,
            norm: norm(1)?,
        })
    } else {
        None
    };
    let last = if decoder { 2 } else { 1 };
    let mlp = format!("{last}.DenseReluDense");
    let up: &[&str] = if settings.gated { &["wi_0", "wi_1"] } else { &["wi"] };
    Ok(TransformerBlock {
        attention: Attention {
            qkv: matrices("0.SelfAttention", &["q", "k", "v"], inner, width)?,
            qk_norms: None,
            out: matrices("0.SelfAttention", &["o"], width, inner)?,
            norm: norm(0)?,
        },
        cross,
        mlp: Mlp {
            up: matrices(&mlp, up, settings.mlp_width, width)?,
            down: matrices(&mlp, &["wo"], width, settings.mlp_width)?,
            activation: settings.activation,
            gated: settings.gated,
            norm: norm(last)?,
        },
    })
}
