//! Tables as aligned text.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::draw::cells::texts;
use proofmill_base::styled::printable;

/// Columns of a table that are shown unless all are wanted.
const COLUMNS_SHOWN_MAX: usize = 64;

/// An aligned table from a header and rows of texts, each on one line; `right` tells which columns are
/// numbers. Names of columns are cut like texts of cells.
pub fn aligned(header: &[String], rows: Vec<Vec<String>>, right: &[bool]) -> String {
    // Before columns are measured: an escape is wider than what it stands for.
    let header: Vec<String> = header.iter().map(|name| printable(name, false)).collect();
    let shown = |row: &[String]| row.iter().map(|text| printable(text, true)).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| shown(row)).collect();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let align = |i: usize| {
        if right.get(i).copied().unwrap_or(false) {
            CellAlignment::Right
        } else {
            CellAlignment::Left
        }
    };
    let rule = |i: usize, name: &String| {
        let width =
            rows.iter().map(|row| row[i].chars().count()).chain([name.chars().count()]).max();
        "─".repeat(width.unwrap_or(0))
    };
    let rules: Vec<String> = header.iter().enumerate().map(|(i, name)| rule(i, name)).collect();
    let cells = |row: Vec<String>| {
        row.into_iter()
            .enumerate()
            .map(|(i, text)| Cell::new(text).set_alignment(align(i)))
            .collect::<Vec<_>>()
    };
    table.add_row(cells(header));
    table.add_row(cells(rules));
    rows.into_iter().for_each(|row| {
        table.add_row(cells(row));
    });
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let trimmed: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    trimmed.join("\n") + "\n"
}

/// The rows of a table; `full` keeps long texts and all columns.
pub fn of_batches(schema: &SchemaRef, batches: &[RecordBatch], full: bool) -> String {
    let all = schema.fields().len();
    let shown = if full { all } else { all.min(COLUMNS_SHOWN_MAX) };
    let fields = || schema.fields().iter().take(shown);
    let header: Vec<String> = fields().map(|field| field.name().clone()).collect();
    let right: Vec<bool> = fields().map(|field| field.data_type().is_numeric()).collect();
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<Vec<String>> =
            batch.columns().iter().take(shown).map(|column| texts(column, full)).collect();
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|c| c[row].clone()).collect()),
        );
    }
    let more = match all - shown {
        0 => String::new(),
        1 => "and 1 more column\n".to_owned(),
        more => format!("and {more} more columns\n"),
    };
    aligned(&header, rows, &right) + &more
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    fn table(columns: usize) -> (SchemaRef, Vec<RecordBatch>) {
        let value: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let columns = (0..columns).map(|i| (format!("c{i:03}"), Arc::clone(&value)));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        (batch.schema(), vec![batch])
    }

    #[test]
    fn wide_tables_are_cut_and_say_so() {
        let (schema, batches) = table(COLUMNS_SHOWN_MAX + 2);
        let text = of_batches(&schema, &batches, false);
        assert!(text.contains("c063") && !text.contains("c064"), "{text}");
        assert!(text.ends_with("and 2 more columns\n"), "{text}");
        let text = of_batches(&schema, &batches, true);
        assert!(text.contains("c065") && !text.contains("more column"), "{text}");
        let (schema, batches) = table(COLUMNS_SHOWN_MAX);
        assert!(!of_batches(&schema, &batches, false).contains("more column"));
    }

    #[test]
    fn long_names_of_columns_are_cut() {
        let text = aligned(&["x".repeat(70_000)], vec![vec!["1".to_owned()]], &[true]);
        assert!(text.lines().all(|line| line.chars().count() < 100));
    }
}
