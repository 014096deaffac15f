//! `jsonl` and `json`.

use serde_json::json;

use crate::tests::support::{Folder, error, read, read_with};
use crate::{ErrorClass, FilesError};

#[test]
fn lines_become_typed_rows() {
    let folder = Folder::new();
    let path = folder.write(
        "a.jsonl",
        "{\"id\": 1, \"score\": 1, \"tags\": [\"x\", null], \"q\": {\"stem\": \"caf\\u00e9\"}, \"ok\": true}\n\
         \n\
         {\"score\": 0.5, \"id\": 2, \"tags\": [], \"q\": {\"stem\": null, \"n\": 3}}\r\n\
         {\"id\": 3, \"nothing\": null}",
    );
    let outcome = read(&path);
    assert_eq!(
        outcome.columns(),
        [
            "id: Int64",
            "score: Float64",
            "tags: List(Utf8)",
            "q: Struct(\"stem\": Utf8, \"n\": Int64)",
            "ok: Boolean",
            "nothing: Utf8",
        ]
    );
    assert_eq!(
        outcome.rows(),
        ["1|1.0|[x, -]|{stem: café, n: -}|true|-", "2|0.5|[]|{stem: -, n: 3}|-|-", "3|-|-|-|-|-",]
    );
    assert_eq!(outcome.faults(), [""; 0]);
    assert_eq!((outcome.summary.rows, outcome.summary.blank_lines), (3, 1));
    assert_eq!(outcome.source.rows_estimate(), Some(3));
    assert_eq!(outcome.bytes_read, outcome.source.files()[0].bytes);
    assert!(!outcome.source.schema().field(0).is_nullable());
}

#[test]
fn mistakes_become_error_rows() {
    let folder = Folder::new();
    let path = folder.write(
        "a.jsonl",
        b"{\"a\": 1}\n\
          {\"a\": 1,}\n\
          \n\
          [1]\n\
          {\"a\": 1} x\n\
          {\"a\": 1, \"b\": 2, \"a\": 3}\n\
          {\"a\": 2, \"t\": \"caf\xe9\"}\n\
          {\"a\": NaN}\n\
          {\"a\": \"\\ud800\"}\n\
          {\"a\": 3\n",
    );
    let outcome = read(&path);
    assert_eq!(outcome.rows(), ["1"]);
    assert_eq!(
        outcome.faults(),
        [
            "2@2 syntax -: character 9: expected the name of a field in quotes, found `}`",
            "3@4 syntax -: expected an object, found a list",
            "4@5 syntax -: character 10: expected the end, found `x`",
            "5@6 fields -: the field `a` occurs twice",
            "6@7 encoding -: character 19: the byte 0xe9 is not valid in this encoding; `encoding` sets another",
            "7@8 syntax -: character 7: expected a value, found `N`",
            "8@9 syntax -: character 9: half of a surrogate pair is not a character",
            "9@10 syntax -: character 9: expected `,` or `}`, found the end",
        ]
    );
    assert_eq!(outcome.errors[0].raw, "{\"a\": 1,}");
    assert_eq!(outcome.summary.errors, 8);
}

#[test]
fn values_after_the_sample_must_fit() {
    let folder = Folder::new();
    let mut text = "{\"n\": 1, \"s\": {\"x\": [{\"y\": 1}]}, \"t\": \"a\"}\n".repeat(10_000);
    text += "{\"n\": \"abc\"}\n{\"n\": 1.5}\n{\"n\": 9223372036854775808}\n\
             {\"s\": {\"x\": [{\"y\": 1}, {\"y\": false}]}}\n{\"s\": 1}\n\
             {\"t\": 5, \"late\": 1}\n{\"t\": {\"b\":  [1.10]}, \"late\": 2}\n";
    let outcome = read(&folder.write("a.jsonl", text));
    assert_eq!(
        outcome.faults(),
        [
            "10001@10001 type n: column `n`: expected a whole number, found the text `abc`",
            "10002@10002 type n: column `n`: expected a whole number, found the number `1.5`",
            "10003@10003 type n: column `n`: expected a whole number of 64 bits, found the number `9223372036854775808`",
            "10004@10004 type s.x[1].y: column `s.x[1].y`: expected a whole number, found `false`",
            "10005@10005 type s: column `s`: expected an object, found the number `1`",
        ]
    );
    assert_eq!(outcome.rows()[10_000..], ["-|-|5", "-|-|{\"b\":  [1.10]}"]);
    assert_eq!(outcome.summary.ignored.iter().collect::<Vec<_>>(), [("late", 2)]);
    let estimate = outcome.source.rows_estimate().unwrap();
    assert!((9_900..10_100).contains(&estimate), "{estimate}");
}

