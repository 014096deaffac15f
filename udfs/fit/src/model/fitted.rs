//! A fitted model: a checkpoint in the layout of Hugging Face.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize};
use serde_json::{Value, json};

use crate::error::FitError;
use crate::model::folder;
use crate::model::origin::{Origin, pretty};
use crate::model::weights::Weights;
use proofmill_settings::fit::Save;

/// The settings of the model.
const CONFIG: &str = "config.json";

/// A fitted model.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The files of the checkpoint by name.
    pub files: BTreeMap<String, Vec<u8>>,
    pub parameters: u64,
    pub steps: u32,
    /// The step whose weights these are, from 1.
    pub step: u32,
    /// Their loss on the dev pairs, per token, or per pair of a loss over vectors; none if there are none, or if that step was not evaluated.
    pub dev_loss: Option<f64>,
}

impl Fitted {
    pub(crate) fn new(
        origin: &Origin,
        weights: &Weights,
        save: Save,
        (steps, step, dev_loss): (u32, u32, Option<f64>),
    ) -> Result<Self, FitError> {
        let mut files = origin.files.clone();
        let mut config = origin.config.clone();
        config.remove("torch_dtype");
        let dtype = match save {
            Save::F32 => "float32",
            Save::Bf16 => "bfloat16",
        };
        config.insert("dtype".to_owned(), json!(dtype));
        files.insert(CONFIG.to_owned(), pretty(&Value::Object(config)));
        files.insert("model.safetensors".to_owned(), tensors(origin, weights, save)?);
        let parameters = weights.iter().map(|values| values.len() as u64).sum();
        Ok(Self { files, parameters, steps, step, dev_loss })
    }

    /// Puts the files into a folder, which is made if it is not there: a reader of the folder sees the
    /// model of before, none, or this one. Other files in it stay; one that would be read as a part of
    /// this model is an error.
    pub fn write(&self, to: &Path) -> Result<(), FitError> {
        folder::write(to, &self.files)
    }
}

fn tensors(origin: &Origin, weights: &Weights, save: Save) -> Result<Vec<u8>, FitError> {
    let all: Vec<(String, Vec<usize>, Vec<u8>)> = origin
        .plan
        .parameters
        .iter()
        .zip(weights)
        .flat_map(|(parameter, values)| parameter.tensors(values))
        .chain(origin.untrained.iter().cloned())
        .map(|(name, dims, values)| (name, dims, stored(&values, save)))
        .collect();
    let dtype = match save {
        Save::F32 => Dtype::F32,
        Save::Bf16 => Dtype::BF16,
    };
    let views = all
        .iter()
        .map(|(name, dims, bytes)| {
            TensorView::new(dtype, dims.clone(), bytes).map(|view| (name.as_str(), view))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let format = [("format".to_owned(), "pt".to_owned())].into();
    Ok(serialize(views, Some(format))?)
}

fn stored(values: &[f32], save: Save) -> Vec<u8> {
    match save {
        Save::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        Save::Bf16 => values.iter().flat_map(|&value| rounded(value).to_le_bytes()).collect(),
    }
}

/// The upper half of a number, to the nearest, to even where two are as near. All are finite.
fn rounded(value: f32) -> u16 {
    let bits = value.to_bits();
    ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_a_number_is_the_nearest() {
        let back = |value: f32| f32::from_bits(u32::from(rounded(value)) << 16);
        assert_eq!(back(1.0), 1.0);
        assert_eq!(back(-2.5), -2.5);
        // Half way between 1 and the next, 1 + 2^-7: even wins.
        assert_eq!(back(1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(back(1.0 + 3.0 / 256.0), 1.0 + 2.0 / 128.0);
        assert_eq!(back(1.0 + 1.1 / 256.0), 1.0 + 1.0 / 128.0);
    }
}
