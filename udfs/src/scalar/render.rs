//! `render`: a template with the fields of a struct in its slots.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, StringBuilder, StructArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use datafusion::common::{Result, exec_err};
use minijinja::value::Value;

use super::{Inputs, ScalarDefinition};
use crate::definition::{Argument, Doc, Example, FunctionKind, Kind, is_text};
use crate::text::template::{Template, TemplateError};

/// SQL function `render`.
pub static RENDER: ScalarDefinition = ScalarDefinition {
    doc: Doc {
        name: "render",
        version: 1,
        kind: FunctionKind::Scalar,
        description: "A Jinja template with the fields of a struct in its slots. Texts, numbers, booleans, lists and structs keep \
            their shape; other types are written as texts. A field that is NULL is undefined: `{% if x %}` is false and \
            `x | default('…')` gives the other value, but writing it out is an error. A line that has nothing but a block tag leaves \
            nothing behind, and one line end at the end of the template is not written. NULL if the template or the struct is NULL.",
        arguments: &[
            Argument::required("template", Kind::Text, "The template."),
            Argument::required("slots", Kind::Record, "The values by name."),
        ],
        returns: "text",
        example: Example {
            sql: "SELECT render('{% for t in texts %}{{ loop.index }}. {{ t }} {% endfor %}{{ end }}', {texts: ['a', 'b'], end: 3}) AS text",
            result: "
+-------------+
| text        |
+-------------+
| 1. a 2. b 3 |
+-------------+
",
        },
    },
    return_type: |_| DataType::Utf8,
    invoke,
};

fn invoke(inputs: &Inputs) -> Result<ArrayRef> {
    let (texts, records) = (inputs.text(0)?, inputs.record(1)?);
    let mut last: Option<(String, Template)> = None;
    let mut out = StringBuilder::new();
    for row in 0..inputs.rows {
        let Some((text, (record, at))) = texts.get(row).zip(records.get(row)) else {
            out.append_null();
            continue;
        };
        // Mostly all rows have one template.
        let template = match last.take() {
            Some((source, template)) if source == text => template,
            _ => Template::parse(text).or_else(refused)?,
        };
        out.append_value(template.render(fields(record, at)?).or_else(refused)?);
        last = Some((text.to_owned(), template));
    }
    Ok(Arc::new(out.finish()))
}

fn refused<T>(error: TemplateError) -> Result<T> {
    exec_err!("`render`: {error}")
}

/// The fields of a struct that are not NULL.
fn fields(record: &StructArray, row: usize) -> Result<BTreeMap<String, Value>> {
    let fields = record.fields().iter().zip(record.columns());
    let present = fields.filter(|(_, column)| !is_null(column, row));
    present.map(|(field, column)| Ok((field.name().clone(), value(column, row)?))).collect()
}

/// Of the type NULL no value is marked as one.
fn is_null(array: &ArrayRef, row: usize) -> bool {
    array.is_null(row) || *array.data_type() == DataType::Null
}

/// One value as Jinja sees it. NULL is undefined.
fn value(array: &ArrayRef, row: usize) -> Result<Value> {
    if is_null(array, row) {
        return Ok(Value::UNDEFINED);
    }
    let number = |kind: &DataType| cast(&array.slice(row, 1), kind);
    Ok(match array.data_type() {
        DataType::Boolean => Value::from(
            array.as_any().downcast_ref::<BooleanArray>().is_some_and(|it| it.value(row)),
        ),
        DataType::UInt64 => Value::from(array.as_primitive::<UInt64Type>().value(row)),
        kind if kind.is_integer() => {
            Value::from(number(&DataType::Int64)?.as_primitive::<Int64Type>().value(0))
        }
        kind if kind.is_floating() => {
            Value::from(number(&DataType::Float64)?.as_primitive::<Float64Type>().value(0))
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row))?,
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row))?,
        DataType::Struct(_) => Value::from(fields(array.as_struct(), row)?),
        kind if is_text(kind) || kind.is_primitive() => {
            Value::from(number(&DataType::Utf8)?.as_string::<i32>().value(0))
        }
        kind => {
            return exec_err!(
                "`render`: a value of type {kind} cannot stand in a slot; cast it to text"
            );
        }
    })
}

fn list(items: &ArrayRef) -> Result<Value> {
    let values = (0..items.len()).map(|row| value(items, row));
    Ok(Value::from(values.collect::<Result<Vec<_>>>()?))
}
