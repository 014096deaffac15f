//! The columns of Parquet files: which are taken, and as what types.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray, make_array};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{CastOptions, can_cast_types, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::columns::with_row_id;
use crate::error::FilesError;
use crate::error_rows::{ErrorClass, Fault};
use crate::field_path::{FieldPath, Step};
use crate::json::float_of;
use crate::kind::Kind;
use crate::limits::COLUMNS_MAX;
use crate::row_id::no_row_id;
use crate::settings::{Options, ROW_ID, Wanted, check_name};
use proofmill_base::suggest;
use proofmill_pipeline::kinds::read::ColumnType;

/// The columns taken from Parquet files.
#[derive(Clone, Debug)]
pub struct ParquetPlan {
    columns: Vec<Column>,
    /// Top-level columns that are read.
    heads: Vec<String>,
    /// The column with the identity of the rows, if the files have one.
    row_id: Option<usize>,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    head: usize,
    path: FieldPath,
    data_type: DataType,
}

/// The columns of a batch.
pub struct Columns {
    /// One array per column.
    pub arrays: Vec<ArrayRef>,
    /// Values that could not be turned into the type of their column.
    pub mismatches: Vec<ColumnMismatch>,
}

/// A value that could not be turned into the type of its column.
pub struct ColumnMismatch {
    /// Row of the batch.
    pub row: usize,
    pub value: String,
    /// The fault of the row.
    pub fault: Fault,
}

impl ParquetPlan {
    /// The plan for files with these columns, the first of which is `path`.
    pub fn new(path: &str, schema: &Schema, options: &Options) -> Result<Self, FilesError> {
        let all = || {
            schema.fields().iter().map(|field| {
                let name = field.name().clone();
                Wanted { path: name.clone(), name, declared: None }
            })
        };
        let set = options.columns.is_some();
        let wanted = options.columns.clone().unwrap_or_else(|| all().collect());
        if wanted.len() > COLUMNS_MAX {
            return Err(FilesError::TooManyColumns);
        }
        let row_id = wanted.iter().position(|wanted| wanted.name == ROW_ID);
        let mut plan = Self { columns: Vec::new(), heads: Vec::new(), row_id };
        for wanted in &wanted {
            check_name(&wanted.name, set)?;
            // An identity is a text, whatever it looks like.
            let declared = match wanted.name.as_str() {
                ROW_ID => Some(ColumnType::String),
                _ => wanted.declared,
            };
            plan.add(schema, &Wanted { declared, ..wanted.clone() })?;
            if let Some(column) = plan.columns.last().and_then(|column| repeated(schema, column)) {
                return Err(FilesError::Repeated { path: path.to_owned(), column, set });
            }
        }
        Ok(plan)
    }

    /// The schema of the table.
    pub fn schema(&self) -> SchemaRef {
        with_row_id(
            self.columns
                .iter()
                .filter(|column| column.name != ROW_ID)
                .map(|column| Field::new(&column.name, column.data_type.clone(), true)),
        )
    }

    /// The position of the column with the identity of the rows; `None` if that is their place in the file.
    pub fn row_id(&self) -> Option<usize> {
        self.row_id
    }

    /// Names of the top-level columns that are read.
    pub fn heads(&self) -> &[String] {
        &self.heads
    }

    /// The columns of the table from a batch of a file.
    pub fn take(&self, batch: &RecordBatch) -> Result<Columns, ArrowError> {
        let mut columns = Columns { arrays: Vec::new(), mismatches: Vec::new() };
        for column in &self.columns {
            let head = batch.column_by_name(&self.heads[column.head]).ok_or_else(|| {
                ArrowError::SchemaError(format!("no column `{}`", column.path.head))
            })?;
            let value = descend(head, &column.path)?;
            let safe = CastOptions { safe: true, ..CastOptions::default() };
            let array = cast_with_options(&value, &column.data_type, &safe)?;
            let path = column.path.to_string();
            columns.mismatches.extend(mismatches((&column.name, &path), &value, &array)?);
            if column.name == ROW_ID {
                let missing = (0..array.len()).filter(|row| array.is_null(*row));
                let missing = missing.map(|row| ColumnMismatch {
                    row,
                    value: String::new(),
                    fault: no_row_id(),
                });
                columns.mismatches.extend(missing);
            }
            columns.arrays.push(array);
        }
        Ok(columns)
    }

