//! `index`: a memory made searchable by its words. The artifact holds the index's files and, as its
//! table, the entries in the order in which they were added. For vectors: `dense`.

pub mod dense;
pub mod kept;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::{cast, interleave};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;

use crate::graph::Stage;
use crate::session::engine::BATCH_ROWS;
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::kinds::index::kept::{Ids, KeptColumns};
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::sink::{Computed, Sink};
use crate::stages::tables::columns;
use proofmill_base::ids::StageName;
use proofmill_base::sentence::fact_id;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::index::{Index, IndexKind};
use proofmill_retrieval::{
    IndexBuilder, IndexSpec, MEMORY_BYTES_MIN, MemoryEntry, MemoryRow, memory_entries, row_entries,
};
use proofmill_settings::search::IndexBy;

/// Most memory of the index builder before it spills to its folder, in bytes.
const BUILDER_BYTES_MAX: usize = 128 << 20;
/// Memory of the index builder for each byte of text.
const BUILDER_BYTES_PER_BYTE: usize = 4;

/// A prepared `index`.
#[derive(Clone, Debug)]
pub struct IndexPlan {
    /// The stage that holds the memory.
    memory: StageName,
    fact: usize,
    question: Option<usize>,
    by: IndexBy,
    kept: KeptColumns,
    spec: IndexSpec,
    schema: SchemaRef,
}

/// Columns of an index as a table, before those that are kept.
fn schema() -> Schema {
    Schema::new(vec![
        Field::new("entry", DataType::Int64, false),
        Field::new("fact_id", DataType::Utf8, false),
        Field::new("fact", DataType::Utf8, false),
        Field::new("text", DataType::Utf8, false),
        Field::new("sources", DataType::Int64, false),
    ])
}

/// The kind and the way, for words with formula and analyzer, as `retrieved.index` shows it.
pub fn label(settings: &Index) -> String {
    if settings.kind == IndexKind::Dense {
        return dense::label(settings);
    }
    let spec = spec(settings);
    format!(
        "bm25/{}/{}/k1={}/b={}/{}{}",
        settings.by.name(),
        spec.variant.stored_name(),
        spec.k1(),
        spec.b(),
        spec.analyzer.name(),
        KeptColumns::label(settings)
    )
}

#[async_trait]
impl StagePlan for IndexPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        compute(self, execution.rows(Some(&self.memory)).await?, execution.sink).await
    }
}

impl Kind for Index {
    fn traits(&self) -> Traits {
        Traits {
            version: 1,
            rows_can_fail: false,
            has_partitions: false,
            settings: Counted::ByTheKind,
            repeats: Repeats::Rows,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, components, diagnostics, .. } = context;
        match self.kind {
            IndexKind::Bm25 => refuse_idle(inputs.stage, &["vector"], self.kind, diagnostics)?,
            IndexKind::Dense => {
                refuse_idle(
                    inputs.stage,
                    &["variant", "k1", "b", "delta", "analyzer"],
                    self.kind,
                    diagnostics,
                )?;
                return dense::prepare(self, *inputs, components, diagnostics);
            }
        }
        let memory = inputs.name("from")?.clone();
        let input = inputs.table_of(&memory)?.schema();
        let fact = diagnostics.text_column(&["index", "fact"], &self.fact, &input);
        let question = dense::question(self, &input, diagnostics)?;
        let kept = KeptColumns::of(self, &input, diagnostics)?;
        let spec = spec(self);
        if let Err(error) = spec.check() {
            diagnostics.error(&["index", "delta"], Code::WrongValue, error.to_string(), None);
            return None;
        }
        components.set_settings(self);
        let schema = kept.behind(&schema());
        let plan = IndexPlan {
            memory,
            fact: fact?,
            question,
            by: self.by,
            kept,
            spec,
            schema: Arc::clone(&schema),
        };
        Some(Preparation::new(schema, plan))
    }
}

/// A diagnostic for each setting that is written and belongs to the other kind of index.
fn refuse_idle(
    stage: &Stage,
    keys: &[&str],
    kind: IndexKind,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let written = stage.spec.node.get("index");
    let idle = keys.iter().filter(|key| written.is_some_and(|node| node.get(key).is_some()));
    let found: Vec<_> = idle.collect();
    for key in &found {
        let message = format!("`{key}` has no effect with `kind: {}`", kind.as_str());
        let help = match kind {
            IndexKind::Bm25 => "leave it out, or add `kind: dense`",
            IndexKind::Dense => "leave it out: vectors are compared as they are",
        };
        diagnostics.error(&["index", key], Code::UnknownKey, message, Some(help.to_owned()));
    }
    found.is_empty().then_some(())
}

fn spec(settings: &Index) -> IndexSpec {
    IndexSpec {
        variant: settings.variant,
        k1: settings.k1,
        b: settings.b,
        delta: settings.delta,
        analyzer: settings.analyzer,
    }
}

