//! A source: the files of a `read`, with one schema.

use arrow::datatypes::SchemaRef;

use crate::chunk::{Sink, Summary};
use crate::columns::Plan;
use crate::error::FilesError;
use crate::parquet;
use crate::parquet_columns::ParquetPlan;
use crate::partition::{Partition, Piece, pack};
use crate::read::read_text;
use crate::settings::Options;
use crate::source_file::SourceFile;
use proofmill_pipeline::kinds::read::Format;

/// The files of a `read`.
#[derive(Debug)]
pub struct Source {
    pub(super) files: Vec<SourceFile>,
    pub(super) schema: SchemaRef,
    pub(super) layout: Layout,
    pub(super) rows_estimate: Option<u64>,
    pub(super) notes: Vec<String>,
}

/// How the rows stand in the files.
#[derive(Debug)]
pub(super) enum Layout {
    Text { options: Options, plan: Plan },
    Parquet(ParquetPlan),
}

impl Source {
    /// The schema of the rows: `row_id`, then the columns, which may all be NULL.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Whether the records have a `row_id` of their own; else it is their place in the file.
    pub fn has_row_ids(&self) -> bool {
        match &self.layout {
            Layout::Text { plan, .. } => plan.row_id().is_some(),
            Layout::Parquet(plan) => plan.row_id().is_some(),
        }
    }

    /// The files, in the order they are read.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Number of rows: exact if the sample saw all of them or the format tells, otherwise from
    /// the size of the records in the sample. `None` if there is nothing to tell it from.
    pub fn rows_estimate(&self) -> Option<u64> {
        self.rows_estimate
    }

    /// What a person should know about how the columns were read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How the rows are written: as declared, or as determined by the names of the files.
    pub fn format(&self) -> Format {
        match &self.layout {
            Layout::Text { options, .. } => options.format,
            Layout::Parquet(_) => Format::Parquet,
        }
    }

    /// At most `n` pieces that can be read independently; one after the other they are the whole.
    /// Text files are never cut.
    pub fn partitions(&self, n: usize) -> Vec<Partition> {
        let pieces = self.files.iter().enumerate().flat_map(|(file, source)| match &self.layout {
            Layout::Text { .. } => {
                vec![Piece { file, groups: 0..0, records_before: 0, bytes: source.bytes }]
            }
            Layout::Parquet(_) => parquet::pieces(file, &source.groups),
        });
        pack(pieces.collect(), n)
    }

    /// Reads a partition into `sink`, in batches of at most `batch_rows` rows.
    pub fn read(
        &self,
        partition: &Partition,
        batch_rows: usize,
        sink: Sink<'_>,
    ) -> Result<Summary, FilesError> {
        let mut summary = Summary::default();
        for piece in &partition.pieces {
            let file = &self.files[piece.file];
            let part = match &self.layout {
                Layout::Text { options, plan } => read_text(file, options, plan, batch_rows, sink)?,
                Layout::Parquet(plan) => parquet::read(file, piece, plan, batch_rows, sink)?,
            };
            summary.add(&part);
            if summary.stopped {
                break;
            }
        }
        Ok(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Source>();
        shared::<Partition>();
        shared::<FilesError>();
    }
}
