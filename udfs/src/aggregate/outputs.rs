//! Results of aggregate functions: structs of numbers.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StructArray};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{Result, ScalarValue};

/// A part of a result.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// A number; NaN, an unknown one, becomes NULL.
    Number(f64),
    /// A number that may not exist.
    Maybe(Option<f64>),
    Count(u64),
}

impl Part {
    fn scalar(self) -> ScalarValue {
        match self {
            Self::Number(value) => number(value),
            Self::Maybe(value) => ScalarValue::Float64(value),
            Self::Count(n) => ScalarValue::Int64(i64::try_from(n).ok()),
        }
    }
}

/// A number; NaN, an unknown one, becomes NULL.
pub(super) fn number(value: f64) -> ScalarValue {
    ScalarValue::Float64((!value.is_nan()).then_some(value))
}

/// The type of a struct whose parts are numbers, except for the named counts.
pub(super) fn struct_type(names: &[&str], counts: &[&str]) -> DataType {
    let fields: Fields = names
        .iter()
        .map(|name| {
            let count = counts.contains(name);
            Field::new(*name, if count { DataType::Int64 } else { DataType::Float64 }, true)
        })
        .collect();
    DataType::Struct(fields)
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
