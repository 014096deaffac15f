//! Training of small T5-shaped models on pairs of texts: the same inputs give the same bytes.
//!
//! Lowest layer first: [`error`], [`settings`] and [`sizes`] are what is asked for; `rng`
//! and `math` are pure functions; `tokens` makes texts into ids, `input` makes [`Pair`]s into examples; `batch` says which pairs
//! share a step; `weights` knows the parameters and their names in a checkpoint, `matching` what some of them begin as; `ops`, `tape` and
//! `network` are the graph; `gradients` runs it on several threads; `learning_rate` and `optimizer` change the
//! weights; `state` keeps a fit that was stopped; [`fitted`] is a checkpoint; [`mod@fit`] is all of it
//! together.

mod batch;
pub mod error;
pub mod fit;
pub mod fitted;
mod folder;
mod gradients;
mod input;
mod learning_rate;
mod matching;
mod math;
mod network;
mod ops;
mod optimizer;
mod rng;
pub mod settings;
mod shape;
pub mod sizes;
mod start;
mod state;
mod tape;
mod tokens;
mod weights;

pub use batch::Pair;
pub use error::FitError;
pub use fit::{Progress, Report, Run, fit};
pub use fitted::Fitted;
pub use settings::{Decay, Keep, Save, Settings};
pub use sizes::{Activation, Sizes};
pub use start::{Start, Tokens};
