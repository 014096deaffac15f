//! How a model is trained: what `fit` takes, with its defaults.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// Training objective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FitObjective")]
pub enum Objective {
    /// The cross entropy of the output's tokens, which an encoder-decoder or a decoder writes.
    #[default]
    Generation,
    /// The squared difference between the cosine of two inputs and that of their outputs, over all two pairs of a
    /// batch; vectors of outputs are those of `checkpoint`.
    Similarity,
    /// The cross entropy of the right output among those of a batch, by the cosines of their vectors with the input's.
    Contrastive,
    /// Maximizes the reward of outputs that were written before (REINFORCE), with an encoder-decoder.
    Policy,
}

impl Objective {
    /// Whether it is a model that writes which is trained.
    pub fn writes(self) -> bool {
        matches!(self, Self::Generation | Self::Policy)
    }

    /// Its name in the pipeline file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Generation => "generation",
            Self::Similarity => "similarity",
            Self::Contrastive => "contrastive",
            Self::Policy => "policy",
        }
    }
}

/// Sizes of a decoder behind an encoder, whose width it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FitDecoder")]
pub struct DecoderSizes {
    /// Blocks.
    #[schemars(range(min = 1, max = 96))]
    pub layers: usize,
    /// Heads of an attention, which divide the width; as many as the encoder has when absent.
    #[schemars(range(min = 1, max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<usize>,
    /// Numbers inside a feed-forward part; as many as the encoder has when absent.
    #[schemars(range(min = 1, max = 65_536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d_ff: Option<usize>,
}

/// Sizes of a model; the vocabulary is made of the words of all pairs, and of bytes for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FitSizes")]
pub struct Sizes {
    /// Architecture of a model that generates; `t5` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// Numbers of a token.
    #[schemars(range(min = 1, max = 8192))]
    pub d_model: usize,
    /// Numbers of a token in a head.
    #[schemars(range(min = 1, max = 1024))]
    pub d_kv: usize,
    /// Numbers inside a feed-forward part.
    #[schemars(range(min = 1, max = 65_536))]
    pub d_ff: usize,
    /// Heads of an attention.
    #[schemars(range(min = 1, max = 256))]
    pub heads: usize,
    /// Blocks of the encoder, or of a decoder-only model.
    #[schemars(range(min = 1, max = 96))]
    pub layers: usize,
    /// Blocks of the decoder; as many when absent.
    #[schemars(range(min = 1, max = 96))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoder_layers: Option<usize>,
    /// Heads that initially attend to the same token elsewhere; none when absent.
    #[schemars(range(min = 0, max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matching_heads: Option<usize>,
    /// Between the two matrices of a feed-forward part; `relu` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// Minimum count of a word in the pairs to become a token of the vocabulary; rarer ones are spelled in bytes. 1
    /// when absent.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_count: Option<u32>,
}

impl Sizes {
    /// A model of about a million numbers, as tests and benchmarks take it: d_model 128, d_kv 32,
    /// d_ff 512, 4 heads, 2 and 2 blocks.
    pub fn tiny() -> Self {
        Self {
            architecture: None,
            d_model: 128,
            d_kv: 32,
            d_ff: 512,
            heads: 4,
            layers: 2,
            decoder_layers: None,
            matching_heads: None,
            activation: None,
            min_count: None,
        }
    }

    /// Architecture of a model that generates.
    pub fn architecture(&self) -> Architecture {
        self.architecture.unwrap_or_default()
    }

    /// Blocks of the decoder.
    pub fn decoder_layers(&self) -> usize {
        self.decoder_layers.unwrap_or(self.layers)
    }

    /// Heads that begin by looking for the token they stand on.
    pub fn matching_heads(&self) -> usize {
        self.matching_heads.unwrap_or(0)
    }

    /// What stands between the two matrices of a feed-forward part.
    pub fn activation(&self) -> Activation {
        self.activation.unwrap_or_default()
    }

    /// How often a word must come in the pairs to be a token.
    pub fn min_count(&self) -> u32 {
        self.min_count.unwrap_or(1)
    }
}

/// Architecture of a model that generates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FitArchitecture")]
pub enum Architecture {
    /// An encoder and a decoder.
    #[default]
    T5,
    /// A decoder-only model.
    Opt,
}

/// Between the two matrices of a feed-forward part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FitActivation")]
pub enum Activation {
    /// As T5.
    #[default]
    Relu,
    /// As Flan-T5.
    GatedGelu,
}

/// Decay of the learning rate after its highest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FitDecay")]
pub enum Decay {
    /// Linear decay to 0.
    Linear,
    /// Cosine decay to 0.
    Cosine,
    /// Constant.
    Constant,
}

