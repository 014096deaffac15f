//! BERT, DPR and RoBERTa: post-norm with biases everywhere, learned positions, vectors of token types, a pooler
//! that some checkpoints lack, and a head that tells classes where the checkpoint has one. They differ in the names
//! of tensors, in where positions begin, and in what makes a vector. BERT's stack is also each side of an
//! encoder-decoder.

use super::loader::{Norms, WeightLoader, activation, even_heads};
use crate::backend::{Embedding, LoadWeights, Norm, NormKind, Pool};
use crate::checkpoint::{Config, Labels, LoadError, StoredTensor, VectorMode, VectorSettings};
use crate::network::{
    Attention, Classifier, CrossAttention, Mlp, Network, Pooling, Stack, Transformer,
    TransformerBlock,
};

/// The three relatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Bert,
    Dpr,
    Roberta,
}

impl Variant {
    fn prefixes(self) -> &'static [&'static str] {
        match self {
            Self::Bert => &["bert."],
            Self::Dpr => &["question_encoder.bert_model.", "ctx_encoder.bert_model."],
            Self::Roberta => &["roberta."],
        }
    }

    /// How vectors are made where the folder says nothing: as sentence-transformers has it, and DPR by its first row.
    fn vector(self) -> VectorSettings {
        let mode = match self {
            Self::Bert | Self::Roberta => VectorMode::Mean,
            Self::Dpr => VectorMode::First,
        };
        VectorSettings { mode, normalize: false }
    }

    /// The row of position 0 in the table of positions.
    fn first_position(self, config: &Config) -> Result<usize, LoadError> {
        match self {
            Self::Bert | Self::Dpr => Ok(0),
            // Behind the row of padding.
            Self::Roberta => Ok(config.token("pad_token_id")?.unwrap_or(1) as usize + 1),
        }
    }
}

/// The encoder.
pub(super) fn load<B: LoadWeights>(
    loader: WeightLoader<'_, B>,
    kind: Variant,
) -> Result<Network<B>, LoadError> {
    let config = loader.config();
    config.only("is_decoder", false)?;
    config.only("add_cross_attention", false)?;
    if kind == Variant::Dpr && config.has("projection_dim") && !config.is_zero("projection_dim") {
        return Err(config.refuse("projection_dim", "0: projections are not supported"));
    }
    let loader = loader.with_prefix(kind.prefixes());
    let classifies = loader.folder.architecture().ends_with("ForSequenceClassification");
    // RoBERTa's tokenizers know no types.
    let typed = classifies && kind == Variant::Bert;
    let Embedded { stack, max_positions, type_offsets } =
        embedded(&loader, config, kind, Use { decoder: false, typed })?;
    let width = stack.width;
    let classifier =
        if classifies { Some(classifier(&loader, kind, width, type_offsets)?) } else { None };
    let pooling = pooling(&loader, kind, width)?;
    let positions = loader.positions(max_positions);
    let network = loader.network(Transformer::Encoder(stack), None, Some(pooling), Some(positions));
    Ok(Network { classifier, ..network })
}

/// The stack of a BERT with these settings; that of a decoder is causal and attends to an encoder.
pub(super) fn stack<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    config: &Config,
    decoder: bool,
) -> Result<Stack<B>, LoadError> {
    let embedded = embedded(loader, config, Variant::Bert, Use { decoder, typed: false })?;
    Ok(embedded.stack)
}

/// What a stack is for.
#[derive(Clone, Copy)]
struct Use {
    /// It is causal and attends to an encoder.
    decoder: bool,
    /// Its rows have token types.
    typed: bool,
}

/// A stack and what its positions are.
struct Embedded<B: LoadWeights> {
    stack: Stack<B>,
    /// Most tokens of a text.
    max_positions: usize,
    /// For each token type, what is added to the position of a token that has it.
    type_offsets: Vec<u32>,
}

