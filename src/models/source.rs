//! What registries of models are made of: the machine and the ledger.

use std::sync::Arc;

use proofmill_udfs::model::Ledger;

use crate::models::registry::Registry;
use crate::models::runtime::Runtime;
use proofmill_pipeline::models::Model;

/// Makes registries.
#[derive(Clone, Debug)]
pub struct ModelSource {
    pub runtime: Runtime,
    pub ledger: Arc<dyn Ledger>,
}

impl ModelSource {
    /// A registry of these models.
    pub fn registry(&self, models: impl IntoIterator<Item = (String, Model)>) -> Registry {
        Registry::new(models, Arc::clone(&self.ledger), &self.runtime)
    }
}
