//! Rows of a segment as Arrow columns, there and back.

use std::sync::Arc;

use arrow::array::{
    Array as _, AsArray as _, FixedSizeBinaryBuilder, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;
use chrono::DateTime;

use proofmill_base::digest::Digest;
use crate::entry::{Answer, Origin, Row};

/// Columns before the requests: all that a look-up reads.
pub(crate) const ANSWER_COLUMNS: usize = 7;
/// The name of the first column, by which segments are sorted.
pub(crate) const KEY_COLUMN: &str = "request_digest";
/// Columns whose texts are long and seldom repeat.
pub(crate) const LONG_COLUMNS: [&str; 2] = ["answer", "request"];

/// The columns of a segment. The requests are last, so that a look-up need not read them.
pub(crate) fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new(KEY_COLUMN, DataType::FixedSizeBinary(32), false),
        text("model"),
        text("kind"),
        text("answer"),
        text("run"),
        text("writer"),
        Field::new("created_at", utc, false),
        text("request"),
    ]))
}

/// The rows as columns.
pub(crate) fn to_batch(rows: &[Arc<Row>]) -> Result<RecordBatch, ArrowError> {
    let mut keys = FixedSizeBinaryBuilder::with_capacity(rows.len(), 32);
    for row in rows {
        keys.append_value(row.key().as_bytes())?;
    }
    let texts = |text: fn(&Row) -> &str| {
        Arc::new(rows.iter().map(|row| Some(text(row))).collect::<StringArray>())
    };
    let times = rows.iter().map(|row| row.answer.created_at.timestamp_micros());
    let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(keys.finish()),
            texts(|row| &row.answer.origin.model),
            texts(|row| &row.answer.origin.kind),
            texts(|row| &row.answer.answer),
            texts(|row| row.answer.origin.run.as_str()),
            texts(|row| &row.answer.writer),
            Arc::new(times),
            texts(|row| &row.request),
        ],
    )
}

/// The keys of a batch, in order, or why it has none.
pub(crate) fn keys_of(batch: &RecordBatch) -> Result<Vec<Digest>, String> {
    let column = batch.columns().first().and_then(|column| column.as_fixed_size_binary_opt());
    let keys = column.ok_or("its first column holds no keys")?;
    let key = |bytes: Option<&[u8]>| bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let keys: Option<Vec<Digest>> = keys.iter().map(|bytes| key(bytes).map(Digest::from)).collect();
    keys.ok_or_else(|| "one of its keys is not 32 bytes long".to_owned())
}

/// The column of models, or why there is none.
pub(crate) fn model_column(batch: &RecordBatch) -> Result<&StringArray, String> {
    text_column(batch, 1)
}

/// A column of texts, none of them NULL, or why it is none.
pub(crate) fn text_column(batch: &RecordBatch, at: usize) -> Result<&StringArray, String> {
    let column = batch.columns().get(at).and_then(|column| column.as_string_opt::<i32>());
    column
        .filter(|column| column.null_count() == 0)
        .ok_or_else(|| format!("its column {at} is not text"))
}

/// The answers in a batch of the first [`ANSWER_COLUMNS`] columns, or why they are none.
pub(crate) fn answers_of(batch: &RecordBatch) -> Result<Vec<Answer>, String> {
    let keys = keys_of(batch)?;
    let text = |at: usize| text_column(batch, at);
    let (models, kinds, answers, runs, writers) =
        (text(1)?, text(2)?, text(3)?, text(4)?, text(5)?);
    let times = time_column(batch)?;
    let (mut model, mut kind, mut writer) = <(Arc<str>, Arc<str>, Arc<str>)>::default();
    let answer = |(row, key): (usize, Digest)| -> Result<Answer, String> {
        let run = runs.value(row).parse().map_err(|error| format!("{error}"))?;
        let created_at = DateTime::from_timestamp_micros(times.value(row));
        Ok(Answer {
            key,
            answer: answers.value(row).into(),
            origin: Origin {
                model: shared(&mut model, models.value(row)),
                kind: shared(&mut kind, kinds.value(row)),
                run,
            },
            writer: shared(&mut writer, writers.value(row)),
            created_at: created_at.ok_or("one of its times is out of range")?,
        })
    };
    keys.into_iter().enumerate().map(answer).collect()
}

/// The column of times, or why there is none.
pub(crate) fn time_column(batch: &RecordBatch) -> Result<&TimestampMicrosecondArray, String> {
    let times = batch.columns().get(6);
    let times = times.and_then(|column| column.as_primitive_opt::<TimestampMicrosecondType>());
    times.ok_or_else(|| "its column 6 is not a time".to_owned())
}

/// `text`, sharing the memory of the text before it when they are equal.
fn shared(last: &mut Arc<str>, text: &str) -> Arc<str> {
    if last.as_ref() != text {
        *last = text.into();
    }
    last.clone()
}
