//! The arguments of one call, read row by row.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeListArray, StringViewArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use proofmill_engine::request::{Message, Prompt};

use super::error::{Failure, OptionsError};
use super::options::{Options, Takes};
use super::settings::{OnError, Settings};
use crate::definition::{Doc, Kind, is_list_of, texts_type};

/// The arguments of one call.
pub struct Arguments {
    model: String,
    columns: Vec<(Column, bool)>,
    options: OptionsColumn,
}

/// A column of one argument between the model and the options.
enum Column {
    /// The constant NULL: an argument between others that is not given.
    Missing,
    Text(StringViewArray),
    Texts {
        lists: LargeListArray,
        texts: StringViewArray,
    },
    Titled {
        lists: LargeListArray,
        titles: StringViewArray,
        texts: StringViewArray,
    },
    Messages {
        lists: LargeListArray,
        roles: StringViewArray,
        contents: StringViewArray,
    },
}

/// Options that do not parse, and what is to happen to their row.
type Refused = (OnError, OptionsError);

enum OptionsColumn {
    Constant(Result<Arc<Options>, Refused>),
    /// The column, and which options the function has.
    PerRow(ArrayRef, Takes),
}

/// A passage of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage<'a> {
    /// Its title, where passages have one; NULL is the empty title.
    pub title: Option<&'a str>,
    pub text: &'a str,
}

impl Arguments {
    /// Reads the arguments of a call whose types were checked when it was planned; `takes` tells the options of
    /// the function `doc`.
    pub(super) fn read(doc: &Doc, takes: Takes, args: &ScalarFunctionArgs) -> Result<Self> {
        let mut model = None;
        let mut columns = Vec::with_capacity(args.args.len());
        let mut options = OptionsColumn::Constant(options(takes, &ScalarValue::Null));
        for (argument, value) in doc.arguments.iter().zip(&args.args) {
            let column = || match value {
                ColumnarValue::Array(array) => Ok((Arc::clone(array), false)),
                ColumnarValue::Scalar(scalar) => scalar.to_array_of_size(1).map(|a| (a, true)),
            };
            match (argument.kind, value) {
                (Kind::Model, ColumnarValue::Scalar(name)) => {
                    model = name.try_as_str().flatten().map(str::to_owned);
                }
                (Kind::Options, ColumnarValue::Scalar(scalar)) => {
                    options = OptionsColumn::Constant(self::options(takes, scalar));
                }
                (Kind::Options, ColumnarValue::Array(array)) => {
                    options = OptionsColumn::PerRow(Arc::clone(array), takes);
                }
                (Kind::Text, ColumnarValue::Scalar(ScalarValue::Null)) if argument.optional => {
                    columns.push((Column::Missing, true));
                }
                (Kind::Text | Kind::Prompt, _) => {
                    let (array, constant) = column()?;
                    if is_list_of(array.data_type(), ["role", "content"]) {
                        let (lists, roles, contents) = pairs(&array, ["role", "content"])?;
                        columns.push((Column::Messages { lists, roles, contents }, constant));
                        continue;
                    }
                    let texts = cast(&array, &DataType::Utf8View)?;
                    columns.push((Column::Text(texts.as_string_view().clone()), constant));
                }
                (Kind::TextList | Kind::Passages, _) => {
                    let (array, constant) = column()?;
                    columns.push((lists(&array)?, constant));
                }
                (kind, _) => {
                    return internal_err!("`{}` got {kind:?}", doc.name);
                }
            }
        }
        match model {
            Some(model) => Ok(Self { model, columns, options }),
            None => internal_err!("`{}` without the name of a model", doc.name),
        }
    }

