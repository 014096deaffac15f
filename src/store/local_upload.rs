//! Uploads of large objects to a durable folder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use object_store::{MultipartUpload, PutPayload, PutResult, Result as ObjectResult, UploadPart};
use tokio::sync::mpsc;

use crate::disk::Disk;
use crate::flusher::{Content, Job, submit, to_object_error};

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
        // Held while it is written, however long that takes: no sweep takes it for that of a dead
        // process.
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
            // No caller waits for this; a staging file that stays is hidden and harmless.
            let _ = std::fs::remove_file(staging);
        }
    }
}
