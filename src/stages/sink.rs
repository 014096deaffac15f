//! Where a computation puts its rows: Parquet parts in the store, and in memory while they are few.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{FieldRef, SchemaRef};
use tokio::sync::OwnedSemaphorePermit;

use crate::stages::error::StageError;
use crate::stages::progress::Progress;
use proofmill_base::digest::Digest;
use proofmill_base::ids::{InvalidId, RunId, StageName};
use proofmill_store::{
    Attempt, NamedFile, Part, PartWriter, RowLeaves, Store, error_part_key, file_key, part_key,
    write_file,
};

/// Rows of one stage that are kept in memory for the stages that read them, in bytes.
const KEPT_STAGE_BYTES_MAX: u64 = 4 << 20;
/// The same for all runs of a process together.
const KEPT_BYTES_MAX: u64 = 256 << 20;

/// How much all runs of a process keep in memory, in bytes; clones are the same budget.
#[derive(Clone, Debug, Default)]
pub struct KeptBudget(Arc<AtomicU64>);

impl KeptBudget {
    /// What one run keeps of it, nothing yet.
    pub fn of_run(&self) -> Kept {
        Kept { all: self.clone(), own: AtomicU64::new(0) }
    }
}

/// How much a run keeps in memory; given back when the run is gone.
#[derive(Debug)]
pub struct Kept {
    all: KeptBudget,
    own: AtomicU64,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.0.fetch_sub(*self.own.get_mut(), Ordering::Relaxed);
    }
}

impl Kept {
    /// Takes `bytes` of the budget, if so much is left.
    pub fn take(&self, bytes: u64) -> bool {
        if bytes > KEPT_STAGE_BYTES_MAX {
            return false;
        }
        let taken = self.all.0.fetch_add(bytes, Ordering::Relaxed);
        if taken + bytes > KEPT_BYTES_MAX {
            self.all.0.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.own.fetch_add(bytes, Ordering::Relaxed);
        true
    }
}

/// The right to compute. It is given back before the last rows are stored: what is left of the stage
/// then is waiting for the store, and others may compute meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Permit(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Permit {
    /// Holds a permit.
    pub fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(Mutex::new(Some(permit))))
    }

    /// Gives it back; later calls do nothing.
    pub fn release(&self) {
        if let Ok(mut permit) = self.0.lock() {
            permit.take();
        }
    }
}

/// Where one attempt at a stage puts what it computes.
#[derive(Clone, Debug)]
pub struct Sink {
    pub store: Store,
    pub run: RunId,
    pub stage: StageName,
    /// Makes the keys of this attempt unique.
    pub attempt: Attempt,
    pub schema: SchemaRef,
    pub progress: Arc<Progress>,
    pub permit: Permit,
}

/// What a computation gave.
#[derive(Debug, Default)]
pub struct Computed {
    /// The rows, in order.
    pub parts: Vec<Part>,
    /// Rows that failed.
    pub errors: Vec<Part>,
    /// How many of them failed for a reason that may pass, such as a timeout of an endpoint.
    pub transient_errors: u64,
    /// Files, for an index.
    pub files: Vec<NamedFile>,
    /// The rows again, if they are few.
    pub kept: Option<Vec<RecordBatch>>,
    /// The root of the table, if it has one.
    pub rows_root: Option<Digest>,
    pub notes: Vec<String>,
}

/// One ordered piece of a table being written.
pub struct PartSink<'a> {
    sink: &'a Sink,
    number: usize,
    /// How many pieces the table has.
    pieces: usize,
    writer: Option<PartWriter>,
    kept: Option<Vec<RecordBatch>>,
    kept_bytes: u64,
    leaves: RowLeaves,
}

/// One piece, written.
pub struct Written {
    /// Its part; none for no rows.
    pub part: Option<Part>,
    /// Its rows, if they are few.
    pub kept: Option<Vec<RecordBatch>>,
    pub leaves: RowLeaves,
}

