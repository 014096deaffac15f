//! The record that publishes a run: created once, last; what it names is what the run achieved.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::sealed::{Extensions, Record, seal, stored};
use crate::{Created, Head, Key, SourceRefs, Store, StoreError, Stored, manifest_key};
use proofmill_base::digest::Digest;
use proofmill_base::ids::{Fingerprint, PipelineName, RunId, StageName};

/// The version of manifests that this program writes and the newest that it reads.
pub const MANIFEST_VERSION: u32 = 5;

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub v: u32,
    pub run: RunId,
    pub pipeline: PipelineRef,
    /// Parameters after resolution, by name.
    pub params: BTreeMap<String, serde_json::Value>,
    pub trigger: Trigger,
    /// Versions of the code that took part, by name, and the build of the program.
    pub code: BTreeMap<String, String>,
    /// Templates that the pipeline used, with the digests of their texts. None in version 1.
    #[serde(default)]
    pub templates: BTreeMap<String, Digest>,
    /// The texts that it was made of. None before version 5.
    #[serde(default)]
    pub sources: SourceRefs,
    /// Where it ran; of a run that went on, where it ended. Unknown in version 1.
    #[serde(default)]
    pub machine: Machine,
    pub started_at: DateTime<Utc>,
    pub finished_at: DateTime<Utc>,
    /// When it was at work: once, and once more for each time that it was taken over. None before version 3.
    #[serde(default)]
    pub sessions: Vec<Session>,
    pub outcome: Outcome,
    /// What became of each stage, in order of the pipeline file.
    pub stages: Vec<StageOutcome>,
    /// Rows of the metrics, as measured.
    pub metrics: Vec<serde_json::Value>,
    /// Usage of models behind endpoints by the process that ended the run, by their names in the
    /// file. Unknown before version 3.
    #[serde(default)]
    pub models: BTreeMap<String, ModelUsage>,
    /// What that process computed with models on its machine, by their names in the file. Unknown before
    /// version 4.
    #[serde(default)]
    pub local_models: BTreeMap<String, LocalUsage>,
    /// The last entry of the log before this record.
    pub log: Head,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: Extensions,
}

/// What started a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trigger {
    /// `proofmill run`.
    #[default]
    Command,
    /// `proofmill run --resume`.
    Resume,
    /// A schedule, for the instant that it planned.
    Schedule { name: PipelineName, planned: DateTime<Utc> },
    /// `proofmill diff --attribute`: the run `of`, with a part of the run `from` in place of its own; with all of its own parts where
    /// `part` is none.
    Counterfactual {
        of: RunId,
        from: RunId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<RunPart>,
    },
}

/// A part of what a run is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPart {
    /// The pipeline file, its templates, prompts and other texts.
    File,
    Params,
    /// The rows of stages that read files or past runs.
    Inputs,
    /// What the models are, by their names in the file.
    Models,
    /// What users taught.
    Memory,
}

impl RunPart {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::File, Self::Params, Self::Inputs, Self::Models, Self::Memory];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Params => "params",
            Self::Inputs => "inputs",
            Self::Models => "models",
            Self::Memory => "memory",
        }
    }
}

/// Usage of a model in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalUsage {
    pub answers: u64,
    /// Tokens of all prompts, texts and answers, each counted for itself.
    pub asked_tokens: u64,
    /// Those that passed through the network; the others were shared with another request.
    pub computed_tokens: u64,
}

/// Usage of a model behind an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelUsage {
    /// HTTP requests, repeated ones included.
    pub requests: u64,
    /// Those that repeated one that had failed.
    pub retries: u64,
    pub answers: u64,
    /// Answers whose tokens the endpoint did not count: the sums lack them.
    pub uncounted: u64,
    pub prompt_tokens: u64,
    /// Those tokens of prompts that the endpoint had in its cache.
    pub cached_tokens: u64,
    pub completion_tokens: u64,
    /// The cost by the model's `prices`, as an exact decimal; none without prices.
    pub cost: Option<String>,
}

/// What endpoints called themselves in their answers, by the names of the models.
pub type ReportedModels = BTreeMap<String, Vec<ReportedModel>>;