/// Builds the index over the rows of the memory, in their order.
pub async fn compute(
    plan: &IndexPlan,
    memory: Vec<RecordBatch>,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let folder = tempfile::tempdir()
        .map_err(|source| StageError::Write { path: "a temporary folder".to_owned(), source })?;
    let (plan, path) = (plan.clone(), folder.path().join("index"));
    let built = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || build(&plan, &memory, &path))
            .await
            .map_err(|error| StageError::Task(error.to_string()))??
    };
    let mut part = sink.part(0, 1);
    for batch in built {
        part.write(batch).await?;
    }
    let mut computed = Computed::of([part.finish().await?]);
    for (number, name) in file_names(&path)?.into_iter().enumerate() {
        computed.files.push(sink.file(number as u32, &name, &path.join(&name)).await?);
    }
    Ok(computed)
}

/// Where a row of the memory is: its batch, and its row there.
type Place = (usize, usize);

fn build(
    plan: &IndexPlan,
    memory: &[RecordBatch],
    folder: &Path,
) -> Result<Vec<RecordBatch>, StageError> {
    let texts = |column: usize| -> Result<Vec<StringArray>, StageError> {
        let text = |batch: &RecordBatch| {
            let array = cast(batch.column(column), &DataType::Utf8)?;
            Ok(array
                .as_any()
                .downcast_ref::<StringArray>()
                .cloned()
                .unwrap_or_else(|| StringArray::new_null(batch.num_rows())))
        };
        memory.iter().map(text).collect()
    };
    let facts = texts(plan.fact)?;
    let questions = plan.question.map(texts).transpose()?;
    let places_of =
        |(i, batch): (usize, &RecordBatch)| (0..batch.num_rows()).map(move |row| (i, row));
    let places: Vec<Place> = memory.iter().enumerate().flat_map(places_of).collect();
    // A row without a fact teaches nothing.
    let rows = places.iter().map(|place| MemoryRow {
        fact: text_at(&facts, *place),
        question: questions.as_ref().map_or("", |questions| text_at(questions, *place)),
    });
    let entries = match plan.kept.id {
        None => memory_entries(rows, plan.by),
        Some(_) => row_entries(rows, plan.by),
    };
    let texts: usize = entries.iter().map(|entry| entry.text.len()).sum();
    let budget = (BUILDER_BYTES_PER_BYTE * texts).clamp(MEMORY_BYTES_MIN, BUILDER_BYTES_MAX);
    let mut builder = IndexBuilder::create(folder, plan.spec, budget)?;
    for entry in &entries {
        builder.add(&entry.text)?;
    }
    builder.finish()?;
    table(plan, memory, &places, &entries)
}

fn text_at(texts: &[StringArray], (i, row): Place) -> &str {
    if texts[i].is_valid(row) { texts[i].value(row) } else { "" }
}

/// The entries as a table, with what they keep of their rows.
fn table(
    plan: &IndexPlan,
    memory: &[RecordBatch],
    places: &[Place],
    entries: &[MemoryEntry],
) -> Result<Vec<RecordBatch>, StageError> {
    let rows = |entries: &[MemoryEntry]| -> Vec<Place> {
        entries.iter().map(|entry| places[entry.rows[0] as usize]).collect()
    };
    let ids: Vec<String> = match &plan.kept.id {
        None => entries.iter().map(|entry| fact_id(&entry.fact)).collect(),
        Some(column) => {
            let texts = memory.iter().map(|batch| columns::texts(batch, column));
            let texts: Vec<StringArray> = texts.collect::<Result<_, _>>()?;
            let mut ids = Ids::default();
            let id = |(entry, (i, row)): (&MemoryEntry, Place)| {
                let id = texts[i].is_valid(row).then(|| texts[i].value(row));
                ids.checked(column, id, entry.rows[0].into()).map(str::to_owned)
            };
            entries.iter().zip(rows(entries)).map(id).collect::<Result<_, _>>()?
        }
    };
    let kept = plan.kept.columns.iter().map(|field| {
        let batches =
            memory.iter().map(|batch| columns::column(batch, field.name()).map(AsRef::as_ref));
        batches.collect::<Result<Vec<&dyn Array>, _>>()
    });
    let kept: Vec<Vec<&dyn Array>> = kept.collect::<Result<_, _>>()?;
    let chunk = |(i, (entries, ids)): (usize, (&[MemoryEntry], &[String]))| {
        let first = (i * BATCH_ROWS) as i64;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(first..first + entries.len() as i64)),
            Arc::new(StringArray::from_iter_values(ids)),
            Arc::new(StringArray::from_iter_values(entries.iter().map(|e| &e.fact))),
            Arc::new(StringArray::from_iter_values(entries.iter().map(|e| &e.text))),
            Arc::new(Int64Array::from_iter_values(entries.iter().map(|e| e.rows.len() as i64))),
        ];
        for arrays in &kept {
            columns.push(interleave(arrays, &rows(entries))?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&plan.schema), columns)?)
    };
    entries.chunks(BATCH_ROWS).zip(ids.chunks(BATCH_ROWS)).enumerate().map(chunk).collect()
}

fn file_names(folder: &Path) -> Result<Vec<String>, StageError> {
    let failed = |source| StageError::Write { path: folder.display().to_string(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // tantivy's lock files say nothing about the index.
        if let Ok(name) = entry.file_name().into_string()
            && !name.ends_with(".lock")
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
