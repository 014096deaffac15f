//! The models that queries may name, each opened when a row first needs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, Semaphore};

use super::error::ModelError;
use super::in_flight::InFlight;
use super::language_model::{LanguageModel, OpenError, Opener};
use super::ledger::Ledger;
use super::suggest;

/// When answers that came are recorded: as soon as one of these is reached, and when a batch of rows
/// ends. A killed process loses no more than that per batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    pub answers: usize,
    /// So many bytes of requests and answers wait.
    pub bytes: usize,
    /// The oldest answer has waited so long.
    pub wait: Duration,
}

impl Default for Recording {
    fn default() -> Self {
        Self { answers: 256, bytes: 1 << 20, wait: Duration::from_secs(5) }
    }
}

/// The models of a session by name, and what all of them share.
#[derive(Debug)]
pub struct Models {
    entries: BTreeMap<String, Entry>,
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) recording: Recording,
}

#[derive(Debug)]
struct Entry {
    opener: Arc<dyn Opener>,
    opened: OnceCell<Result<Arc<Opened>, OpenError>>,
}

impl Models {
    /// Models by the names that SQL uses. Nothing is opened.
    pub fn new(
        openers: impl IntoIterator<Item = (String, Arc<dyn Opener>)>,
        ledger: Arc<dyn Ledger>,
        recording: Recording,
    ) -> Self {
        let entry = |opener| Entry { opener, opened: OnceCell::new() };
        let entries = openers.into_iter().map(|(name, opener)| (name, entry(opener))).collect();
        Self { entries, ledger, recording }
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Whether there is a model of this name; if not, what to write instead.
    pub fn find(&self, name: &str) -> Result<(), String> {
        match self.entries.contains_key(name) {
            true => Ok(()),
            false => Err(suggest::instead_of(name, self.names())),
        }
    }

    /// The model, opened now if it was not. An error is kept: nothing is tried twice.
    pub(super) async fn open(
        &self,
        function: &'static str,
        name: &str,
    ) -> Result<Arc<Opened>, ModelError> {
        let failed = |cause| ModelError::Open { function, model: name.to_owned(), cause };
        let Some(entry) = self.entries.get(name) else {
            let hint = suggest::instead_of(name, self.names());
            return Err(failed(OpenError::new(format!("there is no such model; {hint}"))));
        };
        let opened = entry.opened.get_or_init(|| async {
            entry.opener.open().await.map(|model| Arc::new(Opened::new(name, model)))
        });
        opened.await.clone().map_err(failed)
    }
}

/// An open model with the one queue of all partitions.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) model: Arc<dyn LanguageModel>,
    /// A permit for each request in flight, handed out first come, first served.
    pub(super) permits: Semaphore,
    pub(super) in_flight: Arc<InFlight>,
}

impl Opened {
    fn new(name: &str, model: Arc<dyn LanguageModel>) -> Self {
        let permits = Semaphore::new(model.concurrency().clamp(1, Semaphore::MAX_PERMITS));
        Self { name: name.to_owned(), model, permits, in_flight: Arc::default() }
    }
}
