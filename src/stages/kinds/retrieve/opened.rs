//! Indexes that were opened on this machine: a cache of files that the store has, of which nothing is
//! believed. Every file is hashed before its index is opened, and what is not what the record says is
//! fetched anew. What was unused for [`UNUSED_DAYS`] is removed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tempfile::TempDir;

use crate::stages::error::StageError;
use crate::stages::tables::outside;
use proofmill_base::digest::{Digest, Hasher};
use proofmill_base::rng::random_name;
use proofmill_store::{NamedFile, Store, StoreError, verify_file};

/// Days after which unused folders and files are removed.
pub const UNUSED_DAYS: u64 = 30;
/// The file of a folder that tells when it was used last; locked while it is in use.
const MARK: &str = "in-use";
/// What a fit that was stopped leaves begins so, beside the folders.
const FIT: &str = "fit-";
/// Times that a folder is made because somebody removed it.
const ATTEMPTS_MAX: u32 = 8;
/// Bytes hashed at a time.
const PIECE: usize = 1 << 20;

/// The folder of an index, of which every file is what its record says. It stays as long as this does.
pub struct Opened {
    folder: PathBuf,
    /// The lock of a folder in the cache.
    _mark: Option<File>,
    /// A folder that is ours alone.
    _own: Option<TempDir>,
}

impl Opened {
    /// A folder outside the cache, removed with this.
    fn own() -> Result<Self, StageError> {
        let own = tempfile::tempdir().map_err(|source| {
            let path = std::env::temp_dir().display().to_string();
            StageError::Write { path, source }
        })?;
        Ok(Self { folder: own.path().to_owned(), _mark: None, _own: Some(own) })
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The folder in `cache` with these files, which are fetched unless they are there. A cache that cannot
/// be used, as on a full disk or one that cannot be written, costs time only.
pub async fn fetch(store: &Store, cache: &Path, files: &[NamedFile]) -> Result<Opened, StageError> {
    let now = SystemTime::from(store.clock().now());
    let (root, name) = (cache.to_owned(), folder_name(files));
    let claimed = on_disk(cache, move || claim(&root, &name, now)).await;
    let filled = match claimed {
        Ok(opened) => fill(store, opened, files).await,
        Err(error) => Err(error),
    };
    let opened = match filled {
        Err(StageError::Write { .. }) => fill(store, Opened::own()?, files).await?,
        filled => filled?,
    };
    let root = cache.to_owned();
    on_disk(cache, move || {
        sweep(&root, now);
        Ok(())
    })
    .await?;
    Ok(opened)
}

/// Fetches what is not there.
async fn fill(store: &Store, opened: Opened, files: &[NamedFile]) -> Result<Opened, StageError> {
    for file in files {
        let path = opened.folder.join(&file.name);
        let (there, sha256, size) = (path.clone(), file.sha256, file.bytes);
        if on_disk(&path, move || Ok(is_sound(&there, sha256, size))).await? {
            continue;
        }
        let bytes = whole(store, file).await?;
        let partial = random_name(store.rng().as_ref(), 12);
        let to = path.clone();
        on_disk(&path, move || put(&to, &partial, &bytes)).await?;
    }
    Ok(opened)
}

async fn on_disk<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, StageError> {
    let done = tokio::task::spawn_blocking(work);
    let done = done.await.map_err(|error| StageError::Task(error.to_string()))?;
    done.map_err(|source| StageError::Write { path: path.display().to_string(), source })
}

/// The name of an index's folder. Equal content only: two stores may hold the same memory with its rows
/// in another order.
fn folder_name(files: &[NamedFile]) -> String {
    let file = |file: &NamedFile| format!("{} {}\n", file.name, file.sha256);
    Digest::of(files.iter().map(file).collect::<String>().as_bytes()).to_string()
}

/// The bytes of a file in the store, which are those of its record.
async fn whole(store: &Store, file: &NamedFile) -> Result<Bytes, StageError> {
    let mut found = file.sha256;
    for _ in 0..2 {
        let bytes = store.get(&file.key).await?;
        found = Digest::of(&bytes);
        if found == file.sha256 {
            return Ok(bytes);
        }
        // Says what is wrong, unless it was right a moment ago.
        verify_file(store, file).await?;
    }
    let (key, expected) = (file.key.to_string(), file.sha256);
    Err(StoreError::Corrupt { key, expected, found }.into())
}

/// Makes the folder, if need be, and holds it.
fn claim(root: &Path, name: &str, now: SystemTime) -> io::Result<Opened> {
    DirBuilder::new().recursive(true).mode(0o700).create(root)?;
    let folder = root.join(name);
    for _ in 0..ATTEMPTS_MAX {
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            // A link or a file that somebody put there.
            Ok(_) => fs::remove_file(&folder)?,
            Err(_) => {}
        }
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let path = folder.join(MARK);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let Ok(mark) = outside::open_with(&mut options, &path) else {
            remove(&path)?;
            continue;
        };
        // Where the file system has no locks, the time alone protects the folder.
        let _ = mark.lock_shared();
        let _ = mark.set_modified(now);
        let held = mark.metadata()?;
        // While we waited for the lock, somebody may have removed all of it.
        let is_there = |found: fs::Metadata| found.dev() == held.dev() && found.ino() == held.ino();
        if fs::symlink_metadata(&path).is_ok_and(is_there) {
            return Ok(Opened { folder, _mark: Some(mark), _own: None });
        }
    }
    Err(io::Error::other("another process keeps removing it"))
}

/// True if the file has this digest.
fn is_sound(path: &Path, sha256: Digest, bytes: u64) -> bool {
    let hash = || -> io::Result<bool> {
        let mut file = outside::open(path)?;
        if file.metadata()?.len() != bytes {
            return Ok(false);
        }
        let mut hasher = Hasher::default();
        let mut piece = vec![0; PIECE];
        loop {
            match file.read(&mut piece)? {
                0 => return Ok(hasher.finish() == sha256),
                read => hasher.update(&piece[..read]),
            }
        }
    };
    hash().unwrap_or(false)
}

/// Puts a file there, whole or not at all: another process may open the same folder.
fn put(path: &Path, partial: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let partial = folder.join(partial);
    // `create_new` also refuses a symbolic link of that name.
    let mut file = OpenOptions::new().write(true).create_new(true).open(&partial)?;
    let moved = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| {
        if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
            fs::remove_dir_all(path)?;
        }
        fs::rename(&partial, path)?;
        File::open(folder)?.sync_all()
    });
    if moved.is_err() {
        let _ = fs::remove_file(&partial);
    }
    moved
}

