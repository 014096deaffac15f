//! Settings of `fit`: pairs of texts -> a small model that learnt them.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::settings::{Expression, StageRef};

/// Trains an encoder-decoder, a decoder or a sentence encoder on pairs of texts and writes its folder, which `models:` can
/// name. As a table it tells how the training went. The same rows give the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["sizes"]}, {"required": ["checkpoint"]}]))]
pub struct Fit {
    /// Table of the pairs.
    pub from: StageRef,
    /// Table of pairs that decide when to stop, with the same columns.
    pub dev: Option<StageRef>,
    /// What the model reads: an SQL expression over the columns of the table, a text, or a list of passages that an encoder
    /// reads each apart (fusion in the decoder). Only a decoder-only model (OPT) has none, and learns outputs from their beginning.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Expression>,
    /// What it should write, or what should have a vector near that of the input: an SQL expression, likewise.
    #[schemars(length(min = 1))]
    pub output: Expression,
    /// How much a token of the pair counts, or the pair where vectors are trained: an SQL expression, likewise, a
    /// number; 1 when absent.
    pub weight: Option<Expression>,
    /// What an output that was written before was worth, a number of any sign: an SQL expression, likewise. Only with the
    /// objective `policy`, which needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward: Option<Expression>,
    /// The log-probability of the output under the policy that wrote it: an SQL expression, likewise. Without it, or where it is
    /// NULL, outputs are taken for draws of the policy under training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprob: Option<Expression>,
    /// What is made small; `generation` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<FitObjective>,
    /// Sizes of a model that begins from nothing: a T5 or an OPT, or a BERT where the objective is `contrastive`.
    pub sizes: Option<FitSizes>,
    /// Folder of a model that is trained further: a T5, two BERTs or an OPT, which learn to write, or a BERT, whose vectors
    /// are trained.
    pub checkpoint: Option<String>,
    /// Sizes of a new decoder behind the BERT of `checkpoint`, whose embeddings it begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoder: Option<FitDecoder>,
    /// Folder that is written, relative to the working directory.
    #[schemars(length(min = 1))]
    pub path: String,
    /// How it is trained.
    #[serde(default)]
    pub settings: FitSettings,
}

/// What is made small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FitObjective {
    /// The cross entropy of the output's tokens, which an encoder-decoder or a decoder writes.
    Generation,
    /// The square by which the cosine of two inputs differs from that of their outputs, over all two pairs of a batch;
    /// vectors of outputs are those of `checkpoint`.
    Similarity,
    /// The cross entropy of the right output among those of a batch, by the cosines of their vectors with the input's.
    Contrastive,
    /// The reward of outputs that were written before is made large (REINFORCE), by an encoder-decoder.
    Policy,
}

/// Sizes of a decoder behind an encoder, whose width it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FitDecoder {
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FitSizes {
    /// What is built where outputs are written; `t5` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<FitArchitecture>,
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
    /// Heads that begin by looking for the token they stand on; none when absent.
    #[schemars(range(min = 0, max = 256))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matching_heads: Option<usize>,
    /// Between the two matrices of a feed-forward part; `relu` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activation: Option<FitActivation>,
    /// How often a word must come in the pairs to be a token of the vocabulary; rarer ones are spelled in bytes. 1 when
    /// absent.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_count: Option<u32>,
}

/// What is built where outputs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FitArchitecture {
    /// An encoder and a decoder.
    T5,
    /// A decoder-only model.
    Opt,
}

/// Between the two matrices of a feed-forward part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FitActivation {
    /// As T5.
    Relu,
    /// As Flan-T5.
    GatedGelu,
}

/// How a model is trained; `docs/specs/fit.md` has ranges and defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FitSettings {
    /// What cosines are divided by where the objective is `contrastive`.
    #[schemars(range(max = 1.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Steps of the optimiser, at most.
    #[schemars(range(min = 1, max = 10_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// How often each pair is seen, at most: instead of `steps`.
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
    /// Pairs of a step.
    #[schemars(range(min = 1, max = 65_536))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// The highest learning rate.
    #[schemars(range(max = 1.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    /// Steps over which the rate grows from nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u32>,
    /// The rate after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decay: Option<FitDecay>,
    /// Part of each matrix that is taken away at each step, times the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
    /// How slowly the mean of gradients moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta1: Option<f64>,
    /// How slowly the mean of their squares moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta2: Option<f64>,
    /// Longest gradient over all weights together; `null` for any.
    #[serde(default, deserialize_with = "named", skip_serializing_if = "Option::is_none")]
    pub clip: Option<Option<f64>>,
    /// Chance that a number is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// What the entropy of a token's distribution counts with the objective `policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entropy: Option<f64>,
    /// How slowly the baseline of rewards moves, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<f64>,
    /// The largest importance weight, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_max: Option<f64>,
    /// Part of the target that is spread over the vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_smoothing: Option<f64>,
    /// First weights, order, dropout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Steps between two looks at the dev pairs.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluate_every: Option<u32>,
    /// Whether the weights that training begins with are looked at too, and are the result if none are better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluate_start: Option<bool>,
    /// What says which weights are better on the dev pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<FitJudge>,
    /// Looks that found nothing better after which to stop.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
    /// Which weights are the result where there are dev pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<FitKeep>,
    /// Most tokens of an input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u32>,
    /// Most tokens of an output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u32>,
    /// How weights are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub save: Option<FitSave>,
}

/// A value that is there, be it `null`.
fn named<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<f64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// The learning rate after its highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FitDecay {
    /// Evenly down to 0.
    Linear,
    /// Half a wave down to 0.
    Cosine,
    /// It stays.
    Constant,
}

/// What says which weights are better on the dev pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FitJudge {
    /// The lower loss.
    Loss,
    /// More inputs that are answered with just their output.
    ExactMatch,
}

/// Which weights are the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FitKeep {
    /// The best on the dev pairs.
    Best,
    /// Those of the last step.
    Last,
}

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FitSave {
    /// 32 bits.
    F32,
    /// bfloat16.
    Bf16,
}
