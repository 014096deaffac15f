//! `retrieve` over a dense index: the exact best entries by inner product. Queries are taken in tiles
//! and entries in blocks, both of bounded size; each tile sees all blocks once.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow::compute::{concat_batches, take, take_record_batch};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::logical_expr::{Expr, cast as cast_expr, ident};
use futures::TryStreamExt;
use futures::stream::BoxStream;

use crate::session::engine::BATCH_ROWS;
use crate::session::{Engine, StageTable};
use crate::stages::error::StageError;
use crate::stages::kind::{Preparation, Preparing};
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::progress::Progress;
use crate::stages::sink::{Computed, Sink};
use crate::stages::tables::rows;
use crate::stages::tables::vectors::Vectors;
use proofmill_base::ids::StageName;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::retrieve::Retrieve;
use proofmill_retrieval::Hit;
use proofmill_retrieval::vectors::{Block, Nearest, NearestError, VectorFlaw};

/// Bytes of the vectors of a block. Two of them are held: one is filled while the other is searched.
const BLOCK_BYTES: usize = 64 << 20;
/// Bytes of the queries of a tile with their best entries.
const TILE_BYTES: usize = 64 << 20;

type Rows = BoxStream<'static, Result<RecordBatch, StageError>>;

/// A prepared `retrieve` over a dense index.
#[derive(Clone, Debug)]
pub struct NearestPlan {
    /// The stage that holds the queries.
    pub queries: StageName,
    /// The `index` stage.
    pub memory: StageName,
    query: String,
    id: String,
    top_k: usize,
    label: String,
    /// The columns of the memory that neighbours keep.
    kept: Vec<FieldRef>,
    schema: SchemaRef,
}

#[async_trait]
impl StagePlan for NearestPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        match (execution.table(&self.queries), execution.table(&self.memory)) {
            (Some(queries), Some(memory)) => {
                compute(self, queries, memory, execution.engine, execution.sink).await
            }
            _ => Ok(Computed::default()),
        }
    }
}

/// Prepares what `retrieve` has checked: `label` says how the index is made, `id` is the column that
/// identifies a query, `kept` what neighbours keep of their rows.
pub fn prepare(
    settings: &Retrieve,
    label: String,
    id: &Field,
    kept: Vec<FieldRef>,
    context: &mut Preparing<'_>,
) -> Option<Preparation> {
    let Preparing { inputs, diagnostics, .. } = context;
    if inputs.stage.spec.common.partitions.is_some() {
        let message = "`partitions` has no effect with a dense index".to_owned();
        let help = "leave it out: all cores are used".to_owned();
        diagnostics.error(&["partitions"], Code::UnknownKey, message, Some(help));
        return None;
    }
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let own = [
        Field::new("query_id", DataType::Utf8, id.is_nullable()),
        Field::new("rank", DataType::Int64, false),
        Field::new("score", DataType::Float64, false),
        text("fact_id"),
        text("fact"),
        text("index"),
        text("snapshot"),
    ];
    let fields = own.map(Arc::new).into_iter().chain(kept.iter().cloned());
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let plan = NearestPlan {
        queries: inputs.name("from")?.clone(),
        memory: inputs.name("memory")?.clone(),
        query: settings.query.clone(),
        id: settings.id.clone(),
        top_k: settings.top_k as usize,
        label,
        kept,
        schema: Arc::clone(&schema),
    };
    Some(Preparation::new(schema, plan))
}

/// Answers all queries.
pub async fn compute(
    plan: &NearestPlan,
    queries: &Arc<StageTable>,
    memory: &Arc<StageTable>,
    engine: &Engine,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let mut part = sink.part(0, 1);
    // Without an entry, no query has an answer.
    if let Some(dimension) = dimension(memory, engine).await? {
        let columns = vec![text(&plan.id).alias("id"), ident(&plan.query)];
        let rows = rows::columns(queries, columns, engine).await?;
        let query_count = queries.rows();
        let mut queries = Queries { rows, batch: None };
        let search = Search {
            plan,
            memory,
            engine,
            dimension,
            progress: &sink.progress,
            k: plan.top_k.min(usize::try_from(memory.rows()).unwrap_or(usize::MAX)),
            snapshot: memory.stored().map(|stored| stored.snapshot.as_str()).unwrap_or_default(),
        };
        let most = (TILE_BYTES / Nearest::query_bytes(dimension, search.k)).max(1);
        sink.progress.expect_entries(query_count.div_ceil(most as u64) * memory.rows());
        loop {
            let tile = queries.take(most).await?;
            if tile.ids.is_empty() {
                break;
            }
            for batch in search.answer(tile).await? {
                part.write(batch?).await?;
            }
        }
    }
    Ok(Computed::of([part.finish().await?]))
}

