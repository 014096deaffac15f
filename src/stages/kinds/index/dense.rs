//! `index` with `kind: dense`: a memory made searchable by vectors. The artifact is a table, the
//! entries in the order of their first rows, in parts of bounded size so that a search never
//! holds more than one of them.

use std::iter::Peekable;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Int64Array, ListArray, RecordBatch, StringArray,
    UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::logical_expr::{Expr, cast as cast_expr, ident};
use futures::TryStreamExt;

use crate::session::{Engine, StageTable};
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::fingerprint::Components;
use crate::stages::kind::{Inputs, Preparation};
use crate::stages::kinds::index::kept::{Ids, KeptColumns};
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::sink::{Computed, Sink};
use crate::stages::tables::rows;
use crate::stages::tables::vectors::{self, Vectors};
use proofmill_base::ids::StageName;
use proofmill_base::sentence::fact_id;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::index::Index;
use proofmill_retrieval::vectors::{VectorFlaw, check};
use proofmill_retrieval::{ENTRIES_MAX, FirstRow, FirstRows, MemoryRow, SearchError};
use proofmill_settings::search::IndexBy;

/// Bytes of vectors after which a part ends.
const PART_BYTES: usize = 64 << 20;
/// The column of the vectors, there and here.
const VECTOR: &str = "vector";
/// The column that tells the rows of a table apart, where it has one.
const ROW_ID: &str = "row_id";

/// A prepared dense `index`.
#[derive(Clone, Debug)]
pub struct DensePlan {
    /// The stage that holds the memory.
    pub memory: StageName,
    fact: String,
    question: Option<String>,
    vector: String,
    /// The column that names a row in messages, if there is one.
    row_name: Option<String>,
    indexing: IndexBy,
    kept: KeptColumns,
    schema: SchemaRef,
}

/// Columns of a dense index as a table, before those that are kept.
fn schema() -> Schema {
    Schema::new(vec![
        Field::new("entry", DataType::Int64, false),
        Field::new("fact_id", DataType::Utf8, false),
        Field::new("fact", DataType::Utf8, false),
        Field::new("sources", DataType::Int64, false),
        Field::new(VECTOR, vectors::data_type(), false),
    ])
}

/// The position of the column of the questions, which all ways but `fact` need; `None` for a diagnostic.
pub fn question(
    settings: &Index,
    input: &SchemaRef,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Option<usize>> {
    match (&settings.question, settings.by) {
        (Some(column), _) => {
            Some(Some(diagnostics.text_column(&["index", "question"], column, input)?))
        }
        (None, IndexBy::Fact) => Some(None),
        (None, by) => {
            let message =
                format!("`by: {}` needs `question`, the column of the questions", by.name());
            diagnostics.error(&["index", "by"], Code::MissingKey, message, None);
            None
        }
    }
}

/// The kind and the way, as `retrieved.index` shows it.
pub fn label(settings: &Index) -> String {
    format!("dense/{}{}", settings.by.name(), KeptColumns::label(settings))
}

#[async_trait]
impl StagePlan for DensePlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        match execution.table(&self.memory) {
            Some(memory) => compute(self, memory, execution.engine, execution.sink).await,
            None => Ok(Computed::default()),
        }
    }
}

