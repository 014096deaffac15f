//! SHA-256 of files, computed once: a cache on disk knows the digests of files that have not changed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use proofmill_base::digest::Digest;
use serde::{Deserialize, Serialize};

use super::open_file::FileState;
use super::{LoadError, OpenFile};

/// The digest of several named parts: that of the lines `digest, two spaces, name`, just as
/// `sha256sum` prints them, in the order given.
pub fn digest_of_parts<'a>(parts: impl IntoIterator<Item = (&'a str, Digest)>) -> Digest {
    let lines: String =
        parts.into_iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect();
    Digest::of(lines.as_bytes())
}

/// What a digest from the cache is worth to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Good enough if the file's size, times and inode are those of the time it was read.
    Unchanged,
    /// The file is read again, and must be what the cache says if it seems unchanged.
    Nothing,
}

/// A file of a cache: a line with the digest of what follows, and that. The seal finds damage, not
/// forgery: only the user may write to the user's caches.
pub fn seal(content: &[u8]) -> Vec<u8> {
    [format!("{}\n", Digest::of(content)).as_bytes(), content].concat()
}

/// The content of a sealed file; nothing if it is damaged.
pub fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let at = bytes.iter().position(|&byte| byte == b'\n')?;
    let (sum, content) = (&bytes[..at], &bytes[at + 1..]);
    (sum == Digest::of(content).to_string().as_bytes()).then_some(content)
}

/// Digests of files, kept in a folder: one small sealed file for each path. Any number of processes may
/// use it at once. It may be deleted at any time.
#[derive(Clone, Debug)]
pub struct DigestCache {
    folder: PathBuf,
}

/// A digest and the state of the file that it was taken of.
#[derive(Serialize, Deserialize)]
struct Known {
    path: PathBuf,
    state: FileState,
    digest: Digest,
}

impl DigestCache {
    /// A cache in `folder`, which is made when the first digest is kept.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The digest of a file. A cache that cannot be read or written only costs time: the file is
    /// read instead.
    pub fn digest(&self, file: &Path, trust: Trust) -> Result<Digest, LoadError> {
        self.digest_held(&OpenFile::open(file)?, trust)
    }

    /// The digest of an open file, whatever lies at its path by now. Fails if it changes meanwhile.
    pub(super) fn digest_held(&self, held: &OpenFile, trust: Trust) -> Result<Digest, LoadError> {
        let file = held.path();
        let failed = |source| LoadError::Read { file: file.to_owned(), source };
        let path = file.canonicalize().map_err(failed)?;
        let state = held.state();
        let entry = self.folder.join(format!("{}.known", Digest::of(path.as_os_str().as_bytes())));
        let known = fs::read(&entry)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Known>(unseal(&bytes)?).ok())
            .filter(|known| known.path == path && known.state == state);
        let digest = match (&known, trust) {
            (Some(known), Trust::Unchanged) => known.digest,
            (_, _) => held.hash()?,
        };
        // A file that changed meanwhile has a digest of neither state.
        held.examine()?;
        match known {
            Some(known) if known.digest != digest => {
                return Err(LoadError::Digest {
                    file: file.to_owned(),
                    expected: known.digest.to_string(),
                    found: digest.to_string(),
                });
            }
            Some(_) => {}
            None => self.keep(&entry, &Known { path, state, digest }),
        }
        held.learn(digest);
        Ok(digest)
    }

    /// Writes an entry under another name and renames it, so that no reader sees half of it.
    fn keep(&self, entry: &Path, known: &Known) {
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.folder)?;
            let draft = entry.with_extension(format!("{}.draft", std::process::id()));
            // Where the draft exists, another thread is about to keep the same digest.
            let mut file = OpenOptions::new().write(true).create_new(true).open(&draft)?;
            let written = serde_json::to_vec(known)
                .map_err(io::Error::from)
                .and_then(|bytes| file.write_all(&seal(&bytes)))
                .and_then(|()| fs::rename(&draft, entry));
            if written.is_err() {
                fs::remove_file(&draft)?;
            }
            written
        };
        // Without the entry the file is read again next time; the digest is right either way.
        let _ = write();
    }
}
