//! Arrow values of an options argument as JSON values.

use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use serde_json::{Number, Value};

use super::error::OptionsError;
use super::settings::Settings;

impl Settings {
    /// The pairs of an options argument: a JSON object as text, or a struct. NULL has none.
    pub(super) fn from_scalar(scalar: &ScalarValue) -> Result<Self, OptionsError> {
        if scalar.is_null() {
            return Ok(Self::default());
        }
        if let Some(Some(text)) = scalar.try_as_str() {
            return Self::from_json(text);
        }
        match json(scalar) {
            Some(Value::Object(pairs)) => Self::from_pairs(pairs),
            Some(other) => Err(OptionsError::Json(format!("it is {other}"))),
            None => Err(OptionsError::Json(format!("a value of type {}", scalar.data_type()))),
        }
    }
}

/// A value as JSON; `None` for types that no option has.
fn json(scalar: &ScalarValue) -> Option<Value> {
    use ScalarValue as S;
    if scalar.is_null() {
        return Some(Value::Null);
    }
    if let Some(text) = scalar.try_as_str() {
        return text.map(Value::from);
    }
    match scalar {
        S::Boolean(value) => value.map(Value::from),
        S::Int8(value) => value.map(Value::from),
        S::Int16(value) => value.map(Value::from),
        S::Int32(value) => value.map(Value::from),
        S::Int64(value) => value.map(Value::from),
        S::UInt8(value) => value.map(Value::from),
        S::UInt16(value) => value.map(Value::from),
        S::UInt32(value) => value.map(Value::from),
        S::UInt64(value) => value.map(Value::from),
        S::Float32(value) => Number::from_f64(f64::from((*value)?)).map(Value::from),
        S::Float64(value) => Number::from_f64((*value)?).map(Value::from),
        // Written as it is shown: `0.70` is 0.7.
        S::Decimal32(..) | S::Decimal64(..) | S::Decimal128(..) => {
            Number::from_f64(decimal(scalar)?).map(Value::from)
        }
        S::List(list) => elements(&list.value(0)),
        S::LargeList(list) => elements(&list.value(0)),
        S::FixedSizeList(list) => elements(&list.value(0)),
        S::Struct(fields) => {
            let pairs = fields.column_names().into_iter().zip(fields.columns());
            let pairs = pairs.map(|(name, column)| {
                Some((name.to_owned(), json(&ScalarValue::try_from_array(column, 0).ok()?)?))
            });
            pairs.collect::<Option<_>>().map(Value::Object)
        }
        S::Dictionary(_, value) => json(value),
        _ => None,
    }
}

fn decimal(scalar: &ScalarValue) -> Option<f64> {
    match scalar.cast_to(&DataType::Float64).ok()? {
        ScalarValue::Float64(value) => value,
        _ => None,
    }
}

fn elements(array: &dyn Array) -> Option<Value> {
    let element = |row| json(&ScalarValue::try_from_array(array, row).ok()?);
    (0..array.len()).map(element).collect::<Option<Vec<_>>>().map(Value::Array)
}
