//! BERT: post-norm with biases everywhere, learned positions, one vector for token type 0, and a
//! pooler that some checkpoints lack.

use super::source::{Norms, Source, activation, even_heads};
use crate::backend::{Backend, Embedding, Norm, NormKind, Pool};
use crate::checkpoint::{LoadError, VectorMode, VectorSettings};
use crate::network::{Attention, Block, Feed, Network, Pooling, Reader, Stack};

/// What sentence-transformers makes of a folder that says nothing.
const DEFAULT: VectorSettings = VectorSettings { mode: VectorMode::Mean, normalize: false };

/// The encoder.
pub(super) fn load<B: Backend>(source: Source<'_, B>) -> Result<Network<B>, LoadError> {
    let config = source.config();
    config.only("is_decoder", false)?;
    config.only("add_cross_attention", false)?;
    if config.text("position_embedding_type")?.is_some_and(|kind| kind != "absolute") {
        return Err(config.refuse("position_embedding_type", "\"absolute\""));
    }
    let source = source.with_prefix(&["bert."]);
    let width = config.size("hidden_size")?;
    let eps = config.positive_or("layer_norm_eps", 1e-12)?;
    let norms = Norms { kind: NormKind::Layer, eps, width };
    let heads = even_heads(config, width, "num_attention_heads")?;
    let feed_width = config.size("intermediate_size")?;
    let activation = activation(config, "hidden_act", "gelu")?;
    let max_positions = config.size("max_position_embeddings")?;
    let kinds = config.size_or("type_vocab_size", 2)?;
    let kinds = source.tensor("embeddings.token_type_embeddings.weight", &[kinds, width])?;
    let mut kind = vec![0.0; width];
    kinds.row(0, &mut kind);
    let vocabulary = config.size("vocab_size")?;
    let positions = "embeddings.position_embeddings.weight";
    let embedding = Embedding {
        tokens: source.table("embeddings.word_embeddings.weight", vocabulary, width)?,
        scale: 1.0,
        positions: Some((source.table(positions, max_positions, width)?, 0)),
        kind: Some(source.backend.vector(&kind)?),
        width,
    };
    let embedding_norm = norm(&source, "embeddings.LayerNorm", norms)?;
    let block = |layer: usize| -> Result<Block<B>, LoadError> {
        let at = |name: &str| format!("encoder.layer.{layer}.{name}");
        let parts = ["query", "key", "value"].map(|part| at(&format!("attention.self.{part}")));
        let parts: Vec<_> = parts.iter().map(|name| (name.as_str(), width)).collect();
        Ok(Block {
            attention: Attention {
                qkv: source.linear(&parts, width, true)?,
                qk_norms: None,
                out: source.linear(&[(&at("attention.output.dense"), width)], width, true)?,
                norm: norm(&source, &at("attention.output.LayerNorm"), norms)?,
            },
            cross: None,
            feed: Feed {
                up: source.linear(&[(&at("intermediate.dense"), feed_width)], width, true)?,
                down: source.linear(&[(&at("output.dense"), width)], feed_width, true)?,
                activation,
                gated: false,
                norm: norm(&source, &at("output.LayerNorm"), norms)?,
            },
        })
    };
    let stack = Stack {
        embedding,
        embedding_norm: Some(embedding_norm),
        blocks: (0..config.size("num_hidden_layers")?).map(block).collect::<Result<_, _>>()?,
        norm_first: false,
        final_norm: None,
        project_out: None,
        heads,
        causal: false,
        rope: None,
        relative: None,
        width,
        feed_width,
    };
    let pooling = pooling(&source, width)?;
    let positions = source.positions(max_positions);
    Ok(source.network(Reader::Encoder(stack), None, Some(pooling), Some(positions)))
}

fn pooling<B: Backend>(source: &Source<'_, B>, width: usize) -> Result<Pooling<B>, LoadError> {
    let settings = source.folder.vector().unwrap_or(DEFAULT);
    let pool = match settings.mode {
        VectorMode::Mean => Pool::Mean,
        VectorMode::First | VectorMode::Pooler => Pool::First,
        VectorMode::Last => Pool::Last,
    };
    let pooler = match settings.mode {
        VectorMode::Pooler => Some(source.linear(&[("pooler.dense", width)], width, true)?),
        VectorMode::Mean | VectorMode::First | VectorMode::Last => None,
    };
    Ok(Pooling { pool, pooler, normalize: settings.normalize })
}

/// A norm, whose tensors the oldest checkpoints call gamma and beta.
fn norm<B: Backend>(
    source: &Source<'_, B>,
    name: &str,
    norms: Norms,
) -> Result<Norm<B>, LoadError> {
    let gamma = format!("{name}.gamma");
    if !source.has(&gamma) {
        return source.norm(name, norms);
    }
    Ok(Norm {
        kind: norms.kind,
        weight: source.vector(&gamma, norms.width)?,
        bias: Some(source.vector(&format!("{name}.beta"), norms.width)?),
        eps: norms.eps as f32,
    })
}
