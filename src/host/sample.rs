//! Answers that are requested or computed once more and compared: whether an endpoint still says what the ledger says that it said,
//! and whether this machine still computes what the store has.
//!
//! Covered are stages that ask a model for each row: a sample of the rows of their input is a sample of their requests. Answers of
//! endpoints are recorded under a generation of their own, and those of this machine are not; what the run has stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_base::rng::mix64;
use proofmill_catalog::summary::RunSummary;
use proofmill_pipeline::kinds::StageKind;
use proofmill_pipeline::models::Share;
use proofmill_schedule::state::{ChangedAnswer, SampledStage};
use proofmill_store::{Artifact, RowLeaves, Store, read_part};
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
use crate::stages::load::Loaded;
use crate::stages::plan::PreparedStage;
use crate::stages::tables::rows::objects;

/// The column that identifies a row of a stage that asks a model for each.
const ROW_ID: &str = "row_id";
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
        let engine = self.engine(store, &run.run)?;
        let again = Again::of(self, run, Some(generation), engine, store).await?;
        let mut all = Vec::new();
        for covered in again.covered(true) {
            let is_each = matches!(covered.stage.stage.spec.kind, StageKind::Generate(_));
            if !is_each || !again.fill(&covered, share, generation, store).await? {
                continue;
            }
            let before = texts(&read(covered.record, store).await?);
            let now = answers(covered.stage, &again.loaded.engine).await.map_err(Error::from)?;
            let reported = again.loaded.engine.models().reported();
            let reported =
                reported.filter(|(model, _)| covered.models.iter().any(|it| it == model));
            let reported = reported.flat_map(|(_, all)| all).filter_map(|(it, _)| it.model);
            let found = SampledStage { reported: reported.collect(), ..covered.nothing_yet() };
            all.push(compared(found, &before, &now));
        }
        Ok(all)
    }

    /// Has models of this machine compute a share of the answers of a run once more, without what the ledger has, and compares
    /// every bit of their rows. `word` decides which rows these are.
    ///
    /// # Errors
    ///
    /// As [`Self::sample`].
    pub async fn recompute(
        &self,
        run: &RunSummary,
        share: Share,
        word: &str,
        store: &Store,
    ) -> Result<Vec<SampledStage>> {
        let engine = self.engine_without_ledger(store)?;
        let again = Again::of(self, run, None, engine, store).await?;
        let mut all = Vec::new();
        for covered in again.covered(false) {
            if again.fill(&covered, share, word, store).await? {
                let now =
                    answers(covered.stage, &again.loaded.engine).await.map_err(Error::from)?;
                let mut found = covered.nothing_yet();
                differing_bits(&mut found, covered.record, &now, store).await?;
                all.push(found);
            }
        }
        Ok(all)
    }
}

/// A run that is to give some of its answers again.
struct Again {
    side: Side,
    loaded: Loaded,
}

/// A stage that asks models row by row.
struct CoveredStage<'a> {
    name: &'a StageName,
    stage: &'a PreparedStage,
    models: Vec<String>,
    is_local: bool,
    /// Its table.
    record: &'a Artifact,
    /// The stage whose rows it reads, and the table of that.
    input: StageName,
    given: &'a Artifact,
}

impl Again {
    async fn of(
        host: &Host,
        run: &RunSummary,
        generation: Option<&str>,
        engine: Arc<Engine>,
        store: &Store,
    ) -> Result<Self> {
        let side = Side::open(run.clone(), store).await?;
        let kept = KeptPipeline::of(run, store).await?;
        let mut draft = kept.draft()?;
        generation.iter().for_each(|generation| draft.ask_anew(generation));
        let pinned = side.outside(&draft);
        let (loaded, _) = host.load_kept(draft, kept.texts, pinned, &engine, store).await?;
        match loaded.prepared.is_some() {
            true => Ok(Self { side, loaded }),
            false => {
                let message = format!("the pipeline of run {} cannot be prepared", run.run);
                Err(Error::new(ErrorKind::Pipeline, message))
            }
        }
    }

