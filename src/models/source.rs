//! What registries of models are made of: the machine and the ledger.

use std::sync::Arc;

use proofmill_udfs::model::Ledger;

use crate::models::host::Host;
use crate::models::registry::Registry;
use proofmill_pipeline::models::Model;

/// Makes registries.
#[derive(Clone, Debug)]
pub struct Source {
    pub host: Host,
    pub ledger: Arc<dyn Ledger>,
}

impl Source {
    /// A registry of these models.
    pub fn registry(&self, models: impl IntoIterator<Item = (String, Model)>) -> Registry {
        Registry::new(models, Arc::clone(&self.ledger), &self.host)
    }
}
