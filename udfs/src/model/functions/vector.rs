//! The request and the result of the functions that turn a text into a vector.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float32Array, Int64Array, ListArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use proofmill_engine::request::{Body, Embed};

use crate::model::arguments::Arguments;
use crate::model::columns::{Answered, Row, answer_type, answers, field};
use crate::model::options::Options;

/// How the result is documented.
pub(super) const RETURNS: &str =
    "struct(vector, tokens, request_digest, error: struct(class, message))";

/// The text of a row.
pub(super) fn embed(arguments: &Arguments, row: usize, options: &Options) -> Option<Embed> {
    let text = arguments.text(0, row)?.to_owned();
    Some(Embed { text, truncate: options.embed.truncation() })
}

pub(super) fn answer() -> DataType {
    answer_type(vec![
        field("vector", DataType::List(item().into())),
        field("tokens", DataType::Int64),
    ])
}

fn item() -> Field {
    Field::new_list_field(DataType::Float32, true)
}

pub(super) fn column(rows: &[Row], _list: bool) -> Result<ArrayRef> {
    let vectors = || rows.iter().map(|row| row.answered().map(vector));
    let numbers = vectors().flatten().flatten().copied();
    let lengths = vectors().map(|vector| vector.map_or(0, <[f32]>::len));
    let offsets = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
    let valid: NullBuffer = vectors().map(|vector| vector.is_some()).collect::<Vec<_>>().into();
    let numbers: ArrayRef = Arc::new(Float32Array::from_iter_values(numbers));
    let tokens =
        rows.iter().map(|row| row.answered().map(|row| i64::from(row.answer.prompt_tokens)));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(ListArray::try_new(Arc::new(item()), offsets, numbers, Some(valid))?),
        Arc::new(tokens.collect::<Int64Array>()),
    ];
    Ok(Arc::new(answers(answer(), columns, rows.iter())?))
}

fn vector(answered: &Answered) -> &[f32] {
    match &answered.answer.body {
        Body::Vector(vector) => vector,
        Body::Generations(_) | Body::Scores(_) => &[],
    }
}
