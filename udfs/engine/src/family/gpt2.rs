//! GPT-2: pre-norm with biases, learned positions, matrices that lie transposed.

use super::source::{Norms, Source, activation, even_heads};
use crate::backend::{Backend, Embedding, NormKind};
use crate::checkpoint::LoadError;
use crate::network::{Attention, Block, Feed, Heads, Network, Reader, Stack};

/// The decoder.
pub(super) fn load<B: Backend>(source: Source<'_, B>) -> Result<Network<B>, LoadError> {
    let config = source.config();
    config.only("scale_attn_by_inverse_layer_idx", false)?;
    config.only("add_cross_attention", false)?;
    let source = source.with_prefix(&["transformer."]);
    let width = config.size("n_embd")?;
    let eps = config.positive_or("layer_norm_epsilon", 1e-5)?;
    let norms = Norms { kind: NormKind::Layer, eps, width };
    let even = even_heads(config, width, "n_head")?;
    let scaled = config.flag_or("scale_attn_weights", true)?;
    let heads = Heads { scale: if scaled { even.scale } else { 1.0 }, ..even };
    let feed_width = config.size_or("n_inner", 4 * width)?;
    let activation = activation(config, "activation_function", "gelu_new")?;
    let max_positions = config.size("n_positions")?;
    let tokens = source.tensor("wte.weight", &[config.size("vocab_size")?, width])?;
    let embedding = Embedding {
        tokens: source.backend.table(&tokens)?,
        scale: 1.0,
        positions: Some((source.table("wpe.weight", max_positions, width)?, 0)),
        kind: None,
        width,
    };
    let block = |layer: usize| -> Result<Block<B>, LoadError> {
        let at = |name: &str| format!("h.{layer}.{name}");
        Ok(Block {
            attention: Attention {
                qkv: source.transposed((&at("attn.c_attn"), 3 * width), width)?,
                qk_norms: None,
                out: source.transposed((&at("attn.c_proj"), width), width)?,
                norm: source.norm(&at("ln_1"), norms)?,
            },
            cross: None,
            feed: Feed {
                up: source.transposed((&at("mlp.c_fc"), feed_width), width)?,
                down: source.transposed((&at("mlp.c_proj"), width), feed_width)?,
                activation,
                gated: false,
                norm: source.norm(&at("ln_2"), norms)?,
            },
        })
    };
    let stack = Stack {
        embedding,
        embedding_norm: None,
        blocks: (0..config.size("n_layer")?).map(block).collect::<Result<_, _>>()?,
        norm_first: true,
        final_norm: Some(source.norm("ln_f", norms)?),
        project_out: None,
        heads,
        causal: true,
        rope: None,
        relative: None,
        width,
        feed_width,
    };
    let tied = config.flag_or("tie_word_embeddings", true)?;
    let head = source.head(&tokens, tied, 1.0, None)?;
    let positions = source.positions(max_positions);
    Ok(source.network(Reader::Decoder(stack), head, source.plain_pooling()?, Some(positions)))
}
