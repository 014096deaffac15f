//! Answers of endpoints that are requested once more and compared: whether a model still says what the ledger says that it said.
//!
//! Covered are stages that `generate` a text for each row: a sample of the rows of their input is a sample of their requests. The answers are
//! recorded under a generation of their own; those that the run has stay as they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_base::rng::mix64;
use proofmill_catalog::summary::RunSummary;
use proofmill_pipeline::kinds::StageKind;
use proofmill_pipeline::models::Share;
use proofmill_schedule::state::{ChangedAnswer, SampledStage};
use proofmill_store::{Artifact, Store, read_part};
use proofmill_udfs::model::Counters;
use serde_json::{Map, Value as Json};

use crate::diff::runs::Side;
use crate::graph::Role;
use crate::host::Host;
use crate::host::kept::KeptPipeline;
use crate::run::bind::fill;
use crate::session::Engine;
use crate::session::execute::Operators;
use crate::stages::error::StageError;
use crate::stages::plan::{Prepared, PreparedStage};
use crate::stages::tables::rows::objects;

/// Examples of answers that differ.
const EXAMPLES_MAX: usize = 10;
/// Characters of an answer in an example.
const EXAMPLE_CHARS_MAX: usize = 200;

impl Host {
    /// Has a share of the answers that endpoints gave to a run given once more, as `generation`, and compares.
    ///
    /// # Errors
    ///
    /// If the run kept no texts, its pipeline cannot be prepared, or the store fails.
    pub async fn sample(
        &self,
        run: &RunSummary,
        share: Share,
        generation: &str,
        store: &Store,
    ) -> Result<Vec<SampledStage>> {
        let side = Side::open(run.clone(), store).await?;
        let kept = KeptPipeline::of(run, store).await?;
        let mut draft = kept.draft()?;
        draft.ask_anew(generation);
        let pinned = side.outside(&draft);
        let engine = self.engine(store, &run.run)?;
        let (loaded, _) = self.load_kept(draft, kept.texts, pinned, &engine, store).await?;
        let Some(prepared) = &loaded.prepared else {
            let message = format!("the pipeline of run {} cannot be prepared", run.run);
            return Err(Error::new(ErrorKind::Pipeline, message));
        };
        let mut all = Vec::new();
        for (name, stage) in &prepared.stages {
            let Some((models, input)) = covered(stage, prepared) else { continue };
            let (Some(record), Some(given)) = (side.record(name), side.record(&input)) else {
                continue;
            };
            let table = &prepared.stages[&input].table;
            if table.stored().is_none() {
                let rows = sampled(given, share, generation, store).await?;
                fill(table, given, Some(rows), store).await.map_err(Error::from)?;
            }
            let before = texts(&read(record, store).await?);
            let now = answers(stage, &loaded.engine).await.map_err(Error::from)?;
            let reported = loaded.engine.models().reported();
            let reported = reported.filter(|(model, _)| models.iter().any(|it| it == model));
            let reported = reported.flat_map(|(_, all)| all).filter_map(|(it, _)| it.model);
            let found = SampledStage {
                stage: name.clone(),
                reported: reported.collect(),
                models,
                again: 0,
                differ: 0,
                failed: 0,
                examples: Vec::new(),
            };
            all.push(compared(found, &before, &now));
        }
        Ok(all)
    }
}

/// The models behind endpoints that a stage asks row by row, and the stage whose rows it reads; `None` of other stages.
fn covered(stage: &PreparedStage, prepared: &Prepared) -> Option<(Vec<String>, StageName)> {
    let models = &prepared.graph.pipeline.models;
    let is_remote =
        |name: &&String| models.get(*name).is_some_and(|(model, _)| model.url.is_some());
    let asks: Vec<String> = stage.models.iter().filter(is_remote).cloned().collect();
    let is_each = matches!(stage.stage.spec.kind, StageKind::Generate(_));
    let mut inputs = stage.stage.inputs.iter().filter(|it| !matches!(it.role, Role::Check(_)));
    let input = inputs.next().map(|input| input.stage.clone())?;
    (is_each && !asks.is_empty() && inputs.next().is_none()).then_some((asks, input))
}

/// The rows of a table.
async fn read(table: &Artifact, store: &Store) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for part in &table.parts {
        batches.extend(read_part(store, part).await.map_err(Error::from)?);
    }
    Ok(batches)
}

/// A share of the rows of a table, at least one, and other ones for another generation.
async fn sampled(
    table: &Artifact,
    share: Share,
    generation: &str,
    store: &Store,
) -> Result<Vec<RecordBatch>> {
    let batches = read(table, store).await?;
    let seed = generation.bytes().fold(0, |seed, byte| mix64(seed ^ u64::from(byte)));
    let chance = |row: u64| mix64(seed ^ mix64(row)) as f64 / u64::MAX as f64;
    let least = (0..table.rows).min_by(|a, b| chance(*a).total_cmp(&chance(*b)));
    let is_in = |row: u64| chance(row) < share.fraction() || Some(row) == least;
    let (mut first, mut all) = (0, Vec::new());
    for batch in batches {
        let rows = batch.num_rows() as u64;
        let mask: BooleanArray = (first..first + rows).map(|row| Some(is_in(row))).collect();
        all.push(filter_record_batch(&batch, &mask).map_err(StageError::from)?);
        first += rows;
    }
    Ok(all)
}

/// What a stage gives over the rows that its input has now.
async fn answers(stage: &PreparedStage, engine: &Engine) -> Result<Vec<RecordBatch>, StageError> {
    let Some(query) = &stage.asking else { return Ok(Vec::new()) };
    let counters = Arc::new(Counters::default());
    let state = engine.watched(0, stage.stage.spec.common.partitions, &counters);
    Ok(Operators::of(query, &state).await?.collect().await?)
}

/// The texts of answers, by their rows and samples; none where a row has no answer.
fn texts(batches: &[RecordBatch]) -> BTreeMap<(String, String), Option<String>> {
    let named = |row: &Map<String, Json>, name: &str| match row.get(name) {
        None | Some(Json::Null) => None,
        Some(Json::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
    };
    let of = |row: Map<String, Json>| {
        let sample = named(&row, "sample").unwrap_or_default();
        ((named(&row, "row_id").unwrap_or_default(), sample), named(&row, "text"))
    };
    objects(batches).into_iter().map(of).collect()
}

fn compared(
    mut found: SampledStage,
    before: &BTreeMap<(String, String), Option<String>>,
    now: &[RecordBatch],
) -> SampledStage {
    let cut = |text: &str| text.chars().take(EXAMPLE_CHARS_MAX).collect::<String>();
    for (row, now) in texts(now) {
        // What the run had no answer to cannot be another one.
        let Some(Some(before)) = before.get(&row) else { continue };
        let Some(now) = now else {
            found.failed += 1;
            continue;
        };
        found.again += 1;
        if now == *before {
            continue;
        }
        found.differ += 1;
        if found.examples.len() < EXAMPLES_MAX {
            let (before, now) = (cut(before), cut(&now));
            found.examples.push(ChangedAnswer { row: row.0, before, now });
        }
    }
    found
}
