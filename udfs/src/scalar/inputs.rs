//! The arguments of one call, read row by row.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, LargeListArray, StringViewArray,
    StructArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use crate::definition::{Doc, numbers_type, texts_type, vectors_type};

/// The arguments of one call.
pub struct Inputs {
    doc: &'static Doc,
    /// Number of rows to compute: 1 if every argument is a constant.
    pub rows: usize,
    /// Columns; a constant has one row.
    columns: Vec<(ArrayRef, bool)>,
}

impl Inputs {
    /// Reads the arguments; `None` if a constant argument is NULL, which makes every row NULL.
    pub fn new(doc: &'static Doc, args: &ScalarFunctionArgs) -> Result<Option<Self>> {
        let mut columns = Vec::with_capacity(args.args.len());
        let mut rows = 1;
        let last = doc.arguments.last().filter(|argument| argument.repeated);
        let arguments = doc.arguments.iter().chain(last.into_iter().cycle());
        for (argument, value) in arguments.zip(&args.args) {
            match value {
                ColumnarValue::Scalar(scalar) => {
                    if scalar.is_null() && argument.kind.is_constant() {
                        return Ok(None);
                    }
                    columns.push((scalar.to_array_of_size(1)?, true));
                }
                ColumnarValue::Array(_) if argument.kind.is_constant() => {
                    return exec_err!(
                        "`{}`: argument `{}` varies from row to row; expected {}",
                        doc.name,
                        argument.name,
                        argument.kind.expected()
                    );
                }
                ColumnarValue::Array(array) => {
                    rows = args.number_rows;
                    columns.push((array.clone(), false));
                }
            }
        }
        Ok(Some(Self { doc, rows, columns }))
    }

    /// Whether an optional argument was given.
    pub fn has(&self, index: usize) -> bool {
        index < self.columns.len()
    }

    /// The types of the arguments.
    pub fn types(&self) -> Vec<DataType> {
        self.columns.iter().map(|(array, _)| array.data_type().clone()).collect()
    }

    /// A text argument.
    pub fn text(&self, index: usize) -> Result<TextColumn> {
        let (array, constant) = self.column(index, &DataType::Utf8View)?;
        Ok(TextColumn { array: array.as_string_view().clone(), constant })
    }

    /// A text-or-list argument.
    pub fn texts(&self, index: usize) -> Result<TextsColumn> {
        let is_list = match self.columns.get(index) {
            Some((array, _)) => array.data_type().is_list(),
            None => false,
        };
        if !is_list {
            return Ok(TextsColumn::Single(self.text(index)?));
        }
        let (array, constant) = self.column(index, &texts_type())?;
        let lists = array.as_list::<i64>().clone();
        let texts = lists.values().as_string_view().clone();
        Ok(TextsColumn::List { lists, texts, constant })
    }

    /// A list-of-numbers argument.
    pub fn numbers(&self, index: usize) -> Result<NumbersColumn> {
        let (array, constant) = self.column(index, &numbers_type())?;
        let lists = array.as_list::<i64>().clone();
        let numbers = lists.values().as_primitive::<Float64Type>().clone();
        Ok(NumbersColumn { lists, numbers, constant })
    }

    /// An argument of the kind [`Record`](crate::definition::Kind::Record).
    pub fn record(&self, index: usize) -> Result<RecordColumn> {
        match self.columns.get(index) {
            Some((array, constant)) => {
                Ok(RecordColumn { array: array.as_struct_opt().cloned(), constant: *constant })
            }
            None => internal_err!("`{}` has no argument {index}", self.doc.name),
        }
    }

    /// A list-of-vectors argument.
    pub fn vectors(&self, index: usize) -> Result<VectorsColumn> {
        let (array, constant) = self.column(index, &vectors_type())?;
        Ok(VectorsColumn { lists: array.as_list::<i64>().clone(), constant })
    }

