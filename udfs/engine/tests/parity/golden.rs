//! What transformers makes of the checkpoints, read into plain structs.
//!
//! A checkpoint's folder holds `golden.json` (texts, tokens, scores) and `golden.safetensors`
//! (logits, states, vectors). Tokens are ids of the model's own vocabulary; log-probabilities are
//! natural; new tokens include the end where there is one.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::tensors::Tensors;

/// Most new tokens of every answer.
pub const NEW_TOKENS: usize = 16;

/// The folders of checkpoints: the ones kept here, and those in the folders that the variable
/// `PROOFMILL_PARITY` names, separated as in `PATH`.
pub fn checkpoints() -> Vec<PathBuf> {
    let more = std::env::var_os("PROOFMILL_PARITY").unwrap_or_default();
    let roots = std::env::split_paths(&more).filter(|root| !root.as_os_str().is_empty());
    let mut found: Vec<PathBuf> = std::iter::once(kept())
        .chain(roots)
        .flat_map(|root| std::fs::read_dir(&root).unwrap_or_else(|e| panic!("{root:?}: {e}")))
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("config.json").is_file())
        .collect();
    found.sort();
    found
}

/// The folder of what is kept in the repository.
pub fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/data")
}

/// What a checkpoint's model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Writes on from a prompt.
    Causal,
    /// Reads a prompt and writes an answer.
    Seq2seq,
    Encoder,
    /// Tells the class of a text.
    Classifier,
}

/// The kind of the model in a folder.
pub fn kind(folder: &Path) -> Kind {
    #[derive(Deserialize)]
    struct Any {
        kind: Kind,
    }
    json::<Any>(&folder.join("golden.json")).kind
}

/// A text and its tokens, special ones included, neither cut nor padded.
#[derive(Deserialize)]
pub struct Text {
    pub text: String,
    pub ids: Vec<u32>,
}

/// One answer.
#[derive(Deserialize)]
pub struct Run {
    pub tokens: Vec<u32>,
    /// Between the two best choices at each step: logits, or logits after cuts plus noise.
    pub gaps: Vec<f64>,
    /// Sum over the tokens, under the model's own distribution.
    pub logprob: f64,
    /// Of each token.
    #[serde(default)]
    pub logprobs: Vec<f64>,
}

/// Everything about a model that writes.
#[derive(Deserialize)]
pub struct Writer {
    pub kind: Kind,
    /// Tokens that end an answer, the usual one first.
    pub ends: Vec<u32>,
    /// Relative error of transformers' logits in f32 against f64.
    pub f32_error: f64,
    pub texts: Vec<Text>,
    pub forward: Vec<Forward>,
    pub greedy: Vec<Greedy>,
    /// Empty where the model forces tokens (BART).
    pub prefixed: Vec<Prefixed>,
    pub beam: Vec<Beam>,
    pub sampled: Vec<Sampled>,
    pub scores: Vec<Scores>,
    /// Empty for causal models.
    #[serde(default)]
    pub fusion: Vec<Fusion>,
}

/// Teacher-forced logits: see [`Tensors::logits`].
#[derive(Deserialize)]
pub struct Forward {
    /// Number of the text.
    pub text: usize,
    /// What the decoder reads behind its start token; empty for causal models, which read the text.
    pub forced: Vec<u32>,
    /// The place, among the places that logits are computed for, of the first kept row. The places
    /// of a causal model are the text's tokens; those of a decoder its start token and `forced`.
    pub first: usize,
}

/// The likeliest token at every step.
#[derive(Deserialize)]
pub struct Greedy {
    pub text: usize,
    /// The tokens as text, without special ones.
    pub decoded: String,
    #[serde(flatten)]
    pub run: Run,
}

/// The same behind a text that the answer begins with; `run` is what follows it.
#[derive(Deserialize)]
pub struct Prefixed {
    pub text: usize,
    pub prefix: String,
    pub forced: Vec<u32>,
    #[serde(flatten)]
    pub run: Run,
}

