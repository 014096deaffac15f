//! Group commit: one thread that makes everything waiting durable with as few flushes as possible.
//!
//! For each group: write all staging files, make the data durable, give the files their names, make the
//! names durable, and only then answer. A small group flushes each file and directory; a larger one
//! flushes the file system twice, whatever its size, and falls back to the former way if that fails.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::{PutPayload, PutResult};
use tokio::sync::{mpsc, oneshot};

use crate::disk::Disk;
use proofmill_base::rng::Rng;

/// Puts that wait for the thread; further callers wait for a place.
pub(crate) const QUEUE_MAX: usize = 1024;
/// Puts that share two flushes of the file system; fewer are flushed one by one.
const SHARED_FLUSH_MIN: usize = 4;
/// Puts of one group.
const GROUP_MAX: usize = 256;
/// How long a group waits for company if the one before had some: puts that come in numbers share
/// flushes, and one that comes alone does not wait.
const GATHER: Duration = Duration::from_millis(2);
/// Bytes of one group, unless its first put alone is larger.
const GROUP_BYTES_MAX: usize = 64 << 20;
/// Directories that are remembered to be durable.
const DURABLE_DIRS_MAX: usize = 4096;

/// A file that is to get a name.
#[derive(Debug)]
pub(crate) struct Job {
    pub content: Content,
    pub dest: PathBuf,
    /// Whether it may replace what has that name.
    pub overwrite: bool,
    /// Receives the result once it is durable.
    pub done: oneshot::Sender<object_store::Result<PutResult>>,
}

/// The content of a file that is to get a name.
#[derive(Debug)]
pub(crate) enum Content {
    /// Bytes, not written yet.
    Bytes(PutPayload),
    /// A staging file whose bytes are durable.
    Staged(PathBuf),
}

/// Hands a job to the flusher and waits until it is durable.
pub(crate) async fn submit(
    jobs: &mpsc::Sender<Job>,
    content: Content,
    dest: PathBuf,
    overwrite: bool,
) -> object_store::Result<PutResult> {
    let gone = || object_store::Error::Generic {
        store: "DurableLocal",
        source: "the thread that writes has ended".into(),
    };
    let (done, result) = oneshot::channel();
    let job = Job { content, dest, overwrite, done };
    jobs.send(job).await.map_err(|_| gone())?;
    result.await.map_err(|_| gone())?
}

/// The name of a new staging file for `dest`: hidden from listings, as `object_store` does it.
pub(crate) fn staging_name(dest: &Path, rng: &dyn Rng) -> PathBuf {
    let mut name = dest.as_os_str().to_owned();
    name.push(format!("#{}", rng.next_u64()));
    name.into()
}

/// The thread's state.
#[derive(Debug)]
pub(crate) struct Flusher<D> {
    disk: D,
    rng: Arc<dyn Rng>,
    /// Directories whose own entries are known to be durable.
    durable_dirs: HashSet<PathBuf>,
    /// Why nothing is written any more: a directory could not be flushed.
    failed: Option<String>,
}

/// Jobs that are to share their flushes.
struct Group {
    jobs: Vec<Job>,
    bytes: usize,
}

impl Group {
    fn of(first: Job) -> Self {
        Self { bytes: size(&first), jobs: vec![first] }
    }

    /// Takes what waits, as long as there is room.
    fn gather(&mut self, waiting: &mut mpsc::Receiver<Job>) {
        while self.jobs.len() < GROUP_MAX && self.bytes < GROUP_BYTES_MAX {
            let Ok(job) = waiting.try_recv() else { break };
            self.bytes += size(&job);
            self.jobs.push(job);
        }
    }
}

/// A job whose staging file is written.
struct Staged {
    file: PathBuf,
    job: Job,
}

impl<D: Disk> Flusher<D> {
    /// A flusher for the files of `disk`.
    pub fn new(disk: D, rng: Arc<dyn Rng>) -> Self {
        Self { disk, rng, durable_dirs: HashSet::new(), failed: None }
    }

