//! Settings of `fit`: pairs of texts -> a small model that learnt them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{Expression, StageRef};
use proofmill_settings::fit::{DecoderSizes, FitSettings, Objective, Sizes};

/// Trains an encoder-decoder, a decoder or a sentence encoder on pairs of texts and writes its folder, which
/// `models:` can name. Its table records the course of the training. The same rows give the same bytes.
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
    /// The target output, or the text whose vector should be near that of the input: an SQL expression, likewise.
    #[schemars(length(min = 1))]
    pub output: Expression,
    /// Weight of each token of the pair, or of the pair where vectors are trained: an SQL expression, likewise,
    /// that gives a number; 1 when absent.
    pub weight: Option<Expression>,
    /// Reward of an output that was written before, a number of any sign: an SQL expression, likewise. Only with
    /// the objective `policy`, which requires it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward: Option<Expression>,
    /// The log-probability of the output under the policy that wrote it: an SQL expression, likewise. Without it,
    /// or where it is NULL, outputs are treated as samples of the policy under training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprob: Option<Expression>,
    /// Training objective; `generation` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// Sizes of a model that is trained from scratch: a T5 or an OPT, or a BERT where the objective is
    /// `contrastive`.
    pub sizes: Option<Sizes>,
    /// Folder of a model that is trained further: a T5, two BERTs or an OPT, which learn to write, or a BERT, whose vectors
    /// are trained.
    pub checkpoint: Option<String>,
    /// Sizes of a new decoder behind the BERT of `checkpoint`, whose embeddings it begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoder: Option<DecoderSizes>,
    /// Output folder, relative to the working directory.
    #[schemars(length(min = 1))]
    pub path: String,
    /// How it is trained.
    #[serde(default)]
    pub settings: FitSettings,
}
