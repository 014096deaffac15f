//! Parquet files. Nothing is decoded but the bytes that were digested, and a decoder that panics is a
//! damaged file.
//!
//! Types come from Parquet's own schema, never from the Arrow schema that a writer may have put
//! beside it: a corrupt one has crashed readers, and equal values would come out as other types.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, StringBuilder};
use arrow::compute::filter;
use arrow::datatypes::{Field, Fields, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use crate::chunk::{Chunk, Sink, Summary};
use crate::error::FilesError;
use crate::error_rows::{ErrorRow, raw_text};
use crate::held::{Content, Held};
use crate::locate::Located;
use crate::parquet_columns::{ColumnMismatch, Columns, ParquetPlan, plain};
use crate::partition::Piece;
use crate::row_id::RowIds;
use crate::settings::Options;
use crate::source_file::{Group, SourceFile};

type ReaderBuilder = ParquetRecordBatchReaderBuilder<Content>;

/// Opens a file: its digest, its row groups, and its columns as they leave this module.
pub fn open(file: Located) -> Result<(SourceFile, Schema), FilesError> {
    let held = Held::open(&file.shown, &file.path)?;
    let (groups, schema) = honest(&held, || {
        let builder = builder(&file.shown, &held)?;
        let groups = builder.metadata().row_groups().iter().map(|group| Group {
            rows: u64::try_from(group.num_rows()).unwrap_or_default(),
            bytes: u64::try_from(group.compressed_size()).unwrap_or_default(),
        });
        let fields = builder.schema().fields().iter();
        let fields = fields.map(|field| Field::new(field.name(), plain(field.data_type()), true));
        Ok((groups.collect(), Schema::new(fields.collect::<Fields>())))
    })?;
    Ok((SourceFile { groups, ..SourceFile::new(file, held.digest, held.bytes) }, schema))
}

/// The row groups of a file as pieces.
pub(super) fn pieces(file: usize, groups: &[Group]) -> Vec<Piece> {
    let mut records_before = 0;
    let piece = |(i, group): (usize, &Group)| {
        let piece = Piece { file, groups: i..i + 1, records_before, bytes: group.bytes };
        records_before += group.rows;
        piece
    };
    groups.iter().enumerate().map(piece).collect()
}

/// Reads row groups of a file.
pub(super) fn read(
    file: &SourceFile,
    piece: &Piece,
    plan: &ParquetPlan,
    batch_rows: usize,
    sink: Sink<'_>,
) -> Result<Summary, FilesError> {
    let held = file.held.hold(&file.path, &file.location, &file.digest)?;
    honest(&held, || read_held(file, &held, piece, plan, batch_rows, sink))
}

fn read_held(
    file: &SourceFile,
    held: &Held,
    piece: &Piece,
    plan: &ParquetPlan,
    batch_rows: usize,
    sink: Sink<'_>,
) -> Result<Summary, FilesError> {
    let builder = builder(&file.path, held)?;
    let roots: Vec<_> =
        plan.heads().iter().filter_map(|head| builder.schema().index_of(head).ok()).collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    let builder = builder
        .with_row_groups(piece.groups.clone().collect())
        .with_projection(mask)
        .with_batch_size(batch_rows.max(1));
    let mut reader = guarded(&file.path, || builder.build())?;
    let mut summary = Summary::default();
    let mut row_ids = RowIds::new(&file.digest);
    let mut number = piece.records_before;
    let mut bytes_read = piece.bytes;
    while let Some(batch) = guarded(&file.path, || reader.next().transpose())? {
        let Columns { mut arrays, mismatches } = guarded(&file.path, || plan.take(&batch))?;
        let ids = match plan.row_id() {
            Some(own) => arrays.remove(own),
            None => {
                let mut ids = StringBuilder::with_capacity(batch.num_rows(), 32 * batch.num_rows());
                let numbers = 1..=batch.num_rows() as u64;
                numbers.for_each(|row| ids.append_value(row_ids.id(number + row)));
                Arc::new(ids.finish())
            }
        };
        arrays.insert(0, ids);
        let errors = error_rows(file, number, mismatches);
        if !errors.is_empty() {
            let mut keep = vec![true; batch.num_rows()];
            errors.iter().for_each(|error| keep[(error.row - number) as usize - 1] = false);
            let keep = BooleanArray::from(keep);
            let kept = || arrays.iter().map(|array| filter(array, &keep)).collect();
            arrays = guarded(&file.path, kept)?;
        }
        let rows = guarded(&file.path, || RecordBatch::try_new(plan.schema(), arrays))?;
        number += batch.num_rows() as u64;
        summary.rows += rows.num_rows() as u64;
        summary.errors += errors.len() as u64;
        let batch = (rows.num_rows() > 0).then_some(rows);
        let chunk = Chunk { batch, errors, bytes_read: std::mem::take(&mut bytes_read) };
        if sink(chunk).is_break() {
            summary.stopped = true;
            return Ok(summary);
        }
    }
    Ok(summary)
}

/// What `read` makes of a file, unless its bytes changed meanwhile: then neither rows nor damage are the
/// file's own.
fn honest<T>(held: &Held, read: impl FnOnce() -> Result<T, FilesError>) -> Result<T, FilesError> {
    let result = read();
    held.unchanged()?;
    result
}

/// The error rows of a batch after `before` records: one for each row, for its first mismatch.
fn error_rows(
    file: &SourceFile,
    before: u64,
    mut mismatches: Vec<ColumnMismatch>,
) -> Vec<ErrorRow> {
    mismatches.sort_by_key(|mismatch| mismatch.row);
    mismatches.dedup_by_key(|mismatch| mismatch.row);
    let error_row = |ColumnMismatch { row, value, fault }| ErrorRow {
        source: file.path.clone(),
        row: before + row as u64 + 1,
        line: None,
        column: fault.column,
        class: fault.class,
        message: fault.message,
        raw: raw_text(value.as_bytes()),
    };
    mismatches.into_iter().map(error_row).collect()
}

fn builder(shown: &str, held: &Held) -> Result<ReaderBuilder, FilesError> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    guarded(shown, || ReaderBuilder::try_new_with_options(held.content(), options))
}

