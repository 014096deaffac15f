//! The tensors of `golden.safetensors`: logits, states and vectors in f32.

use std::path::Path;

use safetensors::SafeTensors;

/// Rows of f32.
pub struct Matrix {
    pub width: usize,
    pub values: Vec<f32>,
}

impl Matrix {
    /// All rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.width)
    }
}

/// The tensors of a folder.
pub struct Tensors(Vec<u8>);

impl Tensors {
    /// Of a checkpoint's folder.
    pub fn of(folder: &Path) -> Tensors {
        let path = folder.join("golden.safetensors");
        Tensors(std::fs::read(&path).unwrap_or_else(|e| panic!("{path:?}: {e}")))
    }

    /// Logits of [`crate::golden::Writer::forward`] `n`: a row for each place from `first` on.
    pub fn logits(&self, n: usize) -> Matrix {
        self.named(&format!("logits.{n}"))
    }

    /// Logits of the first two steps of [`crate::golden::Writer::fusion`] `n`.
    pub fn fusion(&self, n: usize) -> Matrix {
        self.named(&format!("fusion.{n}"))
    }

    /// The encoder's states of text `n`, the first three only.
    pub fn encoder(&self, n: usize) -> Matrix {
        self.named(&format!("encoder.{n}"))
    }

    /// Final states of text `n`: of its last token, after the final norm (and, where there is one,
    /// the projection), for causal models; of every token for encoders.
    pub fn hidden(&self, n: usize) -> Matrix {
        self.named(&format!("hidden.{n}"))
    }

    /// The hidden states of every token of the third text behind `n` blocks of what reads it.
    pub fn layer(&self, n: usize) -> Option<Matrix> {
        let name = format!("layer.{n}");
        let file = SafeTensors::deserialize(&self.0).unwrap();
        file.names().contains(&name.as_str()).then(|| self.named(&name))
    }

    /// A row per text: the mean of all states, at length 1.
    pub fn mean(&self) -> Matrix {
        self.named("mean")
    }

    /// A row per text: the state of the first token.
    pub fn cls(&self) -> Matrix {
        self.named("cls")
    }

    /// A row per text: what BERT's pooler makes of the first token's state.
    pub fn pooler(&self) -> Matrix {
        self.named("pooler")
    }

    fn named(&self, name: &str) -> Matrix {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let tensor = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tensor.dtype(), safetensors::Dtype::F32, "{name}");
        let values = tensor.data().chunks_exact(4);
        Matrix {
            width: *tensor.shape().last().unwrap(),
            values: values.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        }
    }
}
