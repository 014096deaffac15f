//! Pages of a run: what `report` stages drew, and where the tables that they show lie.

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use futures::TryStreamExt;
use indexmap::{IndexMap, IndexSet};

use crate::run::bind::tables;
use crate::stages::tables::rows;
use proofmill_base::error::Result;
use proofmill_base::ids::StageName;
use proofmill_catalog::summary::artifact;
use proofmill_pipeline::role::KindRole;
use proofmill_store::{StageOutcome, Store};

pub struct Page {
    pub stage: StageName,
    /// Its blocks, a row each.
    pub blocks: Vec<RecordBatch>,
    /// The stages whose tables it shows, each with the keys of their objects in the store.
    pub tables: IndexMap<StageName, Vec<String>>,
}

/// A block of a page, as it was drawn.
pub struct PageBlock {
    /// Whether it is the heading of the page.
    pub is_title: bool,
    pub title: Option<String>,
    /// As text; each line ended.
    pub content: String,
    /// Its picture, if it is one.
    pub svg: Option<String>,
}

impl Page {
    /// Its blocks, from top to bottom; none of a table that is no page.
    pub fn drawn(&self) -> impl Iterator<Item = PageBlock> + '_ {
        self.blocks.iter().flat_map(drawn)
    }
}

fn drawn(batch: &RecordBatch) -> Vec<PageBlock> {
    let column = |name: &str| {
        batch.column_by_name(name).and_then(|column| column.as_string_opt::<i32>().cloned())
    };
    let (Some(block), Some(title), Some(content)) =
        (column("block"), column("title"), column("content"))
    else {
        return Vec::new();
    };
    let svg = column("svg");
    let of = |column: &StringArray, row| column.is_valid(row).then(|| column.value(row).to_owned());
    let each = |row: usize| PageBlock {
        is_title: block.value(row) == "title",
        title: of(&title, row),
        content: content.value(row).to_owned(),
        svg: svg.as_ref().and_then(|svg| of(svg, row)),
    };
    (0..batch.num_rows()).map(each).collect()
}

/// The pages among the stages that ended.
pub async fn of_run(ended: &IndexMap<StageName, StageOutcome>, store: &Store) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for outcome in ended.values().filter(|outcome| outcome.artifact.is_some()) {
        let all = |name: &str| ended.values().find(|outcome| outcome.stage.as_str() == name);
        pages.extend(of_stage(outcome, all, store).await?);
    }
    Ok(pages)
}

/// The page that a stage drew; `None` if it draws none. `find` knows the other stages of its run.
pub async fn of_stage<'a>(
    outcome: &StageOutcome,
    find: impl Fn(&str) -> Option<&'a StageOutcome>,
    store: &Store,
) -> Result<Option<Page>> {
    if KindRole::of(&outcome.kind) != Some(KindRole::Page) {
        return Ok(None);
    }
    let Some((_, table)) = tables(store, outcome).await?.into_iter().next() else {
        return Ok(None);
    };
    let blocks: Vec<RecordBatch> = rows::of_table(&table, store).try_collect().await?;
    let mut tables = IndexMap::new();
    for source in sources(&blocks) {
        let Some(shown) = find(&source) else { continue };
        let keys = artifact(store, shown).await?;
        let keys = keys.map(|found| found.record.parts.iter().map(|p| p.key.to_string()).collect());
        tables.insert(shown.stage.clone(), keys.unwrap_or_default());
    }
    Ok(Some(Page { stage: outcome.stage.clone(), blocks, tables }))
}

/// The stages that blocks show, each once.
fn sources(blocks: &[RecordBatch]) -> IndexSet<String> {
    let column = |batch: &RecordBatch| {
        batch.column_by_name("source").and_then(|c| c.as_string_opt::<i32>().cloned())
    };
    let of = |batch| column(batch).into_iter().flat_map(|column| texts(&column));
    blocks.iter().flat_map(of).collect()
}

fn texts(column: &StringArray) -> Vec<String> {
    column.iter().flatten().map(str::to_owned).collect()
}
