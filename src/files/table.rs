//! The rows of the current batch.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::SchemaRef;

use crate::build::Builder;
use crate::cells::cell_value;
use crate::columns::{Column, Plan};
use crate::error_rows::Fault;
use crate::ignored::Ignored;
use crate::json::{Json, Object};
use crate::kind::TypeMismatch;
use crate::records::RecordContent;
use crate::row_id::{RowIds, no_row_id};
use proofmill_base::digest::Digest;

/// Collects the rows of one file. A record is appended whole or not at all.
pub struct Table<'p> {
    plan: &'p Plan,
    schema: SchemaRef,
    row_ids: RowIds,
    ids: StringBuilder,
    builders: Vec<Builder>,
    rows: usize,
    /// For every top-level field, its position in a record of cells.
    cells: Vec<Option<usize>>,
    /// The same for the current object.
    positions: Vec<Option<usize>>,
}

impl<'p> Table<'p> {
    /// An empty table for the rows of a file with this digest and, if it has cells, this header.
    pub fn new(plan: &'p Plan, schema: SchemaRef, file: &Digest, header: &[String]) -> Self {
        Self {
            plan,
            schema,
            row_ids: RowIds::new(file),
            ids: StringBuilder::new(),
            builders: plan.columns().map(|(column, _)| Builder::new(&column.kind)).collect(),
            rows: 0,
            cells: plan.cells(header),
            positions: Vec::new(),
        }
    }

    /// Rows collected.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends a record, unless a value does not fit its column.
    pub fn push(
        &mut self,
        record: u64,
        content: &RecordContent<'_>,
        ignored: &mut Ignored,
    ) -> Result<(), Fault> {
        match content {
            RecordContent::Object(object) => self.push_object(object, ignored)?,
            RecordContent::Cells(cells) => self.push_cells(cells)?,
        }
        if self.plan.row_id().is_none() {
            self.ids.append_value(self.row_ids.id(record));
        }
        self.rows += 1;
        Ok(())
    }

    /// The rows collected; the table is empty again.
    pub fn finish(&mut self) -> RecordBatch {
        let mut columns: Vec<ArrayRef> = self.builders.iter_mut().map(Builder::finish).collect();
        let ids = match self.plan.row_id() {
            Some(own) => columns.remove(own),
            None => Arc::new(self.ids.finish()),
        };
        columns.insert(0, ids);
        self.rows = 0;
        RecordBatch::try_new(self.schema.clone(), columns)
            .expect("the builders are made from the schema")
    }

    fn push_object(&mut self, object: &Object<'_>, ignored: &mut Ignored) -> Result<(), Fault> {
        self.plan.positions(object, &mut self.positions, ignored);
        let mut values = Vec::with_capacity(self.builders.len());
        for (column, head) in self.plan.columns() {
            let head = self.positions[head].map(|position| &object[position].1);
            let value = match head {
                Some(head) => column.path.follow(head)?,
                None => None,
            };
            let value = match value {
                Some(Json::Text(text)) if column.declared => Some(Cow::Owned(spelt(column, text)?)),
                Some(value) => {
                    let mismatch = |mismatch| fault(column, mismatch);
                    column.kind.check(value, ignored).map_err(mismatch)?;
                    Some(Cow::Borrowed(value))
                }
                None => None,
            };
            values.push(value);
        }
        self.identified(|own| values[own].as_deref().is_some_and(|it| !matches!(it, Json::Null)))?;
        for (builder, value) in self.builders.iter_mut().zip(&values) {
            builder.append(value.as_deref());
        }
        Ok(())
    }

    /// Fails if the records have identities and this one has none.
    fn identified(&self, has: impl Fn(usize) -> bool) -> Result<(), Fault> {
        match self.plan.row_id() {
            Some(own) if !has(own) => Err(no_row_id()),
            _ => Ok(()),
        }
    }

    fn push_cells(&mut self, cells: &[Option<&str>]) -> Result<(), Fault> {
        let mut values = Vec::with_capacity(self.builders.len());
        for (column, head) in self.plan.columns() {
            let cell = self.cells[head].and_then(|position| cells.get(position).copied().flatten());
            values.push(cell.map(|text| spelt(column, text)).transpose()?);
        }
        self.identified(|own| values[own].is_some())?;
        for (builder, value) in self.builders.iter_mut().zip(&values) {
            builder.append(value.as_ref());
        }
        Ok(())
    }
}

/// The value that a text spells in a column.
fn spelt<'a>(column: &Column, text: &'a str) -> Result<Json<'a>, Fault> {
    cell_value(text, &column.kind, column.declared)
        .ok_or_else(|| fault(column, TypeMismatch::new(&column.kind, &Json::Text(text.into()))))
}

fn fault(column: &Column, mismatch: TypeMismatch) -> Fault {
    mismatch.fault(&column.name, &column.path.to_string())
}