    fn add(&mut self, schema: &Schema, wanted: &Wanted) -> Result<(), FilesError> {
        let literal = schema.column_with_name(&wanted.path).map(|(_, field)| field.data_type());
        let (path, found) = match literal {
            Some(data_type) => (FieldPath::literal(&wanted.path), data_type),
            None => resolve(schema, wanted)?,
        };
        let data_type = match wanted.declared {
            Some(declared) => declared_type(wanted, declared, found)?,
            None => found.clone(),
        };
        let head = match self.heads.iter().position(|head| *head == path.head) {
            Some(head) => head,
            None => {
                self.heads.push(path.head.clone());
                self.heads.len() - 1
            }
        };
        self.columns.push(Column { name: wanted.name.clone(), head, path, data_type });
        Ok(())
    }
}

/// A name on the way to what the column holds, or inside of it, that stands for two things.
fn repeated(schema: &Schema, column: &Column) -> Option<String> {
    let twice = |fields: &Fields, name: &str| {
        fields.iter().filter(|field| field.name() == name).nth(1).map(|_| name.to_owned())
    };
    let mut fields = schema.fields();
    let steps = column.path.steps.iter().filter_map(|step| match step {
        Step::Name(name) => Some(name),
        Step::Index(_) => None,
    });
    for name in std::iter::once(&column.path.head).chain(steps) {
        if let Some(name) = twice(fields, name) {
            return Some(name);
        }
        match fields.find(name).map(|(_, field)| field.data_type()) {
            Some(DataType::Struct(inner)) => fields = inner,
            _ => break,
        }
    }
    repeated_inside(&column.data_type)
}

/// A name that two fields of one struct have, anywhere inside a type.
fn repeated_inside(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => repeated_inside(item.data_type()),
        DataType::Struct(fields) => {
            let mut seen = HashSet::with_capacity(fields.len());
            let twice = fields.iter().find(|field| !seen.insert(field.name().as_str()));
            let inside = || fields.iter().find_map(|field| repeated_inside(field.data_type()));
            twice.map(|field| field.name().clone()).or_else(inside)
        }
        _ => None,
    }
}

/// The values of a column, known by its name and where it was found, that did not survive the conversion to `array`.
///
/// # Errors
///
/// When values cannot be compared.
pub fn mismatches(
    (name, path): (&str, &str),
    value: &ArrayRef,
    array: &ArrayRef,
) -> Result<Vec<ColumnMismatch>, ArrowError> {
    let lost = lost(value, array)?;
    if lost.is_empty() {
        return Ok(Vec::new());
    }
    let kind = match array.data_type() {
        DataType::List(item) => item.data_type(),
        kind => kind,
    };
    let expected = match kind {
        DataType::Int64 => "a whole number of 64 bits",
        DataType::Float64 => "a number that 64-bit floating point keeps",
        _ => "another type",
    };
    let format = ArrayFormatter::try_new(value, &FormatOptions::default())?;
    let mismatch = |row: usize| {
        let value = format.value(row).to_string();
        let found: String = value.chars().take(40).collect();
        let fault = Fault {
            class: ErrorClass::Type,
            column: Some(path.to_owned()),
            message: format!("column `{name}`: expected {expected}, found `{found}`"),
        };
        ColumnMismatch { row, value, fault }
    };
    Ok(lost.into_iter().map(mismatch).collect())
}

/// The rows whose value did not survive its conversion to `array`: what became NULL, and numbers that floating
/// point had to round; of lists, those with such an item.
fn lost(value: &ArrayRef, array: &ArrayRef) -> Result<Vec<usize>, ArrowError> {
    let value = &cast(value, &plain(value.data_type()))?;
    let item = match value.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => item,
        _ => return lost_values(value, array),
    };
    let DataType::List(wanted) = array.data_type() else { return lost_values(value, array) };
    let lists = cast(value, &DataType::List(Arc::clone(item)))?;
    let lists = lists.as_list::<i32>();
    let safe = CastOptions { safe: true, ..CastOptions::default() };
    let items = cast_with_options(lists.values(), wanted.data_type(), &safe)?;
    let offsets = lists.value_offsets();
    let row_of = |item: usize| offsets.partition_point(|start| *start as usize <= item) - 1;
    let mut rows: Vec<usize> = lost(lists.values(), &items)?
        .into_iter()
        .filter(|item| *item >= offsets[0] as usize)
        .map(row_of)
        .collect();
    rows.dedup();
    rows.retain(|row| *row < lists.len() && lists.is_valid(*row));
    Ok(rows)
}

