//! Training of small models on pairs of texts: T5, encoder-decoders of two BERTs, OPT, and sentence encoders of BERT's
//! family. The same inputs give the same bytes.
//!
//! [`settings`] and [`sizes`] describe what is requested, [`error`] how it fails; `rng` gives the
//! random numbers. `data` makes texts into steps, `model` has the families, where a fit begins and
//! the folder that it writes, `graph` computes losses and gradients, `train` is the loop, [`fit`].

mod data;
pub mod error;
mod graph;
mod model;
mod rng;
pub mod settings;
pub mod sizes;
mod train;

pub use data::batch::{Input, Logged, Pair};
pub use error::FitError;
pub use model::fitted::Fitted;
pub use model::origin::Tokens;
pub use model::start::Start;
pub use settings::{Checked, STEPS_MAX};
pub use train::fit::{Run, fit};
pub use train::progress::{Progress, Report};
