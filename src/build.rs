//! Gives the program the digest of what it is built from, which runs record: the same sources, options and target make the
//! same program, on every platform.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Folders whose files are no part of the program.
const LEFT_OUT: [&str; 4] = ["tests", "benches", "fuzz", "target"];
/// Endings of what is compiled, or compiled in.
const COMPILED: [&str; 7] = ["rs", "toml", "lock", "cu", "cuh", "ptx", "md"];
/// What cargo tells of how it is built.
const OPTIONS: [&str; 4] = ["TARGET", "PROFILE", "OPT_LEVEL", "CARGO_CFG_FEATURE"];

fn main() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> = ["Cargo.toml", "Cargo.lock"].map(PathBuf::from).into();
    for folder in ["src", "udfs", "docs/errors"] {
        add(&root, Path::new(folder), &mut files);
    }
    files.sort();
    let mut digest = Sha256::new();
    for option in OPTIONS {
        digest.update(format!("{option}={}\n", std::env::var(option).unwrap_or_default()));
    }
    for file in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let bytes = fs::read(root.join(&file)).unwrap_or_default();
        digest.update(format!("{} {}\n", file.display(), bytes.len()));
        digest.update(bytes);
    }
    let digits: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=PROOFMILL_BUILD={digits}");
}

/// The files of a folder and of all folders in it that are part of the program.
fn add(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), folder.join(entry.file_name()));
        let name = name.to_string_lossy();
        if entry.path().is_dir() {
            if !LEFT_OUT.contains(&name.as_ref()) {
                add(root, &path, files);
            }
        } else if name.rsplit_once('.').is_some_and(|(_, ending)| COMPILED.contains(&ending)) {
            files.push(path);
        }
    }
}
