//! BERT: post-norm with biases everywhere, learned positions, one vector for token type 0, and a
//! pooler that some checkpoints lack. Its stack is also each side of an encoder-decoder.

use super::loader::{Norms, WeightLoader, activation, even_heads};
use crate::backend::{Embedding, LoadWeights, Norm, NormKind, Pool};
use crate::checkpoint::{Config, LoadError, VectorMode, VectorSettings};
use crate::network::{
    Attention, CrossAttention, Mlp, Network, Pooling, Stack, Transformer, TransformerBlock,
};

/// What sentence-transformers makes of a folder that says nothing.
const DEFAULT: VectorSettings = VectorSettings { mode: VectorMode::Mean, normalize: false };

/// The encoder.
pub(super) fn load<B: LoadWeights>(loader: WeightLoader<'_, B>) -> Result<Network<B>, LoadError> {
    let config = loader.config();
    config.only("is_decoder", false)?;
    config.only("add_cross_attention", false)?;
    let loader = loader.with_prefix(&["bert."]);
    let stack = stack(&loader, config, false)?;
    let pooling = pooling(&loader, stack.width)?;
    let positions = loader.positions(config.size("max_position_embeddings")?);
    Ok(loader.network(Transformer::Encoder(stack), None, Some(pooling), Some(positions)))
}

/// The stack of these settings; that of a decoder is causal and attends to an encoder.
pub(super) fn stack<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    config: &Config,
    decoder: bool,
) -> Result<Stack<B>, LoadError> {
    if config.text("position_embedding_type")?.is_some_and(|kind| kind != "absolute") {
        return Err(config.refuse("position_embedding_type", "\"absolute\""));
    }
    let width = config.size("hidden_size")?;
    let norms = norms(config)?;
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
    let embedding_norm = norm(loader, "embeddings.LayerNorm", norms)?;
    let block = |layer: usize| -> Result<TransformerBlock<B>, LoadError> {
        let at = |name: &str| format!("encoder.layer.{layer}.{name}");
        let matrices = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| at(name)).collect();
            let parts: Vec<_> = names.iter().map(|name| (name.as_str(), width)).collect();
            loader.linear(&parts, width, true)
        };
        let cross = || -> Result<CrossAttention<B>, LoadError> {
            Ok(CrossAttention {
                q: matrices(&["crossattention.self.query"])?,
                kv: matrices(&["crossattention.self.key", "crossattention.self.value"])?,
                out: matrices(&["crossattention.output.dense"])?,
                norm: norm(loader, &at("crossattention.output.LayerNorm"), norms)?,
            })
        };
        let qkv = ["attention.self.query", "attention.self.key", "attention.self.value"];
        Ok(TransformerBlock {
            attention: Attention {
                qkv: matrices(&qkv)?,
                qk_norms: None,
                out: matrices(&["attention.output.dense"])?,
                norm: norm(loader, &at("attention.output.LayerNorm"), norms)?,
            },
            cross: decoder.then(cross).transpose()?,
            mlp: Mlp {
                up: loader.linear(&[(&at("intermediate.dense"), mlp_width)], width, true)?,
                down: loader.linear(&[(&at("output.dense"), width)], mlp_width, true)?,
                activation,
                gated: false,
                norm: norm(loader, &at("output.LayerNorm"), norms)?,
            },
        })
    };
    Ok(Stack {
        embedding,
        embedding_norm: Some(embedding_norm),
        blocks: (0..config.size("num_hidden_layers")?).map(block).collect::<Result<_, _>>()?,
        norm_first: false,
        final_norm: None,
        project_out: None,
        heads,
        causal: decoder,
        rope: None,
        relative: None,
        width,
        mlp_width,
    })
}

/// How the norms of these settings are made.
pub(super) fn norms(config: &Config) -> Result<Norms, LoadError> {
    let eps = config.positive_or("layer_norm_eps", 1e-12)?;
    Ok(Norms { kind: NormKind::Layer, eps, width: config.size("hidden_size")? })
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
pub(super) fn norm<B: LoadWeights>(
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
