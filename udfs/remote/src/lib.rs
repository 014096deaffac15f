//! Language models behind an OpenAI-compatible HTTP endpoint.
//!
//! [`RemoteModel::open`] takes [`Settings`], [`RemoteModel::ask`] answers the requests of
//! `proofmill_engine::request`. What is sent, refused and retried: `docs/specs/remote.md`.
//!
//! Lowest layer first: [`settings`] holds what a user chooses, the key, the clock and the randomness;
//! [`error`] what can go wrong; `retry` and `limits` decide when something is sent, `transport` sends it
//! and `failure` classifies what failed; `wire` is the JSON; `call`, `generate` and `score` are the kinds
//! of request; [`model`] joins them.
//!
//! Nothing here reads a clock, the environment or a random number by itself, and nothing opens a
//! connection before [`RemoteModel::ask`].

mod call;
pub mod error;
mod failure;
mod generate;
mod limits;
pub mod model;
mod retry;
mod score;
pub mod settings;
mod transport;
pub mod usage;
mod wire;

pub use error::{ModelError, OpenError, RemoteError};
pub use model::RemoteModel;
pub use settings::{Api, Host, Offers, Retry, Settings, Sleep};
pub use usage::Usage;
