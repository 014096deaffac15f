//! Many small objects at once: a few blocking tasks for a local folder, parallel requests elsewhere.

use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::error::Result;
use crate::{DurableLocal, Key, Store, StoreError};

/// Requests of one call that are under way at a time.
const REQUESTS_MAX: usize = 64;
/// Small files that one blocking task reads or examines.
const FILES_PER_TASK: usize = 128;
impl Store {
    /// [`Store::get_opt`] for many small objects at once; the answers are in the order of `keys`.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub async fn get_all(&self, keys: &[Key]) -> Result<Vec<Option<Bytes>>> {
        match self.local() {
            Some(local) => {
                let found = self.each_local("read", local, keys, DurableLocal::read_small).await?;
                Ok(found)
            }
            None => {
                let reads: Vec<_> = keys.iter().map(|key| self.get_opt(key)).collect();
                stream::iter(reads).buffered(REQUESTS_MAX).try_collect().await
            }
        }
    }

    /// For each object whether it exists and has that many bytes.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub async fn exists_all(&self, objects: &[(Key, u64)]) -> Result<Vec<bool>> {
        let keys: Vec<Key> = objects.iter().map(|(key, _)| key.clone()).collect();
        let sizes = self.sizes(&keys).await?;
        Ok(sizes.iter().zip(objects).map(|(size, (_, bytes))| *size == Some(*bytes)).collect())
    }

    /// For each key whether there is an object.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub async fn present_all(&self, keys: &[Key]) -> Result<Vec<bool>> {
        Ok(self.sizes(keys).await?.iter().map(Option::is_some).collect())
    }

    /// For each key the size of its object in bytes, none where there is no object.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub async fn sizes(&self, keys: &[Key]) -> Result<Vec<Option<u64>>> {
        match self.local() {
            Some(local) => self.each_local("examine", local, keys, DurableLocal::size).await,
            None => {
                let heads: Vec<_> = keys.iter().map(|key| self.size(key)).collect();
                stream::iter(heads).buffered(REQUESTS_MAX).try_collect().await
            }
        }
    }

    /// Applies `each` to all keys in a few blocking tasks instead of one for every small file.
    async fn each_local<T: Send + 'static>(
        &self,
        op: &'static str,
        local: &Arc<DurableLocal>,
        keys: &[Key],
        each: fn(&DurableLocal, &Key) -> object_store::Result<Option<T>>,
    ) -> Result<Vec<Option<T>>> {
        let task = |keys: &[Key]| {
            let (local, keys) = (local.clone(), keys.to_vec());
            let task = move || -> Result<Vec<Option<T>>> {
                let failed = |key: &Key, source| StoreError::object(op, key, source);
                keys.iter()
                    .map(|key| each(&local, key).map_err(|source| failed(key, source)))
                    .collect()
            };
            async { tokio::task::spawn_blocking(task).await? }
        };
        let tasks: Vec<_> = keys.chunks(FILES_PER_TASK).map(task).collect();
        let chunks: Vec<Vec<Option<T>>> = stream::iter(tasks).buffered(4).try_collect().await?;
        Ok(chunks.into_iter().flatten().collect())
    }
}
