//! Why a fit gives no model. Every message says what was found, what was expected and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use proofmill_engine::checkpoint::LoadError;
use proofmill_gemm::OutOfMemory;
use safetensors::SafeTensorError;

/// Which pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Train,
    /// Those that decide when to stop.
    Dev,
}

/// Which text of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Input,
    Output,
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "training",
            Self::Dev => "dev",
        })
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

/// A fit gave no model.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// There is no training pair.
    #[error("expected at least one training pair, found none")]
    NoPairs,
    /// A pair lacks a text.
    #[error("{set} pair {pair} has an empty {side}; leave the pair out")]
    EmptyText {
        set: Set,
        /// Its number, from 0.
        pair: usize,
        side: Side,
    },
    /// What is read is not what this model reads.
    #[error(
        "{set} pair {pair} has {given} texts as its input; an encoder reads one or, where a decoder stands behind it, several, \
         and only a decoder-only model learns outputs without an input"
    )]
    Input {
        set: Set,
        /// Its number, from 0.
        pair: usize,
        /// Texts that it has.
        given: usize,
    },
    /// A pair has no proper weight.
    #[error("{set} pair {pair} has weight {weight}, expected a number above 0; leave the pair out")]
    Weight {
        set: Set,
        /// Its number, from 0.
        pair: usize,
        weight: f32,
    },
    /// A reward is missing where rewards are learnt, is there where they are not, or is no number.
    #[error(
        "{set} pair {pair}: the objective `policy`, and no other, has a finite reward for each pair, and finite or no \
         log-probabilities; the objective is `{objective}`"
    )]
    Reward {
        set: Set,
        /// Its number, from 0.
        pair: usize,
        objective: &'static str,
    },
    /// A text has too many tokens.
    #[error(
        "the {side} of {set} pair {pair} has {tokens} tokens, and `{side}_tokens` allows {limit}; \
         shorten or leave out the pair, or raise `{side}_tokens`"
    )]
    TooLong {
        set: Set,
        /// Its number, from 0.
        pair: usize,
        side: Side,
        /// Its tokens, the end included.
        tokens: usize,
        /// Most that are allowed.
        limit: u32,
    },
    /// A text, of a decoder-only model with what it reads before, has more tokens than the model has positions.
    #[error(
        "the {side} of {set} pair {pair} has {tokens} tokens, and the model reads at most {limit}; shorten or leave \
         out the pair"
    )]
    NoPositions {
        set: Set,
        /// Its number, from 0.
        pair: usize,
        side: Side,
        /// Its tokens, special ones included.
        tokens: usize,
        limit: usize,
    },
    /// A loss that compares pairs has one alone.
    #[error("expected at least two {set} pairs, which `similarity` compares, found one")]
    OnePair { set: Set },
    /// Early stopping and a look at the start need dev pairs.
    #[error(
        "`{setting}` is {value}, but there are no dev pairs; give some, or leave `{setting}` out"
    )]
    NoDev { setting: &'static str, value: String },
    /// A setting is out of its range.
    #[error("`{name}` is {found}, expected {expected}")]
    Setting { name: &'static str, found: String, expected: String },
    /// The tokenizer cannot be used.
    #[error("tokenizer: {0}")]
    Tokenizer(String),
    /// Words cannot give this text back.
    #[error(
        "word tokenizer: {text:?} decodes to {back:?}; remove the characters that differ, or give a \
         tokenizer.json"
    )]
    RoundTrip {
        /// The text, with single spaces.
        text: String,
        /// What its tokens say.
        back: String,
    },
    /// The weights went out of bounds.
    #[error(
        "{what} is {value} at step {step} (learning rate {learning_rate}); lower `learning_rate`, \
         raise `warmup`, or lower `clip`"
    )]
    NotFinite {
        /// `the loss` or `the gradient`.
        what: &'static str,
        value: f64,
        /// The step, from 1.
        step: u32,
        learning_rate: f64,
    },
    /// The caller cancelled the fit.
    #[error("the fit was cancelled after {step} steps{}", if *kept { "; its state is kept" } else { "" })]
    Cancelled {
        step: u32,
        /// Whether a file of state holds them.
        kept: bool,
    },
    /// A file of state is broken.
    #[error("{}: {why}; remove the file to begin again", file.display())]
    State { file: PathBuf, why: String },
    /// A file of state belongs to another fit.
    #[error(
        "{}: this is the state of a fit with other settings, pairs or weights; remove the file to \
         begin again, or give another path",
        file.display()
    )]
    OtherState { file: PathBuf },
    /// The answers of the model could not be generated.
    #[error("the model could not be judged: {0}")]
    Judge(String),
    /// A checkpoint cannot be trained further.
    #[error("{}: {why}", folder.display())]
    Checkpoint {
        folder: PathBuf,
        /// What is not supported.
        why: String,
    },
    /// The folder that is to be written has a file that would be read as a part of the model.
    #[error(
        "{}: is not of the fitted model, and would be read with it; move it away, or give another \
         `path`",
        file.display()
    )]
    Foreign { file: PathBuf },
    /// A checkpoint cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A file cannot be written.
    #[error("{}: {source}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("training failed: {0}")]
    Memory(#[from] OutOfMemory),
    /// Weights or settings cannot be written down.
    #[error("training failed: {0}")]
    Tensors(#[from] SafeTensorError),
    #[error("training failed: {0}")]
    Json(#[from] serde_json::Error),
}
