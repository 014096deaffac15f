//! Compression, encodings, and files that are not what they were.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::tests::support::{Folder, error, read, read_source, read_with, settings};
use crate::{FilesError, open};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

#[test]
fn compressed_files_read_like_plain_ones() {
    let folder = Folder::new();
    let (a, b) = ("{\"a\": 1}\n", "{\"a\": 2}\n");
    let members = [gzip(a.as_bytes()), gzip(b.as_bytes())].concat();
    let frames = [zstd(a.as_bytes()), zstd(b.as_bytes())].concat();
    for (name, bytes) in [("a.jsonl.gz", &members), ("a.jsonl.zst", &frames)] {
        let outcome = read(&folder.write(name, bytes));
        assert_eq!(outcome.rows(), ["1", "2"], "{name}");
        assert_eq!(outcome.bytes_read, bytes.len() as u64);
        assert_eq!(outcome.source.files()[0].digest, proofmill_base::digest::Digest::of(bytes));
    }
    let unnamed = folder.write("b.jsonl", zstd(b"{\"a\": 3}"));
    assert_eq!(read_with(&unnamed, json!({"compression": "zstd"})).rows(), ["3"]);
}

#[test]
fn names_and_contents_must_agree() {
    let folder = Folder::new();
    for (name, bytes, field, message) in [
        ("a.jsonl", gzip(b"{}"), "compression", "`a.jsonl` is gzip-compressed"),
        ("b.csv", zstd(b"a\n"), "compression", "`b.csv` is zstd-compressed"),
        ("c.csv.gz", b"a\n1\n".to_vec(), "compression", "`c.csv.gz` is not gzip"),
        ("d.csv.zst", b"".to_vec(), "compression", "`d.csv.zst` is not zstd"),
        ("e.txt", b"PAR1".to_vec(), "format", "`e.txt` is a Parquet file"),
        ("f.parquet", b"a,b".to_vec(), "format", "`f.parquet` is not a Parquet file"),
        ("g.txt", b"\xff\xfea\0".to_vec(), "encoding", "`g.txt` is UTF-16 text"),
    ] {
        let error = error(folder.write(name, bytes), json!({}));
        assert_eq!(
            (error.field().as_str(), folder.strip(&error.message()).as_str()),
            (field, message)
        );
        assert!(error.help().is_some());
    }
}

#[test]
fn cut_and_corrupt_files_are_damaged() {
    let folder = Folder::new();
    let text: Vec<u8> = (0..20_000_u32)
        .flat_map(|i| format!("{}\n", i.wrapping_mul(2_654_435_761)).into_bytes())
        .collect();
    for (name, mut bytes) in [("a.txt.gz", gzip(&text)), ("a.txt.zst", zstd(&text))] {
        let half = bytes.len() / 2;
        let cut = error(folder.write(name, &bytes[..half]), json!({}));
        assert!(matches!(cut, FilesError::Damaged { .. }), "{cut:?}");
        bytes[half..half + 64].fill(0xa5);
        let corrupt = error(folder.write(name, &bytes), json!({}));
        assert!(matches!(corrupt, FilesError::Damaged { .. }), "{corrupt:?}");
    }
}

#[test]
fn bombs_are_stopped() {
    let folder = Folder::new();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let mut line = vec![b'x'; 1 << 20];
    line.push(b'\n');
    (0..80).for_each(|_| encoder.write_all(&line).unwrap());
    let error = error(folder.write("a.txt.zst", encoder.finish().unwrap()), json!({}));
    assert!(matches!(error, FilesError::Expansion { .. }), "{error:?}");
}

#[test]
fn windows_beyond_the_limit_are_explained() {
    let folder = Folder::new();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(28).unwrap();
    encoder.write_all(b"a\n").unwrap();
    let error = error(folder.write("a.txt.zst", encoder.finish().unwrap()), json!({}));
    assert!(error.message().contains("zstd window is larger than 128 MiB"), "{error}");
}

#[test]
fn encodings_are_read_by_their_labels() {
    let folder = Folder::new();
    let latin = folder.write("a.txt", b"caf\xe9\n");
    assert_eq!(read_with(&latin, json!({"encoding": "latin1"})).rows(), ["café"]);
    let wide: Vec<u8> =
        "\u{feff}[{\"a\": \"π\"}]".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let wide = folder.write("a.json", wide);
    assert_eq!(read_with(&wide, json!({"encoding": "utf-16le"})).rows(), ["π"]);
    let japanese = folder.write("b.csv", b"a\n\x83\x65\n\x81\xff\n");
    let outcome = read_with(&japanese, json!({"encoding": "shift_jis"}));
    assert_eq!(outcome.rows(), ["テ"]);
    assert!(outcome.faults()[0].starts_with("2@3 encoding"));
    let marked = folder.write("c.csv", "\u{feff}a\n1\n");
    assert_eq!(read(&marked).columns(), ["a: Int64"]);
    let unknown = error(&latin, json!({"encoding": "latin-1"}));
    assert_eq!(
        (unknown.field().as_str(), unknown.help().as_deref()),
        ("encoding", Some("did you mean `latin1`?"))
    );
}

#[test]
fn a_file_that_changes_is_noticed() {
    let folder = Folder::new();
    let path = folder.write("a.jsonl", "{\"a\": 1}\n{\"a\": 2}\n");
    let source = open(&settings(&path, json!({}))).unwrap();
    folder.write("a.jsonl", "{\"a\": 1}\n{\"a\": 3}\n");
    let error = read_source(source, 8).err().unwrap();
    assert_eq!(folder.strip(&error.message()), "`a.jsonl` changed while it was read");
}

#[test]
fn empty_files_are_empty_tables() {
    let folder = Folder::new();
    for name in ["a.jsonl", "a.csv", "a.tsv", "a.txt"] {
        let outcome = read(&folder.write(name, ""));
        assert_eq!((outcome.rows().len(), outcome.errors.len()), (0, 0), "{name}");
        assert_eq!(outcome.source.rows_estimate(), Some(0));
    }
    let path = folder.path("a.jsonl");
    let outcome = read_with(&path, json!({"columns": {"a": "b.c", "n": {"type": "integer"}}}));
    assert_eq!(outcome.columns(), ["a: Utf8", "n: Int64"]);
}
