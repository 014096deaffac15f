//! What lies below a prefix.

use std::io;
use std::path::PathBuf;

use futures::TryStreamExt as _;
use object_store::ObjectStore as _;
use object_store::path::Path;

use crate::error::Result;
use crate::{Key, Store, StoreError};

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
        if let Some(local) = self.local() {
            // Without a look into each folder, which a listing of objects takes.
            let folder = local.root().join(key.as_str());
            return names(folder, true).await.map_err(|error| unlisted(&key, error));
        }
        let objects = self.objects();
        let list = || objects.list_with_delimiter(Some(prefix));
        let listed = self.retry("list", &key, list).await?;
        let names = listed.common_prefixes.iter().filter_map(|path| path.filename());
        Ok(names.map(str::to_owned).collect())
    }
}

/// The names in a folder of this machine: of folders, or of files. None if there is no such folder.
pub(crate) async fn names(folder: PathBuf, are_folders: bool) -> Result<Vec<String>, io::Error> {
    let read = move || {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            let is_folder = kind.is_dir() || kind.is_symlink() && entry.path().is_dir();
            if is_folder == are_folders {
                names.extend(entry.file_name().into_string());
            }
        }
        Ok(names)
    };
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}

/// A folder of this machine that cannot be listed.
pub(crate) fn unlisted(key: &Key, error: io::Error) -> StoreError {
    let source = object_store::Error::Generic { store: "LocalFileSystem", source: Box::new(error) };
    StoreError::object("list", key.as_str(), source)
}
