//! The models of a pipeline by name.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use indexmap::IndexMap;
use proofmill_udfs::model::{LanguageModel, Ledger, Models, OpenError, Opener, Recording};

use crate::models::card::{Card, CardError};
use crate::models::endpoint::RemoteEndpoint;
use crate::models::folder::LocalModel;
use crate::models::host::Host;
use crate::spec::models::Model;

/// The models of a pipeline, and what SQL functions ask them through.
#[derive(Debug)]
pub struct Registry {
    entries: IndexMap<String, Arc<Entry>>,
    asked: Arc<Models>,
}

/// One model. Its card is made once: it may take a while.
#[derive(Debug)]
struct Entry {
    model: Model,
    host: Host,
    card: OnceLock<Result<Card, Arc<CardError>>>,
}

impl Registry {
    /// Models by name; their answers are kept in `ledger`.
    pub fn new(
        models: impl IntoIterator<Item = (String, Model)>,
        ledger: Arc<dyn Ledger>,
        host: &Host,
    ) -> Self {
        let entry = |model| Arc::new(Entry { model, host: host.clone(), card: OnceLock::new() });
        let entries: IndexMap<String, Arc<Entry>> =
            models.into_iter().map(|(name, model)| (name, entry(model))).collect();
        let openers: Vec<(String, Arc<dyn Opener>)> = entries
            .iter()
            .map(|(name, entry)| (name.clone(), Arc::clone(entry) as Arc<dyn Opener>))
            .collect();
        let asked = Models::new(openers, ledger, Recording::default());
        Self { entries, asked: Arc::new(asked) }
    }

    /// What the functions ask.
    pub fn asked(&self) -> &Arc<Models> {
        &self.asked
    }

    /// The names of all models.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.entries.keys().map(String::as_str)
    }

    /// The card of a model; `None` if there is no such model.
    pub fn card(&self, name: &str) -> Option<Result<Card, Arc<CardError>>> {
        Some(self.entries.get(name)?.card())
    }
}

impl Entry {
    fn card(&self) -> Result<Card, Arc<CardError>> {
        let card = self.card.get_or_init(|| Card::of(&self.model, &self.host).map_err(Arc::new));
        card.clone()
    }
}

#[async_trait]
impl Opener for Entry {
    async fn open(&self) -> Result<Arc<dyn LanguageModel>, OpenError> {
        let card = self.card().map_err(|error| OpenError::new(error.to_string()))?;
        let identity = card.identity();
        Ok(match &self.model.path {
            Some(_) => Arc::new(LocalModel::new(&self.model, identity, &self.host)),
            None => Arc::new(RemoteEndpoint::new(&self.model, identity, &self.host)),
        })
    }
}
