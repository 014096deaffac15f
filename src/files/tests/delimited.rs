//! `csv`, `tsv` and `lines`.

use serde_json::json;

use crate::tests::support::{Folder, error, read, read_with};

#[test]
fn cells_become_typed_rows() {
    let folder = Folder::new();
    let path = folder.write(
        "a.csv",
        "id,score,code,ok,text\n1,0.5,007,true,\"a \"\"b\"\",\nc\"\n\n2,,010,,\"\"\n",
    );
    let outcome = read(&path);
    assert_eq!(
        outcome.columns(),
        ["id: Int64", "score: Float64", "code: Utf8", "ok: Boolean", "text: Utf8",]
    );
    assert_eq!(outcome.rows(), ["1|0.5|007|true|a \"b\",\nc", "2|-|010|-|"]);
    assert_eq!(outcome.summary.blank_lines, 1);
}

#[test]
fn mistakes_become_error_rows_with_their_lines() {
    let folder = Folder::new();
    let path =
        folder.write("a.csv", b"a,b\n1,\"x\ny\"\n1,2,3\n1\n\"x\" y,2\n\xff,2\n4,z\n5,\"open\n6,\n");
    let outcome = read_with(&path, json!({"columns": {"a": {"type": "integer"}, "b": "b"}}));
    assert_eq!(outcome.rows(), ["1|x\ny", "4|z"]);
    assert_eq!(
        outcome.faults(),
        [
            "2@4 fields -: expected 2 fields, found 3",
            "3@5 fields -: expected 2 fields, found 1",
            "4@6 syntax -: character 4: expected a delimiter after a closing quote; a quote inside quotes is doubled",
            "5@7 encoding -: character 1: the byte 0xff is not valid in this encoding; `encoding` sets another",
            "7@9 syntax -: a quote in the record of line 9 is never closed",
        ]
    );
    assert_eq!(outcome.errors[4].raw, "5,\"open\n6,");
}

#[test]
fn halves_of_a_character_in_two_cells_are_no_text() {
    let folder = Folder::new();
    let outcome = read(&folder.write("a.csv", b"a,b\nx\xc3,\xa9y\n"));
    assert_eq!(outcome.rows(), [""; 0]);
    assert!(outcome.faults()[0].starts_with("1@2 encoding -: character 2: the byte 0xc3"));
}

#[test]
fn cells_after_the_sample_must_fit() {
    let folder = Folder::new();
    let text = format!("n\n{}abc\n007\n5\n", "1\n".repeat(10_000));
    let outcome = read(&folder.write("a.csv", text));
    assert_eq!(
        outcome.faults(),
        [
            "10001@10002 type n: column `n`: expected a whole number, found the text `abc`",
            "10002@10003 type n: column `n`: expected a whole number, found the text `007`",
        ]
    );
    assert_eq!(outcome.rows().last().unwrap(), "5");
}

#[test]
fn headers_must_name_every_column_once() {
    let folder = Folder::new();
    let wrong = |header: &str| {
        let error = error(folder.write("a.csv", header), json!({}));
        assert_eq!(error.field(), "header");
        folder.strip(&error.message())
    };
    assert_eq!(wrong("a,b,a\n"), "the header of `a.csv` names the column `a` twice");
    assert_eq!(wrong("a,,b\n"), "the header of `a.csv` has no name for column 2");
    assert_eq!(
        wrong("a,\"b\n"),
        "the header of `a.csv` cannot be read: a quote in the record of line 1 is never closed"
    );
}

#[test]
fn columns_are_numbered_without_a_header() {
    let folder = Folder::new();
    let path = folder.write("a.csv", "1;x\n2;y\n2\n");
    let outcome = read_with(&path, json!({"header": false, "delimiter": ";"}));
    assert_eq!(outcome.columns(), ["column_1: Int64", "column_2: Utf8"]);
    assert_eq!(outcome.rows(), ["1|x", "2|y"]);
    assert_eq!(outcome.faults(), ["3@3 fields -: expected 2 fields, found 1"]);
}

#[test]
fn files_may_order_their_columns_differently() {
    let folder = Folder::new();
    folder.write("a.csv", "x,y\n1,2\n");
    folder.write("b.csv", "y,x\n4,3\n");
    assert_eq!(read(&folder.path("")).rows(), ["1|2", "3|4"]);
    folder.write("c.csv", "x,z\n5,6\n");
    let error = error(folder.path(""), json!({}));
    assert_eq!(
        folder.strip(&error.message()),
        "`c.csv` does not have the columns of `a.csv`: it lacks `y`"
    );
}

#[test]
fn files_agree_on_the_columns_that_are_requested() {
    let folder = Folder::new();
    folder.write("a.csv", "x,y,xy\n1,2,7\n");
    folder.write("b.csv", "more,y,x\n\"no, \",4,3\n");
    let two = json!({"columns": {"b": "y", "a": "x"}});
    assert_eq!(read_with(folder.path(""), two.clone()).rows(), ["2|1", "4|3"]);
    folder.write("c.csv", "x,more\n5,6\n");
    assert_eq!(
        folder.strip(&error(folder.path(""), two).message()),
        "`c.csv` does not have the columns of `a.csv`: it lacks `y`"
    );
}

#[test]
fn headers_are_taken_literally() {
    let folder = Folder::new();
    let path = folder.write("a.csv", "q.stem,b[0]\nx,1\n");
    let outcome = read_with(&path, json!({"columns": {"stem": "q.stem", "b": "b[0]"}}));
    assert_eq!(outcome.rows(), ["x|1"]);
    let error = error(&path, json!({"columns": {"stem": "q.stam"}}));
    assert_eq!(error.help().as_deref(), Some("did you mean `q.stem`?"));
}

#[test]
fn a_blank_line_is_a_row_where_there_is_one_column() {
    let folder = Folder::new();
    let outcome = read(&folder.write("a.csv", "\na\nx\n\ny\n"));
    assert_eq!(outcome.rows(), ["x", "-", "y"]);
}

#[test]
fn tabs_separate_without_quotes() {
    let folder = Folder::new();
    let outcome = read(&folder.write("a.tsv", "a\tb\n\"x\t5\" disk\n\t\r\n"));
    assert_eq!(outcome.rows(), ["\"x|5\" disk", "-|-"]);
}

#[test]
fn lines_stay_as_they_are() {
    let folder = Folder::new();
    let outcome = read(&folder.write("a.txt", b"1\r\n\n a\0b \xff\n a\0b\x0b\xc2\x85c\rd"));
    assert_eq!(outcome.columns(), ["line: Utf8"]);
    assert_eq!(outcome.rows(), ["1", "", " a\0b\u{b}\u{85}c\rd"]);
    assert_eq!(
        outcome.faults(),
        [
            "3@3 encoding -: character 6: the byte 0xff is not valid in this encoding; `encoding` sets another",
        ]
    );
}

#[test]
fn settings_of_other_formats_are_refused() {
    let folder = Folder::new();
    let path = folder.write("a.jsonl", "{}\n");
    for (setting, value) in
        [("delimiter", json!(";")), ("header", json!(true)), ("records", json!("a"))]
    {
        let error = error(&path, json!({setting: value}));
        assert_eq!(error.field(), setting);
        assert_eq!(error.message(), format!("`{setting}` does not apply to jsonl"));
    }
    let path = folder.write("a.csv", "a\n");
    for delimiter in ["", ";;", "\"", "\n", "é"] {
        assert_eq!(error(&path, json!({"delimiter": delimiter})).field(), "delimiter");
    }
}
