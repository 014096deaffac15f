//! Staging files that killed processes left in a folder: found and removed.
//!
//! A staging file of a living process is young, or it is an upload in pieces, which holds a lock on it.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Age after which a staging file that no process holds or writes to counts as left behind.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);
/// The folders in which objects are written, besides those of runs; `*` stands for any name.
const FOLDERS: [&[&str]; 5] =
    [&[], &["artifacts", "*"], &["ledger", "log"], &["ledger", "segments"], &["memories", "*"]];
/// The same in the folder of a run.
const FOLDERS_OF_RUN: [&str; 3] = [".", "log", "data"];
/// A run that has one of these has nothing under way.
const MANIFEST: &str = "manifest.json";

/// Removes what killed processes left below `root`, as of `now`; how many files that were. What cannot
/// be inspected or removed stays: it is harmless.
pub(crate) fn sweep(root: &Path, now: SystemTime) -> usize {
    let mut removed = 0;
    for folder in FOLDERS {
        removed += below(root, folder, now);
    }
    for run in folders(&root.join("runs")).filter(|run| !run.join(MANIFEST).exists()) {
        removed += FOLDERS_OF_RUN.iter().map(|name| here(&run.join(name), now)).sum::<usize>();
    }
    removed
}

fn below(at: &Path, names: &[&str], now: SystemTime) -> usize {
    match names {
        [] => here(at, now),
        ["*", rest @ ..] => folders(at).map(|folder| below(&folder, rest, now)).sum(),
        [name, rest @ ..] => below(&at.join(name), rest, now),
    }
}

fn folders(at: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir(at).into_iter().flatten().flatten();
    // The kind of the entry itself: links are not followed.
    entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir())).map(|entry| entry.path())
}

/// Removes what was left in one folder.
fn here(folder: &Path, now: SystemTime) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let left = entries.filter(|entry| {
        is_staging(&entry.file_name().to_string_lossy())
            && entry.metadata().is_ok_and(|meta| {
                let age = meta.modified().ok().and_then(|at| now.duration_since(at).ok());
                meta.is_file() && age.is_some_and(|age| age >= LEFT_BEHIND)
            })
    });
    let removed = left.filter(|entry| {
        let free = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        free && fs::remove_file(entry.path()).is_ok()
    });
    removed.count()
}

/// `<name>#<digits>`.
fn is_staging(name: &str) -> bool {
    let digits = name.rsplit_once('#').map_or("", |(_, digits)| digits);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "files get their times from the machine")]

    use super::*;

    #[test]
    fn only_files_neither_held_nor_recently_written_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (now, hour) = (SystemTime::now(), LEFT_BEHIND);
        let file = |name: &str, age: Duration| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let file = File::create(&path).unwrap();
            file.set_modified(now - age).unwrap();
            file
        };
        let left = [
            "format.json#1",
            "artifacts/0a/x.json#22",
            "runs/r/data/a.0.parquet#3",
            "runs/r/log/1.json#4",
            "runs/r/manifest.json#5",
            "ledger/log/1.json#6",
            "memories/m/1.json#7",
        ];
        left.iter().for_each(|name| drop(file(name, hour)));
        drop(file("runs/r/data/young.0.parquet#8", hour / 2));
        let held = file("runs/r/data/held.0.parquet#9", 9 * hour);
        held.try_lock().unwrap();
        drop(file("runs/r/data/part.0.parquet", 9 * hour));
        drop(file("runs/r/data/odd#name", 9 * hour));
        drop(file("runs/done/manifest.json", hour));
        drop(file("notes/mine#1", 9 * hour));
        assert_eq!(sweep(folder.path(), now), left.len());
        assert!(left.iter().all(|name| !folder.path().join(name).exists()));
        for name in ["young.0.parquet#8", "held.0.parquet#9", "part.0.parquet", "odd#name"] {
            assert!(folder.path().join("runs/r/data").join(name).exists(), "{name}");
        }
        assert!(folder.path().join("notes/mine#1").exists(), "not ours");
        drop(held);
        assert_eq!(sweep(folder.path(), now), 1);
    }
}