    /// The stages that ask models row by row: those behind endpoints, or those of this machine.
    fn covered(&self, is_remote: bool) -> impl Iterator<Item = CoveredStage<'_>> {
        let prepared = self.loaded.prepared.iter();
        prepared.flat_map(|prepared| &prepared.stages).filter_map(move |(name, stage)| {
            let models = &self.loaded.prepared.as_ref()?.graph.pipeline.models;
            let fits = |name: &String| {
                models.get(name).map(|(model, _)| model.url.is_some()) == Some(is_remote)
            };
            let is_each = matches!(
                stage.stage.spec.kind,
                StageKind::Generate(_) | StageKind::Score(_) | StageKind::Embed(_)
            );
            let inputs = stage.stage.inputs.iter();
            let mut inputs = inputs.filter(|it| !matches!(it.role, Role::Check(_)));
            let input = inputs.next().map(|input| input.stage.clone())?;
            let is_covered = is_each && !stage.models.is_empty() && stage.models.iter().all(fits);
            let (record, given) = (self.side.record(name)?, self.side.record(&input)?);
            (is_covered && inputs.next().is_none()).then(|| CoveredStage {
                name,
                stage,
                models: stage.models.iter().cloned().collect(),
                is_local: !is_remote,
                record,
                input,
                given,
            })
        })
    }

    /// Gives a stage a share of the rows of its input to read; false if another one reads them whole.
    async fn fill(
        &self,
        covered: &CoveredStage<'_>,
        share: Share,
        word: &str,
        store: &Store,
    ) -> Result<bool> {
        let Some(prepared) = &self.loaded.prepared else { return Ok(false) };
        let table = &prepared.stages[&covered.input].table;
        if table.stored().is_none() {
            let rows = sampled(covered.given, share, word, store).await?;
            fill(table, covered.given, Some(rows), store).await.map_err(Error::from)?;
        }
        Ok(true)
    }
}

impl CoveredStage<'_> {
    fn nothing_yet(&self) -> SampledStage {
        SampledStage {
            stage: self.name.clone(),
            models: self.models.clone(),
            is_local: self.is_local,
            again: 0,
            differ: 0,
            failed: 0,
            reported: Vec::new(),
            reported_before: Vec::new(),
            examples: Vec::new(),
        }
    }
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
        ((named(&row, ROW_ID).unwrap_or_default(), sample), named(&row, "text"))
    };
    objects(batches).into_iter().map(of).collect()
}

/// Compares rows that were computed once more with those of the table that a run has, bit by bit.
async fn differing_bits(
    found: &mut SampledStage,
    record: &Artifact,
    now: &[RecordBatch],
    store: &Store,
) -> Result<()> {
    let mut leaves = RowLeaves::default();
    let mut again = Vec::new();
    for batch in now {
        // The last column says why a row failed, and is not of the table.
        let own: Vec<usize> = (0..batch.num_columns().saturating_sub(1)).collect();
        let has_answer = arrow::compute::is_null(batch.column(own.len()));
        let has_answer = has_answer.map_err(StageError::from)?;
        let kept = filter_record_batch(batch, &has_answer).map_err(StageError::from)?;
        found.failed += (batch.num_rows() - kept.num_rows()) as u64;
        let kept = kept.project(&own).map_err(StageError::from)?;
        leaves.push(&kept, 1);
        again.extend(objects(&[kept]));
    }
    let leaves = leaves.finish().unwrap_or_default();
    let mut missing: BTreeMap<Digest, Vec<Map<String, Json>>> = BTreeMap::new();
    for (leaf, row) in leaves.into_iter().zip(again) {
        found.again += 1;
        missing.entry(leaf).or_default().push(row);
    }
    for part in &record.parts {
        if missing.is_empty() {
            break;
        }
        let mut stored = RowLeaves::default();
        let batches = read_part(store, part).await.map_err(Error::from)?;
        batches.iter().for_each(|batch| stored.push(batch, 1));
        for leaf in stored.finish().unwrap_or_default() {
            if let Some(rows) = missing.get_mut(&leaf) {
                rows.pop();
                missing.retain(|_, rows| !rows.is_empty());
            }
        }
    }
    let missing: Vec<_> = missing.into_values().flatten().collect();
    found.differ = missing.len() as u64;
    let examples = missing.into_iter().take(EXAMPLES_MAX).map(|mut row| {
        let id = row.remove(ROW_ID).unwrap_or_default();
        let row_id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
        ChangedAnswer {
            row: row_id,
            before: String::new(),
            now: cut(&Json::Object(row).to_string()),
        }
    });
    found.examples = examples.collect();
    Ok(())
}

/// The beginning of an answer.
fn cut(text: &str) -> String {
    text.chars().take(EXAMPLE_CHARS_MAX).collect()
}

fn compared(
    mut found: SampledStage,
    before: &BTreeMap<(String, String), Option<String>>,
    now: &[RecordBatch],
) -> SampledStage {
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