/// Criterion for better weights on the dev pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FitJudge")]
pub enum Judge {
    /// The lower loss.
    Loss,
    /// More inputs that are answered with exactly their output.
    ExactMatch,
}

/// Which weights are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FitKeep")]
pub enum Keep {
    /// The best on the dev pairs.
    Best,
    /// Those of the last step.
    Last,
}

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FitSave")]
pub enum Save {
    /// 32 bits.
    F32,
    /// bfloat16.
    Bf16,
}

/// Declares how a model is trained: once as people write it, where what is absent has its default, and once whole.
macro_rules! training {
    ($(
        $(#[doc $($doc:tt)*])*
        $(#[schemars($($schema:tt)*)])?
        $(#[serde($($serde:tt)*)])?
        $name:ident: $kind:ty = $default:expr;
    )*) => {
        /// How a model is trained; `docs/specs/fit.md` has ranges and defaults.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct FitSettings {
            /// Maximum number of epochs, instead of `steps`.
            #[schemars(range(min = 1, max = 100_000))]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub epochs: Option<u32>,
            $(
                $(#[doc $($doc)*])*
                $(#[schemars($($schema)*)])?
                $(#[serde($($serde)*)])?
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $name: Option<$kind>,
            )*
        }

        /// How a model is trained, with all defaults. Every setting but the sizes of texts can change the bytes of the result.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        pub struct Training {
            /// Training objective.
            pub objective: Objective,
            /// Added to the root of the mean of squared gradients: above 0, at most 1.
            pub epsilon: f64,
            $($(#[doc $($doc)*])* pub $name: $kind,)*
        }

        impl Default for Training {
            fn default() -> Self {
                Self { objective: Objective::default(), epsilon: 1e-8, $($name: $default,)* }
            }
        }

        impl FitSettings {
            /// With all defaults; `epochs` is left to the caller, who knows the number of pairs.
            pub fn with_defaults(&self, objective: Objective) -> Training {
                let defaults = Training::default();
                Training {
                    objective,
                    $($name: self.$name.unwrap_or(defaults.$name),)*
                    ..defaults
                }
            }
        }
    };
}

training! {
    /// Divisor of cosines for the objective `contrastive`.
    #[schemars(range(max = 1.0))]
    temperature: f64 = 0.05;
    /// Maximum number of optimiser steps.
    #[schemars(range(min = 1, max = 10_000_000))]
    steps: u32 = 1000;
    /// Pairs of a step.
    #[schemars(range(min = 1, max = 65_536))]
    batch: u32 = 64;
    /// The highest learning rate.
    #[schemars(range(max = 1.0))]
    learning_rate: f64 = 2e-3;
    /// Warm-up steps of the learning rate.
    warmup: u32 = 100;
    /// Decay of the learning rate after the warm-up.
    decay: Decay = Decay::Linear;
    /// Part of each matrix that is subtracted at each step, times the learning rate.
    weight_decay: f64 = 0.01;
    /// Decay rate of the running mean of gradients.
    beta1: f64 = 0.9;
    /// Decay rate of the running mean of their squares.
    beta2: f64 = 0.999;
    /// Maximum norm of the gradient over all weights; `null` for no clipping.
    #[serde(default, deserialize_with = "said")]
    clip: Option<f64> = Some(1.0);
    /// Dropout probability.
    dropout: f64 = 0.0;
    /// Weight of the entropy of a token's distribution with the objective `policy`.
    entropy: f64 = 0.01;
    /// Decay rate of the running baseline of rewards, likewise.
    baseline: f64 = 0.9;
    /// The largest importance weight, likewise.
    ratio_max: f64 = 10.0;
    /// Label smoothing: the part of the target that is spread over the vocabulary.
    label_smoothing: f64 = 0.0;
    /// Seed of initial weights, order and dropout.
    seed: u64 = 0;
    /// Steps between two evaluations on the dev pairs.
    #[schemars(range(min = 1))]
    evaluate_every: u32 = 250;
    /// Whether the initial weights are evaluated too, and kept if none are better.
    evaluate_start: bool = false;
    /// Criterion for better weights on the dev pairs.
    judge: Judge = Judge::Loss;
    /// Evaluations without improvement after which training stops.
    #[schemars(range(min = 1))]
    patience: Option<u32> = None;
    /// Which weights are kept if there are dev pairs.
    keep: Keep = Keep::Best;
    /// Maximum number of tokens of an input.
    input_tokens: u32 = 512;
    /// Maximum number of tokens of an output.
    output_tokens: u32 = 256;
    /// How weights are stored.
    save: Save = Save::F32;
}

/// A value that is there, be it `null`.
fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(from).map(Some)
}