/// Removes whatever has the name; nothing may be there.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes what has been unused for long. A failure leaves it to the next time.
fn sweep(root: &Path, now: SystemTime) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let Ok(found) = fs::symlink_metadata(entry.path()) else { continue };
        if found.is_dir() && name.parse::<Digest>().is_ok() {
            let path = entry.path().join(MARK);
            let mark = outside::open_with(OpenOptions::new().write(true), &path).ok();
            let used = mark.as_ref().and_then(|mark| mark.metadata().ok()).unwrap_or(found);
            // Held until the folder is gone: who opens it meanwhile makes a new one.
            let is_free = || mark.as_ref().is_none_or(|mark| mark.try_lock().is_ok());
            if is_old(&used, now) && is_free() {
                let _ = fs::remove_dir_all(entry.path());
            }
        } else if found.is_file() && name.starts_with(FIT) && is_old(&found, now) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_old(found: &fs::Metadata, now: SystemTime) -> bool {
    let age = found.modified().ok().and_then(|used| now.duration_since(used).ok());
    age.is_some_and(|age| age > Duration::from_hours(24 * UNUSED_DAYS))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "files get their times from the machine")]

    use std::os::unix::fs::symlink;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn name(n: u8) -> String {
        Digest::of(&[n]).to_string()
    }

    #[test]
    fn unused_indexes_are_removed_and_held_ones_stay() {
        let root = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let later = now + DAY * (UNUSED_DAYS as u32 + 1);
        let held = claim(root.path(), &name(1), now).unwrap();
        drop(claim(root.path(), &name(2), now).unwrap());
        drop(claim(root.path(), &name(3), now + DAY * 10).unwrap());
        // Of an older program: nothing tells when it was used but its own time.
        fs::create_dir(root.path().join(name(4))).unwrap();
        fs::create_dir(root.path().join("mine")).unwrap();
        fs::write(root.path().join("fit-a"), "").unwrap();
        fs::write(root.path().join("notes"), "").unwrap();
        let left = || {
            let all = fs::read_dir(root.path()).unwrap().map(|it| it.unwrap().file_name());
            let mut all: Vec<String> = all.map(|it| it.into_string().unwrap()).collect();
            all.sort();
            all
        };
        let sorted = |mut all: Vec<String>| {
            all.sort();
            all
        };
        let before = left();
        sweep(root.path(), now + DAY * (UNUSED_DAYS as u32 - 1));
        assert_eq!(left(), before, "nothing is that old");
        sweep(root.path(), later);
        let others = ["mine", "notes"].map(str::to_owned).to_vec();
        assert_eq!(left(), sorted([others.clone(), vec![name(1), name(3)]].concat()));
        drop(held);
        sweep(root.path(), later);
        assert_eq!(left(), sorted([others, vec![name(3)]].concat()));
    }

    #[test]
    fn links_that_somebody_planted_are_not_followed() {
        let (root, mine) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = mine.path().join("secret");
        fs::write(&secret, "kept").unwrap();
        // The folder is a link, then the mark, then a file of the index.
        symlink(mine.path(), root.path().join(name(1))).unwrap();
        let opened = claim(root.path(), &name(1), SystemTime::now()).unwrap();
        assert!(fs::symlink_metadata(opened.folder()).unwrap().is_dir());
        let mark = opened.folder().join(MARK);
        drop(opened);
        fs::remove_file(&mark).unwrap();
        symlink(&secret, &mark).unwrap();
        let opened = claim(root.path(), &name(1), SystemTime::now()).unwrap();
        let path = opened.folder().join("meta.json");
        symlink(&secret, &path).unwrap();
        assert!(!is_sound(&path, Digest::of(b"kept"), 4), "a link is no file of ours");
        put(&path, "partial", b"ours").unwrap();
        assert!(is_sound(&path, Digest::of(b"ours"), 4));
        assert_eq!(fs::read_to_string(&secret).unwrap(), "kept");
        assert_eq!(fs::read_dir(mine.path()).unwrap().count(), 1);
        // Old links and what they lead to stay.
        symlink(mine.path(), root.path().join(name(2))).unwrap();
        sweep(root.path(), SystemTime::now() + DAY * 400);
        assert_eq!(fs::read_to_string(&secret).unwrap(), "kept");
    }

    #[test]
    fn a_folder_in_the_place_of_a_file_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("meta.json");
        fs::create_dir_all(path.join("inside")).unwrap();
        assert!(!is_sound(&path, Digest::of(b""), 0));
        put(&path, "partial", b"whole").unwrap();
        assert!(is_sound(&path, Digest::of(b"whole"), 5));
        assert!(!is_sound(&path, Digest::of(b"other"), 5));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "nothing is left over");
    }
}
