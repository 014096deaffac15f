//! What all architectures need to turn named tensors into parts of a network.

use crate::backend::{
    Activation, Linear, LoadWeights, MatrixSource, Norm, NormKind, Placement, Pool, Precision,
};
use crate::checkpoint::{Config, Folder, LoadError, StoredTensor, VectorMode};
use crate::network::{Heads, LmHead, Network, Pooling, Transformer};

/// Loads the tensors of a folder into a backend.
pub(super) struct WeightLoader<'a, B> {
    pub folder: &'a Folder,
    pub backend: &'a B,
    precision: Precision,
    context_limit: usize,
    /// What stands before the names of tensors.
    prefix: &'static str,
    /// What stands before the names of tensors that are not there behind `prefix`, if two stacks share them.
    twin: Option<&'static str>,
}

/// A matrix of a checkpoint: its name without `.weight`, and its outputs.
pub(super) type Part<'n> = (&'n str, usize);

/// How all norms of a stack are made.
#[derive(Clone, Copy)]
pub(super) struct Norms {
    pub kind: NormKind,
    pub eps: f64,
    pub width: usize,
}

impl<'a, B: LoadWeights> WeightLoader<'a, B> {
    pub fn new(
        folder: &'a Folder,
        backend: &'a B,
        precision: Precision,
        context_limit: usize,
    ) -> Self {
        Self { folder, backend, precision, context_limit, prefix: "", twin: None }
    }

