//! A query of ours that runs again and again while the rows of its tables change: planned once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;

use crate::session::execute::Operators;
use crate::session::{self, Engine};
use crate::sqltext;
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::queries::sql_kind::{ERROR, Named};
use crate::stages::sink::Sink;
use proofmill_pipeline::code::Code;

/// A planned query and its tables.
#[derive(Debug)]
pub struct PreparedQuery {
    operators: Operators,
    tables: Vec<Arc<Rows>>,
    /// Its columns, without [`ERROR`].
    schema: SchemaRef,
    /// What to do when a row failed.
    help: &'static str,
}

/// Plans queries that one stage repeats; what they ask models is counted.
pub struct Planner<'a> {
    engine: &'a Engine,
    state: SessionState,
    help: &'static str,
}

impl<'a> Planner<'a> {
    /// For the stage that writes to `sink`. `help` says what to do when a row has no answer.
    pub fn new(engine: &'a Engine, sink: &Sink, help: &'static str) -> Self {
        let mut state = engine.watched(0, Some(1), sink.progress.counters());
        // A filter that is learnt from the rows of one run would be wrong for the next.
        let optimizer = &mut state.config_mut().options_mut().optimizer;
        optimizer.enable_dynamic_filter_pushdown = false;
        optimizer.enable_join_dynamic_filter_pushdown = false;
        optimizer.enable_topk_dynamic_filter_pushdown = false;
        optimizer.enable_aggregate_dynamic_filter_pushdown = false;
        Self { engine, state, help }
    }

    /// Plans `sql` over tables of these names and columns.
    ///
    /// # Errors
    ///
    /// If it has no plan, which the stage's preparation rules out.
    pub async fn plan(
        &self,
        sql: &str,
        tables: &[(&str, &SchemaRef)],
    ) -> Result<PreparedQuery, StageError> {
        let mut named = Named::new();
        let mut rows = Vec::new();
        for (name, schema) in tables {
            let table = Arc::new(Rows::new(Arc::clone(schema)));
            let partition = Arc::clone(&table) as Arc<dyn PartitionStream>;
            let provider = StreamingTable::try_new(Arc::clone(schema), vec![partition])?;
            named.insert((*name).to_owned(), Arc::new(provider) as Arc<dyn TableProvider>);
            rows.push(table);
        }
        let query = sqltext::parse(sql).map_err(|error| StageError::Task(error.message))?;
        let planned = session::query(self.engine.planning(), &query, named)
            .map_err(|error| StageError::Task(error.message))?;
        let operators = Operators::of(&planned.plan, &self.state).await?;
        let schema = shown(&operators.schema());
        Ok(PreparedQuery { operators, tables: rows, schema, help: self.help })
    }
}

/// Looks, before anything runs, whether such queries have a plan.
pub struct Checker<'a, 'p> {
    pub kind: &'static str,
    pub engine: &'a Engine,
    pub diagnostics: &'a mut Diagnostics<'p>,
}

impl Checker<'_, '_> {
    /// The columns of `sql` over tables of these names and columns, without why a row failed. What
    /// breaks it is a column of another type than the kind needs: a diagnostic at the kind.
    pub fn columns(&mut self, sql: &str, tables: &[(&str, &SchemaRef)]) -> Option<SchemaRef> {
        let tables = tables.iter().filter_map(|(name, schema)| {
            let table = MemTable::try_new(Arc::clone(schema), vec![Vec::new()]).ok()?;
            Some(((*name).to_owned(), Arc::new(table) as Arc<dyn TableProvider>))
        });
        let planned = sqltext::parse(sql).map_err(|error| error.message).and_then(|query| {
            self.diagnostics
                .query(&query, tables.collect(), self.engine)
                .map_err(|error| error.message)
        });
        match planned {
            Ok(planned) => Some(shown(&planned.schema)),
            Err(message) => {
                self.diagnostics.error(&[self.kind], Code::SqlPlan, message, None);
                None
            }
        }
    }
}

/// The columns without [`ERROR`].
fn shown(schema: &SchemaRef) -> SchemaRef {
    let shown = schema.fields().iter().filter(|field| field.name() != ERROR);
    Arc::new(Schema::new(shown.cloned().collect::<Vec<_>>()))
}

impl PreparedQuery {
    /// Its columns, without why a row failed.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Its rows over `tables`, in the order in which they were planned.
    ///
    /// # Errors
    ///
    /// If a row has no answer, or the query fails.
    pub async fn run(&mut self, tables: &[&RecordBatch]) -> Result<RecordBatch, StageError> {
        for (table, batch) in self.tables.iter().zip(tables) {
            table.set(batch)?;
        }
        let operators = self.operators.reset()?;
        let batches = operators.collect().await?;
        self.without_failures(&concat_batches(&operators.schema(), &batches)?)
    }

    /// The rows without the column that says why one failed; an error if one did.
    fn without_failures(&self, batch: &RecordBatch) -> Result<RecordBatch, StageError> {
        let Some(errors) = batch.column_by_name(ERROR) else { return Ok(batch.clone()) };
        if errors.null_count() < errors.len() {
            let first = (0..errors.len()).find(|&row| errors.is_valid(row)).unwrap_or(0);
            let part = |name: &str| {
                let column = errors.as_struct_opt().and_then(|errors| errors.column_by_name(name));
                let texts = column.and_then(|column| column.as_string_opt::<i32>());
                texts.map(|texts| texts.value(first).to_owned()).unwrap_or_default()
            };
            let failed = errors.len() - errors.null_count();
            return Err(StageError::Data {
                message: format!(
                    "{failed} of {} rows have no answer, the first ({}): {}",
                    errors.len(),
                    part("class"),
                    part("message")
                ),
                help: self.help.to_owned(),
            });
        }
        let names = batch.schema();
        let shown = (0..batch.num_columns()).filter(|&i| names.field(i).name() != ERROR);
        Ok(batch.project(&shown.collect::<Vec<_>>())?)
    }
}

/// The rows that a table has now.
#[derive(Debug)]
struct Rows {
    schema: SchemaRef,
    now: Mutex<RecordBatch>,
}

impl Rows {
    fn new(schema: SchemaRef) -> Self {
        let now = Mutex::new(RecordBatch::new_empty(Arc::clone(&schema)));
        Self { schema, now }
    }

    /// Gives the table other rows, under the columns that were planned.
    fn set(&self, batch: &RecordBatch) -> Result<(), StageError> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), batch.columns().to_vec())?;
        *self.lock() = batch;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, RecordBatch> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let now = self.lock().clone();
        let rows = stream::iter([Ok(now)]);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
