//! Language models behind an OpenAI-compatible HTTP endpoint.
//!
//! [`RemoteModel::open`] takes [`Settings`], [`RemoteModel::ask`] answers the requests of
//! `proofmill_engine::request`. What is sent, refused and retried: `docs/specs/remote.md`.
//!
//! Lowest layer first: [`host`] is the clock and the randomness, `key` the secret, [`settings`]
//! what a user chooses, [`error`] what can go wrong; `retry` and `limits` decide when something is
//! sent, `transport` sends it, `wire` is the JSON, `ask` the kinds of request, [`model`] all of it.
//!
//! Nothing here reads a clock, the environment or a random number by itself, and nothing opens a
//! connection before [`RemoteModel::ask`].

mod ask;
pub mod error;
pub mod host;
mod key;
mod limits;
pub mod model;
mod retry;
pub mod settings;
mod transport;
pub mod usage;
mod wire;

pub use error::{ModelError, OpenError, RemoteError};
pub use host::Host;
pub use model::RemoteModel;
pub use settings::{Api, Offers, Retry, Settings};
pub use usage::Usage;