/// Beam search under one setting.
#[derive(Deserialize)]
pub struct Beam {
    pub beams: u32,
    pub answers: u32,
    pub length_penalty: f32,
    pub early_stopping: bool,
    pub runs: Vec<BeamRun>,
}

/// The best hypotheses for one text, best first.
#[derive(Deserialize)]
pub struct BeamRun {
    pub text: usize,
    /// Whether scores shaken by 1e-4 gave the same.
    pub stable: bool,
    pub answers: Vec<Hypothesis>,
}

/// One answer of a beam search.
#[derive(Deserialize)]
pub struct Hypothesis {
    pub tokens: Vec<u32>,
    pub score: f64,
    pub logprob: f64,
}

/// Samples under one setting, by the noise of [`Draw`].
#[derive(Deserialize)]
pub struct Sampled {
    pub temperature: f32,
    pub top_k: u32,
    pub top_p: f32,
    pub seed: u64,
    pub runs: Vec<Sample>,
}

#[derive(Deserialize)]
pub struct Sample {
    pub text: usize,
    /// First eight bytes of the request's key, the first the highest.
    pub row: u64,
    pub sample: u64,
    #[serde(flatten)]
    pub run: Run,
}

/// Continuations of one text.
#[derive(Deserialize)]
pub struct Scores {
    pub text: usize,
    /// Of each token of the text but the first; empty where an encoder reads it.
    pub prompt_logprobs: Vec<f64>,
    pub continuations: Vec<Continuation>,
}

/// What one continuation is worth.
#[derive(Deserialize)]
pub struct Continuation {
    pub text: String,
    pub tokens: Vec<u32>,
    pub logprob: f64,
    /// Of each token.
    pub logprobs: Vec<f64>,
    /// Of the first of the ends, behind the tokens.
    pub end_logprob: f64,
    pub is_greedy: bool,
    /// The least gap between the two best logits over the tokens.
    pub gap: f64,
}

/// Several texts encoded each alone and read together: see [`Tensors::fusion`].
#[derive(Deserialize)]
pub struct Fusion {
    pub passages: Vec<String>,
    pub ids: Vec<Vec<u32>>,
    #[serde(flatten)]
    pub run: Run,
}

/// Everything about a model that gives vectors.
#[derive(Deserialize)]
pub struct Encoder {
    pub f32_error: f64,
    pub texts: Vec<Text>,
}

/// Everything about a model that tells classes.
#[derive(Deserialize)]
pub struct Classifier {
    /// In the order of logits.
    pub labels: Vec<String>,
    pub classes: Vec<Classes>,
}

/// What a model says of a text or a pair.
#[derive(Deserialize)]
pub struct Classes {
    pub text: String,
    pub pair: Option<String>,
    /// Most tokens, special ones included; `longest_first`.
    pub truncate: Option<u32>,
    pub ids: Vec<u32>,
    pub logits: Vec<f32>,
    /// As transformers' pipeline makes them; only of texts that are not cut.
    pub probabilities: Option<Vec<f64>>,
}

/// One draw of the noise.
#[derive(Deserialize)]
pub struct Draw {
    pub seed: u64,
    pub row: u64,
    pub sample: u64,
    pub step: u64,
    pub token: u64,
    pub uniform: f64,
    /// Up to the last places of two logarithms.
    pub gumbel: f64,
}

/// The goldens of a model that writes.
pub fn writer(folder: &Path) -> (Writer, Tensors) {
    (json(&folder.join("golden.json")), Tensors::of(folder))
}

/// The goldens of a model that gives vectors; also of `data/minilm`, which has `mean` alone.
pub fn encoder(folder: &Path) -> (Encoder, Tensors) {
    (json(&folder.join("golden.json")), Tensors::of(folder))
}

/// The goldens of a model that tells classes.
pub fn classifier(folder: &Path) -> Classifier {
    json(&folder.join("golden.json"))
}

/// Draws of the sampling noise.
pub fn noise() -> Vec<Draw> {
    json(&kept().join("noise.json"))
}

fn json<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"))
}
