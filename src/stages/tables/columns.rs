//! Columns of a batch by name, under the type that a computation reads.

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, ListArray, RecordBatch, StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};

use crate::stages::error::StageError;

/// A column of texts.
///
/// # Errors
///
/// Here and below: if there is no such column, or its type cannot become this one.
pub fn texts(rows: &RecordBatch, name: &str) -> Result<StringArray, StageError> {
    Ok(cast(column(rows, name)?, &DataType::Utf8)?.as_string().clone())
}

/// A column of numbers.
pub fn numbers(rows: &RecordBatch, name: &str) -> Result<Float64Array, StageError> {
    Ok(cast(column(rows, name)?, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// A column of what is true or false.
pub fn flags(rows: &RecordBatch, name: &str) -> Result<BooleanArray, StageError> {
    Ok(cast(column(rows, name)?, &DataType::Boolean)?.as_boolean().clone())
}

/// A column of lists.
pub fn lists(rows: &RecordBatch, name: &str) -> Result<ListArray, StageError> {
    let lists = column(rows, name)?.as_list_opt().cloned();
    lists.ok_or_else(|| StageError::Task(format!("the column `{name}` is not a list")))
}

/// A column as it is.
pub fn column<'a>(rows: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, StageError> {
    let missing = || StageError::Task(format!("the rows have no column `{name}`"));
    rows.column_by_name(name).ok_or_else(missing)
}
