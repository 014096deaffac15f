//! Results of aggregate functions: structs of numbers, and lists of structs.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListArray, StructArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, ScalarValue};

/// A part of a result.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Text(String),
    /// A list that is there already.
    List(ScalarValue),
    /// A number; NaN, an unknown one, becomes NULL.
    Number(f64),
    /// A number that may not exist.
    Maybe(Option<f64>),
    Count(u64),
}

impl Part {
    fn scalar(&self) -> ScalarValue {
        match self {
            Self::Text(text) => ScalarValue::Utf8(Some(text.clone())),
            Self::List(list) => list.clone(),
            Self::Number(value) => number(*value),
            Self::Maybe(value) => ScalarValue::Float64(*value),
            Self::Count(n) => ScalarValue::Int64(i64::try_from(*n).ok()),
        }
    }
}

/// A number; NaN, an unknown one, becomes NULL.
pub(super) fn number(value: f64) -> ScalarValue {
    ScalarValue::Float64((!value.is_nan()).then_some(value))
}

/// The type of a struct whose parts are numbers, except for the named counts.
pub(super) fn struct_type(names: &[&str], counts: &[&str]) -> DataType {
    DataType::Struct(fields(names, &[], counts))
}

/// The type of a list of structs whose parts are numbers, except for the named texts and counts.
pub(super) fn list_type(names: &[&str], texts: &[&str], counts: &[&str]) -> DataType {
    let item = DataType::Struct(fields(names, texts, counts));
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

fn fields(names: &[&str], texts: &[&str], counts: &[&str]) -> Fields {
    let kind = |name| match (texts.contains(name), counts.contains(name)) {
        (true, _) => DataType::Utf8,
        (_, true) => DataType::Int64,
        _ => DataType::Float64,
    };
    names.iter().map(|name| Field::new(*name, kind(name), true)).collect()
}

/// A list of the given type with a struct for each row; NULL without rows.
pub(super) fn list_of(data_type: &DataType, rows: &[Vec<Part>]) -> Result<ScalarValue> {
    let DataType::List(item) = data_type else {
        return datafusion::common::internal_err!("expected a list, got {data_type}");
    };
    let DataType::Struct(fields) = item.data_type() else {
        return datafusion::common::internal_err!("expected a list of structs, got {data_type}");
    };
    if rows.is_empty() {
        return ScalarValue::try_from(data_type);
    }
    let column = |i: usize| ScalarValue::iter_to_array(rows.iter().map(|parts| parts[i].scalar()));
    let columns: Vec<ArrayRef> = (0..fields.len()).map(column).collect::<Result<_>>()?;
    let structs = Arc::new(StructArray::try_new(fields.clone(), columns, None)?);
    let offsets = OffsetBuffer::from_lengths([rows.len()]);
    let list = ListArray::try_new(Arc::clone(item), offsets, structs, None)?;
    Ok(ScalarValue::List(Arc::new(list)))
}

/// A struct of the given type.
pub(super) fn struct_of(data_type: &DataType, parts: &[Part]) -> Result<ScalarValue> {
    let DataType::Struct(fields) = data_type else {
        return datafusion::common::internal_err!("expected a struct, got {data_type}");
    };
    let arrays: Vec<ArrayRef> =
        parts.iter().map(|part| part.scalar().to_array()).collect::<Result<_>>()?;
    Ok(ScalarValue::Struct(Arc::new(StructArray::try_new(fields.clone(), arrays, None)?)))
}
