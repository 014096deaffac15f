//! A store over another one, which it reads and never changes: all that is written goes elsewhere, and is gone with it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};

use crate::{Store, StoreError};

/// Objects of two stores: those above hide those below.
#[derive(Debug)]
struct Overlay {
    above: Arc<dyn ObjectStore>,
    below: Arc<dyn ObjectStore>,
    /// Folders of which nothing is seen below.
    hidden: Vec<Path>,
}

impl fmt::Display for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Overlay({})", self.below)
    }
}

impl Store {
    /// This store with all writing into `folder`, which is empty, and nothing to be seen of the objects below `hidden`.
    ///
    /// # Errors
    ///
    /// If the folder cannot be used.
    pub fn overlay(
        &self,
        folder: &std::path::Path,
        hidden: Vec<Path>,
    ) -> std::result::Result<Self, StoreError> {
        let above = LocalFileSystem::new_with_prefix(folder)
            .map_err(|source| StoreError::Open { url: folder.display().to_string(), source })?;
        let below = Arc::clone(self.objects());
        let overlay = Overlay { above: Arc::new(above), below, hidden };
        Ok(self.with_objects(Arc::new(overlay)))
    }
}

impl Overlay {
    fn is_hidden(&self, at: &Path) -> bool {
        self.hidden.iter().any(|folder| at.prefix_matches(folder))
    }

    async fn is_below(&self, at: &Path) -> Result<bool> {
        if self.is_hidden(at) {
            return Ok(false);
        }
        match self.below.head(at).await {
            Ok(_) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn missing(at: &Path) -> Error {
        Error::NotFound { path: at.to_string(), source: "hidden".into() }
    }
}

#[async_trait]
impl ObjectStore for Overlay {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if options.mode == PutMode::Create && self.is_below(at).await? {
            return Err(Error::AlreadyExists { path: at.to_string(), source: "below".into() });
        }
        self.above.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.above.put_multipart_opts(at, options).await
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        match self.above.get_opts(at, options.clone()).await {
            Err(Error::NotFound { .. }) if self.is_hidden(at) => Err(Self::missing(at)),
            Err(Error::NotFound { .. }) => self.below.get_opts(at, options).await,
            found => found,
        }
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.above.get_ranges(at, ranges).await {
            Err(Error::NotFound { .. }) if self.is_hidden(at) => Err(Self::missing(at)),
            Err(Error::NotFound { .. }) => self.below.get_ranges(at, ranges).await,
            found => found,
        }
    }

    /// Removes what lies above; what lies below stays, and is seen.
    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.above.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let hidden = self.hidden.clone();
        let (above, below) = (self.above.list(prefix), self.below.list(prefix));
        let seen = move |meta: &ObjectMeta| {
            let is_hidden = hidden.iter().any(|folder| meta.location.prefix_matches(folder));
            std::future::ready(!is_hidden)
        };
        let all = async move {
            let below = below.try_filter(seen).try_collect::<Vec<_>>().await?;
            let above = above.try_collect::<Vec<_>>().await?;
            let both = below.into_iter().chain(above);
            let both: BTreeMap<Path, ObjectMeta> =
                both.map(|meta| (meta.location.clone(), meta)).collect();
            Ok::<_, Error>(stream::iter(both.into_values().map(Ok)))
        };
        stream::once(all).try_flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut all = self.above.list_with_delimiter(prefix).await?;
        let below = self.below.list_with_delimiter(prefix).await?;
        all.common_prefixes.extend(below.common_prefixes);
        all.common_prefixes.sort();
        all.common_prefixes.dedup();
        all.common_prefixes.retain(|folder| !self.is_hidden(folder));
        let known: Vec<Path> = all.objects.iter().map(|meta| meta.location.clone()).collect();
        let further = below.objects.into_iter().filter(|meta| !known.contains(&meta.location));
        all.objects.extend(further);
        Ok(all)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let bytes = self.get_opts(from, GetOptions::default()).await?.bytes().await?;
        let mode = match options.mode {
            object_store::CopyMode::Create => PutMode::Create,
            object_store::CopyMode::Overwrite => PutMode::Overwrite,
        };
        self.put_opts(to, bytes.into(), mode.into()).await.map(drop)
    }
}
