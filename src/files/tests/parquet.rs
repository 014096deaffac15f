//! Parquet files.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Int32Array, Int64Array, LargeStringArray, RecordBatch, StringArray,
    StringViewArray, StructArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Int32Type};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde_json::json;

use crate::tests::support::{Folder, error, read, read_source, read_with, settings};
use crate::{FilesError, Source, open};

fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(2)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn sample() -> Vec<u8> {
    let dictionary: DictionaryArray<Int32Type> = ["x", "y", "x", "y", "x"].into_iter().collect();
    let inner = Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5])) as ArrayRef;
    let nested = StructArray::new(
        vec![Field::new("c", DataType::Int32, false)].into(),
        vec![inner],
        Some(NullBuffer::from(vec![true, false, true, true, true])),
    );
    parquet(vec![
        ("t", Arc::new(StringArray::from(vec![Some("1"), Some("2"), None, Some("b"), Some("5")]))),
        ("d", Arc::new(dictionary)),
        ("v", Arc::new(StringViewArray::from(vec!["a", "b", "c", "d", "e"]))),
        ("s", Arc::new(nested)),
    ])
}

#[test]
fn columns_keep_their_types() {
    let folder = Folder::new();
    let outcome = read(&folder.write("a.parquet", sample()));
    assert_eq!(outcome.columns(), ["t: Utf8", "d: Utf8", "v: Utf8", "s: Struct(\"c\": Int32)"]);
    assert_eq!(outcome.rows()[..2], ["1|x|a|{c: 1}", "2|y|b|-"]);
    assert_eq!(outcome.source.rows_estimate(), Some(5));
    assert_eq!(outcome.source.partitions(9).len(), 3);
    assert_eq!(outcome.source.partitions(2).len(), 2);
    let mut ids = outcome.row_ids();
    assert_eq!(
        ids,
        read_source(open(&settings(folder.path("a.parquet"), json!({}))).unwrap(), 100)
            .unwrap()
            .row_ids()
    );
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 5);
}

#[test]
fn columns_are_chosen_and_converted() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", sample());
    let columns = json!({"columns": {
        "inner": "s.c", "n": {"path": "t", "type": "integer"}, "w": {"path": "s.c", "type": "string"},
    }});
    let outcome = read_with(&path, columns);
    assert_eq!(outcome.columns(), ["inner: Int32", "n: Int64", "w: Utf8"]);
    assert_eq!(outcome.rows(), ["1|1|1", "-|2|-", "3|-|3", "5|5|5"]);
    assert_eq!(
        outcome.faults(),
        ["4@- type t: column `n`: expected a whole number of 64 bits, found `b`"]
    );
    assert_eq!(outcome.errors[0].raw, "b");
    let id = crate::row_id::RowIds::new(&outcome.source.files()[0].digest).id(5).to_owned();
    assert_eq!(outcome.row_ids()[3], id);
}

/// However a writer stores strings, a declared type takes and refuses the same of them.
#[test]
fn strings_convert_alike_in_every_encoding() {
    let folder = Folder::new();
    let values = ["1.5", "NaN", "inf", "1e3", "b"];
    let dictionary: DictionaryArray<Int32Type> = values.into_iter().collect();
    let encodings: [ArrayRef; 4] = [
        Arc::new(StringArray::from(values.to_vec())),
        Arc::new(LargeStringArray::from(values.to_vec())),
        Arc::new(StringViewArray::from(values.to_vec())),
        Arc::new(dictionary),
    ];
    for array in encodings {
        let kind = array.data_type().to_string();
        let path = folder.write(&format!("{kind}.parquet"), parquet(vec![("v", array)]));
        let outcome = read_with(&path, json!({"columns": {"v": {"path": "v", "type": "number"}}}));
        assert_eq!(outcome.rows(), ["1.5", "1000.0"], "{kind}");
        assert_eq!(outcome.faults().len(), 3, "{kind}");
    }
}

#[test]
fn wrong_columns_are_named() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", sample());
    let wrong = |columns| error(&path, json!({"columns": columns}));
    assert_eq!(wrong(json!({"x": "s.d"})).help().as_deref(), Some("did you mean `c`?"));
    assert_eq!(wrong(json!({"x": "tt"})).field(), "columns.x");
    assert!(matches!(wrong(json!({"x": "t[0]"})), FilesError::Setting { .. }));
    let typed = wrong(json!({"x": {"path": "s", "type": "integer"}}));
    assert!(typed.message().starts_with("column `x` holds `Struct("), "{typed}");
}