/// Runs a step of a decoder. Its errors and its panics mean that the file is damaged.
fn guarded<T, E: std::fmt::Display>(
    shown: &str,
    step: impl FnOnce() -> Result<T, E>,
) -> Result<T, FilesError> {
    let reason = match catch_unwind(AssertUnwindSafe(step)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the decoder gave up on it".to_owned(),
    };
    Err(FilesError::Damaged { path: shown.to_owned(), reason })
}

/// Checks that a file has the columns of the first, or those that are requested.
pub fn same_columns(
    first: &str,
    known: &Schema,
    file: &SourceFile,
    schema: &Schema,
    options: &Options,
) -> Result<(), FilesError> {
    let difference = |field: &Field| match schema.column_with_name(field.name()) {
        None => Some(format!("it lacks `{}`", field.name())),
        Some((_, other)) if other.data_type() != field.data_type() => Some(format!(
            "`{}` is `{}` here and `{}` there",
            field.name(),
            other.data_type(),
            field.data_type()
        )),
        Some(_) => None,
    };
    let added = |field: &Field| {
        let name = field.name();
        known.column_with_name(name).is_none().then(|| format!("it adds `{name}`"))
    };
    let read = |field: &&Arc<Field>| options.reads(field.name());
    let found = known
        .fields()
        .iter()
        .filter(read)
        .find_map(|field| difference(field))
        .or_else(|| schema.fields().iter().filter(read).find_map(|field| added(field)));
    match found {
        None => Ok(()),
        Some(difference) => {
            let (first, second) = (first.to_owned(), file.path.clone());
            Err(FilesError::Differs { first, second, difference })
        }
    }
}
