//! What an export says of a run, read from its records.

use chrono::{DateTime, TimeDelta, Utc};
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::audit::entry::Ending;
use proofmill_catalog::lineage::INPUT;
use proofmill_catalog::summary::{RunSummary, artifact};
use proofmill_store::{
    Artifact, SourceRef, StageOutcome, Store, Stored, manifest_key, read_manifest,
};
use serde_json::Value as Json;

use crate::exports::statement::Resource;

/// A run with the records of its tables.
#[derive(Debug)]
pub struct ExportedRun {
    pub(super) run: RunSummary,
    pub(super) how: Ending,
    pub(super) tables: Vec<(StageOutcome, Stored<Artifact>)>,
    pub(super) finished_at: Option<DateTime<Utc>>,
    /// The identity of the store.
    pub(super) store: String,
    /// The version of this program.
    pub(super) version: &'static str,
}

impl ExportedRun {
    /// Reads the records of a run.
    ///
    /// # Errors
    ///
    /// If it has not ended, or a record cannot be read.
    pub async fn load(store: &Store, run: RunSummary, version: &'static str) -> Result<Self> {
        let how = run.outcome.map(Ending::from).ok_or_else(|| {
            Error::new(ErrorKind::Usage, format!("run {} has not ended", run.run))
                .with_hint("only a run that ended can be exported")
        })?;
        let mut tables = Vec::new();
        for ended in run.tables() {
            if let Some(table) = artifact(store, ended).await? {
                tables.push((ended.clone(), table));
            }
        }
        let finished_at = match read_manifest(store, &run.run).await {
            Ok(Some(manifest)) => Some(manifest.record.finished_at),
            // Of a run that is not published, the log knows how long it took.
            _ => run.started_at.zip(run.seconds).and_then(|(started, seconds)| {
                let took = TimeDelta::try_milliseconds((seconds * 1e3) as i64)?;
                started.checked_add_signed(took)
            }),
        };
        Ok(Self { run, how, tables, finished_at, store: store.format().store.clone(), version })
    }

    /// The texts that it was made of.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&String, &SourceRef)> {
        self.run.origin.iter().flat_map(|origin| &origin.sources)
    }

    /// The pipeline file, templates, settings and code.
    pub(super) fn source_resources(&self) -> Vec<Resource> {
        let own = self.sources().map(|(path, source)| {
            let role = serde_json::to_value(source.role).unwrap_or_default();
            Resource::new(path, source.sha256).annotated("role", role)
        });
        own.collect()
    }

    /// What its tables were made of that no stage made: files that were read, and the folders of models.
    pub(super) fn outer_resources(&self) -> Vec<Resource> {
        let mut all: Vec<Resource> = Vec::new();
        for (_, table) in &self.tables {
            for one in outer(&table.record) {
                if all.iter().all(|other| other.sha256() != one.sha256()) {
                    all.push(one);
                }
            }
        }
        all
    }

    /// The records of its tables, by their places in the store, which name all their bytes; and its manifest.
    pub(super) fn results(&self) -> Vec<Resource> {
        let manifest = self
            .run
            .manifest
            .map(|sha256| Resource::new(manifest_key(&self.run.run).as_str(), sha256));
        let tables = self.tables.iter().map(|(ended, table)| {
            let stage = Json::from(ended.stage.as_str());
            Resource::new(table.key.as_str(), table.sha256).annotated("stage", stage)
        });
        let mut results: Vec<Resource> = Vec::new();
        for one in manifest.into_iter().chain(tables) {
            // Stages that compute the same have one table.
            if results.iter().all(|other| other.name != one.name) {
                results.push(one);
            }
        }
        results
    }
}

/// What a record names among its components that no stage made: files that were read, models, memories. Their paths are not
/// part of a record, because the same bytes elsewhere are the same.
pub(super) fn outer(record: &Artifact) -> Vec<Resource> {
    let of_store = |name: &&String| name.starts_with("stored") || name.starts_with(INPUT);
    let digests = record.components.iter().filter(|(name, _)| !of_store(name));
    let digests = digests.filter_map(|(name, value)| Some((name, value.parse::<Digest>().ok()?)));
    let named = digests.map(|(name, digest)| {
        let part = name.strip_suffix(".sha256").unwrap_or(name);
        Resource::new(&format!("{}/{part}", record.stage), digest)
    });
    named.collect()
}
