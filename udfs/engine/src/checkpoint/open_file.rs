//! Files of a checkpoint, open since they were read: whether they still are what was digested.
//!
//! A model's identity is the digest of its files. So whatever is parsed or mapped is read from a handle
//! that stays open, and the state of that handle, not of whatever lies at the path by then, tells
//! whether somebody wrote to the file since it was digested.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::Mmap;
use proofmill_base::digest::Hasher;
use serde::{Deserialize, Serialize};

use super::{Digest, LoadError};

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// What changes when a file is written or replaced. The time of change cannot be set by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileState {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A file, open since it was first read.
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    file: File,
    known: Mutex<KnownBytes>,
}

/// What is known of the bytes behind the handle.
#[derive(Clone, Copy, Debug)]
struct KnownBytes {
    state: FileState,
    /// Their digest, once somebody made or compared it.
    digest: Option<Digest>,
    /// Whether they were seen to change: they are never trusted again.
    spoilt: bool,
}

impl OpenFile {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let open = || {
            let file = File::open(path)?;
            let state = FileState::of(&file.metadata()?);
            Ok((file, state))
        };
        let (file, state) =
            open().map_err(|source| LoadError::Read { file: path.to_owned(), source })?;
        let known = Mutex::new(KnownBytes { state, digest: None, spoilt: false });
        Ok(Self { path: path.to_owned(), file, known })
    }

    /// Where it lay when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The handle.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// All its bytes.
    pub fn read(&self) -> Result<Vec<u8>, LoadError> {
        let mut bytes = Vec::new();
        self.pieces(|piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// The digest of its bytes.
    pub(super) fn hash(&self) -> Result<Digest, LoadError> {
        let mut hasher = Hasher::default();
        self.pieces(|piece| hasher.update(piece))?;
        Ok(hasher.finish())
    }

    /// The state in which it is known.
    pub(super) fn state(&self) -> FileState {
        self.known().state
    }

    /// The digest of its bytes is `digest`, in the state in which it is known.
    pub(super) fn learn(&self, digest: Digest) {
        self.known().digest = Some(digest);
    }

    /// Its digest and state, if somebody made the digest.
    fn digested(&self) -> Option<(Digest, FileState)> {
        let known = self.known();
        Some((known.digest?, known.state))
    }

    /// Fails unless the bytes are those of `digest`, which was made in `state`.
    fn expect(&self, digest: Digest, state: FileState) -> Result<(), LoadError> {
        self.examine()?;
        if self.state() != state && self.hash()? != digest {
            return Err(self.changed());
        }
        self.learn(digest);
        // The state is that from before the bytes were digested again.
        self.examine()
    }

    /// Fails if the path leads to another file by now, or to this one in another state.
    pub(super) fn still_there(&self) -> Result<(), LoadError> {
        let there = self.path.metadata().map_err(|_| self.changed())?;
        if FileState::of(&there) == self.state() { Ok(()) } else { Err(self.changed()) }
    }

    /// Fails if the file was written to since its state was taken, now and ever after.
    pub(super) fn examine(&self) -> Result<(), LoadError> {
        let mut known = self.known();
        let state = self.now()?;
        if state == known.state && !known.spoilt {
            return Ok(());
        }
        // The time of change alone may be that of a new name or mode, also when another file took
        // this one's name: then the bytes decide.
        let named = FileState { changed: known.state.changed, ..state } == known.state;
        if let (true, false, Some(digest)) = (named, known.spoilt, known.digest)
            && self.hash()? == digest
            && self.now()? == state
        {
            known.state = state;
            return Ok(());
        }
        known.spoilt = true;
        Err(self.changed())
    }

    fn now(&self) -> Result<FileState, LoadError> {
        let read = |source| LoadError::Read { file: self.path.clone(), source };
        Ok(FileState::of(&self.file.metadata().map_err(read)?))
    }

    pub(super) fn changed(&self) -> LoadError {
        LoadError::Changed { file: self.path.clone() }
    }

    fn known(&self) -> MutexGuard<'_, KnownBytes> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pieces(&self, mut each: impl FnMut(&[u8])) -> Result<(), LoadError> {
        let mut piece = vec![0; PIECE];
        let mut at = 0;
        loop {
            match self.file.read_at(&mut piece, at) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    each(&piece[..read]);
                    at += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(LoadError::Read { file: self.path.clone(), source }),
            }
        }
    }
}

/// Named files of a checkpoint.
pub type Files = Vec<(String, Arc<OpenFile>)>;

/// The files of a checkpoint as they were when they were digested: what a folder that is opened later
/// must hold to be the same model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digested {
    pub(super) weights: Vec<Part>,
    pub(super) tokenizer: Vec<Part>,
    pub(super) settings: Vec<Part>,
}

/// A file that was digested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub(super) name: String,
    pub(super) digest: Digest,
    state: FileState,
}

impl Part {
    /// The parts that `files` are, each of which was digested.
    pub(super) fn of(files: &Files) -> Vec<Self> {
        let part = |(name, held): &(String, Arc<OpenFile>)| {
            let (digest, state) = held.digested()?;
            Some(Self { name: name.clone(), digest, state })
        };
        files.iter().filter_map(part).collect()
    }

    /// Fails unless `files` are those that were digested, none more and none less.
    pub(super) fn expect(parts: &[Self], files: &Files, folder: &Path) -> Result<(), LoadError> {
        let names = || files.iter().map(|(name, _)| name);
        if let Some(gone) = parts.iter().find(|part| !names().any(|name| *name == part.name)) {
            return Err(LoadError::Changed { file: folder.join(&gone.name) });
        }
        for (name, held) in files {
            match parts.iter().find(|part| part.name == *name) {
                Some(part) => held.expect(part.digest, part.state)?,
                None => return Err(held.changed()),
            }
        }
        Ok(())
    }
}

/// The open files of a checkpoint, to be looked at as often as its answers are kept.
#[derive(Clone, Debug)]
pub struct Watch(pub(super) Vec<Arc<OpenFile>>);

impl Watch {
    /// Fails, naming the file, if one was written to since it was digested or opened; from then on
    /// always. Costs a call of the system for each file.
    pub fn examine(&self) -> Result<(), LoadError> {
        self.0.iter().try_for_each(|held| held.examine())
    }
}

/// The bytes of a file.
///
/// They are checked against the header once, when the file is opened. If somebody cuts the file short
/// afterwards, reading what is gone ends the process with a bus error; if somebody writes to it, the
/// weights change, which [`Watch`] sees. Files of weights are written once and then left alone,
/// and replacing one by a rename, as download tools do, leaves the mapped bytes as they were.
#[derive(Debug)]
pub struct Mapped(Mmap);

impl Mapped {
    /// Maps an open file.
    pub fn new(file: &File) -> io::Result<Self> {
        #[expect(unsafe_code, reason = "a map is the only way to share weights between processes")]
        // SAFETY: the map is private to this type and read-only, so no reference of ours can write
        // to it. What other processes may do to the file is stated in the description of the type.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self(map))
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
