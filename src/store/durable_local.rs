//! A local folder as an object store that acknowledges nothing before it is on the disk.
//!
//! `LocalFileSystem` of `object_store` 0.13 never flushes, so writing is ours: a staging file, durable
//! data, a hard link (create) or a rename (overwrite), a durable directory entry. Reading is delegated.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{self, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::{mpsc, oneshot};

use proofmill_base::rng::Rng;
use crate::disk::{Disk as _, RealDisk, refuse_symlinks};
use crate::flusher::{Content, Flusher, Job, QUEUE_MAX, staging_name, to_object_error};
use crate::local_read::{SMALL_BYTES_MAX, is_plain, read_file, whole};
use crate::upload::LocalUpload;
use crate::{Key, StoreError};

/// A folder whose objects survive a loss of power once their put has returned.
#[derive(Debug)]
pub struct DurableLocal {
    inner: LocalFileSystem,
    root: PathBuf,
    jobs: mpsc::Sender<Job>,
    rng: Arc<dyn Rng>,
}

impl DurableLocal {
    /// Opens `folder`, making it when absent.
    ///
    /// # Errors
    ///
    /// [`StoreError::Folder`] when it cannot be made, read or watched by a thread.
    pub fn open(folder: &path::Path, rng: Arc<dyn Rng>) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Folder { path: folder.display().to_string(), source };
        make_durable_dir(folder).map_err(failed)?;
        let root = fs::canonicalize(folder).map_err(failed)?;
        let disk = RealDisk::open(&root).map_err(failed)?;
        let inner = LocalFileSystem::new_with_prefix(&root)
            .map_err(|source| StoreError::Open { url: root.display().to_string(), source })?;
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let flusher = Flusher::new(disk, rng.clone());
        std::thread::Builder::new()
            .name("proofmill-store".to_owned())
            .spawn(move || flusher.run(queue))
            .map_err(failed)?;
        Ok(Self { inner, root, jobs, rng })
    }

    /// The folder, absolute and without symbolic links.
    pub fn root(&self) -> &path::Path {
        &self.root
    }

    /// Reads a small object on the calling thread; none when there is none.
    pub(crate) fn read_small(&self, key: &Key) -> Result<Option<Bytes>> {
        let file = self.file(key.path())?;
        let read = read_file(&self.root, &file, u64::MAX);
        Ok(present(key, read)?.and_then(|(bytes, _)| bytes))
    }

    /// The size of an object in bytes, examined on the calling thread; none when there is none.
    pub(crate) fn size(&self, key: &Key) -> Result<Option<u64>> {
        let file = self.file(key.path())?;
        present(key, fs::symlink_metadata(file).map(|meta| meta.len()))
    }

    fn file(&self, location: &Path) -> Result<PathBuf> {
        self.inner.path_to_filesystem(location)
    }

    async fn submit(&self, content: Content, dest: PathBuf, overwrite: bool) -> Result<PutResult> {
        submit(&self.jobs, content, dest, overwrite).await
    }
}

/// Hands a job to the flusher and waits until it is durable.
pub(crate) async fn submit(
    jobs: &mpsc::Sender<Job>,
    content: Content,
    dest: PathBuf,
    overwrite: bool,
) -> Result<PutResult> {
    let gone = || object_store::Error::Generic {
        store: "DurableLocal",
        source: "the thread that writes has ended".into(),
    };
    let (done, outcome) = oneshot::channel();
    let job = Job { content, dest, overwrite, done };
    jobs.send(job).await.map_err(|_| gone())?;
    outcome.await.map_err(|_| gone())?
}

#[async_trait]
impl ObjectStore for DurableLocal {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let overwrite = match options.mode {
            PutMode::Create => false,
            PutMode::Overwrite => true,
            PutMode::Update(_) => return Err(self.lacks("conditional updates")),
        };
        if !options.attributes.is_empty() {
            return Err(self.lacks("attributes"));
        }
        self.submit(Content::Bytes(payload), self.file(at)?, overwrite).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        if !options.attributes.is_empty() {
            return Err(self.lacks("attributes"));
        }
        let (dest, root, jobs) = (self.file(at)?, self.root.clone(), self.jobs.clone());
        let staging = staging_name(&dest, self.rng.as_ref());
        let begin = move || {
            let path = dest.display().to_string();
            let upload = LocalUpload::begin(&RealDisk::open(&root)?, staging, dest, jobs);
            upload.map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
        };
        let upload = tokio::task::spawn_blocking(begin).await?;
        Ok(Box::new(upload.map_err(|error| to_object_error(at.to_string(), error))?))
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        if is_plain(&options) {
            let (file, root) = (self.file(at)?, self.root.clone());
            let read = move || read_file(&root, &file, SMALL_BYTES_MAX);
            let read = tokio::task::spawn_blocking(read).await?;
            let (bytes, modified) = read.map_err(|error| to_object_error(at.to_string(), error))?;
            return match bytes {
                Some(bytes) => Ok(whole(at, bytes, modified)),
                None => self.inner.get_opts(at, options).await,
            };
        }
        refuse_symlinks(&self.root, &self.file(at)?)
            .map_err(|error| to_object_error(at.to_string(), error))?;
        self.inner.get_opts(at, options).await
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        refuse_symlinks(&self.root, &self.file(at)?)
            .map_err(|error| to_object_error(at.to_string(), error))?;
        self.inner.get_ranges(at, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    /// A second name for the same immutable bytes. Renaming is copying, then deleting.
    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (source, dest, root) = (self.file(from)?, self.file(to)?, self.root.clone());
        let (dir, staging) = (dest.clone(), staging_name(&dest, self.rng.as_ref()));
        let linked = staging.clone();
        let link = move || {
            refuse_symlinks(&root, &source)?;
            let disk = RealDisk::open(&root)?;
            disk.ensure_dir(dir.parent().unwrap_or(&root))?;
            File::open(&source)?.sync_all()?;
            disk.link(&source, &linked)
        };
        let linked = tokio::task::spawn_blocking(link).await?;
        linked.map_err(|error| to_object_error(from.to_string(), error))?;
        let overwrite = options.mode == CopyMode::Overwrite;
        self.submit(Content::Staged(staging), dest, overwrite).await?;
        Ok(())
    }
}

impl DurableLocal {
    fn lacks(&self, what: &str) -> object_store::Error {
        object_store::Error::NotImplemented {
            operation: what.to_owned(),
            implementer: self.to_string(),
        }
    }
}

impl fmt::Display for DurableLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DurableLocal({})", self.root.display())
    }
}

/// Makes `folder` with its ancestors, all of them durable.
fn make_durable_dir(folder: &path::Path) -> io::Result<()> {
    let folder = path::absolute(folder)?;
    let missing: Vec<&path::Path> = folder.ancestors().take_while(|dir| !dir.exists()).collect();
    fs::create_dir_all(&folder)?;
    for parent in missing.iter().filter_map(|dir| dir.parent()) {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

fn present<T>(key: &Key, read: io::Result<T>) -> Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(to_object_error(key.to_string(), error)),
    }
}
