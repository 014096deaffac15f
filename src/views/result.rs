//! What a run gave, as it ends.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::run::publish::{RunResult, rows_json};
use crate::run::reports::Page;
use crate::stages::tables::rows::objects;
use proofmill_base::ids::{RunId, StageName};
use proofmill_schedule::state::SampledStage;
use proofmill_store::{LocalUsage, ModelUsage, Outcome, StageOutcome, Store};

/// A run that ended.
#[derive(Clone, Debug, Serialize)]
pub struct ResultView<'a> {
    run: &'a RunId,
    outcome: Outcome,
    store: &'a str,
    /// Why it did not succeed.
    error: Option<&'a str>,
    /// The rows of its metrics.
    metrics: Vec<Json>,
    models: &'a BTreeMap<String, ModelUsage>,
    local_models: &'a BTreeMap<String, LocalUsage>,
    pages: Vec<PageView<'a>>,
    stages: Vec<&'a StageOutcome>,
    /// What came of a sample of answers that was requested once more, if one was wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<&'a [SampledStage]>,
}

/// A page that a `report` stage drew.
#[derive(Clone, Debug, Serialize)]
pub struct PageView<'a> {
    stage: &'a StageName,
    blocks: Vec<Map<String, Json>>,
    /// The stages whose tables it shows, with the keys of their objects.
    tables: &'a IndexMap<StageName, Vec<String>>,
}

impl<'a> ResultView<'a> {
    /// Of a run in a store.
    pub fn of(result: &'a RunResult, sample: Option<&'a [SampledStage]>, store: &'a Store) -> Self {
        let metrics = result.metrics.iter();
        Self {
            run: &result.run,
            outcome: result.outcome,
            store: store.url().as_str(),
            error: result.error.as_ref().map(|error| error.message.as_str()),
            metrics: metrics.flat_map(|(stage, batches)| rows_json(stage, batches)).collect(),
            models: &result.models,
            local_models: &result.local_models,
            pages: result.pages.iter().map(PageView::from).collect(),
            stages: result.stages.values().collect(),
            sample,
        }
    }
}

impl<'a> From<&'a Page> for PageView<'a> {
    fn from(page: &'a Page) -> Self {
        Self { stage: &page.stage, blocks: objects(&page.blocks), tables: &page.tables }
    }
}