#[test]
fn files_must_agree() {
    let folder = Folder::new();
    folder.write("a.parquet", parquet(vec![("a", Arc::new(Int64Array::from(vec![1])))]));
    folder.write("b.parquet", parquet(vec![("a", Arc::new(StringArray::from(vec!["1"])))]));
    let error = error(folder.path(""), json!({}));
    assert_eq!(
        folder.strip(&error.message()),
        "`b.parquet` does not have the columns of `a.parquet`: `a` is `Utf8` here and `Int64` there"
    );
}

#[test]
fn files_agree_on_the_columns_that_are_requested() {
    let one = |name| {
        vec![
            ("id", Arc::new(Int64Array::from(vec![1])) as ArrayRef),
            (name, Arc::new(StringArray::from(vec!["1"]))),
        ]
    };
    let folder = Folder::new();
    folder.write("a.parquet", parquet(one("x")));
    folder.write("b.parquet", parquet(one("y")));
    let outcome = read_with(folder.path(""), json!({"columns": {"number": "id"}}));
    assert_eq!(outcome.rows(), ["1", "1"]);
    assert!(folder.strip(&error(folder.path(""), json!({})).message()).contains("it lacks `x`"));
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    let folder = Folder::new();
    let whole = sample();
    for at in (4..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        let path = folder.write("a.parquet", &bytes);
        let failed = open(&settings(&path, json!({}))).and_then(|source| read_source(source, 8));
        if let Err(error) = failed {
            assert!(
                matches!(
                    error,
                    FilesError::Damaged { .. }
                        | FilesError::Content { .. }
                        | FilesError::ColumnName { .. }
                ),
                "{error:?}"
            );
        }
    }
    let cut = error(folder.write("a.parquet", &whole[..whole.len() / 2]), json!({}));
    assert!(matches!(cut, FilesError::Damaged { .. }), "{cut:?}");
}

/// A file of one column with one value for each of five rows: as long as any other.
fn numbers(value: i64) -> Vec<u8> {
    parquet(vec![("a", Arc::new(Int64Array::from(vec![value; 5])))])
}

/// Reads all rows, two at a time, and does something after the first.
fn read_and(source: &Source, mut after: impl FnMut()) -> Result<Vec<i64>, FilesError> {
    let mut rows = Vec::new();
    for partition in source.partitions(1) {
        source.read(&partition, 2, &mut |chunk| {
            let batch = chunk.batch.unwrap();
            let column = batch.column(1).as_any().downcast_ref::<Int64Array>();
            rows.extend(column.unwrap().iter().flatten());
            if rows.len() == 2 {
                after();
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(rows)
}

/// Gives a file other bytes of the same length, and the time of the last write that it had.
fn rewrite(path: &str, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.len(), bytes.len() as u64);
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, 0).unwrap();
    file.set_modified(metadata.modified().unwrap()).unwrap();
}

#[test]
fn a_file_that_changes_is_noticed() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", sample());
    let source = open(&settings(&path, json!({}))).unwrap();
    folder.write("a.parquet", [sample(), b"x".to_vec()].concat());
    assert!(matches!(read_source(source, 8).err().unwrap(), FilesError::Changed { .. }));
}

#[test]
fn another_file_of_the_same_length_and_time_is_not_read_for_it() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", numbers(1));
    let source = open(&settings(&path, json!({}))).unwrap();
    rewrite(&path, &numbers(2));
    let found = read_and(&source, || {});
    assert!(matches!(found, Err(FilesError::Changed { .. })), "{found:?}");
    // The same by another file in its place.
    let source = open(&settings(&path, json!({}))).unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    let other = folder.write("b", numbers(3));
    std::fs::File::options().write(true).open(&other).unwrap().set_modified(modified).unwrap();
    std::fs::rename(&other, &path).unwrap();
    let found = read_and(&source, || {});
    assert!(matches!(found, Err(FilesError::Changed { .. })), "{found:?}");
}

#[test]
fn a_file_that_is_written_to_while_it_is_read_is_noticed() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", numbers(1));
    let source = open(&settings(&path, json!({}))).unwrap();
    let found = read_and(&source, || rewrite(&path, &numbers(2)));
    assert!(matches!(found, Err(FilesError::Changed { .. })), "{found:?}");
}

#[test]
fn a_file_that_is_replaced_while_it_is_read_is_still_read_whole() {
    let folder = Folder::new();
    let path = folder.write("a.parquet", numbers(1));
    let source = open(&settings(&path, json!({}))).unwrap();
    let other = folder.write("b", numbers(2));
    let found = read_and(&source, || std::fs::rename(&other, &path).unwrap());
    assert_eq!(found.unwrap(), [1; 5]);
}
