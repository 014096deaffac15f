//! A stage that can run: its columns are known, its settings checked, its inputs bound to tables; and what
//! it is given when it does.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use futures::TryStreamExt;
use indexmap::IndexMap;
use proofmill_base::ids::StageName;
use proofmill_pipeline::pipeline::Common;
use proofmill_store::NamedFile;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::graph::{Graph, Stage};
use crate::session::{Engine, StageTable};
use crate::stages::error::StageError;
use crate::stages::fingerprint::Components;
use crate::stages::settings_file::SourceFile;
use crate::stages::sink::{Computed, Sink};
use crate::stages::tables::rows;

/// How a stage's table is computed.
#[async_trait]
pub trait StagePlan: Debug + Send + Sync {
    /// Computes the table, once the tables of the inputs are filled.
    ///
    /// # Errors
    ///
    /// Whatever keeps the stage from having a table; others go on.
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError>;
}

/// A stage that writes files outside the store.
pub trait Export: Debug + Send + Sync {
    /// True if the files are still what the stored table of the stage, `rows`, and its stored `files` say. Reads them.
    fn is_current(&self, rows: &[RecordBatch], files: &[NamedFile]) -> bool;
}

/// A stage that can run.
#[derive(Debug)]
pub struct PreparedStage {
    pub stage: Arc<Stage>,
    /// Its table, which others read; filled once it is stored.
    pub table: Arc<StageTable>,
    pub plan: Arc<dyn StagePlan>,
    /// What it writes outside the store, if it does.
    pub export: Option<Arc<dyn Export>>,
    /// What its fingerprint covers, but for the fingerprints of its inputs.
    pub components: Components,
    /// Files that it is made of, beside the pipeline file and its templates.
    pub files: Vec<SourceFile>,
    /// The models that it asks, by name.
    pub models: BTreeSet<String>,
    /// Functions whose value differs between runs: the stage cannot be cached.
    pub volatile: Vec<String>,
    /// The query behind the plan, where people wrote it and it gives the same rows each time.
    pub query: Option<LogicalPlan>,
    /// The query that asks a model, where one alone does.
    pub asking: Option<LogicalPlan>,
    /// Another reason why it cannot be cached.
    pub unrepeatable: Option<&'static str>,
    /// Whether a check calls such functions: its checks are then run in every run.
    pub volatile_checks: bool,
    /// Rows expected before it runs, where that is known.
    pub rows_expected: Option<u64>,
}

/// A pipeline that can run.
#[derive(Debug)]
pub struct Prepared {
    /// Where it comes from.
    pub graph: Graph,
    /// Its stages, in an order in which they can run.
    pub stages: IndexMap<StageName, PreparedStage>,
}

/// One execution of a stage: what its plan computes with, and where its rows go.
#[derive(Clone, Copy, Debug)]
pub struct Execution<'a> {
    pub stage: &'a PreparedStage,
    pub prepared: &'a Prepared,
    pub engine: &'a Engine,
    pub sink: &'a Sink,
    /// Folder for files that can be made again.
    pub cache: &'a Path,
}

impl<'a> Execution<'a> {
    /// The settings that all kinds have.
    pub fn common(&self) -> &'a Common {
        &self.stage.stage.spec.common
    }

    /// Rows of all inputs together.
    pub fn input_rows(&self) -> u64 {
        let inputs = self.stage.stage.inputs.iter();
        inputs.filter_map(|input| self.table(&input.stage)).map(|table| table.rows()).sum()
    }

    /// A session for as many rows as the inputs have, whose questions to models are counted.
    pub fn session(&self) -> SessionState {
        let counters = self.sink.progress.counters();
        self.engine.watched(self.input_rows(), self.common().partitions, counters)
    }

    /// The table of an input.
    pub fn table(&self, stage: &StageName) -> Option<&'a Arc<StageTable>> {
        self.prepared.stages.get(stage).map(|stage| &stage.table)
    }

    /// The rows of an input; none for no input.
    pub async fn rows(&self, stage: Option<&StageName>) -> Result<Vec<RecordBatch>, StageError> {
        match stage.and_then(|stage| self.table(stage)) {
            Some(table) => rows::of_table(table, &self.sink.store).try_collect().await,
            None => Ok(Vec::new()),
        }
    }
}

/// Starts `work` as a task, in the span of its caller. Dropping what is returned stops it where it
/// next waits.
pub fn spawn<T: Send + 'static>(
    work: impl Future<Output = Result<T, StageError>> + Send + 'static,
) -> impl Future<Output = Result<T, StageError>> + Send {
    let task = AbortOnDropHandle::new(tokio::spawn(work.in_current_span()));
    async move { task.await.unwrap_or_else(|error| Err(StageError::Task(error.to_string()))) }
}