    pub fn config(&self) -> &'a Config {
        self.folder.config()
    }

    /// Takes the first of `prefixes` that any tensor's name begins with; none if there is no such
    /// tensor, as in checkpoints that were saved without a head.
    pub fn with_prefix(self, prefixes: &[&'static str]) -> Self {
        let found = prefixes.iter().find(|prefix| self.folder.has_under(prefix));
        Self { prefix: found.copied().unwrap_or_default(), ..self }
    }

    /// The same folder, with `prefix` before all names, or `twin` where there is no such tensor.
    pub fn under(&self, prefix: &'static str, twin: Option<&'static str>) -> Self {
        Self { prefix, twin, ..*self }
    }

    fn name(&self, name: &str) -> String {
        let own = format!("{}{name}", self.prefix);
        let twin = self.twin.map(|twin| format!("{twin}{name}"));
        twin.filter(|twin| !self.folder.has(&own) && self.folder.has(twin)).unwrap_or(own)
    }

    pub fn has(&self, name: &str) -> bool {
        self.folder.has(&self.name(name))
    }

    /// The tensor of this name behind the prefix.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<StoredTensor, LoadError> {
        self.folder.tensor(&self.name(name), shape)
    }

    pub fn vector(&self, name: &str, width: usize) -> Result<B::Vector, LoadError> {
        Ok(self.backend.vector(&self.tensor(name, &[width])?.values())?)
    }

    pub fn table(&self, name: &str, rows: usize, width: usize) -> Result<B::Table, LoadError> {
        Ok(self.backend.table(&self.tensor(name, &[rows, width])?)?)
    }

    /// Several matrices with the same input as one, with their biases if they have any.
    pub fn linear(
        &self,
        parts: &[Part<'_>],
        inputs: usize,
        bias: bool,
    ) -> Result<Linear<B>, LoadError> {
        let blocks = parts
            .iter()
            .map(|(name, outputs)| self.tensor(&format!("{name}.weight"), &[*outputs, inputs]))
            .map(|tensor| tensor.map(Placement::OutputsByInputs))
            .collect::<Result<_, _>>()?;
        let bias = if bias { Some(self.biases(parts)?) } else { None };
        let outputs = parts.iter().map(|(_, outputs)| outputs).sum();
        self.pack(blocks, bias.as_deref(), outputs, inputs)
    }

    /// A matrix that lies as `[inputs, outputs]`, with its bias.
    pub fn transposed(&self, part: Part<'_>, inputs: usize) -> Result<Linear<B>, LoadError> {
        let (name, outputs) = part;
        let matrix = self.tensor(&format!("{name}.weight"), &[inputs, outputs])?;
        let blocks = vec![Placement::InputsByOutputs(matrix)];
        self.pack(blocks, Some(&self.biases(&[part])?), outputs, inputs)
    }

    fn biases(&self, parts: &[Part<'_>]) -> Result<Vec<f32>, LoadError> {
        let mut all = Vec::new();
        for (name, outputs) in parts {
            all.extend(self.tensor(&format!("{name}.bias"), &[*outputs])?.values());
        }
        Ok(all)
    }

    fn pack(
        &self,
        blocks: Vec<Placement>,
        bias: Option<&[f32]>,
        outputs: usize,
        inputs: usize,
    ) -> Result<Linear<B>, LoadError> {
        Ok(Linear {
            matrix: self.backend.matrix(&MatrixSource { blocks }, self.precision)?,
            bias: bias.map(|bias| self.backend.vector(bias)).transpose()?,
            outputs,
            inputs,
        })
    }

    /// A norm by its name without `.weight`. Layer norms have a bias, the others have none.
    pub fn norm(&self, name: &str, norms: Norms) -> Result<Norm<B>, LoadError> {
        let bias = match norms.kind {
            NormKind::Layer => Some(self.vector(&format!("{name}.bias"), norms.width)?),
            NormKind::Rms => None,
        };
        let weight = self.vector(&format!("{name}.weight"), norms.width)?;
        Ok(Norm { kind: norms.kind, weight, bias, eps: norms.eps as f32 })
    }

    /// The matrix from hidden states to logits: `lm_head.weight` if the checkpoint has it, or else
    /// the embedding of tokens if that is shared. A checkpoint that was saved without a head has none.
    pub fn head(
        &self,
        embedding: &StoredTensor,
        shared: bool,
        scale: f32,
        bias: Option<&[f32]>,
    ) -> Result<Option<LmHead<B>>, LoadError> {
        const NAME: &str = "lm_head.weight";
        let own = self.folder.has(NAME);
        if !own && !shared && self.folder.architecture().ends_with("Model") {
            return Ok(None);
        }
        let matrix = if own || !shared {
            self.folder.tensor(NAME, embedding.shape())?
        } else {
            embedding.clone()
        };
        self.lm_head(matrix, scale, bias).map(Some)
    }

    /// The head whose matrix, `[vocabulary, width]`, is this one.
    pub fn lm_head(
        &self,
        matrix: StoredTensor,
        scale: f32,
        bias: Option<&[f32]>,
    ) -> Result<LmHead<B>, LoadError> {
        let (outputs, inputs) = (matrix.rows(), matrix.width());
        let blocks = vec![Placement::OutputsByInputs(matrix)];
        Ok(LmHead { linear: self.pack(blocks, bias, outputs, inputs)?, scale })
    }

    /// Most tokens of a text by the model, sentence-transformers and the caller.
    pub fn positions(&self, most: usize) -> usize {
        most.min(self.context_limit).min(self.folder.max_tokens().unwrap_or(most))
    }

    /// A network of these parts; vectors are made as the folder says, if it says anything.
    pub fn network(
        &self,
        transformer: Transformer<B>,
        head: Option<LmHead<B>>,
        pooling: Option<Pooling<B>>,
        positions: Option<usize>,
    ) -> Network<B> {
        Network {
            transformer,
            head,
            pooling,
            classifier: None,
            positions,
            parameters: self.folder.parameters(),
            precision: self.precision,
        }
    }

    /// How a decoder's rows become a vector: as the folder says, or not at all.
    pub fn plain_pooling(&self) -> Result<Option<Pooling<B>>, LoadError> {
        let Some(settings) = self.folder.vector() else { return Ok(None) };
        let pool = match settings.mode {
            VectorMode::Mean => Pool::Mean,
            VectorMode::First => Pool::First,
            VectorMode::Last => Pool::Last,
            VectorMode::Pooler => {
                return Err(LoadError::Missing {
                    file: self.config().file().to_owned(),
                    tensor: "pooler.dense.weight".to_owned(),
                    near: None,
                });
            }
        };
        Ok(Some(Pooling { pool, pooler: None, normalize: settings.normalize }))
    }
}

/// The activation of this name.
pub(super) fn activation(
    config: &Config,
    key: &str,
    default: &str,
) -> Result<Activation, LoadError> {
    let name = config.text(key)?.unwrap_or(default);
    activation_by_name(name).ok_or_else(|| {
        config.refuse(key, "one of relu, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, silu, swish")
    })
}

/// The activation that transformers knows by this name.
pub(super) fn activation_by_name(name: &str) -> Option<Activation> {
    match name {
        "relu" => Some(Activation::Relu),
        "gelu" => Some(Activation::Gelu),
        "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => Some(Activation::GeluTanh),
        "silu" | "swish" => Some(Activation::Silu),
        _ => None,
    }
}

/// Heads that split the width evenly.
pub(super) fn even_heads(config: &Config, width: usize, key: &str) -> Result<Heads, LoadError> {
    let heads = config.size(key)?;
    if !width.is_multiple_of(heads) {
        return Err(config.refuse(key, format!("a divisor of the width {width}")));
    }
    let head_dim = width / heads;
    Ok(Heads { heads, kv_heads: heads, head_dim, scale: inverse_root(head_dim) })
}

/// `n^-0.5`, rounded once.
pub(super) fn inverse_root(n: usize) -> f32 {
    (n as f64).powf(-0.5) as f32
}
