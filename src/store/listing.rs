//! What lies below a prefix.

use futures::TryStreamExt as _;
use object_store::ObjectStore as _;
use object_store::path::Path;

use crate::error::Result;
use crate::{Key, Store};

impl Store {
    /// The keys of all objects below `prefix`, sorted. Names that are no keys of ours are passed over.
    ///
    /// # Errors
    ///
    /// When the store cannot list, also after retries.
    pub async fn list(&self, prefix: &Path) -> Result<Vec<Key>> {
        let key = Key::try_from(prefix.to_string())?;
        let objects = self.objects();
        let list = || objects.list(Some(prefix)).try_collect::<Vec<_>>();
        let found = self.retry("list", &key, list).await?;
        let listed = found.into_iter().map(|meta| Key::try_from(meta.location.to_string()));
        let mut listed: Vec<Key> = listed.filter_map(Result::ok).collect();
        listed.sort_unstable();
        Ok(listed)
    }

    /// The names of the folders right below `prefix`.
    ///
    /// # Errors
    ///
    /// When the store cannot list, also after retries.
    pub async fn folders(&self, prefix: &Path) -> Result<Vec<String>> {
        let key = Key::try_from(prefix.to_string())?;
        let objects = self.objects();
        let list = || objects.list_with_delimiter(Some(prefix));
        let listed = self.retry("list", &key, list).await?;
        let names = listed.common_prefixes.iter().filter_map(|path| path.filename());
        Ok(names.map(str::to_owned).collect())
    }
}
