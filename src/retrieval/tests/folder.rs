//! The folder of an index: edge cases, bytes, what is refused, and tantivy's own scores.

use std::collections::BTreeMap;
use std::path::Path;

use tantivy::collector::TopDocs;
use tantivy::query::QueryParser;
use tantivy::schema::{Schema, TEXT};
use tantivy::{Index, TantivyDocument};

use crate::tests::support::{PENNY, build, index};
use crate::{Bm25Index, IndexBuilder, IndexSpec, MEMORY_BYTES_MIN, META_FILE, SearchError};
use proofmill_settings::search::{Analyzer, Variant};

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    files
        .map(|file| {
            let name = file.file_name().into_string().unwrap();
            (name, std::fs::read(file.path()).unwrap())
        })
        .collect()
}

fn many_texts(count: u64) -> Vec<String> {
    let word = |n: u64| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44);
    (0..count).map(|i| format!("{} {} {} common", word(i), word(i + 1), word(i / 7))).collect()
}

#[test]
fn nothing_asked_or_nothing_known_gives_nothing() {
    let (_dir, penny) = index(IndexSpec::default(), &PENNY);
    assert!(penny.search("penny", 0).unwrap().is_empty());
    assert!(penny.search("", 5).unwrap().is_empty());
    assert!(penny.search("?! --", 5).unwrap().is_empty());
    assert!(penny.search("unheard of words", 5).unwrap().len() == 1, "`of` is known");
    assert!(penny.search("unheard", 5).unwrap().is_empty());
    assert_eq!(penny.search("penny", usize::MAX).unwrap().len(), 1);
    assert!(penny.search_batch(&[], 5, 4).unwrap().is_empty());

    for variant in Variant::ALL {
        let spec = IndexSpec { variant, ..IndexSpec::default() };
        let (_dir, empty) = index::<&str>(spec, &[]);
        assert!(empty.search("penny", 5).unwrap().is_empty());
        let (_dir, blank) = index(spec, &["", " ", "?"]);
        assert!(blank.search("penny", 5).unwrap().is_empty());
        assert_eq!(blank.meta().documents, 3);
    }
}

#[test]
fn an_entry_can_be_kept_from_answering() {
    let (_dir, penny) = index(IndexSpec::default(), &PENNY);
    let all = penny.search("magnet copper", 10).unwrap();
    let others = penny.search_excluding("magnet copper", 10, &[9, all[0].ordinal, 0]).unwrap();
    let expected: Vec<_> =
        all.iter().copied().filter(|hit| ![all[0].ordinal, 0].contains(&hit.ordinal)).collect();
    assert_eq!(others, expected);
}

#[test]
fn empty_terms_of_the_whitespace_analyzer_are_terms() {
    let spec = IndexSpec { analyzer: Analyzer::Whitespace, ..IndexSpec::default() };
    let (_dir, index) = index(spec, &["a  b", "A b", "c"]);
    assert_eq!((index.meta().tokens, index.meta().terms), (6, 5));
    let ordinals = |query: &str| -> Vec<u32> {
        index.search(query, 5).unwrap().into_iter().map(|hit| hit.ordinal).collect()
    };
    assert_eq!(ordinals(""), [0]);
    assert_eq!(ordinals("A"), [1]);
    assert_eq!(ordinals("b"), [1, 0]);
}

#[test]
fn same_entries_give_the_same_bytes_whatever_the_memory() {
    let texts = many_texts(150_000);
    let mut folders = Vec::new();
    for memory_budget_bytes in [MEMORY_BYTES_MIN, MEMORY_BYTES_MIN, 400_000_000] {
        let dir = tempfile::tempdir().unwrap();
        let spec = IndexSpec::default();
        let mut builder = IndexBuilder::create(dir.path(), spec, memory_budget_bytes).unwrap();
        for text in &texts {
            builder.add(text).unwrap();
        }
        let stats = builder.finish().unwrap();
        assert_eq!((stats.documents, stats.tokens), (150_000, 600_000));
        let files = files(dir.path());
        assert_eq!(stats.bytes, files.values().map(|bytes| bytes.len() as u64).sum::<u64>());
        folders.push(files);
    }
    let names: Vec<&str> = folders[0].keys().map(String::as_str).collect();
    assert!(names.contains(&META_FILE) && names.contains(&"meta.json"), "{names:?}");
    assert!(names.iter().all(|name| !name.starts_with('.')), "{names:?}");
    for other in &folders[1..] {
        assert_eq!(names, other.keys().map(String::as_str).collect::<Vec<_>>());
        for (name, bytes) in other {
            assert!(folders[0][name] == *bytes, "{name} differs");
        }
    }
}