fn embedded<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    config: &Config,
    kind: Variant,
    Use { decoder, typed }: Use,
) -> Result<Embedded<B>, LoadError> {
    if config.text("position_embedding_type")?.is_some_and(|kind| kind != "absolute") {
        return Err(config.refuse("position_embedding_type", "\"absolute\""));
    }
    let width = config.size("hidden_size")?;
    let norms = norms(config)?;
    let heads = even_heads(config, width, "num_attention_heads")?;
    let mlp_width = config.size("intermediate_size")?;
    let activation = activation(config, "hidden_act", "gelu")?;
    let rows = config.size("max_position_embeddings")?;
    let first = kind.first_position(config)?;
    let max_positions =
        rows.checked_sub(first).filter(|positions| *positions > 0).ok_or_else(|| {
            let expected = format!("more than the {first} rows before a text");
            config.refuse("max_position_embeddings", expected)
        })?;
    let types = config.size_or("type_vocab_size", 2)?;
    let type_table = loader.tensor("embeddings.token_type_embeddings.weight", &[types, width])?;
    let positions = loader.tensor("embeddings.position_embeddings.weight", &[rows, width])?;
    let (table, type_vector, type_offsets) = if typed {
        let offsets = (0..types).map(|kind| (kind * rows) as u32).collect();
        (positions_of_types(&positions, &type_table), None, offsets)
    } else {
        let mut first = vec![0.0; width];
        type_table.row(0, &mut first);
        (positions, Some(loader.backend.vector(&first)?), vec![0])
    };
    let vocabulary = config.size("vocab_size")?;
    let embedding = Embedding {
        tokens: loader.table("embeddings.word_embeddings.weight", vocabulary, width)?,
        scale: 1.0,
        positions: Some((loader.backend.table(&table)?, first as u32)),
        kind: type_vector,
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
    let stack = Stack {
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
    };
    Ok(Embedded { stack, max_positions, type_offsets })
}

/// How the norms of these settings are made.
pub(super) fn norms(config: &Config) -> Result<Norms, LoadError> {
    let eps = config.positive_or("layer_norm_eps", 1e-12)?;
    Ok(Norms { kind: NormKind::Layer, eps, width: config.size("hidden_size")? })
}

/// The table of positions once for each token type, with the type's vector added: a row that has a type is a
/// position in that part of the table.
fn positions_of_types(positions: &StoredTensor, types: &StoredTensor) -> StoredTensor {
    let (rows, width) = (positions.rows(), positions.width());
    let (mut all, mut own) = (Vec::with_capacity(types.rows() * rows * width), vec![0.0; width]);
    for kind in 0..types.rows() {
        types.row(kind, &mut own);
        let places = positions.values();
        all.extend(
            places.chunks_exact(width).flat_map(|row| row.iter().zip(&own).map(|(a, b)| a + b)),
        );
    }
    StoredTensor::from_f32(&all, vec![types.rows() * rows, width])
        .expect("as many numbers as the shape has places")
}

/// The head: a matrix with tanh, and one with an output for each class.
fn classifier<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    kind: Variant,
    width: usize,
    type_offsets: Vec<u32>,
) -> Result<Classifier<B>, LoadError> {
    let labels = Labels::read(loader.config())?;
    let count = labels.names.len();
    let head = loader.under("", None);
    let (dense, out) = match kind {
        Variant::Bert | Variant::Dpr => (
            loader.linear(&[("pooler.dense", width)], width, true)?,
            head.linear(&[("classifier", count)], width, true)?,
        ),
        Variant::Roberta => (
            head.linear(&[("classifier.dense", width)], width, true)?,
            head.linear(&[("classifier.out_proj", count)], width, true)?,
        ),
    };
    Ok(Classifier { dense, out, labels, type_offsets })
}

fn pooling<B: LoadWeights>(
    loader: &WeightLoader<'_, B>,
    kind: Variant,
    width: usize,
) -> Result<Pooling<B>, LoadError> {
    let settings = loader.folder.vector().unwrap_or(kind.vector());
    let pool = match settings.mode {
        VectorMode::Mean => Pool::Mean,
        VectorMode::First | VectorMode::Pooler => Pool::First,
        VectorMode::Last => Pool::Last,
    };
    let pooler = match settings.mode {
        // What DPR calls so is the first row itself.
        VectorMode::Pooler if kind != Variant::Dpr => {
            Some(loader.linear(&[("pooler.dense", width)], width, true)?)
        }
        VectorMode::Pooler | VectorMode::Mean | VectorMode::First | VectorMode::Last => None,
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
