//! GPT-2: pre-norm with biases, learned positions, matrices that lie transposed.

use super::loader::{Norms, WeightLoader, activation, even_heads};
use crate::backend::{Embedding, LoadWeights, NormKind};
use crate::checkpoint::LoadError;
use crate::network::{Attention, Heads, Mlp, Network, Stack, Transformer, TransformerBlock};

/// The decoder.
pub(super) fn load<B: LoadWeights>(loader: WeightLoader<'_, B>) -> Result<Network<B>, LoadError> {
    let config = loader.config();
    config.only("scale_attn_by_inverse_layer_idx", false)?;
    config.only("add_cross_attention", false)?;
    let loader = loader.with_prefix(&["transformer."]);
    let width = config.size("n_embd")?;
    let eps = config.positive_or("layer_norm_epsilon", 1e-5)?;
    let norms = Norms { kind: NormKind::Layer, eps, width };
    let even = even_heads(config, width, "n_head")?;
    let scaled = config.flag_or("scale_attn_weights", true)?;
    let heads = Heads { scale: if scaled { even.scale } else { 1.0 }, ..even };
    let mlp_width = config.size_or("n_inner", 4 * width)?;
    let activation = activation(config, "activation_function", "gelu_new")?;
    let max_positions = config.size("n_positions")?;
    let tokens = loader.tensor("wte.weight", &[config.size("vocab_size")?, width])?;
    let embedding = Embedding {
        tokens: loader.backend.table(&tokens)?,
        scale: 1.0,
        positions: Some((loader.table("wpe.weight", max_positions, width)?, 0)),
        kind: None,
        width,
    };
    let block = |layer: usize| -> Result<TransformerBlock<B>, LoadError> {
        let at = |name: &str| format!("h.{layer}.{name}");
        Ok(TransformerBlock {
            attention: Attention {
                qkv: loader.transposed((&at("attn.c_attn"), 3 * width), width)?,
                qk_norms: None,
                out: loader.transposed((&at("attn.c_proj"), width), width)?,
                norm: loader.norm(&at("ln_1"), norms)?,
            },
            cross: None,
            mlp: Mlp {
                up: loader.transposed((&at("mlp.c_fc"), mlp_width), width)?,
                down: loader.transposed((&at("mlp.c_proj"), width), mlp_width)?,
                activation,
                gated: false,
                norm: loader.norm(&at("ln_2"), norms)?,
            },
        })
    };
    let stack = Stack {
        embedding,
        embedding_norm: None,
        blocks: (0..config.size("n_layer")?).map(block).collect::<Result<_, _>>()?,
        norm_first: true,
        final_norm: Some(loader.norm("ln_f", norms)?),
        project_out: None,
        heads,
        causal: true,
        rope: None,
        relative: None,
        width,
        mlp_width,
    };
    let tied = config.flag_or("tie_word_embeddings", true)?;
    let head = loader.head(&tokens, tied, 1.0, None)?;
    let positions = loader.positions(max_positions);
    Ok(loader.network(Transformer::Decoder(stack), head, loader.plain_pooling()?, Some(positions)))
}
