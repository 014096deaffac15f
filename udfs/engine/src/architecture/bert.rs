//! BERT: post-norm with biases everywhere, learned positions, one vector for token type 0, and a
//! pooler that some checkpoints lack.

use super::loader::{Norms, WeightLoader, activation, even_heads};
use crate::backend::{Embedding, LoadWeights, Norm, NormKind, Pool};
use crate::checkpoint::{LoadError, VectorMode, VectorSettings};
use crate::network::{Attention, Mlp, Network, Pooling, Stack, Transformer, TransformerBlock};

/// What sentence-transformers makes of a folder that says nothing.
const DEFAULT: VectorSettings = VectorSettings { mode: VectorMode::Mean, normalize: false };

/// The encoder.
pub(super) fn load<B: LoadWeights>(loader: WeightLoader<'_, B>) -> Result<Network<B>, LoadError> {
    let config = loader.config();
    config.only("is_decoder", false)?;
    config.only("add_cross_attention", false)?;
    if config.text("position_embedding_type")?.is_some_and(|kind| kind != "absolute") {
        return Err(config.refuse("position_embedding_type", "\"absolute\""));
    }
    let loader = loader.with_prefix(&["bert."]);
    let width = config.size("hidden_size")?;
    let eps = config.positive_or("layer_norm_eps", 1e-12)?;
    let norms = Norms { kind: NormKind::Layer, eps, width };
    let heads = even_heads(config, width, "num_attention_heads")?;
    let mlp_width = config.size("intermediate_size")?;
    let activation = activation(config, "hidden_act", "gelu")?;
    let max_positions = config.size("max_position_embeddings")?;
    let kinds = config.size_or("type_vocab_size", 2)?;
    let kinds = loader.tensor("embeddings.token_type_embeddings.weight", &[kinds, width])?;
    let mut kind = vec![0.0; width];
    kinds.row(0, &mut kind);
    let vocabulary = config.size("vocab_size")?;
    let positions = "embeddings.position_embeddings.weight";
    let embedding = Embedding {
        tokens: loader.table("embeddings.word_embeddings.weight", vocabulary, width)?,
        scale: 1.0,
        positions: Some((loader.table(positions, max_positions, width)?, 0)),
        kind: Some(loader.backend.vector(&kind)?),
        width,
    };
    let embedding_norm = norm(&loader, "embeddings.LayerNorm", norms)?;
    let block = |layer: usize| -> Result<TransformerBlock<B>, LoadError> {
        let at = |name: &str| format!("encoder.layer.{layer}.{name}");
        let parts = ["query", "key", "value"].map(|part| at(&format!("attention.self.{part}")));
        let parts: Vec<_> = parts.iter().map(|name| (name.as_str(), width)).collect();
        Ok(TransformerBlock {
            attention: Attention {
                qkv: loader.linear(&parts, width, true)?,
                qk_norms: None,
                out: loader.linear(&[(&at("attention.output.dense"), width)], width, true)?,
                norm: norm(&loader, &at("attention.output.LayerNorm"), norms)?,
            },
            cross: None,
            mlp: Mlp {
                up: loader.linear(&[(&at("intermediate.dense"), mlp_width)], width, true)?,
                down: loader.linear(&[(&at("output.dense"), width)], mlp_width, true)?,
                activation,
                gated: false,
                norm: norm(&loader, &at("output.LayerNorm"), norms)?,
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
        mlp_width,
    };
    let pooling = pooling(&loader, width)?;
    let positions = loader.positions(max_positions);
    Ok(loader.network(Transformer::Encoder(stack), None, Some(pooling), Some(positions)))
}

fn pooling<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    width: usize,
) -> Result<Pooling<B>, LoadError> {
    let settings = loader.folder.vector().unwrap_or(DEFAULT);
    let pool = match settings.mode {
        VectorMode::Mean => Pool::Mean,
        VectorMode::First | VectorMode::Pooler => Pool::First,
        VectorMode::Last => Pool::Last,
    };
    let pooler = match settings.mode {
        VectorMode::Pooler => Some(loader.linear(&[("pooler.dense", width)], width, true)?),
        VectorMode::Mean | VectorMode::First | VectorMode::Last => None,
    };
    Ok(Pooling { pool, pooler, normalize: settings.normalize })
}

/// A norm, whose tensors the oldest checkpoints call gamma and beta.
fn norm<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    name: &str,
    norms: Norms,
) -> Result<Norm<B>, LoadError> {
    let gamma = format!("{name}.gamma");
    if !loader.has(&gamma) {
        return loader.norm(name, norms);
    }
    Ok(Norm {
        kind: norms.kind,
        weight: loader.vector(&gamma, norms.width)?,
        bias: Some(loader.vector(&format!("{name}.beta"), norms.width)?),
        eps: norms.eps as f32,
    })
}
