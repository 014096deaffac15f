//! `fit`: trains a model on the rows of a table. The artifact holds the checkpoint's files and, as
//! its table, how the training went; the folder outside is written from it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field, Float64Type, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::logical_expr::LogicalPlan;
use futures::TryStreamExt;
use proofmill_fit::{
    Checked, FitError, Fitted, Input, Logged, Pair, Report, Run, STEPS_MAX, Start, Tokens,
};

use crate::session::Engine;
use crate::session::execute::Operators;
use crate::sqltext;
use crate::stages::diagnostics::{Diagnostics, mismatch};
use crate::stages::error::StageError;
use crate::stages::fingerprint::{Components, Counted};
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::plan::{Execution, Export, StagePlan};
use crate::stages::queries::sql_kind::{self, Named};
use crate::stages::sink::{Computed, Sink};
use crate::stages::tables::outside;
use proofmill_base::digest::Digest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::fit::Fit;
use proofmill_pipeline::settings::Expression;
use proofmill_settings::fit::{FitSettings, Objective, Training};
use proofmill_store::NamedFile;
use tempfile::TempDir;

const KIND: &str = "fit";
/// The file whose digest stands for the folder.
const WEIGHTS: &str = "model.safetensors";

/// A prepared `fit`.
#[derive(Debug)]
pub struct FitPlan {
    train: LogicalPlan,
    dev: Option<LogicalPlan>,
    /// With `epochs`, their steps are counted when the pairs are there.
    settings: Training,
    epochs: Option<u32>,
    start: Start,
    path: PathBuf,
    schema: SchemaRef,
}

#[async_trait]
impl StagePlan for FitPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        compute(self, execution.engine, execution.cache, execution.sink).await
    }
}

impl Export for FitPlan {
    /// True if the folder still holds all files that the artifact of this stage has, byte for byte, and
    /// nothing that would be read with them.
    fn is_current(&self, _: &[RecordBatch], files: &[NamedFile]) -> bool {
        let is_same = |file: &NamedFile| {
            let found = std::fs::read(self.path.join(&file.name));
            found.is_ok_and(|bytes| Digest::of(&bytes) == file.sha256)
        };
        !files.is_empty()
            && files.iter().all(is_same)
            && self.start.check_target(self.settings.objective, &self.path).is_ok()
    }
}