fn text(column: &str) -> Expr {
    cast_expr(ident(column), DataType::Utf8)
}

/// Dimensions of the vectors of an index; `None` if it has none.
async fn dimension(memory: &Arc<StageTable>, engine: &Engine) -> Result<Option<usize>, StageError> {
    let mut rows = rows::columns(memory, vec![ident("vector")], engine).await?;
    while let Some(batch) = rows.try_next().await? {
        if batch.num_rows() > 0 {
            let vectors = Vectors::of(batch.column(0))?;
            return vectors.get(0).map(|vector| Some(vector.len())).map_err(damaged);
        }
    }
    Ok(None)
}

/// Queries that are answered together.
#[derive(Default)]
struct Tile {
    ids: Vec<Option<String>>,
    vectors: Vec<Box<[f32]>>,
}

/// The queries, in order.
struct Queries {
    rows: Rows,
    /// Ids and vectors, and the next row of them.
    batch: Option<(StringArray, Vectors, usize)>,
}

impl Queries {
    /// The next ones, at most `most`; none at the end.
    async fn take(&mut self, most: usize) -> Result<Tile, StageError> {
        let mut tile = Tile::default();
        while tile.ids.len() < most {
            if let Some((ids, vectors, row)) = &mut self.batch
                && *row < vectors.rows()
            {
                let id = ids.is_valid(*row).then(|| ids.value(*row).to_owned());
                let vector = vectors.get(*row).map_err(|flaw| flawed(&id, flaw))?;
                tile.vectors.push(vector.into());
                tile.ids.push(id);
                *row += 1;
                continue;
            }
            let Some(batch) = self.rows.try_next().await? else { break };
            let ids = batch.column(0).as_string().clone();
            self.batch = Some((ids, Vectors::of(batch.column(1))?, 0));
        }
        Ok(tile)
    }
}

/// The vectors of an index, in order.
struct Entries {
    rows: Rows,
    /// Vectors, and the next of them.
    batch: Option<(Vectors, usize)>,
}

impl Entries {
    /// `block` with the next ones, as many as it holds; empty at the end.
    async fn fill(&mut self, mut block: Block) -> Result<Block, StageError> {
        block.clear();
        while !block.is_full() {
            if let Some((vectors, row)) = &mut self.batch
                && *row < vectors.rows()
            {
                vectors.get(*row).and_then(|vector| block.push(vector)).map_err(damaged)?;
                *row += 1;
                continue;
            }
            let Some(batch) = self.rows.try_next().await? else { break };
            self.batch = Some((Vectors::of(batch.column(0))?, 0));
        }
        Ok(block)
    }
}

/// What all tiles have in common.
struct Search<'a> {
    plan: &'a NearestPlan,
    memory: &'a Arc<StageTable>,
    engine: &'a Engine,
    dimension: usize,
    progress: &'a Progress,
    k: usize,
    snapshot: &'a str,
}

/// Some entries of a memory, as a table of their ids, facts and what is kept.
struct Facts {
    ordinals: Vec<u32>,
    table: RecordBatch,
}

