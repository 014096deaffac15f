//! `report`: tables, plots and proofs on one page. The artifact holds the page, block by block, as
//! text, as Markdown and as pictures; the folder outside is written from it.

mod block;
mod files;
mod plot;
mod proofs;
mod table;

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use futures::TryStreamExt;

use crate::draw::markdown;
use crate::graph::{Role, Stage};
use crate::session::StageTable;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::report::Report;
use crate::stages::components::Components;
use crate::stages::error::StageError;
use crate::stages::place::Place;
use crate::stages::prepare::{Outcome, Tables};
use crate::stages::prepared::{Body, Prepared};
use crate::stages::report::block::{Drawn, Shown};
use crate::stages::rows;
use crate::stages::sink::{Computed, Sink};
use proofmill_store::Store;

const KIND: &str = "report";

/// The block that is the page's own heading.
const TITLE: &str = "title";

/// A prepared `report`.
#[derive(Debug)]
pub struct ReportPlan {
    title: Option<String>,
    blocks: Vec<Shown>,
    path: Option<PathBuf>,
    schema: SchemaRef,
}

/// Checks every block against the columns of its table.
pub fn prepare(
    stage: &Stage,
    settings: &Report,
    tables: &Tables,
    mut components: Components,
    place: &mut Place<'_>,
) -> Option<Outcome> {
    let mut blocks = Vec::new();
    for (i, block) in settings.blocks.iter().enumerate() {
        let from = stage.input(&Role::Block(i));
        let schema = from.and_then(|from| Some(tables.get(from)?.schema()));
        blocks.push(Shown::new(i, block.kind()?, from.zip(schema.as_ref()), place));
    }
    let blocks: Vec<Shown> = blocks.into_iter().collect::<Option<_>>()?;
    distinct(&blocks, place)?;
    // The page says where its tables are from.
    let mut resolved = settings.clone();
    for (i, block) in resolved.blocks.iter_mut().enumerate() {
        if let (Some(written), Some(from)) = (block.from_mut(), stage.input(&Role::Block(i))) {
            *written = from.to_string();
        }
    }
    components.set_settings(&resolved);
    settings.path.iter().for_each(|path| components.set("settings.path", path));
    let schema = schema();
    let rows = blocks.len() + usize::from(settings.title.is_some());
    let plan = ReportPlan {
        title: settings.title.clone(),
        blocks,
        path: settings.path.as_ref().map(PathBuf::from),
        schema: Arc::clone(&schema),
    };
    Some(Outcome {
        schema,
        body: Body::Report(Box::new(plan)),
        components,
        rows_expected: Some(rows as u64),
    })
}

/// A mistake for each two plots whose pictures would have one name.
fn distinct(blocks: &[Shown], place: &mut Place<'_>) -> Option<()> {
    let mut sound = Some(());
    for (i, block) in blocks.iter().enumerate() {
        let Some(name) = block.picture() else { continue };
        if blocks[..i].iter().any(|other| other.picture() == Some(name)) {
            let message = format!("two plots are called `{name}`");
            let help = "give one of them a `name`".to_owned();
            let steps = [KIND, "blocks", &i.to_string(), "plot"];
            place.mistake(&steps, Code::Duplicate, message, Some(help));
            sound = None;
        }
    }
    sound
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("place", DataType::Int64, false),
        Field::new("block", DataType::Utf8, false),
        Field::new("title", DataType::Utf8, true),
        Field::new("source", DataType::Utf8, true),
        Field::new("content", DataType::Utf8, false),
        Field::new("markdown", DataType::Utf8, false),
        Field::new("svg", DataType::Utf8, true),
    ]))
}

/// True if the folder still holds what the stored table of this stage says.
pub fn is_current(plan: &ReportPlan, stored: &[RecordBatch]) -> bool {
    let Some(folder) = &plan.path else { return true };
    let page = concat_batches(&plan.schema, stored).and_then(|page| files::of_page(plan, &page));
    page.is_ok_and(|files| files::are_there(folder, &files))
}

/// Draws the page, and writes its folder.
pub async fn compute(
    plan: &ReportPlan,
    prepared: &Prepared,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let mut drawn = Vec::with_capacity(plan.blocks.len() + 1);
    drawn.extend(plan.title.as_ref().map(|title| {
        let heading = format!("# {}\n", markdown::escaped(title));
        (0, Drawn::words(TITLE, title, heading))
    }));
    for (place, block) in (1..).zip(&plan.blocks) {
        let block = match block {
            Shown::Words(text) => Drawn::words("text", text, format!("{}\n", text.trim_end())),
            Shown::Rows(rows) => {
                // A stage is prepared only after those that it needs.
                let Some(stage) = prepared.stages.get(&rows.from) else { continue };
                let first = first(&stage.table, &rows.columns, rows.most, &sink.store).await?;
                rows.draw(&first, stage.table.rows())?
            }
        };
        drawn.push((place, block));
    }
    let page = page(plan, &drawn)?;
    if let Some(folder) = plan.path.clone() {
        let files = files::of_page(plan, &page)?;
        tokio::task::spawn_blocking(move || files::write(&folder, &files))
            .await
            .map_err(|error| StageError::Task(error.to_string()))??;
    }
    sink.table(page).await
}

/// The first rows of a table, of some of its columns.
async fn first(
    table: &StageTable,
    columns: &[usize],
    most: usize,
    store: &Store,
) -> Result<RecordBatch, StageError> {
    let schema = datafusion::catalog::TableProvider::schema(table).project(columns)?;
    let mut batches = rows::of_table(table, store);
    let (mut all, mut left) = (Vec::new(), most);
    while left > 0
        && let Some(batch) = batches.try_next().await?
    {
        let batch = batch.project(columns)?;
        let taken = batch.slice(0, left.min(batch.num_rows()));
        left -= taken.num_rows();
        all.push(taken);
    }
    Ok(concat_batches(&Arc::new(schema), &all)?)
}

fn page(plan: &ReportPlan, drawn: &[(i64, Drawn)]) -> Result<RecordBatch, StageError> {
    let text = |of: fn(&Drawn) -> Option<&str>| -> ArrayRef {
        Arc::new(drawn.iter().map(|(_, block)| of(block)).collect::<StringArray>())
    };
    let columns = vec![
        Arc::new(Int64Array::from_iter_values(drawn.iter().map(|(place, _)| *place))) as ArrayRef,
        text(|block| Some(block.block)),
        text(|block| block.title.as_deref()),
        text(|block| block.source.as_deref()),
        text(|block| Some(&block.content)),
        text(|block| Some(&block.markdown)),
        text(|block| block.svg.as_deref()),
    ];
    Ok(RecordBatch::try_new(Arc::clone(&plan.schema), columns)?)
}