impl Kind for Fit {
    fn traits(&self) -> Traits {
        Traits {
            version: 4,
            rows_can_fail: false,
            has_partitions: false,
            settings: Counted::All,
            repeats: Repeats::Rows,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, engine, components, diagnostics, .. } = context;
        let train = pairs(self, inputs.table("from")?, engine, diagnostics);
        let dev = match inputs.table("dev") {
            Some(table) => Some(pairs(self, table, engine, diagnostics)?),
            None => None,
        };
        let epochs = self.settings.epochs;
        if let (Some(_), Some(_)) = (epochs, self.settings.steps) {
            let message = "`epochs` and `steps` cannot be given together".to_owned();
            diagnostics.error(&[KIND, "settings", "epochs"], Code::WrongValue, message, None);
            return None;
        }
        let steps = self.settings.steps.or(epochs.map(|_| STEPS_MAX));
        let chosen = FitSettings { steps, ..self.settings.clone() };
        let chosen = chosen.with_defaults(self.objective.unwrap_or_default());
        let start = start(self, engine, components, diagnostics);
        let (train, start) = (train?, start?);
        if let Err(error) = chosen.check() {
            diagnostics.error(&[KIND, "settings"], Code::WrongValue, error.to_string(), None);
            return None;
        }
        let looks =
            [("patience", chosen.patience.is_some()), ("evaluate_start", chosen.evaluate_start)];
        if let (None, Some((key, _))) = (&dev, looks.iter().find(|(_, set)| *set)) {
            let message = format!("`{key}` needs dev pairs");
            let help = "give `dev`: a table with the same columns".to_owned();
            diagnostics.error(&[KIND, "settings", key], Code::MissingKey, message, Some(help));
            return None;
        }
        let is_policy = chosen.objective == Objective::Policy;
        if self.reward.is_some() != is_policy || (self.logprob.is_some() && !is_policy) {
            let key = if self.reward.is_some() { "reward" } else { "logprob" };
            let (key, code, message) = match is_policy {
                true => (
                    "objective",
                    Code::MissingKey,
                    "the objective `policy` needs a `reward`".to_owned(),
                ),
                false => (
                    key,
                    Code::UnknownKey,
                    format!("`{key}` has an effect only with the objective `policy`"),
                ),
            };
            diagnostics.error(&[KIND, key], code, message, None);
            return None;
        }
        if let Err(error) = start.check(chosen.objective) {
            let (key, code) = match &error {
                FitError::Checkpoint { .. } => ("checkpoint", Code::WrongValue),
                FitError::Load(_) => ("checkpoint", Code::ModelUnreadable),
                FitError::Setting { name: "objective", .. } => ("objective", Code::WrongValue),
                _ if self.sizes.is_some() => ("sizes", Code::WrongValue),
                _ => ("decoder", Code::WrongValue),
            };
            diagnostics.error(&[KIND, key], code, error.to_string(), None);
            return None;
        }
        let passages = sql_kind::is_texts(train.schema().field(0).data_type());
        let writes = matches!(chosen.objective, Objective::Generation | Objective::Policy);
        // What cannot be opened was reported above.
        let decoder_only = start.is_decoder().unwrap_or(false);
        let refused = match (&self.input, passages, decoder_only, writes) {
            (None, _, false, _) => Some((
                Code::MissingKey,
                "only a decoder-only model (OPT) can be trained without an input",
                "give `input`: what the model reads",
            )),
            (Some(_), true, true, _) | (Some(_), true, _, false) => Some((
                Code::SqlType,
                "only a decoder with an encoder reads a list of passages",
                "give one string, or use a T5 or two BERTs that generate",
            )),
            _ => None,
        };
        if let Some((code, message, help)) = refused {
            diagnostics.error(&[KIND, "input"], code, message.to_owned(), Some(help.to_owned()));
            return None;
        }
        if self.settings.clip == Some(None) {
            // What is absent does not count, and this is not.
            components.set("settings.settings.clip", "none");
        }
        let schema = schema(chosen.evaluate_start);
        let path = PathBuf::from(&self.path);
        let schema_of_table = Arc::clone(&schema);
        let plan =
            FitPlan { train, dev, settings: chosen, epochs, start, path, schema: schema_of_table };
        Some(Preparation::exporting(schema, plan))
    }
}

/// Columns: one row for each look at the dev pairs, and one for the last step. Before the first step there is no loss.
fn schema(before: bool) -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("step", DataType::Int64, false),
        Field::new("loss", DataType::Float64, before),
        Field::new("dev_loss", DataType::Float64, true),
        Field::new("exact_match", DataType::Float64, true),
        Field::new("best", DataType::Boolean, false),
        Field::new("learning_rate", DataType::Float64, false),
        Field::new("weights", DataType::Utf8, false),
    ]))
}

