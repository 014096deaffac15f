//! What holds for files of any bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use crate::json::{Json, parse};
use crate::tests::support::{Folder, read_source, read_with, settings};
use crate::{FilesError, open};

/// Bytes that often form the formats' grammar.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec![
            "{", "}", "[", "]", ":", ",", "\"", "\"a\"", "\"b\"", "1", "-0.5e3", "true", "null", "\n", "\r\n",
            "{\"a\": 1}\n", "{\"a\":", "\\u00", "\\", " ", "\t", "é", "\0",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..4),
    ];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Rows, error rows and blank lines of a file of any bytes.
fn counts(name: &str, bytes: &[u8]) -> Option<(u64, u64, u64)> {
    let folder = Folder::new();
    let path = folder.write(name, bytes);
    let outcome =
        open(&settings(&path, json!({}))).and_then(|source| read_source(source, 3)).ok()?;
    let rows: usize = outcome.batches.iter().map(|batch| batch.num_rows()).sum();
    let summary = outcome.summary;
    assert_eq!((summary.rows, summary.errors), (rows as u64, outcome.errors.len() as u64));
    Some((summary.rows, summary.errors, summary.blank_lines))
}

fn json_value(value: &Json<'_>) -> serde_json::Value {
    match value {
        Json::Null => serde_json::Value::Null,
        Json::Bool(value) => json!(value),
        Json::Number(_) => value.as_int().map_or_else(|| json!(value.as_float()), |int| json!(int)),
        Json::Text(text) => json!(text),
        Json::List(items, _) => items.iter().map(json_value).collect(),
        Json::Object(fields, _) => {
            fields.iter().map(|(key, value)| (key.to_string(), json_value(value))).collect()
        }
    }
}

proptest! {
    #[test]
    fn every_line_of_jsonl_is_a_row_an_error_row_or_blank(bytes in bytes()) {
        if let Some((rows, errors, blank)) = counts("a.jsonl", &bytes) {
            let mut lines = bytes.split(|byte| *byte == b'\n').count() as u64;
            if bytes.last().is_none_or(|byte| *byte == b'\n') {
                lines -= 1;
            }
            prop_assert_eq!(rows + errors + blank, lines);
        }
    }

    #[test]
    fn every_line_is_a_row_or_an_error_row(bytes in bytes()) {
        if let Some((rows, errors, blank)) = counts("a.txt", &bytes) {
            let ends = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
            let open = bytes.last().is_some_and(|byte| *byte != b'\n');
            prop_assert_eq!((rows + errors, blank), (ends + u64::from(open), 0));
        }
    }

    #[test]
    fn any_bytes_as_other_formats_never_panic(bytes in bytes()) {
        counts("a.csv", &bytes);
        counts("a.tsv", &bytes);
        counts("a.json", &bytes);
        counts("a.parquet", &[b"PAR1", &bytes[..], b"PAR1"].concat());
    }

    #[test]
    fn the_grammar_is_that_of_serde_json(bytes in bytes()) {
        let reference = serde_json::from_slice::<serde_json::Value>(&bytes);
        match (parse(&bytes), reference) {
            (Ok(value), Ok(reference)) => prop_assert_eq!(json_value(&value), reference),
            (Ok(value), Err(error)) => prop_assert!(false, "{error} but {value:?}"),
            (Err(diagnostic), Ok(reference)) => {
                prop_assert!(diagnostic.message.contains("occurs twice"), "{diagnostic:?} but {reference}");
            }
            (Err(_), Err(_)) => {}
        }
    }

    #[test]
    fn texts_survive_jsonl_and_csv(texts in vec(any::<String>(), 1..8)) {
        let folder = Folder::new();
        let lines: String =
            texts.iter().map(|text| format!("{}\n", json!({"a": text, "n": 1}))).collect();
        let expected: Vec<_> = texts.iter().map(|text| format!("{text}|1")).collect();
        prop_assert_eq!(read_with(folder.write("a.jsonl", lines), json!({})).rows(), expected.clone());
        let records = texts.iter().map(|text| format!("\"{}\",1\n", text.replace('"', "\"\"")));
        let table = format!("a,n\n{}", records.collect::<String>());
        let columns = json!({"columns": {"a": {"type": "string"}, "n": "n"}});
        prop_assert_eq!(read_with(folder.write("a.csv", table), columns).rows(), expected);
    }

    #[test]
    fn errors_of_any_bytes_say_what_to_do_or_why(bytes in bytes()) {
        let folder = Folder::new();
        let path = folder.write("a.csv", &bytes);
        if let Err(error) = open(&settings(&path, json!({}))) {
            let known = matches!(error, FilesError::Header { .. } | FilesError::ColumnName { .. }
                | FilesError::Content { .. });
            prop_assert!(known, "{error:?}");
        }
    }
}