    /// A number argument.
    pub fn number(&self, index: usize) -> Result<NumberColumn> {
        let (array, constant) = self.column(index, &DataType::Float64)?;
        Ok(NumberColumn { array: array.as_primitive::<Float64Type>().clone(), constant })
    }

    /// A whole-number argument.
    pub fn whole(&self, index: usize) -> Result<WholeColumn> {
        let (array, constant) = self.column(index, &DataType::Int64)?;
        Ok(WholeColumn { array: array.as_primitive::<Int64Type>().clone(), constant })
    }

    /// A constant text, parsed; `None` if it was left out.
    pub fn choice<T, E: std::fmt::Display>(
        &self,
        index: usize,
        parse: impl Fn(&str) -> std::result::Result<T, E>,
    ) -> Result<Option<T>> {
        let Some(value) = self.constant(index)? else {
            return Ok(None);
        };
        let name = value.try_as_str().flatten().unwrap_or_default();
        parse(name).map(Some).or_else(|error| self.refuse(index, error))
    }

    /// A constant truth value; `default` if it was left out.
    pub fn switch(&self, index: usize, default: bool) -> Result<bool> {
        match self.constant(index)? {
            None => Ok(default),
            Some(ScalarValue::Boolean(Some(value))) => Ok(value),
            Some(other) => internal_err!("`{}` got {other} for a boolean", self.doc.name),
        }
    }

    /// A constant number; `None` if it was left out.
    pub fn constant_number(&self, index: usize) -> Result<Option<f64>> {
        match self.constant(index)? {
            None => Ok(None),
            Some(ScalarValue::Float64(value)) => Ok(value),
            Some(other) => internal_err!("`{}` got {other} for a number", self.doc.name),
        }
    }

    /// A constant whole number of a range; `default` if it was left out.
    pub fn constant_whole(&self, index: usize, default: i64, max: i64) -> Result<usize> {
        let value = match self.constant(index)? {
            None => default,
            Some(ScalarValue::Int64(Some(value))) => value,
            Some(other) => return internal_err!("`{}` got {other} for a number", self.doc.name),
        };
        match usize::try_from(value) {
            Ok(fitting) if value <= max => Ok(fitting),
            _ => self.refuse(index, format!("`{value}`; expected a whole number from 0 to {max}")),
        }
    }

    /// A whole number of an argument as a count; refused below 0.
    pub fn count(&self, index: usize, value: i64) -> Result<u64> {
        u64::try_from(value)
            .or_else(|_| self.refuse(index, format!("`{value}`; expected a count of 0 or more")))
    }

    /// The error that an argument has a value it may not have.
    pub fn refuse<T>(&self, index: usize, problem: impl std::fmt::Display) -> Result<T> {
        let argument = self.doc.arguments.get(index).map_or("?", |argument| argument.name);
        exec_err!("`{}`: argument `{argument}`: {problem}", self.doc.name)
    }

    fn constant(&self, index: usize) -> Result<Option<ScalarValue>> {
        match self.columns.get(index) {
            None => Ok(None),
            Some((array, _)) => ScalarValue::try_from_array(array, 0).map(Some),
        }
    }

    fn column(&self, index: usize, data_type: &DataType) -> Result<(ArrayRef, bool)> {
        let Some((array, constant)) = self.columns.get(index) else {
            return internal_err!("`{}` has no argument {index}", self.doc.name);
        };
        Ok((cast(array, data_type)?, *constant))
    }
}

/// The row to read: a constant has only one.
fn row_of(row: usize, constant: bool) -> usize {
    if constant { 0 } else { row }
}

/// A column of structs; none where all are NULL.
pub struct RecordColumn {
    array: Option<StructArray>,
    constant: bool,
}

impl RecordColumn {
    /// The column and the row to read of it; `None` for NULL.
    pub fn get(&self, row: usize) -> Option<(&StructArray, usize)> {
        let (array, row) = (self.array.as_ref()?, row_of(row, self.constant));
        array.is_valid(row).then_some((array, row))
    }
}

/// A column of lists of vectors.
pub struct VectorsColumn {
    lists: LargeListArray,
    constant: bool,
}

