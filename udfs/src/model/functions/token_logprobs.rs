//! Columns of tokens with their log-probabilities.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Float32Array, Int64Array, ListArray, StringArray, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use proofmill_engine::request::TokenLogprob;

use crate::model::columns::{field, fields_of};

/// The type of such a column.
pub(super) fn token_logprobs_type() -> DataType {
    DataType::List(item().into())
}

fn item() -> Field {
    let fields = [
        field("id", DataType::Int64),
        field("text", DataType::Utf8),
        field("offset", DataType::Int64),
        field("logprob", DataType::Float32),
    ];
    Field::new_list_field(DataType::Struct(fields.into_iter().collect()), true)
}

/// A list for each row, NULL where there are no tokens; beside the tokens, how many characters
/// stand before the first.
pub(super) fn token_logprobs_column<'a>(
    rows: impl Iterator<Item = Option<(&'a [TokenLogprob], usize)>> + Clone,
) -> Result<ArrayRef> {
    let lengths = rows.clone().map(|row| row.map_or(0, |(tokens, _)| tokens.len()));
    let lengths = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
    let valid: NullBuffer = rows.clone().map(|row| row.is_some()).collect::<Vec<_>>().into();
    let all = || rows.clone().flatten().flat_map(|(tokens, _)| tokens);
    let offsets = rows.clone().flatten().flat_map(|(tokens, before)| {
        tokens.iter().scan(before, |next, one| {
            let offset = *next;
            *next += one.text.chars().count();
            Some(offset as i64)
        })
    });
    let columns: Vec<ArrayRef> = vec![
        Arc::new(all().map(|one| i64::from(one.id)).collect::<Int64Array>()),
        Arc::new(all().map(|one| Some(one.text.as_str())).collect::<StringArray>()),
        Arc::new(offsets.collect::<Int64Array>()),
        Arc::new(all().map(|one| one.logprob).collect::<Float32Array>()),
    ];
    let item = item();
    let structs = StructArray::try_new(fields_of(item.data_type().clone()), columns, None)?;
    Ok(Arc::new(ListArray::try_new(item.into(), lengths, Arc::new(structs), Some(valid))?))
}
