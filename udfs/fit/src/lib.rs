//! Training of small models on pairs of texts: T5, encoder-decoders of two BERTs, OPT, and sentence encoders of BERT's
//! family. The same inputs give the same bytes.
//!
//! Lowest layer first: [`error`], [`settings`] and [`sizes`] are what is asked for; `rng`
//! and `math` are pure functions; `tokens` makes texts into ids, `input` makes [`Pair`]s into examples; `batch` says which pairs
//! share a step; `weights` knows parameters and their names in a checkpoint, `places` where a network finds them, `t5`, `bert` and `opt` both
//! for their families, `matching` what some begin as; `origin` is all that a fit begins with, `scratch` makes it and [`Start`] reads it; `ops`, `tape` and `network` are the graph; `gradients` runs it on
//! several threads; `pairs` are losses over the vectors of a batch, `reward` is what rewards are held against, and `task` says which loss there is; `learning_rate` and `optimizer` change the
//! weights; `judge` asks the engine what a model answers; `sentence` are files of sentence encoders, `progress` is what a fit tells, `state` keeps one that was stopped; [`fitted`] is a checkpoint; [`mod@fit`] is all of it
//! together.

mod batch;
mod bert;
pub mod error;
pub mod fit;
pub mod fitted;
mod folder;
mod gradients;
mod input;
mod judge;
mod learning_rate;
mod matching;
mod math;
mod network;
mod ops;
mod opt;
mod optimizer;
mod origin;
mod pairs;
mod places;
pub mod progress;
mod reward;
mod rng;
mod scratch;
mod sentence;
pub mod settings;
pub mod sizes;
mod start;
mod state;
mod t5;
mod tape;
mod task;
mod tokens;
mod weights;

pub use batch::{Input, Logged, Pair};
pub use error::FitError;
pub use fit::{Run, fit};
pub use fitted::Fitted;
pub use origin::Tokens;
pub use progress::{Progress, Report};
pub use settings::{Checked, STEPS_MAX};
pub use start::Start;