fn lost_values(value: &ArrayRef, array: &ArrayRef) -> Result<Vec<usize>, ArrowError> {
    let to_float = *array.data_type() == DataType::Float64;
    let is_kept: Box<dyn Fn(usize) -> bool> = match value.data_type() {
        DataType::Int64
        | DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..)
            if to_float =>
        {
            let safe = CastOptions { safe: true, ..CastOptions::default() };
            let same = eq(&cast_with_options(array, value.data_type(), &safe)?, value)?;
            Box::new(move |row| same.is_valid(row) && same.value(row))
        }
        kind if to_float && kind.is_string() => {
            let texts = cast(value, &DataType::LargeUtf8)?;
            Box::new(move |row| float_of(texts.as_string::<i64>().value(row)).is_some())
        }
        _ if array.null_count() == value.null_count() => return Ok(Vec::new()),
        _ => Box::new(|_| true),
    };
    let is_lost = |row: &usize| !value.is_null(*row) && (array.is_null(*row) || !is_kept(*row));
    Ok((0..array.len()).filter(is_lost).collect())
}

/// Types as they leave this module: plain values instead of dictionaries and views, no metadata,
/// everything may be NULL.
pub fn plain(data_type: &DataType) -> DataType {
    let field = |field: &Field| Field::new(field.name(), plain(field.data_type()), true);
    match data_type {
        DataType::Dictionary(_, value) => plain(value),
        DataType::RunEndEncoded(_, value) => plain(value.data_type()),
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(Arc::new(field(item))),
        DataType::LargeList(item) => DataType::LargeList(Arc::new(field(item))),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(Arc::new(field(item)), *len),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|inner| field(inner)).collect::<Fields>())
        }
        other => other.clone(),
    }
}

/// The field at a path through structs, and its type.
fn resolve<'s>(
    schema: &'s Schema,
    wanted: &Wanted,
) -> Result<(FieldPath, &'s DataType), FilesError> {
    let missing = |known: &Fields, name: &str| FilesError::Column {
        column: wanted.name.clone(),
        path: wanted.path.clone(),
        help: suggest::help(name, known.iter().map(|field| field.name().as_str())),
    };
    let wrong = |expected: &str| FilesError::Setting {
        field: format!("columns.{}", wanted.name),
        value: wanted.path.clone(),
        expected: "the path of a field",
        help: Some(expected.to_owned()),
    };
    let path = FieldPath::parse(&wanted.path).map_err(wrong)?;
    let head = schema.column_with_name(&path.head);
    let mut found = match head {
        Some((_, field)) => field.data_type(),
        None => return Err(missing(schema.fields(), &path.head)),
    };
    for step in &path.steps {
        let Step::Name(name) = step else {
            return Err(wrong(
                "in Parquet files, paths lead through structs; SQL takes items of lists",
            ));
        };
        let DataType::Struct(fields) = found else {
            return Err(missing(&Fields::empty(), name));
        };
        found = match fields.find(name) {
            Some((_, field)) => field.data_type(),
            None => return Err(missing(fields, name)),
        };
    }
    Ok((path, found))
}

/// The type of a column declared as `declared` whose values are of the type `found`. Only
/// conversions that keep the value are made.
fn declared_type(
    wanted: &Wanted,
    declared: ColumnType,
    found: &DataType,
) -> Result<DataType, FilesError> {
    let target = Kind::from(declared).data_type();
    let (name, keeps) = match declared {
        ColumnType::String => ("string", can_cast_types(found, &target)),
        ColumnType::Integer => ("integer", found.is_string() || found.is_integer()),
        ColumnType::Number => ("number", found.is_string() || found.is_numeric()),
        ColumnType::Boolean => ("boolean", *found == DataType::Boolean),
    };
    if keeps {
        return Ok(target);
    }
    let (column, found) = (wanted.name.clone(), format!("`{found}`"));
    Err(FilesError::ColumnType { column, found, declared: name })
}

/// The array at the end of a path through structs; NULL inside a NULL struct.
fn descend(head: &ArrayRef, path: &FieldPath) -> Result<ArrayRef, ArrowError> {
    let mut array = head.clone();
    for step in &path.steps {
        let parent = array.as_any().downcast_ref::<StructArray>();
        let child = match (parent, step) {
            (Some(parent), Step::Name(name)) => parent.column_by_name(name),
            _ => None,
        };
        let (Some(parent), Some(child)) = (parent, child) else {
            return Err(ArrowError::SchemaError(format!("no field `{path}`")));
        };
        let nulls = NullBuffer::union(parent.nulls(), child.nulls());
        array = make_array(child.to_data().into_builder().nulls(nulls).build()?);
    }
    Ok(array)
}
