//! What models may use of the machine. Made once, injected.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::models::device::Gpus;
use crate::relay::coordinator::Relay;
use proofmill_base::clock::Clock;
use proofmill_base::rng::Rng;
use proofmill_remote::budget::AllowanceSlot;

/// Looks up a variable of the environment.
pub type ReadVariable = fn(&str) -> Option<String>;

/// What models may use of the machine.
#[derive(Clone, Debug)]
pub struct Runtime {
    pub cores: usize,
    pub gpus: Gpus,
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
    /// The environment, for keys of endpoints.
    pub environment: ReadVariable,
    /// A folder for what can be computed again.
    pub cache: PathBuf,
    /// What all endpoints may be sent together, once a run says so.
    pub allowance: AllowanceSlot,
    /// How workers take part; `None` where this process answers alone.
    pub relay: Option<Relay>,
}

impl Runtime {
    /// Where digests of weights are kept.
    pub fn digests(&self) -> PathBuf {
        Path::new(&self.cache).join("digests")
    }
}
