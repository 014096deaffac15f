//! The request and the result of the functions that turn a text into vectors.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float32Array, Int64Array, ListArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use proofmill_engine::request::Body;

use crate::model::columns::{Answered, Row, answer_type, answers, field};
use crate::model::shape::Shape;

/// How the result is documented.
pub(super) const RETURNS: &str =
    "struct(vector, tokens, request_digest, error: struct(class, message))";

pub(super) fn answer(shape: Shape) -> DataType {
    let vectors = match shape.all_tokens {
        true => field("vectors", DataType::List(items().into())),
        false => field("vector", DataType::List(item().into())),
    };
    answer_type(vec![vectors, field("tokens", DataType::Int64)])
}

fn item() -> Field {
    Field::new_list_field(DataType::Float32, true)
}

fn items() -> Field {
    Field::new_list_field(DataType::List(item().into()), true)
}

pub(super) fn column(rows: &[Row], shape: Shape) -> Result<ArrayRef> {
    let vectors = || rows.iter().map(|row| row.answered().map(vectors));
    let each = || vectors().flatten().flatten();
    let lengths = OffsetBuffer::from_lengths(each().map(Vec::len).collect::<Vec<_>>());
    let numbers: ArrayRef = Arc::new(Float32Array::from_iter_values(each().flatten().copied()));
    let list: ArrayRef = if shape.all_tokens {
        let each = ListArray::try_new(Arc::new(item()), lengths, numbers, None)?;
        let counts = vectors().map(|all| all.map_or(0, <[_]>::len)).collect::<Vec<_>>();
        let counts = OffsetBuffer::from_lengths(counts);
        Arc::new(ListArray::try_new(items().into(), counts, Arc::new(each), valid(rows))?)
    } else {
        let lengths = vectors().map(|all| all.and_then(<[_]>::first).map_or(0, Vec::len));
        let lengths = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
        Arc::new(ListArray::try_new(Arc::new(item()), lengths, numbers, valid(rows))?)
    };
    let tokens =
        rows.iter().map(|row| row.answered().map(|row| i64::from(row.answer.prompt_tokens)));
    let columns: Vec<ArrayRef> = vec![list, Arc::new(tokens.collect::<Int64Array>())];
    Ok(Arc::new(answers(answer(shape), columns, rows.iter())?))
}

/// Which rows have vectors.
fn valid(rows: &[Row]) -> Option<NullBuffer> {
    Some(rows.iter().map(|row| row.answered().is_some()).collect::<Vec<_>>().into())
}

fn vectors(answered: &Answered) -> &[Vec<f32>] {
    match &answered.answer.body {
        Body::Vector(vector) => std::slice::from_ref(vector),
        Body::Vectors(all) => all,
        Body::Generations(_) | Body::Scores(_) | Body::Classes(_) => &[],
    }
}
