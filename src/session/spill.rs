//! The folder for what queries spill to disk: it goes with the process, and those of killed processes
//! are removed by the next.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// How such folders are called.
const PREFIX: &str = "proofmill-spill-";
/// The file that their processes lock.
const LOCK: &str = "lock";
/// A folder this young may not be locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder that only this process writes to.
#[derive(Debug)]
pub struct Spill {
    folder: TempDir,
    _lock: File,
}

impl Spill {
    /// Makes a folder in the folder for temporary files, after removing those of processes that were
    /// killed before `now`.
    pub fn new(now: SystemTime) -> io::Result<Self> {
        let parent = std::env::temp_dir();
        sweep(&parent, now);
        Self::within(&parent)
    }

    fn within(parent: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = File::create_new(folder.path().join(LOCK))?;
        // Where there are no locks, folders of killed processes stay.
        let _ = lock.try_lock();
        Ok(Self { folder, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of processes that are gone. What belongs to other users stays.
fn sweep(parent: &Path, now: SystemTime) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|meta| {
                let age = meta.modified().ok().and_then(|at| now.duration_since(at).ok());
                meta.is_dir() && age.is_some_and(|age| age >= YOUNG)
            })
    });
    for entry in ours {
        let lock = File::open(entry.path().join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            // Somebody else may be removing it too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "files get their times from the machine")]

    use super::*;

    #[test]
    fn folders_of_the_dead_are_removed_and_those_of_the_living_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let living = Spill::within(parent.path()).unwrap();
        let dead = parent.path().join("proofmill-spill-dead");
        fs::create_dir_all(dead.join("datafusion-x")).unwrap();
        fs::write(dead.join("datafusion-x/1"), "rows").unwrap();
        fs::write(dead.join(LOCK), "").unwrap();
        let foreign = parent.path().join("proofmill-spill-foreign");
        fs::create_dir_all(&foreign).unwrap();
        sweep(parent.path(), SystemTime::now());
        assert!(dead.exists(), "it may be about to be locked");
        sweep(parent.path(), SystemTime::now() + 2 * YOUNG);
        assert!(!dead.exists());
        assert!(living.path().exists());
        assert!(foreign.exists(), "without a lock its owner is unknown");
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