impl VectorsColumn {
    /// The vectors of a row; `None` if the list, a vector or a number is NULL.
    pub fn get(&self, row: usize) -> Option<Vec<Vec<f64>>> {
        let row = row_of(row, self.constant);
        let vectors = self.lists.is_valid(row).then(|| self.lists.value(row))?;
        let vector = |numbers: Option<ArrayRef>| {
            let numbers = numbers?;
            let numbers = numbers.as_primitive::<Float64Type>();
            (numbers.null_count() == 0).then(|| numbers.values().to_vec())
        };
        vectors.as_list::<i64>().iter().map(vector).collect()
    }
}

pub struct TextColumn {
    array: StringViewArray,
    constant: bool,
}

impl TextColumn {
    /// The text of a row; `None` for NULL.
    pub fn get(&self, row: usize) -> Option<&str> {
        let row = row_of(row, self.constant);
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

/// A column of texts or lists of texts.
pub enum TextsColumn {
    /// One text per row.
    Single(TextColumn),
    /// A list of texts per row.
    List {
        lists: LargeListArray,
        texts: StringViewArray,
        /// Whether there is one row for all.
        constant: bool,
    },
}

impl TextsColumn {
    /// Reads the texts of a row into `texts`, leaving out NULL elements; whether there is any.
    pub fn read<'a>(&'a self, row: usize, texts: &mut Vec<&'a str>) -> bool {
        texts.clear();
        match self {
            Self::Single(column) => texts.extend(column.get(row)),
            Self::List { lists, texts: elements, constant } => {
                let row = row_of(row, *constant);
                if lists.is_valid(row) {
                    let offsets = lists.value_offsets();
                    let range = offsets[row] as usize..offsets[row + 1] as usize;
                    texts
                        .extend(range.filter(|i| elements.is_valid(*i)).map(|i| elements.value(i)));
                }
            }
        }
        !texts.is_empty()
    }

    /// Whether the row is NULL, as opposed to an empty list.
    pub fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Single(column) => column.get(row).is_none(),
            Self::List { lists, constant, .. } => lists.is_null(row_of(row, *constant)),
        }
    }
}

/// A column of lists of numbers.
pub struct NumbersColumn {
    lists: LargeListArray,
    numbers: Float64Array,
    constant: bool,
}

impl NumbersColumn {
    /// The numbers of a row; `None` for NULL or a list with a NULL.
    pub fn get(&self, row: usize) -> Option<&[f64]> {
        let row = row_of(row, self.constant);
        if self.lists.is_null(row) {
            return None;
        }
        let offsets = self.lists.value_offsets();
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        let complete = self.numbers.null_count() == 0
            || (start..end).all(|index| self.numbers.is_valid(index));
        complete.then(|| &self.numbers.values()[start..end])
    }
}

impl NumbersColumn {
    /// The numbers of a row, `None` for each that is NULL; `None` for a NULL list.
    pub fn elements(&self, row: usize) -> Option<Vec<Option<f64>>> {
        let row = row_of(row, self.constant);
        if self.lists.is_null(row) {
            return None;
        }
        let offsets = self.lists.value_offsets();
        let range = offsets[row] as usize..offsets[row + 1] as usize;
        let element = |at| self.numbers.is_valid(at).then(|| self.numbers.value(at));
        Some(range.map(element).collect())
    }
}

pub struct NumberColumn {
    array: Float64Array,
    constant: bool,
}

impl NumberColumn {
    /// The number of a row; `None` for NULL.
    pub fn get(&self, row: usize) -> Option<f64> {
        let row = row_of(row, self.constant);
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}

/// A column of whole numbers.
pub struct WholeColumn {
    array: Int64Array,
    constant: bool,
}

impl WholeColumn {
    /// The number of a row; `None` for NULL.
    pub fn get(&self, row: usize) -> Option<i64> {
        let row = row_of(row, self.constant);
        self.array.is_valid(row).then(|| self.array.value(row))
    }
}
