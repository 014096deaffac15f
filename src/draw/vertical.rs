//! Rows one below the other, a line for each column: for tables that are wider than a terminal, and for long
//! texts, which keep their lines.

use std::fmt::Write;

use arrow::array::RecordBatch;
use textwrap::core::display_width;

use crate::draw::cells::formatted;
use proofmill_base::styled::{escaped, printable};

/// Characters of a text that are shown unless all are wanted.
const TEXT_CHARS_MAX: usize = 2_000;
/// Columns of a terminal that texts have at least, however long the names beside them are.
const TEXT_WIDTH_MIN: usize = 20;

/// The rows; `full` keeps long texts, and lines are broken at `width` if that is given.
pub fn vertical(batches: &[RecordBatch], full: bool, width: Option<usize>) -> String {
    let mut out = String::new();
    let mut number = 0;
    for batch in batches {
        let schema = batch.schema();
        let names: Vec<String> =
            schema.fields().iter().map(|field| printable(field.name(), false)).collect();
        let indent = names.iter().map(|name| display_width(name)).max().unwrap_or(0) + 2;
        let columns: Vec<Vec<String>> = batch.columns().iter().map(formatted).collect();
        for row in 0..batch.num_rows() {
            number += 1;
            let _ = writeln!(out, "── row {number} ──");
            for (name, column) in names.iter().zip(&columns) {
                let pad = " ".repeat(indent - display_width(name));
                let lines =
                    lines(&column[row], full, width.map(|width| width.saturating_sub(indent)));
                let text = lines.join(&format!("\n{}", " ".repeat(indent)));
                let _ = writeln!(out, "{}", format!("{name}{pad}{text}").trim_end());
            }
        }
    }
    out
}

/// The lines of a text.
fn lines(text: &str, full: bool, width: Option<usize>) -> Vec<String> {
    let end = text.char_indices().nth(TEXT_CHARS_MAX).filter(|_| !full).map(|(end, _)| end);
    let cut = end.map_or_else(|| text.to_owned(), |end| format!("{}…", &text[..end]));
    let shown = escaped(&cut.replace("\r\n", "\n")).replace('\t', "    ");
    let broken = |line: &str| match width {
        Some(width) => textwrap::wrap(line, width.max(TEXT_WIDTH_MIN))
            .into_iter()
            .map(|line| line.into_owned())
            .collect(),
        None => vec![line.to_owned()],
    };
    shown.split('\n').flat_map(broken).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, StringArray};

    use super::*;

    #[test]
    fn texts_keep_their_lines_and_control_nothing() {
        let said = StringArray::from(vec![Some("one\ntwo \u{1b}[31mred and more words"), None]);
        let columns: [(&str, ArrayRef); 2] = [
            ("answer", Arc::new(said)),
            ("score of it", Arc::new(Float64Array::from(vec![0.25, 1.0]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        insta::assert_snapshot!(vertical(std::slice::from_ref(&batch), false, None), @r"
        ── row 1 ──
        answer       one
                     two \u{1b}[31mred and more words
        score of it  0.2500
        ── row 2 ──
        answer
        score of it  1
        ");
        insta::assert_snapshot!(vertical(&[batch], false, Some(34)), @r"
        ── row 1 ──
        answer       one
                     two \u{1b}[31mred and
                     more words
        score of it  0.2500
        ── row 2 ──
        answer
        score of it  1
        ");
    }

    #[test]
    fn long_texts_are_cut_unless_all_is_wanted() {
        let long = "x".repeat(TEXT_CHARS_MAX + 1);
        assert_eq!(lines(&long, false, None), [format!("{}…", &long[1..])]);
        assert_eq!(lines(&long, true, None), [long]);
    }
}
