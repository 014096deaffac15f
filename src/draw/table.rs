//! Tables as aligned text.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::draw::cells::{printable, texts};

/// An aligned table from a header and rows of texts, each on one line; `right` tells which columns are
/// numbers.
pub fn aligned(header: &[String], rows: Vec<Vec<String>>, right: &[bool]) -> String {
    // Before columns are measured: an escape is wider than what it stands for.
    let shown = |row: &[String]| row.iter().map(|text| printable(text, true)).collect::<Vec<_>>();
    let header = shown(header);
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

/// The rows of a table; `full` keeps long texts.
pub fn of_batches(schema: &SchemaRef, batches: &[RecordBatch], full: bool) -> String {
    let header: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let right: Vec<bool> =
        schema.fields().iter().map(|field| field.data_type().is_numeric()).collect();
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<Vec<String>> =
            batch.columns().iter().map(|column| texts(column, full)).collect();
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|c| c[row].clone()).collect()),
        );
    }
    aligned(&header, rows, &right)
}