    /// The model's name.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    pub(super) fn options(&self, row: usize) -> Result<Arc<Options>, Refused> {
        match &self.options {
            OptionsColumn::Constant(options) => options.clone(),
            OptionsColumn::PerRow(array, takes) => match ScalarValue::try_from_array(array, row) {
                Ok(scalar) => options(*takes, &scalar),
                Err(error) => Err((OnError::Fail, OptionsError::Json(error.strip_backtrace()))),
            },
        }
    }

    /// Whether there is an argument at `index`, the model not counted: neither left out nor the constant NULL.
    pub(super) fn is_given(&self, index: usize) -> bool {
        !matches!(self.columns.get(index), None | Some((Column::Missing, _)))
    }

    /// The text of a row in column `index`, the model not counted; `None` for NULL.
    pub(super) fn text(&self, index: usize, row: usize) -> Option<&str> {
        match self.columns.get(index)? {
            (Column::Text(texts), constant) => {
                let row = if *constant { 0 } else { row };
                texts.is_valid(row).then(|| texts.value(row))
            }
            _ => None,
        }
    }

    /// The prompt of a row in column `index`, the model not counted; `None` for NULL. Messages that are not
    /// whole are no request.
    pub(super) fn prompt(&self, index: usize, row: usize) -> Result<Option<Prompt>, Failure> {
        let Some((Column::Messages { lists, roles, contents }, constant)) = self.columns.get(index)
        else {
            return Ok(self.text(index, row).map(|text| Prompt::Text(text.to_owned())));
        };
        let row = if *constant { 0 } else { row };
        if lists.is_null(row) {
            return Ok(None);
        }
        let offsets = lists.value_offsets();
        let range = offsets[row] as usize..offsets[row + 1] as usize;
        if range.is_empty() {
            return Err(Failure::invalid("there are no messages; give at least one"));
        }
        let message = |(number, at): (usize, usize)| {
            if roles.is_null(at) || contents.is_null(at) {
                let problem = format!("message {number} has no role or no content");
                return Err(Failure::invalid(problem));
            }
            let (role, content) = (roles.value(at).to_owned(), contents.value(at).to_owned());
            Ok(Message { role, content })
        };
        (1..).zip(range).map(message).collect::<Result<_, _>>().map(|it| Some(Prompt::Messages(it)))
    }

    /// The passages, or texts without titles, of a row in column `index`, the model not counted;
    /// `None` for a NULL list, and in the list for a NULL in it.
    pub(super) fn passages(&self, index: usize, row: usize) -> Option<Vec<Option<Passage<'_>>>> {
        let (column, constant) = self.columns.get(index)?;
        let row = if *constant { 0 } else { row };
        let (lists, titles, texts) = match column {
            Column::Missing | Column::Text(_) | Column::Messages { .. } => return None,
            Column::Texts { lists, texts } => (lists, None, texts),
            Column::Titled { lists, titles, texts } => (lists, Some(titles), texts),
        };
        let offsets = lists.value_offsets();
        let range = offsets[row] as usize..offsets[row + 1] as usize;
        let passage = |at: usize| {
            let title = titles.map(|t| if t.is_valid(at) { t.value(at) } else { "" });
            texts.is_valid(at).then(|| Passage { title, text: texts.value(at) })
        };
        lists.is_valid(row).then(|| range.map(passage).collect())
    }
}

/// Parses the options of one row or of all, of a function that takes these.
pub(super) fn options(takes: Takes, scalar: &ScalarValue) -> Result<Arc<Options>, Refused> {
    let settings = Settings::from_scalar(scalar).map_err(|error| (OnError::Fail, error))?;
    let on_error = settings.on_error();
    takes.read(settings).map(Arc::new).map_err(|error| (on_error, error))
}

fn lists(array: &ArrayRef) -> Result<Column> {
    let element = match array.data_type() {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            field.data_type()
        }
        _ => &DataType::Null,
    };
    if !matches!(element, DataType::Struct(_)) {
        let lists = cast(array, &texts_type())?.as_list::<i64>().clone();
        let texts = lists.values().as_string_view().clone();
        return Ok(Column::Texts { lists, texts });
    }
    let (lists, titles, texts) = pairs(array, ["title", "text"])?;
    Ok(Column::Titled { lists, titles, texts })
}

/// The two texts of each struct of lists.
fn pairs(
    array: &ArrayRef,
    names: [&str; 2],
) -> Result<(LargeListArray, StringViewArray, StringViewArray)> {
    let element = match array.data_type() {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            field.data_type()
        }
        _ => &DataType::Null,
    };
    let item = Arc::new(Field::new_list_field(element.clone(), true));
    let lists = cast(array, &DataType::LargeList(item))?.as_list::<i64>().clone();
    let structs = lists.values().as_struct();
    let column = |name| {
        let Some(column) = structs.column_by_name(name) else {
            return internal_err!("structs without a `{name}`");
        };
        let texts = cast(column, &DataType::Utf8View)?.as_string_view().clone();
        // A struct that is NULL as a whole has no texts.
        let nulls = NullBuffer::union(texts.nulls(), structs.nulls());
        let (views, buffers, _) = texts.into_parts();
        Ok(StringViewArray::try_new(views, buffers, nulls)?)
    };
    let (first, second) = (column(names[0])?, column(names[1])?);
    Ok((lists, first, second))
}