impl Search<'_> {
    /// The rows for the queries of a tile, batch by batch.
    async fn answer(
        &self,
        tile: Tile,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, StageError>>, StageError> {
        let hits = self.nearest(&tile).await?;
        let facts = self.facts(&hits).await?;
        let rows = |(id, hits): (Option<String>, Vec<Hit>)| {
            (1i64..).zip(hits).map(move |(rank, hit)| (id.clone(), rank, hit))
        };
        let mut rows = tile.ids.into_iter().zip(hits).flat_map(rows);
        Ok(std::iter::from_fn(move || {
            let rows: Vec<_> = rows.by_ref().take(BATCH_ROWS).collect();
            (!rows.is_empty()).then(|| self.batch(&rows, &facts))
        }))
    }

    /// The best entries for each query. While threads search one block, the next one is read.
    async fn nearest(&self, tile: &Tile) -> Result<Vec<Vec<Hit>>, StageError> {
        let vectors = tile.vectors.iter().map(AsRef::as_ref);
        let threads = self.engine.limits().cores;
        let mut nearest = Nearest::new(vectors, self.dimension, self.k, threads)
            .map_err(|(query, flaw)| flawed(&tile.ids[query], flaw))?;
        let rows = rows::columns(self.memory, vec![ident("vector")], self.engine).await?;
        let mut entries = Entries { rows, batch: None };
        let block = || Block::new(self.dimension, BLOCK_BYTES).map_err(|e| failed(e.into()));
        let mut spare = block()?;
        let mut block = entries.fill(block()?).await?;
        while !block.is_empty() {
            let searching = tokio::task::spawn_blocking(move || {
                let added = nearest.add(&block);
                (nearest, block, added)
            });
            let next = entries.fill(spare).await?;
            let (searched, done, added) =
                searching.await.map_err(|error| StageError::Task(error.to_string()))?;
            added.map_err(failed)?;
            self.progress.add_entries(done.len() as u64);
            (nearest, spare, block) = (searched, done, next);
        }
        Ok(nearest.finish())
    }

    /// The entries among `hits`, read from the index.
    async fn facts(&self, hits: &[Vec<Hit>]) -> Result<Facts, StageError> {
        let mut ordinals: Vec<u32> = hits.iter().flatten().map(|hit| hit.ordinal).collect();
        ordinals.sort_unstable();
        ordinals.dedup();
        let kept = self.plan.kept.iter().map(|field| ident(field.name()));
        let columns = [ident("fact_id"), ident("fact")].into_iter().chain(kept).collect();
        let mut rows = rows::columns(self.memory, columns, self.engine).await?;
        let (mut found, mut first, mut wanted) = (Vec::new(), 0u32, ordinals.as_slice());
        let mut schema = Arc::new(Schema::empty());
        while let Some(batch) = rows.try_next().await? {
            let end = first + batch.num_rows() as u32;
            let (here, later) = wanted.split_at(wanted.partition_point(|ordinal| *ordinal < end));
            let here: UInt32Array = here.iter().map(|ordinal| ordinal - first).collect();
            found.push(take_record_batch(&batch, &here)?);
            (first, wanted, schema) = (end, later, batch.schema());
        }
        Ok(Facts { table: concat_batches(&schema, &found)?, ordinals })
    }

    /// Rows of the table: the query's id, the rank and the hit of each.
    fn batch(
        &self,
        rows: &[(Option<String>, i64, Hit)],
        facts: &Facts,
    ) -> Result<RecordBatch, StageError> {
        // Every hit is among the facts, which were chosen by the hits.
        let place = |ordinal| facts.ordinals.partition_point(|known| *known < ordinal) as u32;
        let places: UInt32Array = rows.iter().map(|(_, _, hit)| place(hit.ordinal)).collect();
        let constant = |text: &str| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(rows.iter().map(|_| text)))
        };
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(|(id, _, _)| id.as_deref()).collect::<StringArray>()),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|(_, rank, _)| *rank))),
            Arc::new(Float64Array::from_iter_values(rows.iter().map(|(_, _, hit)| hit.score))),
            take(facts.table.column(0), &places, None)?,
            take(facts.table.column(1), &places, None)?,
            constant(&self.plan.label),
            constant(self.snapshot),
        ];
        for kept in &facts.table.columns()[2..] {
            columns.push(take(kept, &places, None)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.plan.schema), columns)?)
    }
}

/// What is wrong with the vector of a query.
fn flawed(id: &Option<String>, flaw: VectorFlaw) -> StageError {
    let name = id.as_deref().unwrap_or("NULL");
    StageError::Data {
        message: format!("the vector of query `{name}` {flaw}"),
        help: "give each query a vector of the model that the memory's vectors come from"
            .to_owned(),
    }
}

fn failed(error: NearestError) -> StageError {
    match error {
        NearestError::Flaw(flaw) => damaged(flaw),
        NearestError::Memory(error) => StageError::Data {
            message: error.to_string(),
            help: "run fewer stages at a time, or give the process more memory".to_owned(),
        },
    }
}

/// An index holds vectors of one dimension, or it is not what was stored.
fn damaged(flaw: VectorFlaw) -> StageError {
    StageError::Data {
        message: format!("a vector of the index {flaw}"),
        help: "build the index again from its table".to_owned(),
    }
}
