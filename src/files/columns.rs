//! The columns of the table: where each comes from and what type it has.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::error::FilesError;
use crate::field_path::FieldPath;
use crate::ignored::Ignored;
use crate::json::Object;
use crate::kind::Kind;
use crate::limits::COLUMNS_MAX;
use crate::settings::{ROW_ID, check_name};

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub path: FieldPath,
    pub kind: Kind,
    /// Whether the settings say its type.
    pub declared: bool,
}

/// All columns, and the top-level fields they come from.
#[derive(Clone, Debug)]
pub struct Plan {
    columns: Vec<Column>,
    /// For every column, the number of its top-level field.
    heads: Vec<usize>,
    fields: Vec<String>,
    numbers: HashMap<String, usize>,
    /// Whether all top-level fields are wanted, so that others are worth a word.
    all: bool,
    /// The column with the identity of the rows, if the records have one.
    row_id: Option<usize>,
}

impl Plan {
    /// The plan for these columns; `all` if they are meant to be all top-level fields.
    pub fn new(mut columns: Vec<Column>, all: bool) -> Result<Self, FilesError> {
        if columns.len() > COLUMNS_MAX {
            return Err(FilesError::TooManyColumns);
        }
        columns.iter().try_for_each(|column| check_name(&column.name, !all))?;
        let row_id = columns.iter().position(|column| column.name == ROW_ID);
        // An identity is a text, whatever it looks like.
        row_id.into_iter().for_each(|i| columns[i].kind = Kind::Text);
        let mut fields = Vec::new();
        let mut numbers = HashMap::new();
        let heads = columns.iter().map(|column| {
            *numbers.entry(column.path.head.clone()).or_insert_with(|| {
                fields.push(column.path.head.clone());
                fields.len() - 1
            })
        });
        let heads = heads.collect();
        Ok(Self { columns, heads, fields, numbers, all, row_id })
    }

    /// The position of the column with the identity of the rows; `None` if that is their place in the file.
    pub fn row_id(&self) -> Option<usize> {
        self.row_id
    }

    /// The columns that come from fields, each with the number of its top-level field.
    pub fn columns(&self) -> impl Iterator<Item = (&Column, usize)> {
        self.columns.iter().zip(self.heads.iter().copied())
    }

    /// The schema of the table.
    pub fn schema(&self) -> SchemaRef {
        let others = self.columns.iter().filter(|column| column.name != ROW_ID);
        with_row_id(others.map(|column| column.kind.field(&column.name)))
    }

    /// For every top-level field, its position in `record`. Counts the other fields.
    pub fn positions(
        &self,
        record: &Object<'_>,
        positions: &mut Vec<Option<usize>>,
        ignored: &mut Ignored,
    ) {
        positions.clear();
        positions.resize(self.fields.len(), None);
        for (i, (key, _)) in record.iter().enumerate() {
            let number = match self.fields.get(i) {
                Some(field) if field == key => Some(i),
                _ => self.numbers.get(key.as_ref()).copied(),
            };
            match number {
                Some(number) => positions[number] = Some(i),
                None if self.all => ignored.add(key),
                None => {}
            }
        }
    }

    /// For every top-level field, its position in a file with this header.
    pub fn cells(&self, header: &[String]) -> Vec<Option<usize>> {
        self.fields.iter().map(|field| header.iter().position(|name| name == field)).collect()
    }
}

/// A schema that starts with `row_id`.
pub fn with_row_id(columns: impl IntoIterator<Item = Field>) -> SchemaRef {
    let row_id = Field::new(ROW_ID, DataType::Utf8, false);
    Arc::new(Schema::new(std::iter::once(row_id).chain(columns).collect::<Vec<_>>()))
}