impl Sink {
    /// Piece `number` of `pieces` of the table.
    pub fn part(&self, number: usize, pieces: usize) -> PartSink<'_> {
        let kept = Some(Vec::new());
        let (writer, leaves) = (None, RowLeaves::default());
        PartSink { sink: self, number, pieces, writer, kept, kept_bytes: 0, leaves }
    }

    /// Writes rows that failed.
    pub async fn errors(&self, number: u32, batch: &RecordBatch) -> Result<Part, StageError> {
        let key = error_part_key(&self.run, &self.stage, &self.attempt, number);
        let mut writer = PartWriter::create(&self.store, key, batch.schema())?;
        writer.write(batch).await?;
        Ok(writer.finish().await?)
    }

    /// Writes a file, to be found again as `name`.
    pub async fn file(
        &self,
        number: u32,
        name: &str,
        source: &std::path::Path,
    ) -> Result<NamedFile, StageError> {
        let key = file_key(&self.run, &self.stage, &self.attempt, number);
        // Ours to name: a name that no reader accepts is a bug.
        let name = name.parse().map_err(|error: InvalidId| StageError::Task(error.to_string()))?;
        Ok(write_file(&self.store, key, name, source).await?)
    }

    /// Writes a table that is in memory as a whole.
    pub async fn table(&self, batch: RecordBatch) -> Result<Computed, StageError> {
        let mut part = self.part(0, 1);
        part.write(batch).await?;
        Ok(Computed::of([part.finish().await?]))
    }
}

impl PartSink<'_> {
    /// Appends rows.
    pub async fn write(&mut self, batch: RecordBatch) -> Result<(), StageError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch = fitted(&batch, &self.sink.schema)?;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let Sink { store, run, stage, attempt, schema, .. } = self.sink;
                let key = part_key(run, stage, attempt, self.number as u32);
                none.insert(PartWriter::create(store, key, Arc::clone(schema))?)
            }
        };
        writer.write(&batch).await?;
        self.sink.progress.add_rows(batch.num_rows() as u64);
        self.leaves.push(&batch, self.pieces);
        self.kept_bytes += batch.get_array_memory_size() as u64;
        if self.kept_bytes > KEPT_STAGE_BYTES_MAX {
            self.kept = None;
        } else if let Some(kept) = &mut self.kept {
            kept.push(batch);
        }
        Ok(())
    }

    /// Completes the piece; only now does it exist.
    pub async fn finish(self) -> Result<Written, StageError> {
        if self.pieces == 1 {
            self.sink.permit.release();
        }
        let part = match self.writer {
            Some(writer) => Some(writer.finish().await?),
            None => None,
        };
        Ok(Written { part, kept: self.kept, leaves: self.leaves })
    }
}

/// The rows under the columns that were planned. A computed column may be declared as one that
/// takes NULL where the plan knew better; a NULL that is really there is an error.
fn fitted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, StageError> {
    let column = |(column, field): (&ArrayRef, &FieldRef)| match column.data_type() {
        kind if kind == field.data_type() => Ok(Arc::clone(column)),
        _ => cast(column, field.data_type()),
    };
    let columns =
        batch.columns().iter().zip(schema.fields()).map(column).collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

impl Computed {
    /// A table of these pieces, in this order.
    pub fn of(pieces: impl IntoIterator<Item = Written>) -> Self {
        let mut computed = Self { kept: Some(Vec::new()), ..Self::default() };
        let mut all_leaves = RowLeaves::default();
        for Written { part, kept, leaves } in pieces {
            computed.parts.extend(part);
            all_leaves.append(leaves);
            computed.kept = match (computed.kept, kept) {
                (Some(mut all), Some(kept)) => {
                    all.extend(kept);
                    Some(all)
                }
                _ => None,
            };
        }
        computed.rows_root = all_leaves.root();
        computed
    }

    /// Bytes that the kept rows take.
    pub fn kept_bytes(&self) -> Option<u64> {
        let kept = self.kept.as_ref()?;
        Some(kept.iter().map(|batch| batch.get_array_memory_size() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_keep_counts_together_and_is_given_back() {
        let all = KeptBudget::default();
        let (one, other) = (all.of_run(), all.of_run());
        for _ in 0..KEPT_BYTES_MAX / KEPT_STAGE_BYTES_MAX {
            assert!(one.take(KEPT_STAGE_BYTES_MAX));
        }
        assert!(!one.take(KEPT_STAGE_BYTES_MAX + 1), "more than one stage may keep");
        assert!(!other.take(1));
        drop(one);
        assert!(other.take(KEPT_STAGE_BYTES_MAX));
    }
}
