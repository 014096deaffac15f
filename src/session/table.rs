//! A stage's table in query plans: its schema is known from the start, its rows once it is stored.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, Result, Statistics, exec_err};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;

use crate::session::registry::store_url;
use proofmill_base::digest::Digest;
use proofmill_store::{NamedFile, Part};

/// The rows of a stored stage.
#[derive(Debug)]
pub enum Content {
    Memory(Vec<RecordBatch>),
    /// In the store; every part has been verified.
    Parts(Vec<Part>),
}

pub struct StageTable {
    name: String,
    schema: SchemaRef,
    keys: Vec<Vec<String>>,
    rows_expected: Option<u64>,
    stored: OnceLock<Stored>,
}

/// A stored stage.
#[derive(Debug)]
pub struct Stored {
    /// Number of rows.
    pub rows: u64,
    /// The rows.
    pub content: Content,
    /// Files beside the rows, of an index.
    pub files: Vec<NamedFile>,
    /// The fingerprint, short: the name of this version of the table.
    pub snapshot: String,
    /// Digest of schema, rows and files: what a stage that reads the table was made of.
    pub digest: Digest,
}

impl StageTable {
    /// The table of the stage `name`, without rows yet.
    pub fn new(name: impl Into<String>, schema: SchemaRef) -> Self {
        let (keys, rows_expected) = (Vec::new(), None);
        Self { name: name.into(), schema, keys, rows_expected, stored: OnceLock::new() }
    }

    /// Adds what is known before there are rows: columns that no two rows share, and how many rows
    /// there will be.
    pub fn expecting(self, keys: Vec<Vec<String>>, rows_expected: Option<u64>) -> Self {
        Self { keys, rows_expected, ..self }
    }

    /// Lists of columns that no two rows share.
    pub fn keys(&self) -> &[Vec<String>] {
        &self.keys
    }

    /// How many rows there will be, as far as that is known before.
    pub fn rows_expected(&self) -> Option<u64> {
        self.rows_expected
    }

    /// Gives the table its rows; the first call counts.
    pub fn fill(&self, stored: Stored) {
        let _ = self.stored.set(stored);
    }

    /// What is stored; `None` before it is.
    pub fn stored(&self) -> Option<&Stored> {
        self.stored.get()
    }

    /// Number of rows; 0 before they are known.
    pub fn rows(&self) -> u64 {
        self.stored.get().map_or(0, |stored| stored.rows)
    }
}

impl fmt::Debug for StageTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StageTable({}, {} rows)", self.name, self.rows())
    }
}

#[async_trait]
impl TableProvider for StageTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.row_statistics(self.stored.get()?.rows))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(Stored { rows, content, .. }) = self.stored.get() else {
            return exec_err!("stage `{}` is read before it is stored", self.name);
        };
        match content {
            Content::Memory(batches) => {
                let partitions = [batches.clone()];
                let plan = MemorySourceConfig::try_new_exec(
                    &partitions,
                    self.schema(),
                    projection.cloned(),
                )?;
                Ok(plan)
            }
            Content::Parts(parts) => {
                self.scan_parts(parts, *rows, state, projection, filters, limit)
            }
        }
    }
}

impl StageTable {
    fn scan_parts(
        &self,
        parts: &[Part],
        rows: u64,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = state.config_options().execution.parquet.clone();
        let options = datafusion::common::config::TableParquetOptions {
            global: options,
            ..Default::default()
        };
        let mut source = ParquetSource::new(self.schema()).with_table_parquet_options(options);
        if let Some(filter) = conjunction(filters.to_vec()) {
            let schema = DFSchema::try_from(self.schema())?;
            source = source.with_predicate(state.create_physical_expr(filter, &schema)?);
        }
        let file = |part: &Part| PartitionedFile::new(part.key.as_str(), part.bytes);
        let in_order = state.config().target_partitions() == 1;
        let groups = match in_order {
            true => vec![FileGroup::new(parts.iter().map(file).collect())],
            false => parts.iter().map(|part| FileGroup::new(vec![file(part)])).collect(),
        };
        let config = FileScanConfigBuilder::new(store_url()?, Arc::new(source))
            .with_file_groups(groups)
            .with_preserve_order(in_order)
            .with_projection_indices(projection.cloned())?
            .with_statistics(self.row_statistics(rows))
            .with_limit(limit)
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    fn row_statistics(&self, rows: u64) -> Statistics {
        let unknown = Statistics::new_unknown(&self.schema);
        unknown.with_num_rows(Precision::Exact(rows as usize))
    }
}
