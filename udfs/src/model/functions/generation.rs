//! The result of the functions that write text.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, StringArray, StructArray,
    UInt64Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use proofmill_engine::request::{Body, Finish, Generation, Request, Strategy, TokenLogprob};

use super::token_logprobs::{token_logprobs_column, token_logprobs_type};
use crate::model::columns::{Answered, Row, answer_type, answers, field};
use crate::model::shape::Shape;

/// How the result is documented.
pub(super) const RETURNS: &str = "struct(text, finish_reason, prompt_tokens, prompt_truncated, \
    output_tokens, logprob, score, seed, sample, request_digest, error: struct(class, message)); a \
    list of such structs where `options` names `samples` or `num_return_sequences`; with \
    logprobs: list(struct(id, text, offset, logprob)) behind `sample` where it names `logprobs`";

pub(super) fn answer(shape: Shape) -> DataType {
    let logprobs = shape.logprobs.then(|| field("logprobs", token_logprobs_type()));
    let own = [
        field("text", DataType::Utf8),
        field("finish_reason", DataType::Utf8),
        field("prompt_tokens", DataType::Int64),
        field("prompt_truncated", DataType::Boolean),
        field("output_tokens", DataType::Int64),
        field("logprob", DataType::Float64),
        field("score", DataType::Float64),
        field("seed", DataType::UInt64),
        field("sample", DataType::Int64),
    ];
    answer_type(own.into_iter().chain(logprobs).collect())
}

pub(super) fn column(rows: &[Row], shape: Shape) -> Result<ArrayRef> {
    if !shape.list {
        return Ok(Arc::new(pieces(&rows.iter().map(|row| (row, 0)).collect::<Vec<_>>(), shape)?));
    }
    let mut all = Vec::with_capacity(rows.len());
    let lengths = rows.iter().map(|row| {
        // A failed row keeps its error in a list of one.
        let length = match row {
            Row::Null => 0,
            Row::Failed { .. } => 1,
            Row::Answered(answered) => generations(answered).len(),
        };
        all.extend((0..length).map(|sample| (row, sample)));
        length
    });
    let offsets = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
    let valid: NullBuffer = rows.iter().map(|row| !row.is_null()).collect::<Vec<bool>>().into();
    let item = Arc::new(Field::new_list_field(answer(shape), true));
    let pieces = Arc::new(pieces(&all, shape)?);
    Ok(Arc::new(ListArray::try_new(item, offsets, pieces, Some(valid))?))
}

/// Answers, each by its row and its number in it.
fn pieces(all: &[(&Row, usize)], shape: Shape) -> Result<StructArray> {
    let answered = || all.iter().map(|(row, sample)| Some((row.answered()?, *sample)));
    let of_row = |read: fn(&Answered) -> i64| -> ArrayRef {
        Arc::new(answered().map(|one| one.map(|(row, _)| read(row))).collect::<Int64Array>())
    };
    let said = || answered().map(|one| one.and_then(|(row, sample)| generations(row).get(sample)));
    let number = |read: fn(&Generation) -> Option<f64>| -> ArrayRef {
        Arc::new(said().map(|one| one.and_then(read)).collect::<Float64Array>())
    };
    let samples = answered().map(|one| one.map(|(_, sample)| sample as i64));
    let texts: StringArray = said().map(|one| one.map(|one| one.text.as_str())).collect();
    let finish: StringArray = said().map(|one| one.map(|one| finish_reason(one.finish))).collect();
    let truncated = answered().map(|one| one.map(|(row, _)| row.answer.prompt_truncated));
    let output = said().map(|one| one.map(|one| i64::from(one.output_tokens)));
    let seeds = answered().map(|one| one.and_then(|(row, _)| seed(&row.request)));
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(texts),
        Arc::new(finish),
        of_row(|row| row.answer.prompt_tokens.into()),
        Arc::new(truncated.collect::<BooleanArray>()),
        Arc::new(output.collect::<Int64Array>()),
        number(|one| one.logprob),
        number(|one| one.score),
        Arc::new(seeds.collect::<UInt64Array>()),
        Arc::new(samples.collect::<Int64Array>()),
    ];
    if shape.logprobs {
        columns.push(token_logprobs_column(said().map(|one| one.and_then(tokens)))?);
    }
    answers(answer(shape), columns, all.iter().map(|(row, _)| *row))
}

/// The tokens of an answer behind its forced prefix, and the characters of that.
fn tokens(generation: &Generation) -> Option<(&[TokenLogprob], usize)> {
    let tokens = generation.logprobs.as_deref()?;
    let own: usize = tokens.iter().map(|one| one.text.chars().count()).sum();
    Some((tokens, generation.text.chars().count().saturating_sub(own)))
}

fn generations(answered: &Answered) -> &[Generation] {
    match &answered.answer.body {
        Body::Generations(all) => all,
        Body::Scores(_) | Body::Vector(_) | Body::Vectors(_) | Body::Classes(_) => &[],
    }
}

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::End => "end",
        Finish::Stop => "stop",
        Finish::Length => "length",
    }
}

/// The seed, where one had an effect.
fn seed(request: &Request) -> Option<u64> {
    match request {
        Request::Generate(generate) => match generate.strategy {
            Strategy::Sample { seed, .. } => Some(seed),
            Strategy::Greedy | Strategy::Beam { .. } => None,
        },
        Request::Score(_) | Request::Embed(_) | Request::Hidden(_) | Request::Classify(_) => None,
    }
}
