//! Results of scalar functions: columns of numbers and of structs of numbers.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, Float64Array, Float64Builder, LargeListBuilder, StructArray,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;

use super::Inputs;
use super::inputs::{TextColumn, TextsColumn};
use crate::stats::StatsError;
use crate::text::overlap::Prf;

/// Names of the parts of a precision-recall score.
pub(super) const PRF: [&str; 3] = ["precision", "recall", "f1"];

/// One optional number per row.
pub(super) fn numbers(
    inputs: &Inputs,
    mut value: impl FnMut(usize) -> Result<Option<f64>>,
) -> Result<ArrayRef> {
    let values: Float64Array = (0..inputs.rows).map(&mut value).collect::<Result<_>>()?;
    Ok(Arc::new(values))
}

/// One number per row from a text and its non-empty list of texts; NULL if either is missing.
pub(super) fn against_texts(
    inputs: &Inputs,
    mut score: impl FnMut(&str, &[&str]) -> Option<f64>,
) -> Result<ArrayRef> {
    let (left, right) = (inputs.text(0)?, inputs.texts(1)?);
    let mut texts = Vec::new();
    numbers(inputs, |row| {
        Ok(with_texts(&left, &right, row, &mut texts).and_then(|left| score(left, &texts)))
    })
}

/// Reads the texts of a row; the left text if neither side is missing.
pub(super) fn with_texts<'a>(
    left: &'a TextColumn,
    right: &'a TextsColumn,
    row: usize,
    texts: &mut Vec<&'a str>,
) -> Option<&'a str> {
    left.get(row).filter(|_| right.read(row, texts))
}

pub(super) fn struct_of_numbers(names: &[&str]) -> DataType {
    DataType::Struct(fields(names))
}

/// One struct of `N` numbers per row; a missing struct is NULL.
pub(super) fn structs<const N: usize>(
    inputs: &Inputs,
    names: [&str; N],
    mut value: impl FnMut(usize) -> Result<Option<[f64; N]>>,
) -> Result<ArrayRef> {
    let mut columns: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(inputs.rows));
    let mut valid = Vec::with_capacity(inputs.rows);
    for row in 0..inputs.rows {
        let values = value(row)?;
        valid.push(values.is_some());
        for (column, value) in columns.iter_mut().zip(values.unwrap_or([0.0; N])) {
            column.push(value);
        }
    }
    let nulls = NullBuffer::from(valid);
    let arrays = columns
        .into_iter()
        .map(|column| Arc::new(Float64Array::new(column.into(), Some(nulls.clone()))) as ArrayRef)
        .collect();
    Ok(Arc::new(StructArray::try_new(fields(&names), arrays, Some(nulls))?))
}

/// A list of adjusted p values per row.
pub(super) fn adjusted(
    inputs: &Inputs,
    adjust: fn(&[f64]) -> std::result::Result<Vec<f64>, StatsError>,
) -> Result<ArrayRef> {
    let p = inputs.numbers(0)?;
    let mut lists = LargeListBuilder::new(Float64Builder::new());
    for row in 0..inputs.rows {
        match p.get(row).map(adjust) {
            None => lists.append_null(),
            Some(Ok(adjusted)) => lists.append_value(adjusted.into_iter().map(Some)),
            Some(Err(error)) => return inputs.refuse(0, error),
        }
    }
    Ok(Arc::new(lists.finish()))
}

/// The type of a precision-recall score.
pub(super) fn prf_type() -> DataType {
    struct_of_numbers(&PRF)
}

/// The parts of a score in the order of [`PRF`].
pub(super) fn prf(score: Prf) -> [f64; 3] {
    [score.precision, score.recall, score.f1]
}

/// A struct column whose fields are structs of numbers.
pub(super) fn nested(names: &[&str], parts: Vec<ArrayRef>) -> Result<ArrayRef> {
    let nulls = parts.first().and_then(|part| part.nulls().cloned());
    let fields: Fields = names
        .iter()
        .zip(&parts)
        .map(|(name, part)| Field::new(*name, part.data_type().clone(), true))
        .collect();
    Ok(Arc::new(StructArray::try_new(fields, parts, nulls)?))
}

fn fields(names: &[&str]) -> Fields {
    names.iter().map(|name| Field::new(*name, DataType::Float64, true)).collect()
}
