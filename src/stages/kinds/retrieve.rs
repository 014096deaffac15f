//! `retrieve`: queries x memory -> ranked rows. For words, a query plan that asks the index batch by
//! batch; for vectors, `nearest`.

mod nearest;
mod opened;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
    UInt32Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat_batches, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result as QueryResult, TableReference, exec_err};
use datafusion::datasource::provider_as_source;
use datafusion::functions::core::expr_ext::FieldAccessor;
use datafusion::logical_expr::{
    ColumnarValue, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, cast as cast_expr, ident, lit,
};

use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::kind::{Kind, Preparation, Preparing, Traits};
use crate::stages::kinds::index;
use crate::stages::kinds::retrieve::opened::Opened;
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::queries::query;
use crate::stages::sink::Computed;
use crate::stages::tables::columns;
use proofmill_base::ids::StageName;
use proofmill_base::suggest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::StageKind;
use proofmill_pipeline::kinds::index::{Index, IndexKind};
use proofmill_pipeline::kinds::retrieve::Retrieve;
use proofmill_retrieval::Bm25Index;
use proofmill_store::{NamedFile, Store};

/// A query that asks an index of words.
#[derive(Debug)]
struct RetrievePlan {
    query: LogicalPlan,
    slot: Arc<MemorySlot>,
}

#[async_trait]
impl StagePlan for RetrievePlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let (sink, cache) = (execution.sink, execution.cache);
        if let Some(memory) = execution.table(&self.slot.stage)
            && let Some(stored) = memory.stored()
        {
            let entries = execution.rows(Some(&self.slot.stage)).await?;
            let all = concat_batches(&self.slot.schema, &entries)?;
            let (files, snapshot) = (&stored.files, stored.snapshot.clone());
            let shown = self.slot.shown(&all)?;
            self.slot.fill(open(&sink.store, cache, files, shown, snapshot).await?);
        }
        let session = execution.engine.running(0, execution.common().partitions);
        query::compute(&self.query, &session, sink).await
    }
}

/// An opened index with its entries.
struct Searcher {
    index: Bm25Index,
    /// What a hit shows of its entry: `fact_id`, `fact` and what is kept.
    shown: Vec<ArrayRef>,
    snapshot: String,
    /// Held as long as the index is in use.
    _folder: Opened,
}

/// Where a plan finds its index: bound when the index is stored.
struct MemorySlot {
    /// The `index` stage.
    stage: StageName,
    /// Its columns.
    schema: SchemaRef,
    /// The columns of its memory that neighbours keep.
    kept: Vec<FieldRef>,
    searcher: OnceLock<Searcher>,
}

impl std::fmt::Debug for MemorySlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemorySlot({:?})", self.stage)
    }
}

impl MemorySlot {
    /// What hits show of the entries.
    fn shown(&self, entries: &RecordBatch) -> Result<Vec<ArrayRef>, StageError> {
        let kept = self.kept.iter().map(|field| field.name().as_str());
        let names = ["fact_id", "fact"].into_iter().chain(kept);
        names.map(|name| columns::column(entries, name).cloned()).collect()
    }

    /// Binds the index; the first call counts.
    fn fill(&self, searcher: Searcher) {
        let _ = self.searcher.set(searcher);
    }
}

