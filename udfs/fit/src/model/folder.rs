//! Writing a model's folder so that no process, at any moment, takes half of one model and half of
//! another for a model: neither a reader nor the next writer after one that was killed.
//!
//! `config.json` makes a folder a model. It is removed before the first other file is replaced and comes
//! back last, and each file is written beside and renamed. So a reader sees the model of before, no
//! model, or the new one; and one that began with the old `config.json` finds, when it has opened all,
//! that another lies there now (`proofmill_engine::checkpoint::Folder::open` looks).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::FitError;

/// The file that makes a folder a checkpoint.
const CONFIG: &str = "config.json";
/// Begins the names of files that are not complete. They are left when a process is killed, and removed
/// by the next that writes the folder.
const DRAFT: &str = ".fitted-";
/// What a reader of the folder takes as a part of its model, if it is there.
const READ: [&str; 8] = [
    "config.json",
    "config_sentence_transformers.json",
    "generation_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

/// Fails if the folder has a file that a reader would take as a part of the model with files of these
/// names, although it is none. It is not ours to delete.
pub fn check<'a>(folder: &Path, names: impl IntoIterator<Item = &'a str>) -> Result<(), FitError> {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let foreign = READ.iter().filter(|name| !names.contains(*name)).map(|name| folder.join(name));
    match foreign.into_iter().find(|file| file.exists()) {
        Some(file) => Err(FitError::Foreign { file }),
        None => Ok(()),
    }
}

/// Puts the files into a folder, which is made if it is not there. Other files in it stay.
pub fn write(folder: &Path, files: &BTreeMap<String, Vec<u8>>) -> Result<(), FitError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    // Of several who write, one after the other. Where the system has no locks for folders, the last
    // who renames wins each file, and the digests of the files tell.
    let lock = File::open(folder).map_err(at(folder))?;
    let _ = lock.lock();
    check(folder, files.keys().map(String::as_str))?;
    sweep(folder).map_err(at(folder))?;
    let is_there = |(name, bytes): (&String, &Vec<u8>)| {
        fs::read(folder.join(name)).is_ok_and(|found| found == *bytes)
    };
    if files.iter().all(is_there) {
        return Ok(());
    }
    let drafted = draft(folder, files).and_then(|drafts| replace(folder, &drafts));
    if drafted.is_err() {
        // What could not be removed either is removed by the next who writes.
        let _ = sweep(folder);
    }
    drafted
}

/// Writes all files beside their places: draft and name of each, `config.json` last.
fn draft(
    folder: &Path,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Vec<(PathBuf, String)>, FitError> {
    let (last, first): (Vec<_>, Vec<_>) = files.iter().partition(|(name, _)| *name == CONFIG);
    let one = |(name, bytes): (&String, &Vec<u8>)| {
        // Of a file in a folder inside, too: so that all drafts are found.
        let draft = format!("{DRAFT}{}-{}", std::process::id(), name.replace('/', "-"));
        let draft = folder.join(draft);
        let write = || {
            let mut file = File::create_new(&draft)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(at(&draft))?;
        Ok((draft, name.clone()))
    };
    first.into_iter().chain(last).map(one).collect()
}

/// Puts the drafts in their places.
fn replace(folder: &Path, drafts: &[(PathBuf, String)]) -> Result<(), FitError> {
    let config = folder.join(CONFIG);
    match fs::remove_file(&config) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&config)(error)),
        _ => {}
    }
    // The disk learns of it before it learns of any other name.
    sync(folder)?;
    for (draft, name) in drafts {
        if name == CONFIG {
            sync(folder)?;
        }
        let file = folder.join(name);
        let inside = file.parent().filter(|parent| *parent != folder);
        if let Some(inside) = inside {
            fs::create_dir_all(inside).map_err(at(inside))?;
        }
        fs::rename(draft, &file).map_err(at(&file))?;
        inside.map_or(Ok(()), sync)?;
    }
    sync(folder)
}

fn sync(folder: &Path) -> Result<(), FitError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(at(folder))
}

/// Removes what a process that was killed left.
fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(DRAFT) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn at(file: &Path) -> impl Fn(io::Error) -> FitError {
    let file = file.to_owned();
    move |source| FitError::File { file: file.clone(), source }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn model(byte: u8) -> BTreeMap<String, Vec<u8>> {
        let names = [CONFIG, "1_Pooling/config.json", "model.safetensors", "tokenizer.json"];
        names.into_iter().map(|name| (name.to_owned(), vec![byte; 100_000])).collect()
    }

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| name(entry).unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_reader_sees_one_model_or_none_and_drafts_of_the_dead_go() {
        let made = tempfile::tempdir().unwrap();
        let folder = made.path();
        write(folder, &model(0)).unwrap();
        fs::write(folder.join(".fitted-1-tokenizer.json"), b"half").unwrap();
        fs::write(folder.join("notes.txt"), b"mine").unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut whole = 0;
                while !done.load(Ordering::Relaxed) || whole == 0 {
                    let open = |name: &str| File::open(folder.join(name)).ok();
                    let Some(config) = open(CONFIG) else { continue };
                    let first = |name: &str| Some(fs::read(folder.join(name)).ok()?[0]);
                    let (weights, tokens) = (first("model.safetensors"), first("tokenizer.json"));
                    use std::os::unix::fs::MetadataExt;
                    let there = folder.join(CONFIG).metadata();
                    if there.is_ok_and(|it| it.ino() == config.metadata().unwrap().ino()) {
                        let mut config = config;
                        let mut byte = [0];
                        io::Read::read_exact(&mut config, &mut byte).unwrap();
                        assert_eq!((weights, tokens), (Some(byte[0]), Some(byte[0])));
                        whole += 1;
                    }
                }
            });
            for byte in 1..40 {
                write(folder, &model(byte)).unwrap();
            }
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        let there = ["1_Pooling", CONFIG, "model.safetensors", "notes.txt", "tokenizer.json"];
        assert_eq!(names(folder), there);
    }

    #[test]
    fn what_would_be_read_with_the_model_is_refused_and_stays() {
        let made = tempfile::tempdir().unwrap();
        fs::write(made.path().join("special_tokens_map.json"), b"{}").unwrap();
        let error = write(made.path(), &model(0)).unwrap_err().to_string();
        assert!(error.contains("special_tokens_map.json: is not of the fitted model"), "{error}");
        assert_eq!(names(made.path()), ["special_tokens_map.json"]);
    }
}
