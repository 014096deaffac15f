//! `report`: tables, plots and proofs on one page. The artifact holds the page, block by block, as
//! text, as Markdown and as pictures; the folder outside is written from it.

mod bars;
mod block;
mod files;
mod histogram;
mod plot;
mod proofs;
mod table;
mod tree;

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use futures::TryStreamExt;

use crate::draw::markdown;

use crate::session::StageTable;
use crate::stages::diagnostics::Diagnostics;
use crate::stages::error::StageError;
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::kinds::report::block::{Drawn, KIND, Shown};
use crate::stages::plan::{Execution, Export, StagePlan};
use crate::stages::sink::Computed;
use crate::stages::tables::rows;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::report::Report;
use proofmill_store::{NamedFile, Store};

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

#[async_trait]
impl StagePlan for ReportPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let mut drawn = Vec::with_capacity(self.blocks.len() + 1);
        drawn.extend(self.title.as_ref().map(|title| {
            let heading = format!("# {}\n", markdown::escaped(title));
            (0, Drawn::words(TITLE, title, heading))
        }));
        for (place, block) in (1..).zip(&self.blocks) {
            let block = match block {
                Shown::Words(text) => Drawn::words("text", text, format!("{}\n", text.trim_end())),
                Shown::Rows(rows) => {
                    // A stage is prepared only after those that it needs.
                    let Some(table) = execution.table(&rows.from) else { continue };
                    let first =
                        first(table, &rows.columns, rows.most, &execution.sink.store).await?;
                    rows.draw(&first, table.rows())?
                }
            };
            drawn.push((place, block));
        }
        let page = page(self, &drawn)?;
        if let Some(folder) = self.path.clone() {
            let files = files::of_page(&page, |i| self.picture(i))?;
            tokio::task::spawn_blocking(move || files::write(&folder, &files))
                .await
                .map_err(|error| StageError::Task(error.to_string()))??;
        }
        execution.sink.table(page).await
    }
}

impl ReportPlan {
    /// The name of the picture of a block.
    fn picture(&self, block: usize) -> Option<&str> {
        Some(self.blocks.get(block)?.picture()?.1)
    }
}

impl Export for ReportPlan {
    /// True if the folder still holds what the stored table of this stage says.
    fn is_current(&self, rows: &[RecordBatch], _: &[NamedFile]) -> bool {
        let Some(folder) = &self.path else { return true };
        let page = concat_batches(&self.schema, rows)
            .and_then(|page| files::of_page(&page, |i| self.picture(i)));
        page.is_ok_and(|files| files::are_there(folder, &files))
    }
}

impl Kind for Report {
    fn traits(&self) -> Traits {
        Traits {
            version: 2,
            rows_can_fail: false,
            has_partitions: false,
            settings: Counted::All,
            repeats: Repeats::Rows,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, components, diagnostics, .. } = context;
        let mut blocks = Vec::new();
        for (i, block) in self.blocks.iter().enumerate() {
            let kind = block.kind()?;
            let from = inputs.name(&format!("blocks[{i}].{}.from", kind.name()));
            let schema = from.and_then(|from| Some(inputs.table_of(from)?.schema()));
            blocks.push(Shown::new(i, kind, from.zip(schema.as_ref()), diagnostics));
        }
        let blocks: Vec<Shown> = blocks.into_iter().collect::<Option<_>>()?;
        distinct(&blocks, diagnostics)?;
        // The page says where its tables are from.
        for (i, block) in blocks.iter().enumerate() {
            if let Shown::Rows(rows) = block {
                components.set(format!("settings.blocks[{i}].from"), &rows.from);
            }
        }
        let schema = schema();
        let rows = blocks.len() + usize::from(self.title.is_some());
        let plan = ReportPlan {
            title: self.title.clone(),
            blocks,
            path: self.path.as_ref().map(PathBuf::from),
            schema: Arc::clone(&schema),
        };
        Some(Preparation::exporting(schema, plan).expecting(rows as u64))
    }
}

/// A diagnostic for each two blocks whose pictures would have one name.
fn distinct(blocks: &[Shown], diagnostics: &mut Diagnostics<'_>) -> Option<()> {
    let mut valid = Some(());
    for (i, block) in blocks.iter().enumerate() {
        let Some((key, name)) = block.picture() else { continue };
        let named = |other: &Shown| other.picture().is_some_and(|(_, other)| other == name);
        if blocks[..i].iter().any(named) {
            let message = format!("two pictures are called `{name}`");
            let help = "give one of them a `name`".to_owned();
            let steps = [KIND, "blocks", &i.to_string(), key];
            diagnostics.error(&steps, Code::Duplicate, message, Some(help));
            valid = None;
        }
    }
    valid
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
