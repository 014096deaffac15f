//! The object stores that queries can reach: the run's own, and nothing of the host.

use std::sync::Arc;

use datafusion::common::{Result, exec_err};
use datafusion::execution::object_store::{ObjectStoreRegistry, ObjectStoreUrl};
use object_store::ObjectStore;
use url::Url;

/// Address of the run's store inside query plans.
pub const STORE_URL: &str = "proofmill://store/";

/// [`STORE_URL`] as plans want it.
pub fn store_url() -> Result<ObjectStoreUrl> {
    ObjectStoreUrl::parse(STORE_URL)
}

/// A registry with exactly one store.
#[derive(Debug)]
pub struct OneStore(pub Arc<dyn ObjectStore>);

impl ObjectStoreRegistry for OneStore {
    fn register_store(&self, url: &Url, _: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        // Nothing may widen what a query can read; the caller gets what it wanted to replace.
        let _ = url;
        None
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        if url.scheme() == "proofmill" {
            Ok(Arc::clone(&self.0))
        } else {
            exec_err!("`{url}` is outside the store; declare files with a `read` stage")
        }
    }
}