#[test]
fn reading_leaves_no_trace_and_needs_no_other_folder() {
    let dir = tempfile::tempdir().unwrap();
    build(&dir, IndexSpec::default(), &PENNY);
    let before = files(dir.path());
    let moved = tempfile::tempdir().unwrap();
    for (name, bytes) in &before {
        std::fs::write(moved.path().join(name), bytes).unwrap();
    }
    drop(dir);
    let index = Bm25Index::open(moved.path()).unwrap();
    assert_eq!(index.search("penny", 1).unwrap()[0].ordinal, 0);
    drop(index);
    assert_eq!(files(moved.path()), before);
}

#[test]
fn a_folder_is_used_once_and_only_when_finished() {
    let dir = tempfile::tempdir().unwrap();
    let create = |dir: &Path| IndexBuilder::create(dir, IndexSpec::default(), MEMORY_BYTES_MIN);
    assert!(matches!(Bm25Index::open(dir.path()), Err(SearchError::NotAnIndex { .. })));
    let mut unfinished = create(dir.path()).unwrap();
    unfinished.add("text").unwrap();
    drop(unfinished);
    assert!(matches!(Bm25Index::open(dir.path()), Err(SearchError::NotAnIndex { .. })));
    assert!(matches!(create(dir.path()), Err(SearchError::FolderNotEmpty(_))));
}

#[test]
fn contradicting_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    build(&dir, IndexSpec::default(), &PENNY);
    let path = dir.path().join(META_FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"documents\": 6", "\"documents\": 7")).unwrap();
    assert!(matches!(Bm25Index::open(dir.path()), Err(SearchError::Damaged { .. })));
    std::fs::write(&path, &text).unwrap();
    assert!(Bm25Index::open(dir.path()).is_ok());
    std::fs::remove_file(dir.path().join("meta.json")).unwrap();
    assert!(matches!(Bm25Index::open(dir.path()), Err(SearchError::Tantivy { .. })));
}

#[test]
fn memory_below_tantivys_minimum_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let result = IndexBuilder::create(dir.path(), IndexSpec::default(), MEMORY_BYTES_MIN - 1);
    assert!(matches!(result.err(), Some(SearchError::Parameter { name: "memory budget", .. })));
}

/// tantivy's own index over the same texts gives the scores of [`Variant::Tantivy`].
#[test]
fn the_tantivy_variant_scores_as_tantivy_does() {
    let texts: Vec<String> = (0..300u64)
        .map(|i| {
            let words = (0..1 + i % 40).map(|j| format!("w{}", (i * 31 + j * j * 7) % 50));
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let mut schema = Schema::builder();
    let field = schema.add_text_field("text", TEXT);
    let native = Index::create_in_ram(schema.build());
    let mut writer = native.writer_with_num_threads(1, MEMORY_BYTES_MIN).unwrap();
    for text in &texts {
        let mut document = TantivyDocument::default();
        document.add_text(field, text);
        writer.add_document(document).unwrap();
    }
    writer.commit().unwrap();
    let searcher = native.reader().unwrap().searcher();

    let (_dir, index) =
        index(IndexSpec { variant: Variant::Tantivy, ..IndexSpec::default() }, &texts);
    for query in ["w1 w2 w3", "w1 w1 w49 w7", "w10"] {
        let parsed = QueryParser::for_index(&native, vec![field]).parse_query(query).unwrap();
        let expected =
            searcher.search(&parsed, &TopDocs::with_limit(300).order_by_score()).unwrap();
        let found = index.search(query, 300).unwrap();
        assert_eq!(found.len(), expected.len());
        let expected: BTreeMap<u32, f32> =
            expected.into_iter().map(|(score, address)| (address.doc_id, score)).collect();
        for hit in found {
            let native = f64::from(expected[&hit.ordinal]);
            assert!((hit.score - native).abs() < 1e-5, "{query}: {hit:?} {native}");
        }
    }
}