#[test]
fn columns_are_taken_from_paths() {
    let folder = Folder::new();
    let path = folder.write(
        "a.jsonl",
        "{\"q\": {\"c\": [{\"t\": \"x\"}, {\"t\": \"y\"}]}, \"a.b\": 1, \"s\": \"0.80\", \"i\": 7}\n\
         {\"q\": null, \"s\": \"-\", \"i\": 8}\n\
         {\"q\": {\"c\": [{}]}, \"s\": 2}\n\
         {\"q\": {\"c\": 5}}\n",
    );
    let columns = json!({"columns": {
        "second": "q.c[1].t", "dotted": "a.b", "s": {"type": "number"},
        "text": {"path": "i", "type": "string"},
    }});
    let outcome = read_with(&path, columns);
    assert_eq!(outcome.columns(), ["second: Utf8", "dotted: Int64", "s: Float64", "text: Utf8"]);
    assert_eq!(outcome.rows(), ["y|1|0.8|7", "-|-|2.0|-"]);
    assert_eq!(
        outcome.faults(),
        [
            "2@2 type s: column `s`: expected a number, found the text `-`",
            "4@4 type q.c: field `q.c`: expected a list, found the number `5`",
        ]
    );
    assert!(outcome.summary.ignored.is_empty());
}

#[test]
fn wrong_columns_are_named() {
    let folder = Folder::new();
    let path = folder.write("a.jsonl", "{\"question\": {\"stem\": 1}, \"row_id\": 5}\n");
    let wrong = |columns| {
        let error = error(&path, json!({"columns": columns}));
        (error.field(), error.message(), error.help().unwrap_or_default())
    };
    let texts = |field: &str, message: &str, help: &str| {
        (field.to_owned(), message.to_owned(), help.to_owned())
    };
    assert_eq!(
        wrong(json!({"q": "questoin.stem"})),
        texts("columns.q", "no record has the field `questoin.stem`", "did you mean `question`?")
    );
    assert_eq!(
        wrong(json!({"q": "question.stemm"})),
        texts(
            "columns.q",
            "no record has the field `question.stemm`",
            "the records have `question`, but nothing at `question.stemm`"
        )
    );
    assert_eq!(
        wrong(json!({"q": "question[*]"})),
        texts(
            "columns.q",
            "`question[*]` is not the path of a field",
            "list positions are whole numbers, as in `choices[0]`"
        )
    );
    assert_eq!(read_with(&path, json!({"columns": {"old_id": "row_id"}})).rows(), ["5"]);
}

#[test]
fn records_may_bring_their_identity() {
    let folder = Folder::new();
    let path = folder.write(
        "a.jsonl",
        "{\"x\": 1, \"row_id\": \"q-1\"}\n{\"x\": 2, \"row_id\": 7}\n{\"x\": 3}\n{\"x\": 4, \"row_id\": null}\n",
    );
    for settings in [json!({}), json!({"columns": {"x": "x", "row_id": "row_id"}})] {
        let outcome = read_with(&path, settings);
        assert!(outcome.source.has_row_ids());
        assert_eq!(outcome.source.schema().field(0).name(), "row_id");
        assert_eq!(outcome.row_ids(), ["q-1", "7"]);
        assert_eq!(outcome.rows(), ["1", "2"]);
        assert_eq!(outcome.summary.errors, 2, "those without one");
    }
    let csv = folder.write("a.csv", "x,row_id\n1,007\n");
    assert_eq!(read_with(&csv, json!({})).row_ids(), ["007"], "it is a text");
    // A field of another name may be the identity.
    let named = read_with(&path, json!({"columns": {"row_id": "x"}}));
    assert_eq!(named.row_ids(), ["1", "2", "3", "4"]);
}

