//! BART: post-norm with biases everywhere, learned positions that begin at row 2.

use super::loader::{Norms, WeightLoader, activation, even_heads};
use crate::backend::{Activation, Embedding, LoadWeights, NormKind};
use crate::checkpoint::{Config, LoadError, StoredTensor};
use crate::network::{
    Attention, CrossAttention, Heads, Mlp, Network, Stack, Transformer, TransformerBlock,
};

/// The row of position 0 in the table of positions.
const OFFSET: u32 = 2;

/// Settings of one stack.
struct Settings {
    name: &'static str,
    layers: usize,
    heads: Heads,
    mlp_width: usize,
    norms: Norms,
    activation: Activation,
    scale: f32,
    max_positions: usize,
}

impl Settings {
    fn read(config: &Config, name: &'static str) -> Result<Self, LoadError> {
        let width = config.size("d_model")?;
        let scaled = config.flag_or("scale_embedding", false)?;
        Ok(Self {
            name,
            layers: config.size(&format!("{name}_layers"))?,
            heads: even_heads(config, width, &format!("{name}_attention_heads"))?,
            mlp_width: config.size(&format!("{name}_ffn_dim"))?,
            norms: Norms { kind: NormKind::Layer, eps: 1e-5, width },
            activation: activation(config, "activation_function", "gelu")?,
            scale: if scaled { (width as f64).sqrt() as f32 } else { 1.0 },
            max_positions: config.size_or("max_position_embeddings", 1024)?,
        })
    }
}

/// Both stacks.
pub(super) fn load<B: LoadWeights>(loader: WeightLoader<'_, B>) -> Result<Network<B>, LoadError> {
    let config = loader.config();
    // Keys of old files, from before such models had classes of their own.
    for key in ["normalize_before", "add_final_layer_norm", "static_position_embeddings"] {
        config.only(key, false)?;
    }
    config.only("normalize_embedding", true)?;
    let loader = loader.with_prefix(&["model."]);
    let settings = Settings::read(config, "encoder")?;
    let copies = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
    let name = copies.into_iter().find(|name| loader.has(name)).unwrap_or(copies[0]);
    let vocabulary = config.size("vocab_size")?;
    let embedding = loader.tensor(name, &[vocabulary, settings.norms.width])?;
    let encoder = stack(&loader, &settings, &embedding)?;
    let decoder = stack(&loader, &Settings::read(config, "decoder")?, &embedding)?;
    let bias = "final_logits_bias";
    let bias = if loader.folder.has(bias) {
        Some(loader.folder.tensor(bias, &[1, vocabulary])?.values())
    } else {
        None
    };
    let tied = config.flag_or("tie_word_embeddings", true)?;
    let head = loader.head(&embedding, tied, 1.0, bias.as_deref())?;
    let transformer = Transformer::EncoderDecoder { encoder, decoder };
    let positions = loader.positions(settings.max_positions);
    Ok(loader.network(transformer, head, loader.plain_pooling()?, Some(positions)))
}

fn stack<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    settings: &Settings,
    embedding: &StoredTensor,
) -> Result<Stack<B>, LoadError> {
    let Settings { name, norms, max_positions, .. } = *settings;
    let rows = max_positions + OFFSET as usize;
    let positions = loader.table(&format!("{name}.embed_positions.weight"), rows, norms.width)?;
    let blocks = (0..settings.layers)
        .map(|layer| block(loader, settings, &format!("{name}.layers.{layer}")))
        .collect::<Result<_, _>>()?;
    Ok(Stack {
        embedding: Embedding {
            tokens: loader.backend.table(embedding)?,
            scale: settings.scale,
            positions: Some((positions, OFFSET)),
            kind: None,
            width: norms.width,
        },
        embedding_norm: Some(loader.norm(&format!("{name}.layernorm_embedding"), norms)?),
        blocks,
        norm_first: false,
        final_norm: None,
        project_out: None,
        heads: settings.heads,
        causal: name == "decoder",
        rope: None,
        relative: None,
        width: norms.width,
        mlp_width: settings.mlp_width,
    })
}

fn block<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    settings: &Settings,
    at: &str,
) -> Result<TransformerBlock<B>, LoadError> {
    let Settings { norms, mlp_width, .. } = *settings;
    let Norms { width, .. } = norms;
    let matrices = |names: &[&str], outputs: usize, inputs: usize| {
        let names: Vec<String> = names.iter().map(|name| format!("{at}.{name}")).collect();
        let parts: Vec<_> = names.iter().map(|name| (name.as_str(), outputs)).collect();
        loader.linear(&parts, inputs, true)
    };
    let norm = |name: &str| loader.norm(&format!("{at}.{name}"), norms);
    let cross = if settings.name == "decoder" {
        Some(CrossAttention {
            q: matrices(&["encoder_attn.q_proj"], width, width)?,
            kv: matrices(&["encoder_attn.k_proj", "encoder_attn.v_proj"], width, width)?,
            out: matrices(&["encoder_attn.out_proj"], width, width)?,
            norm: norm("encoder_attn_layer_norm")?,
        })
    } else {
        None
    };
    let qkv = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
    Ok(TransformerBlock {
        attention: Attention {
            qkv: matrices(&qkv, width, width)?,
            qk_norms: None,
            out: matrices(&["self_attn.out_proj"], width, width)?,
            norm: norm("self_attn_layer_norm")?,
        },
        cross,
        mlp: Mlp {
            up: matrices(&["fc1"], mlp_width, width)?,
            down: matrices(&["fc2"], width, mlp_width)?,
            activation: settings.activation,
            gated: false,
            norm: norm("final_layer_norm")?,
        },
    })
}