/// Checks the columns.
pub fn prepare(
    settings: &Index,
    inputs: Inputs<'_>,
    components: &mut Components,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Preparation> {
    let memory = inputs.name("from")?.clone();
    let input = inputs.table_of(&memory)?.schema();
    let indexing = match settings.by {
        by @ (IndexBy::Fact | IndexBy::Question) => Some(by),
        by @ (IndexBy::QuestionFact | IndexBy::RelevantQuestions) => {
            let message = format!("`by: {}` joins texts, but vectors cannot be joined", by.name());
            let help = "write `fact` or `question`, and join the texts before they are embedded";
            diagnostics.error(&["index", "by"], Code::WrongValue, message, Some(help.to_owned()));
            None
        }
    };
    let fact = diagnostics.text_column(&["index", "fact"], &settings.fact, &input);
    let vector = settings.vector.as_deref().unwrap_or(VECTOR);
    let is_vector = diagnostics.vector_column(&["index", "vector"], vector, &input);
    let question = indexing.and_then(|_| question(settings, &input, diagnostics));
    let kept = KeptColumns::of(settings, &input, diagnostics);
    let (indexing, question, kept, _, _) = (indexing?, question?, kept?, fact?, is_vector?);
    components.set("settings.kind", settings.kind.as_str());
    components.set("settings.by", settings.by.name());
    components.set("settings.fact", &settings.fact);
    components.set("settings.vector", vector);
    if let Some(question) = &settings.question {
        components.set("settings.question", question);
    }
    if let Some(id) = &kept.id {
        components.set("settings.id", id);
    }
    for (i, column) in settings.keep.iter().enumerate() {
        components.set(format!("settings.keep[{i}]"), column);
    }
    let schema = kept.behind(&schema());
    let row_id = input.index_of(ROW_ID).is_ok().then(|| ROW_ID.to_owned());
    let plan = DensePlan {
        memory,
        fact: settings.fact.clone(),
        question: question.map(|column| input.field(column).name().clone()),
        vector: vector.to_owned(),
        row_name: kept.id.clone().or(row_id),
        indexing,
        kept,
        schema: Arc::clone(&schema),
    };
    Some(Preparation::new(schema, plan))
}

/// Writes the entries of the memory. Reads it twice, so that what is held at a time does not grow
/// with its vectors: first its texts, to find the rows that begin an entry, then the vectors.
pub async fn compute(
    plan: &DensePlan,
    memory: &Arc<StageTable>,
    engine: &Engine,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let first = first_rows(plan, memory, engine).await?;
    if first.len() > ENTRIES_MAX as usize {
        return Err(SearchError::TooManyEntries.into());
    }
    let mut columns = vec![text(&plan.fact).alias("fact"), ident(&plan.vector).alias(VECTOR)];
    columns.extend(plan.kept.columns.iter().enumerate().map(|(i, field)| {
        // Under names of ours: one of them may be the column of the ids.
        ident(field.name()).alias(format!("kept_{i}"))
    }));
    columns.extend(plan.row_name.as_deref().map(|name| text(name).alias(ROW_ID)));
    let mut rows = rows::columns(memory, columns, engine).await?;
    let first = first.into_iter().peekable();
    let ids = Ids::default();
    let mut entries = Entries { plan, first, ids, dimension: None, rows: 0, entries: 0 };
    // How many pieces there will be is not known, and it only matters whether it is one.
    let pieces = usize::MAX;
    let (mut written, mut part, mut bytes) = (Vec::new(), sink.part(0, pieces), 0);
    while let Some(batch) = rows.try_next().await? {
        let batch = entries.next(&batch)?;
        bytes += batch.num_rows() * entries.dimension.unwrap_or(0) * size_of::<f32>();
        part.write(batch).await?;
        if bytes >= PART_BYTES {
            written.push(part.finish().await?);
            (part, bytes) = (sink.part(written.len(), pieces), 0);
        }
    }
    written.push(part.finish().await?);
    Ok(Computed::of(written))
}

fn text(column: &str) -> Expr {
    cast_expr(ident(column), DataType::Utf8)
}

async fn first_rows(
    plan: &DensePlan,
    memory: &Arc<StageTable>,
    engine: &Engine,
) -> Result<Vec<FirstRow>, StageError> {
    let question = plan.question.as_deref().unwrap_or(&plan.fact);
    let columns = vec![text(&plan.fact).alias("fact"), text(question).alias("question")];
    let mut rows = rows::columns(memory, columns, engine).await?;
    let mut first = match plan.kept.id {
        None => FirstRows::new(plan.indexing),
        Some(_) => FirstRows::of_rows(),
    };
    while let Some(batch) = rows.try_next().await? {
        let texts = |column: usize| batch.column(column).as_string::<i32>().iter();
        for (fact, question) in texts(0).zip(texts(1)) {
            // A row without a fact teaches nothing.
            let (fact, question) = (fact.unwrap_or_default(), question.unwrap_or_default());
            first.add(MemoryRow { fact, question });
        }
    }
    Ok(first.finish())
}

/// Makes entries of the rows of a memory, batch by batch.
struct Entries<'a> {
    plan: &'a DensePlan,
    /// The rows that begin the next entries.
    first: Peekable<std::vec::IntoIter<FirstRow>>,
    ids: Ids,
    /// Of all vectors, once there was one.
    dimension: Option<usize>,
    /// Rows so far.
    rows: u64,
    entries: i64,
}

