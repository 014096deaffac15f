//! Uploads of objects too large for one put: to a durable folder, and to any store.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt as _;
use object_store::{
    MultipartUpload, ObjectStoreExt as _, PutPayload, PutResult, Result as ObjectResult, UploadPart,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::disk::Disk;
use crate::durable_local::submit;
use crate::error::Result;
use crate::flusher::{Content, Job, to_object_error};
use crate::{Key, Store, StoreError};

/// Size of every piece but the last, in bytes; an object of less is one put.
pub(crate) const PIECE_BYTES: usize = 8 << 20;
/// Pieces under way at a time.
const PIECES_IN_FLIGHT_MAX: usize = 4;

/// A large object on its way into a durable folder.
#[derive(Debug)]
pub(crate) struct LocalUpload {
    file: Arc<File>,
    /// The staging file; none once it has its name or is gone.
    staging: Option<PathBuf>,
    dest: PathBuf,
    offset: u64,
    jobs: mpsc::Sender<Job>,
}

impl LocalUpload {
    /// Makes the staging file.
    pub fn begin(
        disk: &dyn Disk,
        staging: PathBuf,
        dest: PathBuf,
        jobs: mpsc::Sender<Job>,
    ) -> io::Result<Self> {
        disk.ensure_dir(dest.parent().unwrap_or(Path::new("")))?;
        let file = Arc::new(OpenOptions::new().write(true).create_new(true).open(&staging)?);
        // Held while it is written, however long that takes: nobody takes it for a dead one's.
        let _ = file.try_lock();
        Ok(Self { file, staging: Some(staging), dest, offset: 0, jobs })
    }

    fn ended(&self) -> object_store::Error {
        to_object_error(self.dest.display().to_string(), io::Error::other("the upload has ended"))
    }
}

#[async_trait]
impl MultipartUpload for LocalUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (file, path, mut offset) = (self.file.clone(), self.dest.clone(), self.offset);
        self.offset += data.content_length() as u64;
        let write = move || {
            for bytes in &data {
                file.write_all_at(bytes, offset)?;
                offset += bytes.len() as u64;
            }
            Ok(())
        };
        async move {
            let written: io::Result<()> = tokio::task::spawn_blocking(write).await?;
            written.map_err(|error| to_object_error(path.display().to_string(), error))
        }
        .boxed()
    }

    async fn complete(&mut self) -> ObjectResult<PutResult> {
        let staging = self.staging.clone().ok_or_else(|| self.ended())?;
        let file = self.file.clone();
        let synced = tokio::task::spawn_blocking(move || file.sync_all()).await?;
        synced.map_err(|error| to_object_error(self.dest.display().to_string(), error))?;
        // From here on the flusher owns the staging file.
        self.staging = None;
        submit(&self.jobs, Content::Staged(staging), self.dest.clone(), true).await
    }

    async fn abort(&mut self) -> ObjectResult<()> {
        let staging = self.staging.take().ok_or_else(|| self.ended())?;
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_file(staging)).await?;
        removed.map_err(|error| to_object_error(self.dest.display().to_string(), error))
    }
}

impl Drop for LocalUpload {
    fn drop(&mut self) {
        if let Some(staging) = self.staging.take() {
            // Nobody waits for this; a staging file that stays is hidden and harmless.
            let _ = std::fs::remove_file(staging);
        }
    }
}

/// An object that is stored piece by piece: invisible until it is whole.
#[derive(Debug)]
pub struct PieceUpload {
    store: Store,
    key: Key,
    /// None until the object turns out to be larger than one piece.
    multipart: Option<Box<dyn MultipartUpload>>,
    in_flight: JoinSet<ObjectResult<()>>,
}

impl PieceUpload {
    /// An upload to `key`. Nothing happens before the first piece.
    pub fn new(store: &Store, key: &Key) -> Self {
        let (store, key) = (store.clone(), key.clone());
        Self { store, key, multipart: None, in_flight: JoinSet::new() }
    }

    /// Sends a piece of exactly [`PIECE_BYTES`]; waits when too many are under way.
    pub async fn push(&mut self, piece: Bytes) -> Result<()> {
        let multipart = match &mut self.multipart {
            Some(multipart) => multipart,
            None => {
                let objects = self.store.objects();
                let begin = || objects.put_multipart(self.key.path());
                let begun = self.store.retry("begin writing", &self.key, begin).await?;
                self.multipart.insert(begun)
            }
        };
        self.in_flight.spawn(multipart.put_part(piece.into()));
        self.wait_for(PIECES_IN_FLIGHT_MAX).await
    }

    /// Sends the rest and makes the object visible.
    pub async fn finish(&mut self, rest: Bytes) -> Result<()> {
        if self.multipart.is_none() {
            return self.store.put(&self.key, rest.into()).await;
        }
        if !rest.is_empty() {
            self.push(rest).await?;
        }
        self.wait_for(0).await?;
        if let Some(mut multipart) = self.multipart.take() {
            let completed = multipart.complete().await;
            completed.map_err(|source| StoreError::object("finish writing", &self.key, source))?;
        }
        Ok(())
    }

    /// Gives up: nothing becomes visible, and the store is asked to forget the pieces.
    pub async fn abort(&mut self) {
        self.in_flight.shutdown().await;
        if let Some(mut multipart) = self.multipart.take() {
            // Pieces that stay are invisible; stores drop them by a lifecycle rule.
            let _ = multipart.abort().await;
        }
    }

    async fn wait_for(&mut self, in_flight_max: usize) -> Result<()> {
        while self.in_flight.len() > in_flight_max {
            if let Some(sent) = self.in_flight.join_next().await {
                sent?
                    .map_err(|source| StoreError::object("write a piece of", &self.key, source))?;
            }
        }
        Ok(())
    }
}
