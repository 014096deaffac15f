//! Language models behind an OpenAI-compatible HTTP endpoint.
//!
//! [`RemoteModel::open`] takes [`Settings`], [`RemoteModel::ask`] answers the requests of
//! `proofmill_engine::request`. What is sent, refused and retried: `docs/specs/remote.md`.
//!
//! Lowest layer first: [`settings`] holds what a user chooses and the key;
//! [`error`] what can go wrong; [`usage`] and [`budget`] count and bound what is spent; `retry`, `pace` and `limits`
//! decide when something is sent, `transport` sends it and `failure` classifies what failed; `wire` is the
//! JSON; `call`, `generate` and `score` are the kinds of request; [`model`] joins them.
//!
//! Clock and random numbers are injected (`proofmill_base`), and so is the environment; nothing opens a
//! connection before [`RemoteModel::ask`].

pub mod budget;
mod call;
pub mod error;
mod failure;
mod generate;
mod limits;
pub mod model;
mod pace;
mod retry;
mod score;
pub mod settings;
mod transport;
pub mod usage;
mod wire;

pub use error::{Exhausted, ModelError, OpenError, RemoteError};
pub use model::RemoteModel;
pub use settings::{Retry, Settings};
pub use usage::{Money, Usage};
pub use wire::Reported;
