//! Where cuBLASLt lies when the loader does not know: in CUDA's own folders, or among the packages of
//! a Python environment.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Its names, newest first.
const CUBLASLT: [&str; 2] = ["libcublasLt.so.13", "libcublasLt.so.12"];

/// The library, of the first folder that has it. `variable` looks up the environment; `local` is where
/// CUDA is installed, `/usr/local`.
pub(super) fn cublaslt(
    variable: impl Fn(&str) -> Option<OsString>,
    local: &Path,
) -> Option<PathBuf> {
    let folders = folders(variable, local);
    folders.iter().find_map(|folder| {
        CUBLASLT.iter().map(|name| folder.join(name)).find(|path| path.is_file())
    })
}

/// Opens a library for good: who asks for it by its name afterwards gets it.
pub(super) fn open(path: &Path) {
    #[expect(unsafe_code, reason = "opens a library, which runs its initialisers")]
    // SAFETY: the name and the folder are those of a library of NVIDIA, made to be opened by any
    // program.
    let library = unsafe { libloading::Library::new(path) };
    // One that cannot be opened is missed when it is needed.
    if let Ok(library) = library {
        std::mem::forget(library);
    }
}

fn folders(variable: impl Fn(&str) -> Option<OsString>, local: &Path) -> Vec<PathBuf> {
    let home = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut all: Vec<PathBuf> = home("CUDA_HOME").into_iter().collect();
    // The one without a number is a link to the one in use; then the newest.
    let mut installed = entries(local, |name| name.starts_with("cuda"));
    installed.sort_by_key(|path| (path.file_name() != Some("cuda".as_ref()), version(path)));
    all.extend(installed);
    let mut all: Vec<PathBuf> = all.into_iter().map(|path| path.join("lib64")).collect();
    if let Some(environment) = home("VIRTUAL_ENV") {
        for python in entries(&environment.join("lib"), |name| name.starts_with("python3")) {
            let packages = entries(&python.join("site-packages/nvidia"), |_| true);
            all.extend(packages.into_iter().map(|package| package.join("lib")));
        }
    }
    all
}

/// The numbers in a name, to be sorted with the largest first.
fn version(path: &Path) -> std::cmp::Reverse<Vec<u64>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let numbers = name.split(|letter: char| !letter.is_ascii_digit());
    std::cmp::Reverse(numbers.filter_map(|number| number.parse().ok()).collect())
}

/// What is in a folder, sorted; nothing if it cannot be read.
fn entries(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = entries.filter(|entry| entry.file_name().to_str().is_some_and(&wanted));
    let mut all: Vec<PathBuf> = wanted.map(|entry| entry.path()).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(files: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for file in files {
                let path = folder.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, b"").unwrap();
            }
            Self(folder)
        }

        fn found(&self, set: &[(&str, &str)]) -> Option<String> {
            let root = self.0.path();
            let variable = |name: &str| {
                let (_, value) = set.iter().find(|(set, _)| *set == name)?;
                Some(if value.is_empty() { OsString::new() } else { root.join(value).into() })
            };
            let found = cublaslt(variable, &root.join("local"))?;
            Some(found.strip_prefix(root).unwrap().display().to_string())
        }
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        assert_eq!(Machine::new(&[]).found(&[]), None);
        let machine = Machine::new(&["home/lib64/libcublas.so.13", "local/cuda/lib64/x"]);
        assert_eq!(machine.found(&[("CUDA_HOME", "home"), ("VIRTUAL_ENV", "none")]), None);
    }

    #[test]
    fn the_newest_cuda_comes_before_older_ones() {
        let machine = Machine::new(&[
            "local/cuda-9.2/lib64/libcublasLt.so.12",
            "local/cuda-12.10/lib64/libcublasLt.so.12",
            "local/cuda-12.9/lib64/libcublasLt.so.12",
        ]);
        let newest = "local/cuda-12.10/lib64/libcublasLt.so.12";
        assert_eq!(machine.found(&[]).as_deref(), Some(newest));
    }

    #[test]
    fn the_folder_that_was_named_is_searched_first_and_an_environment_last() {
        let python = "env/lib/python3.11/site-packages/nvidia/cublas/lib/libcublasLt.so.12";
        let machine = Machine::new(&[
            python,
            "home/lib64/libcublasLt.so.12",
            "home/lib64/libcublasLt.so.13",
            "local/cuda/lib64/libcublasLt.so.13",
        ]);
        let found = |set: &[_]| machine.found(set).unwrap();
        let env = ("VIRTUAL_ENV", "env");
        assert_eq!(found(&[("CUDA_HOME", "home"), env]), "home/lib64/libcublasLt.so.13");
        assert_eq!(found(&[("CUDA_HOME", ""), env]), "local/cuda/lib64/libcublasLt.so.13");
        fs::remove_file(machine.0.path().join("local/cuda/lib64/libcublasLt.so.13")).unwrap();
        assert_eq!(found(&[env]), python);
    }
}
