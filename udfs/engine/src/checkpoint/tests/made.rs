//! Folders of models, made for a test: any configuration, any tensors, numbers that their names
//! decide.

use std::fs;
use std::path::Path;

use half::{bf16, f16};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::checkpoint::{Folder, LoadError};

/// Name and shape of a tensor.
pub(crate) type Shape = (String, Vec<usize>);

/// A folder that goes when the test ends.
pub(crate) struct Made(TempDir);

/// The number at place `place` of tensor `name`: whole and below 251, so that all types hold it.
pub(crate) fn number(name: &str, place: usize) -> f32 {
    let start = name.bytes().fold(7_usize, |hash, byte| (hash * 31 + usize::from(byte)) % 251);
    ((start + place * 3) % 251) as f32
}

/// All numbers of a tensor.
pub(crate) fn numbers(name: &str, count: usize) -> Vec<f32> {
    (0..count).map(|place| number(name, place)).collect()
}

/// Shapes by names.
pub(crate) fn shapes(list: &[(&str, &[usize])]) -> Vec<Shape> {
    list.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec())).collect()
}

impl Made {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// A folder with a configuration and tensors.
    pub(crate) fn new(config: &Value, tensors: &[Shape]) -> Self {
        Self::empty().json("config.json", config).weights("model.safetensors", tensors, Dtype::F32)
    }

    /// A folder that opens: Llama without any layers' tensors but these.
    pub(crate) fn with_tensors(tensors: &[(&str, &[usize])]) -> Self {
        Self::new(&json!({"architectures": ["LlamaForCausalLM"]}), &shapes(tensors))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(self, name: &str, bytes: &[u8]) -> Self {
        let file = self.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
        self
    }

    pub(crate) fn json(self, name: &str, value: &Value) -> Self {
        self.file(name, value.to_string().as_bytes())
    }

    pub(crate) fn weights(self, name: &str, tensors: &[Shape], dtype: Dtype) -> Self {
        let data: Vec<Vec<u8>> = tensors
            .iter()
            .map(|(name, shape)| {
                let numbers = numbers(name, shape.iter().product());
                numbers.into_iter().flat_map(|number| encode(number, dtype)).collect()
            })
            .collect();
        let views = tensors.iter().zip(&data).map(|((name, shape), data)| {
            (name.as_str(), TensorView::new(dtype, shape.clone(), data).unwrap())
        });
        let file = self.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        serialize_to_file(views, None, &file).unwrap();
        self
    }

    pub(crate) fn open(&self) -> Result<Folder, LoadError> {
        Folder::open(self.path())
    }

    /// Why something does not load, with the folder's path as `.`.
    pub(crate) fn why<T>(&self, result: Result<T, LoadError>) -> String {
        match result {
            Ok(_) => "it loads".to_owned(),
            Err(error) => error.to_string().replace(&self.path().display().to_string(), "."),
        }
    }

    /// Why the folder does not open.
    pub(crate) fn refused(&self) -> String {
        self.why(self.open())
    }
}

fn encode(number: f32, dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::F32 => number.to_le_bytes().to_vec(),
        Dtype::F16 => f16::from_f32(number).to_le_bytes().to_vec(),
        Dtype::BF16 => bf16::from_f32(number).to_le_bytes().to_vec(),
        Dtype::F64 => f64::from(number).to_le_bytes().to_vec(),
        Dtype::I8 => vec![number as u8],
        other => panic!("no test needs {other}"),
    }
}