    /// Serves jobs until no sender is left.
    pub fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut busy = false;
        while let Some(first) = jobs.blocking_recv() {
            let mut group = Group::of(first);
            group.gather(&mut jobs);
            if busy {
                std::thread::sleep(GATHER);
                group.gather(&mut jobs);
            }
            busy = group.jobs.len() > 1;
            self.commit(group.jobs);
        }
    }

    /// Makes a group durable and answers its callers.
    pub(crate) fn commit(&mut self, group: Vec<Job>) {
        let parents: BTreeSet<PathBuf> =
            group.iter().filter_map(|job| job.dest.parent().map(Path::to_owned)).collect();
        let mut chains = Vec::with_capacity(parents.len());
        let mut unusable = Vec::new();
        for parent in parents {
            match self.disk.ensure_dir(&parent) {
                Ok(chain) => chains.push(chain),
                Err(error) => unusable.push((parent, error)),
            }
        }
        let dirs: Vec<PathBuf> = chains.iter().filter_map(|chain| chain.last().cloned()).collect();
        let mut shared = group.len() >= SHARED_FLUSH_MIN && self.disk.can_sync_all(&dirs);

        let mut staged = Vec::with_capacity(group.len());
        for job in group {
            let unusable = unusable.iter().find(|(dir, _)| job.dest.parent() == Some(dir));
            if let Some((_, error)) = unusable {
                let error = io::Error::new(error.kind(), error.to_string());
                answer(job, Err(of_staging(error)));
                continue;
            }
            staged.extend(self.stage(job, !shared));
        }
        if shared && !staged.is_empty() && self.disk.sync_all().is_err() {
            // Another program's data may have failed: write ours anew, each flushed by itself.
            shared = false;
            staged = staged.into_iter().filter_map(|staged| self.stage_again(staged)).collect();
        }

        let mut named = Vec::with_capacity(staged.len());
        let mut lost = Vec::new();
        for Staged { file, job } in staged {
            match self.name(&file, &job) {
                Ok(()) => named.push(job),
                Err(error) => lost.push((job, error)),
            }
        }
        if named.is_empty() && lost.is_empty() {
            return;
        }
        // Those who lost wait as well: what they lost to may be of this group.
        let flushed = shared && self.disk.sync_all().is_ok();
        if !flushed && let Err(error) = self.sync_dirs(&chains) {
            let lost = lost.into_iter().map(|(job, _)| job);
            return self.give_up(named.into_iter().chain(lost), &error);
        }
        if self.durable_dirs.len() > DURABLE_DIRS_MAX {
            self.durable_dirs.clear();
        }
        self.durable_dirs.extend(chains.into_iter().flatten());
        named.into_iter().for_each(|job| answer(job, Ok(())));
        lost.into_iter().for_each(|(job, error)| answer(job, Err(error)));
    }

    /// Writes a job's staging file; answers at once if that fails.
    fn stage(&mut self, job: Job, durable: bool) -> Option<Staged> {
        if let Some(reason) = &self.failed {
            answer(job, Err(io::Error::new(ErrorKind::Unsupported, reason.clone())));
            return None;
        }
        let file = match &job.content {
            Content::Staged(file) => file.clone(),
            Content::Bytes(payload) => {
                let file = staging_name(&job.dest, self.rng.as_ref());
                if let Err(error) = self.disk.write(&file, payload, durable) {
                    if error.kind() != ErrorKind::AlreadyExists {
                        // The name is ours, so the remains are ours.
                        let _ = self.disk.unlink(&file);
                    }
                    answer(job, Err(of_staging(error)));
                    return None;
                }
                file
            }
        };
        Some(Staged { file, job })
    }

    /// Writes the staging file of a job once more, flushed by itself.
    fn stage_again(&mut self, staged: Staged) -> Option<Staged> {
        match staged.job.content {
            Content::Staged(_) => Some(staged),
            Content::Bytes(_) => {
                let _ = self.disk.unlink(&staged.file);
                self.stage(staged.job, true)
            }
        }
    }

    /// Gives a staging file its name and removes the staging name.
    fn name(&self, file: &Path, job: &Job) -> io::Result<()> {
        if job.overwrite {
            return self.disk.rename(file, &job.dest).map_err(|error| {
                let _ = self.disk.unlink(file);
                of_staging(error)
            });
        }
        let linked = self.disk.link(file, &job.dest);
        // A staging name that stays is hidden and harmless.
        let _ = self.disk.unlink(file);
        linked.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => error,
            _ => of_staging(error),
        })
    }

    /// Makes the directories of `chains` durable, from the leaves up to what is known to be durable.
    fn sync_dirs(&self, chains: &[Vec<PathBuf>]) -> io::Result<()> {
        let mut dirs = BTreeSet::new();
        for chain in chains {
            for (at, dir) in chain.iter().enumerate() {
                // The leaf has new entries; an ancestor has one if the next directory may be new.
                if chain.get(at + 1).is_none_or(|next| !self.durable_dirs.contains(next)) {
                    dirs.insert(dir);
                }
            }
        }
        dirs.into_iter().rev().try_for_each(|dir| self.disk.sync_dir(dir))
    }

    /// After names could not be made durable: acknowledges nothing, takes nothing back (somebody may
    /// have seen the names, and the data is durable), and refuses everything from now on.
    fn give_up(&mut self, jobs: impl Iterator<Item = Job>, error: &io::Error) {
        let reason = format!("the disk failed to keep names ({error}); nothing more is written");
        for job in jobs {
            answer(job, Err(io::Error::new(ErrorKind::Unsupported, reason.clone())));
        }
        self.failed = Some(reason);
    }
}

fn size(job: &Job) -> usize {
    match &job.content {
        Content::Bytes(payload) => payload.content_length(),
        Content::Staged(_) => 0,
    }
}

/// A failure that concerns a staging file: its absence or presence says nothing about the object.
fn of_staging(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotFound => io::Error::other(error),
        _ => error,
    }
}

fn answer(job: Job, written: io::Result<()>) {
    let path = || job.dest.display().to_string();
    let result = match written {
        Ok(()) => Ok(PutResult { e_tag: None, version: None }),
        Err(error) => Err(to_object_error(path(), error)),
    };
    // A caller that is gone does not need the answer.
    let _ = job.done.send(result);
}

/// `error` as `object_store` would report it.
pub(crate) fn to_object_error(path: String, error: io::Error) -> object_store::Error {
    let kind = error.kind();
    let source = error.into();
    match kind {
        ErrorKind::NotFound => object_store::Error::NotFound { path, source },
        ErrorKind::AlreadyExists => object_store::Error::AlreadyExists { path, source },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            object_store::Error::PermissionDenied { path, source }
        }
        ErrorKind::Unsupported | ErrorKind::InvalidInput => {
            object_store::Error::NotSupported { source }
        }
        _ => object_store::Error::Generic { store: "DurableLocal", source },
    }
}
