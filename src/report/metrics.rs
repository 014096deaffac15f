//! The numbers of a run: what `measure` and `compare` found, with intervals and denominators.

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;

use crate::draw::cells::texts;
use crate::draw::table::prioritized;
use crate::stages::tables::results::result_column;
use proofmill_base::ids::StageName;

/// The table of one stage's numbers, under its name; in `width` columns of a terminal if that is given.
pub fn of_stage(stage: &StageName, batches: &[RecordBatch], width: Option<usize>) -> String {
    let Some(first) = batches.first() else { return format!("{stage}: no rows\n") };
    let Ok(all) = concat_batches(&first.schema(), batches) else { return String::new() };
    let schema = all.schema();
    let mut header = Vec::new();
    let mut columns: Vec<Vec<String>> = Vec::new();
    let mut right = Vec::new();
    for (field, column) in schema.fields().iter().zip(all.columns()) {
        let name = field.name().as_str();
        let title = result_column(name).map_or(Some(name), |column| column.title);
        let Some(title) = title.filter(|_| !is_empty(column)) else { continue };
        header.push(title.to_owned());
        columns.push(texts(column, false));
        right.push(field.data_type().is_numeric());
    }
    let rows = (0..all.num_rows()).map(|row| columns.iter().map(|c| c[row].clone()).collect());
    let method = method(&all);
    let elsewhere = format!(": `proofmill show {stage} --format vertical`");
    let table = prioritized(&header, rows.collect(), &right, width, &elsewhere);
    format!("{stage}{method}\n{table}")
}

/// How the intervals were made, if it is the same for all.
fn method(batch: &RecordBatch) -> String {
    let column = batch.column_by_name("ci_method").cloned();
    let column = column.unwrap_or_else(|| new_null_array(&DataType::Utf8, 0));
    let mut methods = texts(&column, true);
    methods.sort();
    methods.dedup();
    match methods.as_slice() {
        [] => String::new(),
        methods => format!("  (intervals: {})", methods.join(", ")),
    }
}

fn is_empty(column: &ArrayRef) -> bool {
    !column.is_empty() && column.null_count() == column.len()
}
