//! OPT: biases, learned positions that begin at row 2, and in one size (350m) norms after instead of
//! before, and an embedding narrower than the rest.

use super::loader::{Norms, WeightLoader, activation, even_heads};
use crate::backend::{Activation, Embedding, LoadWeights, Norm, NormKind};
use crate::checkpoint::{Config, LoadError, StoredTensor};
use crate::network::{
    Attention, Heads, Mlp, Network, Projection, Stack, Transformer, TransformerBlock,
};

/// The row of position 0 in the table of positions.
const OFFSET: u32 = 2;

struct Settings {
    heads: Heads,
    mlp_width: usize,
    norms: Norms,
    /// Whether norms have a scale and an offset.
    affine: bool,
    bias: bool,
    activation: Activation,
}

impl Settings {
    fn read(config: &Config) -> Result<Self, LoadError> {
        let width = config.size("hidden_size")?;
        Ok(Self {
            heads: even_heads(config, width, "num_attention_heads")?,
            mlp_width: config.size("ffn_dim")?,
            norms: Norms { kind: NormKind::Layer, eps: 1e-5, width },
            affine: config.flag_or("layer_norm_elementwise_affine", true)?,
            bias: config.flag_or("enable_bias", true)?,
            activation: activation(config, "activation_function", "relu")?,
        })
    }
}

/// The decoder.
pub(super) fn load<B: LoadWeights>(loader: WeightLoader<'_, B>) -> Result<Network<B>, LoadError> {
    let config = loader.config();
    let loader = loader.with_prefix(&["model.decoder.", "decoder."]);
    let settings = Settings::read(config)?;
    let Norms { width, .. } = settings.norms;
    let narrow = config.size_or("word_embed_proj_dim", width)?;
    let max_positions = config.size_or("max_position_embeddings", 2048)?;
    let norm_first = config.flag_or("do_layer_norm_before", true)?;
    let tokens = loader.tensor("embed_tokens.weight", &[config.size("vocab_size")?, narrow])?;
    let rows = max_positions + OFFSET as usize;
    let positions = loader.table("embed_positions.weight", rows, width)?;
    let (table, project_out) = if narrow == width {
        (tokens.clone(), None)
    } else {
        let project = loader.tensor("project_in.weight", &[width, narrow])?;
        let linear = loader.linear(&[("project_out", narrow)], width, false)?;
        let out = Projection { linear, activation: Activation::None, norm: None };
        (widen(&tokens, &project), Some(out))
    };
    let embedding = Embedding {
        tokens: loader.backend.table(&table)?,
        scale: 1.0,
        positions: Some((positions, OFFSET)),
        kind: None,
        width,
    };
    // Checkpoints that were tuned with an early version of the code lack the last norm.
    let final_norm = norm_first && !config.flag_or("_remove_final_layer_norm", false)?;
    let layers = config.size("num_hidden_layers")?;
    let stack = Stack {
        embedding,
        embedding_norm: None,
        blocks: (0..layers)
            .map(|layer| block(&loader, &settings, &format!("layers.{layer}")))
            .collect::<Result<_, _>>()?,
        norm_first,
        final_norm: final_norm.then(|| norm(&loader, &settings, "final_layer_norm")).transpose()?,
        project_out,
        heads: settings.heads,
        causal: true,
        rope: None,
        relative: None,
        width,
        mlp_width: settings.mlp_width,
    };
    let tied = config.flag_or("tie_word_embeddings", true)?;
    let head = loader.head(&tokens, tied, 1.0, None)?;
    let positions = loader.positions(max_positions);
    Ok(loader.network(Transformer::Decoder(stack), head, loader.plain_pooling()?, Some(positions)))
}

fn block<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    settings: &Settings,
    at: &str,
) -> Result<TransformerBlock<B>, LoadError> {
    let Settings { mlp_width, bias, .. } = *settings;
    let Norms { width, .. } = settings.norms;
    let parts = ["q", "k", "v"].map(|part| format!("{at}.self_attn.{part}_proj"));
    let parts: Vec<_> = parts.iter().map(|name| (name.as_str(), width)).collect();
    let out = format!("{at}.self_attn.out_proj");
    let [up, down] = ["fc1", "fc2"].map(|name| format!("{at}.{name}"));
    Ok(TransformerBlock {
        attention: Attention {
            qkv: loader.linear(&parts, width, bias)?,
            qk_norms: None,
            out: loader.linear(&[(&out, width)], width, bias)?,
            norm: norm(loader, settings, &format!("{at}.self_attn_layer_norm"))?,
        },
        cross: None,
        mlp: Mlp {
            up: loader.linear(&[(&up, mlp_width)], width, bias)?,
            down: loader.linear(&[(&down, width)], mlp_width, bias)?,
            activation: settings.activation,
            gated: false,
            norm: norm(loader, settings, &format!("{at}.final_layer_norm"))?,
        },
    })
}

fn norm<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    settings: &Settings,
    name: &str,
) -> Result<Norm<B>, LoadError> {
    let norms = settings.norms;
    if settings.affine {
        return loader.norm(name, norms);
    }
    let weight = loader.backend.vector(&vec![1.0; norms.width])?;
    Ok(Norm { kind: norms.kind, weight, bias: None, eps: norms.eps as f32 })
}

/// The embedding of tokens times `project_in` (`[width, narrow]`): positions are added to the wide
/// rows, so the product is taken once, here, and not at every step.
fn widen(tokens: &StoredTensor, project: &StoredTensor) -> StoredTensor {
    let (rows, narrow, width) = (tokens.rows(), tokens.width(), project.rows());
    let project = project.values();
    let columns: Vec<&[f32]> = project.chunks_exact(narrow).collect();
    // As `[narrow, width]`, so that the inner loop runs over neighbours.
    let transposed: Vec<f32> =
        (0..narrow).flat_map(|i| columns.iter().map(move |column| column[i])).collect();
    let mut wide = vec![0.0_f32; rows * width];
    let mut token = vec![0.0_f32; narrow];
    for (row, out) in wide.chunks_exact_mut(width).enumerate() {
        tokens.row(row, &mut token);
        for (factor, weights) in token.iter().zip(transposed.chunks_exact(width)) {
            for (out, weight) in out.iter_mut().zip(weights) {
                *out += factor * weight;
            }
        }
    }
    StoredTensor::from_f32(&wide, vec![rows, width])
        .expect("as many numbers as the shape has places")
}
