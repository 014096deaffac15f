//! Rows of results as Arrow columns.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringArray, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result;
use proofmill_engine::request::{Answer, Request};

use super::error::Failure;
use super::options::Options;

/// What became of a row.
#[derive(Debug)]
pub enum Row {
    Null,
    /// It has no answer.
    Failed {
        /// Key of its request in hex, if it got that far.
        digest: Option<String>,
        failure: Failure,
    },
    Answered(Answered),
}

/// A row with an answer.
#[derive(Debug)]
pub struct Answered {
    /// Key of its request in hex.
    pub digest: String,
    pub options: Arc<Options>,
    pub request: Arc<Request>,
    pub answer: Arc<Answer>,
}

impl Row {
    /// Whether the result is NULL.
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The answer, if there is one.
    pub(super) fn answered(&self) -> Option<&Answered> {
        match self {
            Self::Answered(answered) => Some(answered),
            Self::Null | Self::Failed { .. } => None,
        }
    }

    fn digest(&self) -> Option<&str> {
        match self {
            Self::Null => None,
            Self::Failed { digest, .. } => digest.as_deref(),
            Self::Answered(answered) => Some(&answered.digest),
        }
    }

    fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed { failure, .. } => Some(failure),
            Self::Null | Self::Answered(_) => None,
        }
    }
}

/// The type of an answer: the function's own fields, then the request's digest and the error.
pub(super) fn answer_type(own: Vec<Field>) -> DataType {
    let evidence = [
        Field::new("request_digest", DataType::Utf8, true),
        Field::new("error", error_type(), true),
    ];
    DataType::Struct(own.into_iter().chain(evidence).collect())
}

/// A field that may be NULL.
pub(super) fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

/// A column of answers of type `answer_type`: the function's own columns and the evidence.
pub(super) fn answers<'a>(
    answer_type: DataType,
    mut own: Vec<ArrayRef>,
    rows: impl Iterator<Item = &'a Row> + Clone,
) -> Result<StructArray> {
    own.push(Arc::new(rows.clone().map(Row::digest).collect::<StringArray>()));
    own.push(errors(rows.clone().map(Row::failure))?);
    let valid: NullBuffer = rows.map(|row| !row.is_null()).collect::<Vec<bool>>().into();
    Ok(StructArray::try_new(fields_of(answer_type), own, Some(valid))?)
}

fn errors<'a>(failures: impl Iterator<Item = Option<&'a Failure>> + Clone) -> Result<ArrayRef> {
    let classes: StringArray = failures.clone().map(|f| f.map(|f| f.class.name())).collect();
    let messages: StringArray =
        failures.map(|failure| failure.map(|failure| failure.message.as_str())).collect();
    let nulls = classes.nulls().cloned();
    let columns: Vec<ArrayRef> = vec![Arc::new(classes), Arc::new(messages)];
    Ok(Arc::new(StructArray::try_new(fields_of(error_type()), columns, nulls)?))
}

fn error_type() -> DataType {
    let fields = ["class", "message"].map(|name| field(name, DataType::Utf8));
    DataType::Struct(fields.into_iter().collect())
}

/// The fields of a struct type.
pub(super) fn fields_of(data_type: DataType) -> Fields {
    match data_type {
        DataType::Struct(fields) => fields,
        _ => Fields::empty(),
    }
}
