//! The store as the rest of the program holds it: objects, clock, randomness and patience.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use url::Url;

use crate::error::{Result, is_transient};
use crate::staging::sweep;
use crate::{DurableLocal, Format, Key, StoreError};
use proofmill_base::clock::Clock;
use proofmill_base::digest::Digest;
use proofmill_base::retry::RetryPolicy;
use proofmill_base::rng::Rng;

/// Objects whose digest this process remembers to have verified.
const VERIFIED_MAX: usize = 1 << 16;

/// Logs whose last entry is remembered.
const LOGS_SEEN_MAX: usize = 1 << 12;

/// An open store. Clones are cheap and share everything.
#[derive(Clone, Debug)]
pub struct Store {
    parts: Arc<Parts>,
    format: Arc<Format>,
}

#[derive(Debug)]
struct Parts {
    objects: Arc<dyn ObjectStore>,
    local: Option<Arc<DurableLocal>>,
    url: Url,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    retry: RetryPolicy,
    verified: Mutex<HashSet<(Key, Digest)>>,
    /// The last entry of each log that was seen, where the search for its head goes on.
    seen: Mutex<HashMap<String, u64>>,
}

impl Store {
    /// A store of these parts whose own record is `format`.
    pub(crate) fn of(
        objects: Arc<dyn ObjectStore>,
        local: Option<Arc<DurableLocal>>,
        url: Url,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        retry: RetryPolicy,
        format: Format,
    ) -> Self {
        let (verified, seen) = (Mutex::default(), Mutex::default());
        let parts = Arc::new(Parts { objects, local, url, clock, rng, retry, verified, seen });
        Self { parts, format: Arc::new(format) }
    }

    /// The same store, whose own record is `format`.
    pub(crate) fn with_format(self, format: Format) -> Self {
        Self { format: Arc::new(format), ..self }
    }

    /// The same store over other objects, of which nothing is known to be verified.
    pub(crate) fn with_objects(&self, objects: Arc<dyn ObjectStore>) -> Self {
        let Parts { url, clock, rng, retry, .. } = self.parts.as_ref();
        let (url, clock, rng) = (url.clone(), Arc::clone(clock), Arc::clone(rng));
        let (local, verified, seen) = (None, Mutex::default(), Mutex::default());
        let parts = Parts { objects, local, url, clock, rng, retry: *retry, verified, seen };
        Self { parts: Arc::new(parts), format: Arc::clone(&self.format) }
    }

    /// The last entry of the log in a folder that this process saw; 0 if it saw none.
    pub(crate) fn seen(&self, log: &str) -> u64 {
        let seen = self.parts.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(log).copied().unwrap_or(0)
    }

    /// Takes note of the last entry of a log. Logs of runs are many, and each is read once.
    pub(crate) fn saw(&self, log: &str, seq: u64) {
        let mut seen = self.parts.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < LOGS_SEEN_MAX || seen.contains_key(log) {
            seen.insert(log.to_owned(), seq);
        }
    }

