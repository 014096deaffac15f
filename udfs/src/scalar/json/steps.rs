//! The call of a function of `datafusion-functions-json` with arguments of ours.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, new_null_array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::{cast, nullif};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use datafusion_functions_json::udfs::json_get_json_udf;

use crate::definition::{Argument, Kind};
use crate::scalar::Inputs;

/// The first argument of all of them.
pub(super) const JSON: Argument =
    Argument::required("json", Kind::Text, "A text that is JSON; it is read as far as the value.");

const STEP: &str = "A key of an object, the position in an array from 0 (from its end if negative), or a list \
                    of such steps; more of them lead further in.";

/// The way to the value.
pub(super) const STEPS: Argument = Argument::repeated("step", Kind::Step, STEP);

/// The way to the value; the whole text without one.
pub(super) const STEPS_OR_NONE: Argument = Argument::any_number("step", Kind::Step, STEP);

/// Calls `function` for each row; NULL where an argument is.
pub(super) fn call(
    inputs: &Inputs,
    function: &ScalarUDF,
    return_type: &DataType,
) -> Result<ArrayRef> {
    let mut values = inputs.values()?;
    let mut nulls: Option<NullBuffer> = None;
    for value in &values {
        match value {
            ColumnarValue::Scalar(scalar) if scalar.is_null() => {
                return Ok(new_null_array(return_type, inputs.rows));
            }
            ColumnarValue::Scalar(_) => {}
            ColumnarValue::Array(array) => {
                nulls = NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref());
            }
        }
    }
    // It takes one step that varies from row to row, and no more beside it.
    let varies = |value: &ColumnarValue| matches!(value, ColumnarValue::Array(_));
    while values.len() > 2 && values[1..].iter().any(varies) {
        let rest = values.split_off(2);
        let inner = invoke(&json_get_json_udf(), values, inputs.rows)?;
        values = [ColumnarValue::Array(inner)].into_iter().chain(rest).collect();
    }
    let result = cast(&invoke(function, values, inputs.rows)?, return_type)?;
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => Ok(nullif(&result, &BooleanArray::new(!nulls.inner(), None))?),
        None => Ok(result),
    }
}

fn invoke(function: &ScalarUDF, args: Vec<ColumnarValue>, rows: usize) -> Result<ArrayRef> {
    let field = |kind: DataType| Arc::new(Field::new("value", kind, true));
    let kinds: Vec<DataType> = args.iter().map(ColumnarValue::data_type).collect();
    let return_field = field(function.return_type(&kinds)?);
    let result = function.invoke_with_args(ScalarFunctionArgs {
        args,
        arg_fields: kinds.into_iter().map(field).collect(),
        number_rows: rows,
        return_field,
        config_options: Arc::new(ConfigOptions::default()),
    })?;
    result.into_array(rows)
}