/// What an endpoint called itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedModel {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_fingerprint: Option<String>,
    pub answers: u64,
}

/// Where a manifest has them among its extensions.
const REPORTED: &str = "reported";

impl Manifest {
    /// What endpoints called themselves in this run; nothing of a run of an older program.
    pub fn reported(&self) -> ReportedModels {
        let reported = self.extensions.get(REPORTED).cloned();
        reported.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
    }
}

/// The extension of a manifest that says what endpoints called themselves; none if they did not.
pub fn reported_extension(reported: &ReportedModels) -> Extensions {
    let value = serde_json::to_value(reported).ok().filter(|_| !reported.is_empty());
    value.map(|value| (REPORTED.to_owned(), value)).into_iter().collect()
}

impl Record for Manifest {
    const VERSION: u32 = MANIFEST_VERSION;
    const OLDEST: u32 = 1;
}

/// Where a run ran, and what it might use there: for people, no result depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub host: String,
    /// Operating system and processor.
    pub platform: String,
    /// Stages that might compute at the same time.
    pub jobs: usize,
    /// Memory that queries might use together, in bytes.
    pub memory_bytes: u64,
}

/// A time in which a process worked on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    pub started_at: DateTime<Utc>,
    /// Its last entry in the log, if it was killed.
    pub finished_at: DateTime<Utc>,
}

/// A pipeline as it was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineRef {
    pub name: PipelineName,
    /// Where its file was, for people.
    pub path: String,
    /// Digest of the bytes of its file.
    pub yaml_sha256: Digest,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every stage and check passed.
    Succeeded,
    Failed,
    Interrupted,
}

/// What became of a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageOutcome {
    pub stage: StageName,
    pub kind: String,
    /// Its fingerprint; none when it was not reached.
    pub fingerprint: Option<Fingerprint>,
    pub status: StageStatus,
    /// The run that computed the artifact, when it was not this one.
    pub cached_from: Option<RunId>,
    /// Rows of the artifact.
    pub rows: u64,
    /// Bytes of the artifact.
    pub bytes: u64,
    /// Rows that failed.
    pub error_rows: u64,
    /// Time that the stage took in this run, in milliseconds.
    pub wall_ms: u64,
    /// The artifact's record; none when the stage has no result.
    pub artifact: Option<RecordRef>,
}

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageStatus {
    Computed,
    Cached,
    Failed,
    /// Not reached.
    Skipped,
}

/// A record that another record names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordRef {
    pub key: Key,
    /// Digest of its stored bytes.
    pub sha256: Digest,
}

impl<T> From<&Stored<T>> for RecordRef {
    fn from(stored: &Stored<T>) -> Self {
        Self { key: stored.key.clone(), sha256: stored.sha256 }
    }
}

/// Publishes a run.
///
/// # Errors
///
/// [`StoreError::ManifestExists`] when the run was published already with other content.
pub async fn publish_manifest(store: &Store, manifest: &Manifest) -> Result<Stored<Manifest>> {
    let key = manifest_key(&manifest.run);
    let bytes = seal(&key, manifest)?;
    match store.create(&key, bytes.clone()).await? {
        Created::Won => stored(key, &bytes),
        Created::Lost(_) => Err(StoreError::ManifestExists { run: manifest.run.clone() }),
    }
}

/// The manifest of a run; none while the run is not finished.
///
/// # Errors
///
/// When the record is damaged or newer than this program, or the store fails.
pub async fn read_manifest(store: &Store, run: &RunId) -> Result<Option<Stored<Manifest>>> {
    match store.get_opt(&manifest_key(run)).await? {
        Some(bytes) => examine(run, &bytes).map(Some),
        None => Ok(None),
    }
}

/// Reads `bytes` as the manifest of `run`.
pub(crate) fn examine(run: &RunId, bytes: &[u8]) -> Result<Stored<Manifest>> {
    let manifest: Stored<Manifest> = stored(manifest_key(run), bytes)?;
    if manifest.record.run == *run {
        return Ok(manifest);
    }
    let reason = format!("it is the manifest of run `{}`", manifest.record.run);
    Err(StoreError::Damaged { key: manifest.key.to_string(), reason })
}