impl Kind for Retrieve {
    fn traits(&self) -> Traits {
        Traits::of_query(1)
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, diagnostics, .. } = context;
        let queries = inputs.table("from")?;
        let memory = inputs.name("memory")?;
        let index = match &inputs.stages.get(memory)?.stage.spec.kind {
            StageKind::Index(index) => Some(index.as_ref()),
            _ => None,
        };
        let threads = engine.limits().cores;
        let each = u64::from(self.top_k);
        let rows_expected = inputs.rows_expected().map(|rows| rows.saturating_mul(each));
        let input = queries.schema();
        let steps = ["retrieve", "query"];
        let query = match index.map(|index| index.kind) {
            Some(IndexKind::Bm25) => diagnostics.text_column(&steps, &self.query, &input),
            Some(IndexKind::Dense) => diagnostics.vector_column(&steps, &self.query, &input),
            None => diagnostics.column(&steps, &self.query, &input),
        };
        let id = diagnostics.column(&["retrieve", "id"], &self.id, &input);
        let Some(index) = index else {
            let message = format!("`{}` is not an index", self.memory);
            let help =
                "name an `index` stage, or add `index: bm25` to build one on the fly".to_owned();
            diagnostics.error(&["retrieve", "memory"], Code::WrongKind, message, Some(help));
            return None;
        };
        if self.index != Some(IndexKind::Bm25) && !self.analyzer.is_default() {
            let message = "`analyzer` requires `index: bm25`".to_owned();
            let help = "an `index` stage has an `analyzer` of its own".to_owned();
            diagnostics.error(&["retrieve", "analyzer"], Code::WrongValue, message, Some(help));
            return None;
        }
        let entries = inputs.table_of(memory)?.schema();
        let kept = kept(self, index, &entries, diagnostics);
        let (_, id, kept) = (query?, id?, kept?);
        let label = index::label(index);
        if index.kind == IndexKind::Dense {
            let preparation = nearest::prepare(self, label, input.field(id), kept, context)?;
            return Some(preparation.expecting(rows_expected));
        }
        let columns: Vec<String> = kept.iter().map(|field| field.name().clone()).collect();
        let slot = Arc::new(MemorySlot {
            stage: memory.clone(),
            schema: entries,
            kept,
            searcher: OnceLock::new(),
        });
        let search = ScalarUDF::from(Search::new(Arc::clone(&slot), self.top_k as usize, threads));
        let plan = || -> QueryResult<_> {
            let name = TableReference::bare("queries");
            let hit = |field: &str| ident("hit").field(field).alias(field);
            let kept = columns.iter().map(|column| hit(column));
            let own = [
                ident("query_id"),
                hit("rank"),
                hit("score"),
                hit("fact_id"),
                hit("fact"),
                lit(label).alias("index"),
                hit("snapshot"),
            ];
            LogicalPlanBuilder::scan(name, provider_as_source(queries), None)?
                .project([
                    cast_expr(ident(&self.id), DataType::Utf8).alias("query_id"),
                    search.call(vec![cast_expr(ident(&self.query), DataType::Utf8)]).alias("hit"),
                ])?
                .unnest_column("hit")?
                .filter(ident("hit").is_not_null())?
                .project(own.into_iter().chain(kept))?
                .build()
        };
        match plan() {
            Ok(plan) => {
                let fields: Vec<_> = plan.schema().fields().iter().cloned().collect();
                let schema = Arc::new(Schema::new(fields));
                let plan = RetrievePlan { query: plan, slot };
                Some(Preparation::new(schema, plan).expecting(rows_expected))
            }
            Err(error) => {
                diagnostics.error(&["retrieve"], Code::SqlPlan, error.strip_backtrace(), None);
                None
            }
        }
    }
}