impl Entries<'_> {
    /// The entries that begin in the next rows: columns `fact`, `vector`, those that are kept, and maybe
    /// `row_id`.
    fn next(&mut self, batch: &RecordBatch) -> Result<RecordBatch, StageError> {
        let (start, end) = (self.rows, self.rows + batch.num_rows() as u64);
        let facts = batch.column(0).as_string::<i32>();
        let vectors = Vectors::of(batch.column(1))?;
        let row_ids = batch.column_by_name(ROW_ID).map(|ids| ids.as_string::<i32>());
        let (mut fact_ids, mut chosen, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let (mut sources, mut values) = (Vec::new(), Vec::new());
        while let Some(first) = self.first.next_if(|first| first.row < end) {
            let row = (first.row - start) as usize;
            let vector = vectors.get(row).and_then(|vector| self.checked(vector));
            values.extend_from_slice(vector.map_err(|flaw| flawed(batch, row, first.row, flaw))?);
            fact_ids.push(match &self.plan.kept.id {
                None => fact_id(facts.value(row)),
                Some(column) => {
                    let ids = row_ids.filter(|ids| ids.is_valid(row));
                    let id = ids.map(|ids| ids.value(row));
                    self.ids.checked(column, id, first.row)?.to_owned()
                }
            });
            chosen.push(facts.value(row));
            places.push(row as u64);
            sources.push(i64::from(first.rows));
        }
        let ordinals = self.entries..self.entries + chosen.len() as i64;
        (self.rows, self.entries) = (end, ordinals.end);
        let lengths = chosen.iter().map(|_| self.dimension.unwrap_or(0));
        let vectors = ListArray::try_new(
            vectors::item(false),
            OffsetBuffer::from_lengths(lengths),
            Arc::new(Float32Array::from(values)),
            None,
        )?;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(ordinals)),
            Arc::new(StringArray::from(fact_ids)),
            Arc::new(StringArray::from(chosen)),
            Arc::new(Int64Array::from(sources)),
            Arc::new(vectors),
        ];
        let places = UInt64Array::from(places);
        for kept in &batch.columns()[2..2 + self.plan.kept.columns.len()] {
            columns.push(take(kept, &places, None)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.plan.schema), columns)?)
    }

    /// `vector`, if it can stand beside those before it.
    fn checked<'a>(&mut self, vector: &'a [f32]) -> Result<&'a [f32], VectorFlaw> {
        check(vector, *self.dimension.get_or_insert(vector.len()))?;
        Ok(vector)
    }
}

/// What is wrong with the vector of a row: its place in the batch, and its number in the table.
fn flawed(batch: &RecordBatch, row: usize, number: u64, flaw: VectorFlaw) -> StageError {
    let id = batch.column_by_name(ROW_ID).map(|ids| ids.as_string::<i32>());
    let name = match id.filter(|ids| ids.is_valid(row)) {
        Some(ids) => format!("`{}`", ids.value(row)),
        None => (number + 1).to_string(),
    };
    StageError::Data {
        message: format!("the vector of row {name} {flaw}"),
        help: "give each fact of the memory a vector of the same model".to_owned(),
    }
}
