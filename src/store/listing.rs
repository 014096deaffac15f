//! What lies below a prefix.

use chrono::{DateTime, Utc};
use futures::TryStreamExt as _;
use object_store::ObjectStore as _;
use object_store::path::Path;

use crate::error::Result;
use crate::{Key, Store};

/// An object as a listing shows it.
#[derive(Clone, Debug)]
pub struct Listed {
    pub key: Key,
    /// Its size, in bytes.
    pub bytes: u64,
    /// When it was written, by the clock of the store.
    pub modified: DateTime<Utc>,
}

impl Store {
    /// All objects below `prefix`, by key. Names that are no keys of ours are passed over.
    ///
    /// # Errors
    ///
    /// When the store cannot list, also after retries.
    pub async fn list(&self, prefix: &Path) -> Result<Vec<Listed>> {
        let key = Key::try_from(prefix.to_string())?;
        let objects = self.objects();
        let list = || objects.list(Some(prefix)).try_collect::<Vec<_>>();
        let found = self.retry("list", &key, list).await?;
        let listed = found.into_iter().filter_map(|meta| {
            let key = Key::try_from(meta.location.to_string()).ok()?;
            Some(Listed { key, bytes: meta.size, modified: meta.last_modified })
        });
        let mut listed: Vec<Listed> = listed.collect();
        listed.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(listed)
    }
}
