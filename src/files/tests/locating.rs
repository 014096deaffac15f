//! Paths, folders and globs.

use serde_json::json;

use crate::tests::support::{Folder, error, name, read, read_with};
use crate::{FilesError, open};

fn names(folder: &Folder, path: &str) -> Vec<String> {
    let settings = crate::tests::support::settings(folder.path(path), json!({}));
    let source = open(&settings).unwrap();
    source.files().iter().map(|file| folder.strip(&file.path)).collect()
}

fn tree() -> Folder {
    let folder = Folder::new();
    for (i, name) in ["d/b.jsonl", "d/a.jsonl", "d/.hidden.jsonl", "d/e/c.jsonl", "d/e/f/x1.jsonl"]
        .into_iter()
        .enumerate()
    {
        folder.write(name, format!("{{\"a\": {i}}}\n"));
    }
    folder
}

#[test]
fn folders_and_globs_are_read_in_the_order_of_names() {
    let folder = tree();
    assert_eq!(names(&folder, "d"), ["d/a.jsonl", "d/b.jsonl"]);
    assert_eq!(names(&folder, "d/*.jsonl"), ["d/a.jsonl", "d/b.jsonl"]);
    assert_eq!(names(&folder, "d/{b,e/c}.jsonl"), ["d/b.jsonl", "d/e/c.jsonl"]);
    assert_eq!(names(&folder, "d/[a-b].jsonl"), ["d/a.jsonl", "d/b.jsonl"]);
    assert_eq!(names(&folder, "d/*/?.jsonl"), ["d/e/c.jsonl"]);
    assert_eq!(
        names(&folder, "d/**/*.jsonl"),
        ["d/a.jsonl", "d/b.jsonl", "d/e/c.jsonl", "d/e/f/x1.jsonl"]
    );
    assert_eq!(names(&folder, "**/x1.jsonl"), ["d/e/f/x1.jsonl"]);
    assert_eq!(names(&folder, "d/.hidden.jsonl"), ["d/.hidden.jsonl"]);
}

#[test]
fn a_file_with_wildcards_in_its_name_can_be_named() {
    let folder = Folder::new();
    let path = folder.write("a[1]*.txt", "x\n");
    assert_eq!(read(&path).rows(), ["x"]);
}

#[test]
fn lists_keep_their_order() {
    let folder = tree();
    let paths = [folder.path("d/e/c.jsonl"), folder.path("d/a.jsonl")];
    assert_eq!(read_with(&paths, json!({})).rows(), ["3", "1"]);
}

#[test]
fn what_is_missing_is_named_with_its_neighbour() {
    let folder = tree();
    let missing = error(folder.path("d/a.jsnol"), json!({}));
    assert!(matches!(missing, FilesError::Missing { .. }));
    assert_eq!(missing.field(), "path");
    let help = folder.strip(&missing.help().unwrap());
    assert!(help.starts_with("did you mean `d/a.jsonl`? The working directory is `"), "{help}");
    assert!(matches!(error(folder.path("d/*.csv"), json!({})), FilesError::NoMatch { .. }));
    assert!(matches!(error(folder.path("x/*.csv"), json!({})), FilesError::NoMatch { .. }));
    assert!(matches!(error(folder.path("d/[.csv"), json!({})), FilesError::Pattern { .. }));
    std::fs::create_dir(folder.path("empty")).unwrap();
    assert!(matches!(error(folder.path("empty"), json!({})), FilesError::EmptyFolder { .. }));
    assert!(matches!(error(json!([]), json!({})), FilesError::NoPaths));
    assert!(matches!(error("/dev/zero", json!({})), FilesError::NotAFile { .. }));
}

#[test]
fn no_row_is_read_twice() {
    let folder = tree();
    let twice = [folder.path("d"), folder.path("d/a.jsonl")];
    assert!(matches!(error(twice, json!({})), FilesError::Duplicate { .. }));
    folder.write("d/copy.jsonl", "{\"a\": 1}\n");
    let same = error(folder.path("d"), json!({}));
    assert_eq!(
        folder.strip(&same.message()),
        "`d/a.jsonl` and `d/copy.jsonl` have the same content"
    );
}

#[test]
#[cfg(unix)]
fn links_to_files_are_followed() {
    let folder = tree();
    std::fs::create_dir(folder.path("l")).unwrap();
    std::os::unix::fs::symlink(folder.path("d/a.jsonl"), folder.path("l/link.jsonl")).unwrap();
    assert_eq!(read(&folder.path("l")).rows(), ["1"]);
    assert_eq!(read(&folder.path("l/*")).rows(), ["1"]);
}

#[test]
fn formats_must_be_known_and_alike() {
    let folder = Folder::new();
    let path = folder.write("m/a.all", "x\n");
    assert_eq!(error(&path, json!({})).field(), "format");
    assert_eq!(read_with(&path, json!({"format": "lines"})).rows(), ["x"]);
    folder.write("n/a.csv", "x\n1\n");
    folder.write("n/b.jsonl", "{}\n");
    let mixed = error(folder.path("n"), json!({}));
    assert_eq!(folder.strip(&mixed.message()), "`n/a.csv` is csv, but `n/b.jsonl` is jsonl");
    assert_eq!(mixed.field(), "format");
}

#[test]
fn identities_come_from_content_and_number() {
    let folder = Folder::new();
    let lines = "{\"a\": 1}\n\nbroken\n{\"a\": 2}\n";
    let a = read(&folder.write("a.jsonl", lines));
    let b = read(&folder.write("sub/b.ndjson", lines));
    assert_eq!(a.row_ids(), b.row_ids());
    let file = proofmill_base::digest::Digest::of(lines.as_bytes());
    assert_eq!(a.source.files()[0].digest, file);
    let expected = [1_u64, 3].map(|record| {
        let mut input = file.as_bytes().to_vec();
        input.extend(record.to_le_bytes());
        proofmill_base::digest::Digest::of(&input).to_string()[..32].to_owned()
    });
    assert_eq!(a.row_ids(), expected);
    assert_eq!(name(&a.errors[0].source), "a.jsonl");
}

#[test]
fn partitions_cover_the_files_in_order() {
    let folder = tree();
    let settings = crate::tests::support::settings(folder.path("d/**/*.jsonl"), json!({}));
    let source = open(&settings).unwrap();
    assert_eq!(source.partitions(1).len(), 1);
    assert_eq!(source.partitions(3).len(), 2);
    assert_eq!(source.partitions(9).len(), 4);
    let mut stopped = 0;
    let summary = source.read(&source.partitions(1)[0], 1, &mut |_| {
        stopped += 1;
        std::ops::ControlFlow::Break(())
    });
    assert_eq!((summary.unwrap().stopped, stopped), (true, 1));
}
