//! A model function as data.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use proofmill_engine::request::Request;

use super::arguments::Arguments;
use super::columns::Row;
use super::error::Failure;
use super::options::{Options, Takes};
use super::shape::Shape;
use crate::definition::Doc;

/// A model function as data. Its first argument is the model, its last one the options.
#[derive(Debug)]
pub struct ModelDefinition {
    /// Name, arguments, documentation.
    pub doc: Doc,
    pub options: Takes,
    /// What a row asks; `None` for a row with a NULL that makes the result NULL.
    pub request: fn(&Arguments, usize, &Options) -> Result<Option<Request>, Failure>,
    pub answer: fn(Shape) -> DataType,
    /// The rows as a column of [`ModelDefinition::result`].
    pub column: fn(&[Row], Shape) -> Result<ArrayRef>,
}

impl ModelDefinition {
    /// Type of the result: a list of answers or one.
    pub fn result(&self, shape: Shape) -> DataType {
        let answer = (self.answer)(shape);
        match shape.list {
            true => DataType::List(Field::new_list_field(answer, true).into()),
            false => answer,
        }
    }
}
