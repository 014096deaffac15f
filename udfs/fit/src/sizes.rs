//! The sizes of a model that begins from nothing.

use serde::{Deserialize, Serialize};

use crate::error::FitError;

/// The sizes of a model. The vocabulary is the tokenizer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// What is built of them where outputs are written.
    #[serde(default)]
    pub architecture: Architecture,
    /// Numbers of a token: 1 to 8,192.
    pub d_model: usize,
    /// Numbers of a token in a head: 1 to 1,024.
    pub d_kv: usize,
    /// Numbers inside a feed-forward part: 1 to 65,536.
    pub d_ff: usize,
    /// Heads of an attention: 1 to 256.
    pub heads: usize,
    /// Blocks of the encoder, or of a decoder-only model: 1 to 96.
    pub layers: usize,
    /// Blocks of the decoder: 1 to 96; as many as `layers` if absent.
    #[serde(default)]
    pub decoder_layers: Option<usize>,
    /// What stands between the two matrices of a feed-forward part.
    #[serde(default)]
    pub activation: Activation,
    /// Heads of the encoder, and of the decoder's look at it, that begin by looking for the token they
    /// stand on: 0 to `heads`; 0 if absent.
    #[serde(default)]
    pub matching_heads: usize,
    /// Buckets of relative positions: an even number from 4 to 256; 32 if absent.
    #[serde(default = "buckets")]
    pub buckets: usize,
    /// Distance from which on all share a bucket: `buckets` to 65,536; 128 if absent.
    #[serde(default = "max_distance")]
    pub max_distance: usize,
    /// How often a word must come in the training texts to be a token; rarer ones are spelled in bytes: 1 or more;
    /// 1 if absent.
    #[serde(default = "min_count")]
    pub min_count: u32,
}

/// What is built where outputs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// An encoder and a decoder.
    #[default]
    T5,
    /// A decoder-only model.
    Opt,
}

/// What stands between the two matrices of a feed-forward part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// ReLU (T5).
    #[default]
    Relu,
    /// GELU by tanh, times a second projection (Flan-T5).
    GatedGelu,
}

impl Activation {
    /// Its name in `config.json`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::GatedGelu => "gated-gelu",
        }
    }

    /// Matrices that go up.
    pub(crate) fn projections(self) -> usize {
        match self {
            Self::Relu => 1,
            Self::GatedGelu => 2,
        }
    }
}

/// The sizes of a decoder that begins from nothing behind the encoder of a checkpoint, whose width it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecoderSizes {
    /// Blocks: 1 to 96.
    pub layers: usize,
    /// Heads of an attention: a divisor of the width, at most 256; as many as the encoder has if absent.
    #[serde(default)]
    pub heads: Option<usize>,
    /// Numbers inside a feed-forward part: 1 to 65,536; as many as the encoder has if absent.
    #[serde(default)]
    pub d_ff: Option<usize>,
}

impl DecoderSizes {
    /// Refuses the first size that is out of its range.
    pub fn check(&self) -> Result<(), FitError> {
        size("layers", self.layers, 1, 96)?;
        self.heads.map_or(Ok(()), |heads| size("heads", heads, 1, 256))?;
        self.d_ff.map_or(Ok(()), |d_ff| size("d_ff", d_ff, 1, 65_536))
    }
}

fn buckets() -> usize {
    32
}

fn max_distance() -> usize {
    128
}

fn min_count() -> u32 {
    1
}

impl Sizes {
    /// A model of about a million numbers, as tests and benchmarks take it: d_model 128, d_kv 32,
    /// d_ff 512, 4 heads, 2 and 2 blocks.
    pub fn tiny() -> Self {
        Self {
            architecture: Architecture::T5,
            d_model: 128,
            d_kv: 32,
            d_ff: 512,
            heads: 4,
            layers: 2,
            decoder_layers: None,
            activation: Activation::Relu,
            matching_heads: 0,
            buckets: buckets(),
            max_distance: max_distance(),
            min_count: min_count(),
        }
    }

    /// Refuses the first size that is out of its range.
    pub fn check(&self) -> Result<(), FitError> {
        size("d_model", self.d_model, 1, 8192)?;
        size("d_kv", self.d_kv, 1, 1024)?;
        size("d_ff", self.d_ff, 1, 65_536)?;
        size("heads", self.heads, 1, 256)?;
        size("layers", self.layers, 1, 96)?;
        if let Some(layers) = self.decoder_layers {
            size("decoder_layers", layers, 1, 96)?;
        }
        size("matching_heads", self.matching_heads, 0, self.heads)?;
        size("buckets", self.buckets, 4, 256)?;
        if self.buckets % 2 == 1 {
            return Err(refuse("buckets", self.buckets, "an even number from 4 to 256".to_owned()));
        }
        size("max_distance", self.max_distance, self.buckets, 65_536)?;
        size("min_count", self.min_count as usize, 1, 1_000_000_000)
    }
}

fn size(name: &'static str, found: usize, least: usize, most: usize) -> Result<(), FitError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(refuse(name, found, format!("a whole number from {least} to {most}")))
}

fn refuse(name: &'static str, found: usize, expected: String) -> FitError {
    FitError::Setting { name, found: found.to_string(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_out_of_range_are_named_with_their_value() {
        let tiny = Sizes::tiny();
        tiny.check().unwrap();
        let wrong = [
            (
                Sizes { d_model: 0, ..tiny },
                "`d_model` is 0, expected a whole number from 1 to 8192",
            ),
            (Sizes { d_kv: 2000, ..tiny }, "`d_kv` is 2000"),
            (Sizes { d_ff: 0, ..tiny }, "`d_ff` is 0"),
            (Sizes { heads: 0, ..tiny }, "`heads` is 0"),
            (Sizes { layers: 97, ..tiny }, "`layers` is 97"),
            (Sizes { decoder_layers: Some(0), ..tiny }, "`decoder_layers` is 0"),
            (
                Sizes { matching_heads: 5, ..tiny },
                "`matching_heads` is 5, expected a whole number from 0 to 4",
            ),
            (Sizes { buckets: 5, ..tiny }, "`buckets` is 5, expected an even number"),
            (
                Sizes { max_distance: 31, ..tiny },
                "`max_distance` is 31, expected a whole number from 32",
            ),
            (Sizes { min_count: 0, ..tiny }, "`min_count` is 0"),
        ];
        for (sizes, expected) in wrong {
            let message = sizes.check().unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
        let read: Sizes =
            serde_json::from_str(r#"{"d_model":128,"d_kv":32,"d_ff":512,"heads":4,"layers":2}"#)
                .unwrap();
        assert_eq!(read, tiny);
    }
}