#[test]
fn floats_and_whole_numbers_come_back_exactly() {
    let folder = Folder::new();
    let floats = [
        "0.1",
        "-2.2250738585072014e-308",
        "123456789012345680.0",
        "0.30000000000000004",
        "1.7976931348623157e308",
        "5e-324",
        "-0.6931471805599453",
        "2251799813685249.5",
        "1234567890123456800.0",
    ];
    let lines: String =
        floats.iter().map(|float| format!("{{\"x\": {float}, \"n\": {}}}\n", i64::MIN)).collect();
    let outcome = read(&folder.write("a.jsonl", lines));
    let found: Vec<f64> = outcome
        .batches
        .iter()
        .flat_map(|batch| {
            let column = batch.column(1).as_any().downcast_ref::<arrow::array::Float64Array>();
            column.unwrap().values().to_vec()
        })
        .collect();
    let expected: Vec<f64> = floats.iter().map(|float| float.parse().unwrap()).collect();
    assert_eq!(found, expected);
    assert!(outcome.rows().iter().all(|row| row.ends_with("|-9223372036854775808")));
}

#[test]
fn documents_hold_lists_of_records() {
    let folder = Folder::new();
    let list = folder
        .write("a.json", "[\n  {\"a\": 1},\n\n  {\"a\": 1, \"a\": 2}, 7,\n  {\"a\":\n 2}\n]\n");
    let outcome = read(&list);
    assert_eq!(outcome.rows(), ["1", "2"]);
    assert_eq!(
        outcome.faults(),
        [
            "2@4 fields -: the field `a` occurs twice",
            "3@4 syntax -: expected an object, found the number `7`",
        ]
    );
    assert_eq!(read(&folder.write("empty.json", " [ ] ")).rows(), [""; 0]);
    let nested = folder.write("b.json", "{\"n\": [1], \"data\": {\"rows\": [{\"a\": \"x\"}]}}");
    assert_eq!(read_with(&nested, json!({"records": "data.rows"})).rows(), ["x"]);
}

#[test]
fn documents_without_records_are_refused() {
    let folder = Folder::new();
    let path = folder.write("b.json", "{\"data\": {\"rows\": [{\"a\": \"x\"}]}}");
    let wrong = |more| {
        let error = error(&path, more);
        assert!(matches!(error, FilesError::Records { .. }), "{error}");
        (folder.strip(&error.message()), error.help().unwrap_or_default())
    };
    assert_eq!(wrong(json!({})).0, "`b.json` is an object; `records` says where its list is");
    let (message, help) = wrong(json!({"records": "data.row"}));
    assert_eq!(message, "`b.json` has no field `row` at `data`");
    assert_eq!(help, "did you mean `rows`?");
    assert_eq!(wrong(json!({"records": "data"})).0, "`b.json` has no list at `data`");

    let broken = folder.write("c.json", "[\n{\"a\": 1},\n{\"ä\": 1 \"b\"}]");
    let error = error(&broken, json!({}));
    assert_eq!(
        folder.strip(&error.message()),
        "`c.json` is not a JSON document: line 3, column 9: expected `,` or `}`, found `\"`"
    );
}

#[test]
fn deep_and_long_records_are_error_rows() {
    let folder = Folder::new();
    let deep = format!("{{\"a\": {}1{}}}\n", "[".repeat(200_000), "]".repeat(200_000));
    let long = format!("{{\"a\": \"{}\"}}\n", "x".repeat(64 << 20));
    let outcome = read(&folder.write("a.jsonl", format!("{deep}{long}{{\"a\": 1}}\n")));
    assert_eq!(outcome.rows(), ["1"]);
    assert_eq!(
        outcome.faults(),
        [
            "1@1 syntax -: character 134: more than 128 levels of nesting",
            "2@2 size -: the record is longer than 64 MiB",
        ]
    );
    assert_eq!(outcome.errors[1].class, ErrorClass::Size);
    assert_eq!(outcome.errors[1].raw.len(), 2_000);
}