/// The columns of the memory that neighbours keep: those of the setting, or all that the index keeps.
fn kept(
    settings: &Retrieve,
    index: &Index,
    entries: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Vec<FieldRef>> {
    let (mut fields, mut valid) = (Vec::new(), true);
    for (i, column) in settings.keep.iter().enumerate() {
        let message = match settings.keep[..i].contains(column) {
            true => format!("`{column}` is named twice"),
            false if index.keep.contains(column) => continue,
            false => format!("the index `{}` does not keep `{column}`", settings.memory),
        };
        let kept = index.keep.iter().map(String::as_str);
        let help = suggest::nearest(column, kept).map(|near| format!("did you mean `{near}`?"));
        let help = help.unwrap_or_else(|| "add it to `keep` of the index".to_owned());
        let steps = ["retrieve", "keep", &i.to_string()];
        diagnostics.error(&steps, Code::UnknownColumn, message, Some(help));
        valid = false;
    }
    let wanted = if settings.keep.is_empty() { &index.keep } else { &settings.keep };
    for column in wanted {
        fields.extend(entries.fields().find(column).map(|(_, field)| Arc::clone(field)));
    }
    valid.then_some(fields)
}

/// Opens a stored index: its files in a folder of `cache`, what hits show of its entries in memory.
async fn open(
    store: &Store,
    cache: &Path,
    files: &[NamedFile],
    shown: Vec<ArrayRef>,
    snapshot: String,
) -> Result<Searcher, StageError> {
    let folder = opened::fetch(store, cache, files).await?;
    let opening = tokio::task::spawn_blocking(move || -> Result<_, StageError> {
        let index = Bm25Index::open(folder.folder())?;
        Ok(Searcher { index, shown, snapshot, _folder: folder })
    });
    opening.await.map_err(|error| StageError::Task(error.to_string()))?
}

/// The function that asks the index: text -> list of hits, best first.
#[derive(Debug)]
struct Search {
    slot: Arc<MemorySlot>,
    top_k: usize,
    threads: usize,
    signature: Signature,
    hits: Fields,
}

impl PartialEq for Search {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.slot, &other.slot) && self.top_k == other.top_k
    }
}

impl Eq for Search {}

impl std::hash::Hash for Search {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.slot) as usize, self.top_k).hash(state);
    }
}

impl Search {
    fn new(slot: Arc<MemorySlot>, top_k: usize, threads: usize) -> Self {
        let field = |name: &str, kind| Arc::new(Field::new(name, kind, false));
        let own = [
            field("rank", DataType::Int64),
            field("score", DataType::Float64),
            field("snapshot", DataType::Utf8),
            field("fact_id", DataType::Utf8),
            field("fact", DataType::Utf8),
        ];
        let hits: Fields = own.into_iter().chain(slot.kept.iter().cloned()).collect();
        let signature = Signature::exact(vec![DataType::Utf8], Volatility::Immutable);
        Self { slot, top_k, threads, signature, hits }
    }

    fn item(&self) -> Arc<Field> {
        Arc::new(Field::new("item", DataType::Struct(self.hits.clone()), true))
    }
}

impl ScalarUDFImpl for Search {
    fn name(&self) -> &str {
        "search_memory"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> QueryResult<DataType> {
        Ok(DataType::List(self.item()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> QueryResult<ColumnarValue> {
        let Some(searcher) = self.slot.searcher.get() else {
            return exec_err!("the index is queried before it is stored");
        };
        let queries = args.args[0].to_array(args.number_rows)?;
        let queries = cast(&queries, &DataType::Utf8)?;
        let Some(queries) = queries.as_any().downcast_ref::<StringArray>() else {
            return exec_err!("queries are texts");
        };
        let texts: Vec<&str> = queries.iter().map(Option::unwrap_or_default).collect();
        let found = searcher
            .index
            .search_batch(&texts, self.top_k, self.threads)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let hits: Vec<_> = found.iter().flatten().collect();
        let ordinals: UInt32Array = hits.iter().map(|hit| hit.ordinal).collect::<Vec<_>>().into();
        let scores: Vec<f64> = hits.iter().map(|hit| hit.score).collect();
        let ranks: Vec<i64> = found.iter().flat_map(|hits| 1..=hits.len() as i64).collect();
        let snapshots = hits.iter().map(|_| &searcher.snapshot);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ranks)),
            Arc::new(Float64Array::from(scores)),
            Arc::new(StringArray::from_iter_values(snapshots)),
        ];
        for shown in &searcher.shown {
            columns.push(take(shown, &ordinals, None)?);
        }
        let offsets = OffsetBuffer::from_lengths(found.iter().map(Vec::len));
        let values = StructArray::try_new(self.hits.clone(), columns, None)?;
        let list = ListArray::try_new(self.item(), offsets, Arc::new(values), None)?;
        Ok(ColumnarValue::Array(Arc::new(list)))
    }
}