    /// The objects themselves, rooted at the store's prefix.
    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.parts.objects
    }

    /// Where the store is, for people: never holds credentials.
    pub fn url(&self) -> &Url {
        &self.parts.url
    }

    /// The store's own record.
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// The clock that the store waits and stamps with.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.parts.clock
    }

    /// The randomness behind names and jitter.
    pub fn rng(&self) -> &Arc<dyn Rng> {
        &self.parts.rng
    }

    /// The folder behind the objects, when they are local files.
    pub(crate) fn local(&self) -> Option<&Arc<DurableLocal>> {
        self.parts.local.as_ref()
    }

    /// True if the objects are files of this machine, or of a file system that it has mounted.
    pub fn is_local(&self) -> bool {
        self.parts.local.is_some()
    }

    /// The bytes of an object.
    ///
    /// # Errors
    ///
    /// [`StoreError::Missing`] when there is none.
    pub async fn get(&self, key: &Key) -> Result<Bytes> {
        let objects = self.objects();
        self.retry("read", key, || read_whole(objects.as_ref(), key.path())).await
    }

    /// The bytes of an object, none when there is no such object.
    ///
    /// # Errors
    ///
    /// When the object cannot be read, also after retries.
    pub async fn get_opt(&self, key: &Key) -> Result<Option<Bytes>> {
        present(self.get(key).await)
    }

    /// The bytes `range` of an object.
    ///
    /// # Errors
    ///
    /// [`StoreError::Missing`] when there is no such object; when it does not have all of the range.
    pub async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let objects = self.objects();
        let get = || async {
            let bytes = objects.get_range(key.path(), range.clone()).await?;
            if bytes.len() as u64 == range.end - range.start {
                return Ok(bytes);
            }
            let source = format!("`{key}` gave {} bytes for {range:?}", bytes.len()).into();
            Err(object_store::Error::Generic { store: "proofmill", source })
        };
        self.retry("read", key, get).await
    }

    /// The size of an object in bytes, none when there is no such object.
    ///
    /// # Errors
    ///
    /// When the store does not answer, also after retries.
    pub async fn size(&self, key: &Key) -> Result<Option<u64>> {
        let objects = self.objects();
        let head = self.retry("examine", key, || objects.head(key.path())).await;
        present(head.map(|meta| meta.size))
    }

    /// Removes staging files that killed processes left, in the background.
    pub fn sweep_staging(&self) {
        if let Some(local) = self.local().cloned() {
            let now = self.clock().now().into();
            tokio::task::spawn_blocking(move || sweep(local.root(), now));
        }
    }

    /// How long ago an object was written, by the clock of this machine; none when there is no such
    /// object. For people: clocks of machines differ.
    pub(crate) async fn age(&self, key: &Key) -> Result<Option<Duration>> {
        let objects = self.objects();
        let head = present(self.retry("examine", key, || objects.head(key.path())).await)?;
        let now = self.clock().now();
        Ok(head.map(|meta| (now - meta.last_modified).to_std().unwrap_or_default()))
    }

    /// Stores `payload` under a key that no other writer uses.
    ///
    /// # Errors
    ///
    /// When the object could not be stored, also after retries.
    pub async fn put(&self, key: &Key, payload: PutPayload) -> Result<()> {
        let objects = self.objects();
        self.retry("write", key, || objects.put(key.path(), payload.clone())).await?;
        Ok(())
    }

    /// Deletes an object, if it exists.
    ///
    /// # Errors
    ///
    /// When the store does not confirm it, also after retries.
    pub async fn delete(&self, key: &Key) -> Result<()> {
        let objects = self.objects();
        present(self.retry("delete", key, || objects.delete(key.path())).await)?;
        Ok(())
    }

    /// True when this process wrote or verified these bytes already.
    pub(crate) fn is_verified(&self, key: &Key, sha256: Digest) -> bool {
        let verified = self.parts.verified.lock().unwrap_or_else(PoisonError::into_inner);
        verified.contains(&(key.clone(), sha256))
    }

    /// Remembers that this process wrote or verified these bytes.
    pub(crate) fn set_verified(&self, key: &Key, sha256: Digest) {
        let mut verified = self.parts.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= VERIFIED_MAX {
            verified.clear();
        }
        verified.insert((key.clone(), sha256));
    }

    /// The waits before each further attempt.
    pub(crate) fn delays(&self) -> impl Iterator<Item = Duration> + Send + use<'_> {
        self.parts.retry.delays(self.parts.rng.as_ref())
    }

    /// Calls until success, a lasting failure or the end of patience.
    pub(crate) async fn retry<T, F>(
        &self,
        op: &'static str,
        key: &Key,
        call: impl Fn() -> F + Send,
    ) -> Result<T>
    where
        F: Future<Output = object_store::Result<T>> + Send,
    {
        let mut delays = self.delays();
        loop {
            match call().await {
                Ok(value) => return Ok(value),
                Err(source) => match delays.next().filter(|_| is_transient(&source)) {
                    Some(delay) => self.clock().sleep(delay).await,
                    None => return Err(StoreError::object(op, key, source)),
                },
            }
        }
    }
}

fn present<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(StoreError::Missing { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The bytes of an object. A body that ends early is a failure, whatever the client thinks of it.
pub(crate) async fn read_whole(
    objects: &dyn ObjectStore,
    at: &object_store::path::Path,
) -> object_store::Result<Bytes> {
    let got = objects.get(at).await?;
    let size = got.meta.size;
    let bytes = got.bytes().await?;
    if bytes.len() as u64 == size {
        return Ok(bytes);
    }
    let source = format!("the body of `{at}` ended after {} of {size} bytes", bytes.len()).into();
    Err(object_store::Error::Generic { store: "proofmill", source })
}