/// The query that makes pairs of a table: `input`, `output`, `weight`, `reward`, `logprob`.
fn pairs(
    settings: &Fit,
    table: Arc<dyn TableProvider>,
    engine: &Engine,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<LogicalPlan> {
    let schema = table.schema();
    let valid = [
        input(settings, &schema, engine, diagnostics),
        sql_kind::text(&[KIND, "output"], &settings.output, &schema, engine, diagnostics),
    ];
    let mut number = |key: &str, text: &Option<Expression>, absent: &str| {
        let Some(text) = text else { return Some(absent.to_owned()) };
        sql_kind::expression(&[KIND, key], text, &schema, engine, diagnostics)?;
        Some(sql_kind::inside(text))
    };
    let weight = number("weight", &settings.weight, "1.0")?;
    let reward = number("reward", &settings.reward, "NULL")?;
    let logprob = number("logprob", &settings.logprob, "NULL")?;
    if valid.contains(&None) {
        return None;
    }
    // Of no type where there is none: all its values are NULL.
    let read = settings.input.as_ref().map_or_else(|| "NULL".to_owned(), |it| sql_kind::inside(it));
    let sql = format!(
        "SELECT {read} AS input, CAST({} AS VARCHAR) AS output, CAST({weight} AS DOUBLE) AS weight,
            CAST({reward} AS DOUBLE) AS reward, CAST({logprob} AS DOUBLE) AS logprob FROM pairs",
        sql_kind::inside(&settings.output)
    );
    let named = Named::from([("pairs".to_owned(), table)]);
    let planned = sqltext::parse(&sql)
        .map_err(|error| error.message)
        .and_then(|query| diagnostics.query(&query, named, engine).map_err(|error| error.message));
    planned
        .map_err(|message| diagnostics.error(&[KIND], Code::SqlPlan, message, None))
        .ok()
        .map(|planned| planned.plan)
}

/// What is read: a text or a list of texts, or nothing.
fn input(
    settings: &Fit,
    schema: &SchemaRef,
    engine: &Engine,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<()> {
    let Some(text) = &settings.input else { return Some(()) };
    let steps = [KIND, "input"];
    let kind = sql_kind::expression(&steps, text, schema, engine, diagnostics)?;
    if kind.is_string() || sql_kind::is_texts(&kind) {
        return Some(());
    }
    let message = mismatch("`input`", "a string or a list of strings", &kind);
    diagnostics.error(&steps, Code::SqlType, message, None);
    None
}

fn start(
    settings: &Fit,
    engine: &Engine,
    components: &mut Components,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Start> {
    match (&settings.sizes, &settings.checkpoint) {
        (Some(_), None) if settings.decoder.is_some() => {
            let message = "a new decoder needs the `checkpoint` of an encoder".to_owned();
            let help = "for a model trained from scratch, `sizes` defines the decoder".to_owned();
            diagnostics.error(&[KIND, "decoder"], Code::WrongValue, message, Some(help));
            None
        }
        (Some(sizes), None) => {
            Some(Start::Scratch { sizes: *sizes, tokens: Tokens::Words { also: Vec::new() } })
        }
        (None, Some(folder)) => match engine.models().checkpoint(folder) {
            Ok((digest, digested)) => {
                components.set("checkpoint", digest);
                let (folder, digested) = (PathBuf::from(folder), Some(digested));
                Some(match settings.decoder {
                    None => Start::Checkpoint { folder, digested },
                    Some(decoder) => Start::WithDecoder { folder, digested, decoder },
                })
            }
            Err(error) => {
                let message = error.to_string();
                diagnostics.error(&[KIND, "checkpoint"], Code::ModelUnreadable, message, None);
                None
            }
        },
        (_, _) => None,
    }
}

/// Trains.
async fn compute(
    plan: &FitPlan,
    engine: &Engine,
    scratch: &Path,
    sink: &Sink,
) -> Result<Computed, StageError> {
    let train = rows(&plan.train, engine).await?;
    let dev = match &plan.dev {
        Some(dev) => rows(dev, engine).await?,
        None => Vec::new(),
    };
    let mut settings = plan.settings.clone();
    if let Some(epochs) = plan.epochs {
        // As the order of pairs counts them: the last step of an epoch may have fewer.
        let each = train.len().div_ceil(settings.batch as usize).max(1);
        settings.steps = u32::try_from(each).unwrap_or(u32::MAX).saturating_mul(epochs);
        settings.check().map_err(failed)?;
    }
    // Not found out only when all is trained.
    plan.start.check_target(plan.settings.objective, &plan.path).map_err(|error| {
        StageError::Data {
            message: error.to_string(),
            help: "a `fit` stage replaces only files with its own names, and deletes none"
                .to_owned(),
        }
    })?;
    // What is left of a training that was stopped, for the same pairs and settings.
    let start = match &plan.start {
        Start::Scratch { .. } => format!("{:?}", plan.start),
        // The trainer compares its weights; times of files say nothing of them.
        Start::Checkpoint { folder, .. } => format!("Checkpoint({folder:?})"),
        Start::WithDecoder { folder, decoder, .. } => {
            format!("WithDecoder({folder:?}, {decoder:?})")
        }
    };
    let key = format!("{settings:?}\n{start}\n{train:?}\n{dev:?}");
    // The trainer holds it too, as it continues for a step after the stage stops waiting for it.
    let place = Place::claim(scratch, &format!("fit-{}", Digest::of(key.as_bytes())));
    let place = Arc::new(place.map_err(|source| {
        let path = std::env::temp_dir().display().to_string();
        StageError::Write { path, source }
    })?);
    let held = Arc::clone(&place);
    sink.progress.expect_steps(u64::from(settings.steps));
    let stop = Stop::default();
    let (cancel, progress) = (Arc::clone(&stop.0), Arc::clone(&sink.progress));
    let (start, threads) = (plan.start.clone(), engine.limits().cores);
    let trained = tokio::task::spawn_blocking(move || {
        let mut looks = Vec::new();
        let mut report = |report: &Report| {
            if let Some(loss) = report.loss {
                progress.set_step(u64::from(report.step), loss);
            }
            if report.dev_loss.is_some() || report.step == report.steps {
                looks.push(*report);
            }
        };
        let mut fit = || {
            let run = Run {
                threads,
                state: Some(&held.state),
                scratch: &held.judged,
                cancel: &cancel,
                // Rates of tokens are not shown here, and nothing else depends on the time.
                clock: &|| Duration::ZERO,
                progress: &mut report,
            };
            proofmill_fit::fit(&settings, &start, &train, &dev, run)
        };
        let fitted = match fit() {
            // A cache is not believed: the training begins again.
            Err(FitError::State { .. } | FitError::OtherState { .. })
                if std::fs::remove_file(&held.state).is_ok() =>
            {
                fit()
            }
            fitted => fitted,
        };
        fitted.map(|fitted| (fitted, looks))
    });
    let trained = trained.await.map_err(|error| StageError::Task(error.to_string()))?;
    let (fitted, looks) = trained.map_err(failed)?;
    let _ = std::fs::remove_dir_all(&place.judged);
    let computed = keep(plan, &fitted, &looks, sink).await?;
    // It has served.
    let _ = std::fs::remove_file(&place.state);
    Ok(computed)
}

/// Where a fit keeps what it needs to go on. No other fit works there: two of the same at once
/// would replace each other's files, and judge each other's weights.
struct Place {
    state: PathBuf,
    /// The folder of weights that are judged.
    judged: PathBuf,
    /// The lock of a state in the cache.
    _lock: Option<File>,
    /// A folder that is ours alone, while somebody else trains the same.
    _own: Option<TempDir>,
}

impl Place {
    fn claim(scratch: &Path, name: &str) -> io::Result<Self> {
        let at = |folder: PathBuf, lock, own| {
            let state = folder.join(name);
            Self { judged: state.with_extension("judged"), state, _lock: lock, _own: own }
        };
        // It is removed with the other files that have been unused for long.
        let lock = scratch.join(name).with_extension("lock");
        let open = |()| outside::open_with(OpenOptions::new().create(true).append(true), &lock);
        match std::fs::create_dir_all(scratch).and_then(open) {
            Ok(lock) if !matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) => {
                Ok(at(scratch.to_owned(), Some(lock), None))
            }
            // A cache that cannot be used costs time only, if the fit is stopped.
            _ => {
                let own = tempfile::tempdir()?;
                Ok(at(own.path().to_owned(), None, Some(own)))
            }
        }
    }
}

/// Stops the trainer when the stage no longer waits for it.
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn rows(plan: &LogicalPlan, engine: &Engine) -> Result<Vec<Pair>, StageError> {
    let state = engine.running(0, Some(1));
    let mut batches = Operators::of(plan, &state).await?.stream()?;
    let mut pairs = Vec::new();
    while let Some(batch) = batches.try_next().await? {
        let inputs = inputs(batch.column(0))?;
        let output = arrow::compute::cast(batch.column(1), &DataType::Utf8)?;
        let output = output.as_string::<i32>();
        let number = |i: usize| batch.column(i).as_primitive::<Float64Type>();
        let (weight, reward, logprob) = (number(2), number(3), number(4));
        for (row, input) in inputs.into_iter().enumerate() {
            pairs.push(Pair {
                input,
                output: output.value(row).to_owned(),
                weight: weight.value(row) as f32,
                logged: reward.is_valid(row).then(|| Logged {
                    reward: reward.value(row) as f32,
                    logprob: logprob.is_valid(row).then(|| logprob.value(row) as f32),
                }),
            });
        }
    }
    Ok(pairs)
}

/// What each row reads; NULL is the empty text, which the trainer refuses.
fn inputs(column: &ArrayRef) -> Result<Vec<Input>, StageError> {
    let texts = |texts: &ArrayRef| -> Result<Vec<String>, StageError> {
        let texts = arrow::compute::cast(texts, &DataType::Utf8)?;
        Ok(texts.as_string::<i32>().iter().map(|it| it.unwrap_or_default().to_owned()).collect())
    };
    if column.data_type() == &DataType::Null {
        return Ok(vec![Input::Nothing; column.len()]);
    }
    if !sql_kind::is_texts(column.data_type()) {
        return Ok(texts(column)?.into_iter().map(Input::Text).collect());
    }
    let lists = arrow::compute::cast(column, &DataType::new_list(DataType::Utf8, true))?;
    let lists = lists.as_list::<i32>();
    let one = |list: Option<ArrayRef>| {
        Ok(Input::Passages(list.map(|list| texts(&list)).transpose()?.unwrap_or_default()))
    };
    lists.iter().map(one).collect()
}

/// What a failed fit says.
fn failed(error: FitError) -> StageError {
    match error {
        FitError::File { file, source } => {
            StageError::Write { path: file.display().to_string(), source }
        }
        other => StageError::Data {
            message: other.to_string(),
            help: "fix the pairs or the settings".to_owned(),
        },
    }
}

/// Stores the table and the files, and writes the folder.
async fn keep(
    plan: &FitPlan,
    fitted: &Fitted,
    looks: &[Report],
    sink: &Sink,
) -> Result<Computed, StageError> {
    let weights = fitted.files.get(WEIGHTS).map(|bytes| Digest::of(bytes).to_string());
    let each = |value: fn(&Report) -> Option<f64>| -> ArrayRef {
        Arc::new(looks.iter().map(value).collect::<Float64Array>())
    };
    let best: Vec<bool> = looks.iter().map(|look| look.best).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(looks.iter().map(|look| i64::from(look.step)))),
        each(|look| look.loss),
        each(|look| look.dev_loss),
        each(|look| look.exact_match),
        Arc::new(BooleanArray::from(best)),
        each(|look| Some(look.learning_rate)),
        Arc::new(StringArray::from(vec![weights.unwrap_or_default(); looks.len()])),
    ];
    let mut computed = sink.table(RecordBatch::try_new(Arc::clone(&plan.schema), columns)?).await?;
    fitted.write(&plan.path).map_err(failed)?;
    for (number, (name, bytes)) in (0..).zip(&fitted.files) {
        let file = sink.file(number, name, &plan.path.join(name)).await?;
        if file.sha256 != Digest::of(bytes) {
            return Err(StageError::Data {
                message: format!(
                    "`{}` was written by another process meanwhile",
                    plan.path.display()
                ),
                help: "give each `fit` stage its own folder, then run again".to_owned(),
            });
        }
        computed.files.push(file);
    }
    Ok(computed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_trains_the_same_at_once_has_another_place() {
        let cache = tempfile::tempdir().unwrap();
        let first = Place::claim(cache.path(), "fit-a").unwrap();
        let second = Place::claim(cache.path(), "fit-a").unwrap();
        let other = Place::claim(cache.path(), "fit-b").unwrap();
        assert_eq!(first.state, cache.path().join("fit-a"));
        assert_eq!(other.state, cache.path().join("fit-b"));
        assert!(second.state.parent().unwrap().is_dir());
        assert!(
            !second.state.starts_with(cache.path()) && !second.judged.starts_with(cache.path())
        );
        // One that was stopped is gone on with.
        drop(first);
        assert_eq!(Place::claim(cache.path(), "fit-a").unwrap().state, cache.path().join("fit-a"));
        // A cache that is none.
        let file = cache.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(Place::claim(&file, "fit-a").unwrap().state.parent().unwrap().is_dir());
    }
}
