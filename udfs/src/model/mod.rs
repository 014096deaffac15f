//! SQL functions that ask models: what they take, how a batch of rows becomes requests, and how
//! answers are recorded and replayed.
//!
//! From the bottom up: [`LanguageModel`] and [`Ledger`] are what the caller injects; `options` and
//! `canonical` turn a row into a request with a key; `service` answers the requests of a batch;
//! `functions` holds one definition a file; `udf` is the one implementation of DataFusion's trait;
//! [`placement`] tells where in a query such functions may stand, [`split`] lets one feed another
//! and be used twice.

mod answers;
mod arguments;
mod canonical;
mod columns;
mod counters;
mod definition;
mod error;
mod functions;
mod in_flight;
mod language_model;
mod ledger;
mod models;
mod options;
pub mod placement;
mod service;
mod settings;
mod shape;
pub mod split;
mod suggest;
mod udf;
mod values;

pub use canonical::{Key, canonical, canonical_format, hex, key};
pub use counters::{Counters, Counts, Stopped, Watch};
pub use definition::ModelDefinition;
pub use error::{CallError, Class, Failure, ModelError, OptionsError};
pub use functions::DEFINITIONS;
pub use language_model::{AskError, LanguageModel, OpenError, Opener};
pub use ledger::{Ledger, LedgerError, New};
pub use models::{Models, Recording};
pub use options::{Options, Takes};
pub use settings::{OnError, Replay};
pub use udf::model_functions;
