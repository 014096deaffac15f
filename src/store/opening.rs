//! Opening a store: where it is, and the record that it has or gets.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use url::Url;

use proofmill_base::clock::Clock;
use proofmill_base::retry::RetryPolicy;
use proofmill_base::rng::Rng;

use crate::error::Result;
use crate::sealed::{seal, unseal};
use crate::{Created, DurableLocal, Format, Location, Store, format_key};

impl Store {
    /// Opens the store at `location`, making it when nothing is there.
    ///
    /// # Errors
    ///
    /// When the place cannot be reached or written, or a newer proofmill made the store.
    pub async fn open(
        location: &Location,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
    ) -> Result<Self> {
        let opened = location.open(&rng)?;
        let retry = RetryPolicy::default();
        let store = Self::with(opened.objects, opened.local, opened.url, clock, rng, retry).await;
        match location.bucket() {
            Some(bucket) => store.map_err(|error| error.at_opening(&location.to_string(), bucket)),
            None => store,
        }
    }

    /// A new store in memory, gone with the last clone.
    ///
    /// # Errors
    ///
    /// None that a store in memory can have.
    pub async fn in_memory(clock: Arc<dyn Clock>, rng: Arc<dyn Rng>) -> Result<Self> {
        let url = Location::Memory.url()?;
        Self::over(Arc::new(InMemory::new()), url, clock, rng, RetryPolicy::default()).await
    }

    /// A store over any `object_store`, such as one that injects faults.
    ///
    /// # Errors
    ///
    /// As [`Store::open`].
    pub async fn over(
        objects: Arc<dyn ObjectStore>,
        url: Url,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        retry: RetryPolicy,
    ) -> Result<Self> {
        Self::with(objects, None, url, clock, rng, retry).await
    }

    async fn with(
        objects: Arc<dyn ObjectStore>,
        local: Option<Arc<DurableLocal>>,
        url: Url,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        retry: RetryPolicy,
    ) -> Result<Self> {
        let draft = Format::draft(clock.as_ref(), rng.as_ref());
        let store = Self::of(objects, local, url, clock, rng, retry, draft.clone());
        let format = settle(draft, &store).await?;
        Ok(store.with_format(format))
    }
}

/// The record that `store` has, or `draft` when the store is new.
async fn settle(draft: Format, store: &Store) -> Result<Format> {
    let key = format_key();
    if let Some(bytes) = store.get_opt(&key).await? {
        return unseal(&key, &bytes);
    }
    match store.create(&key, seal(&key, &draft)?).await? {
        Created::Won => Ok(draft),
        Created::Lost(bytes) => unseal(&key, &bytes),
    }
}
