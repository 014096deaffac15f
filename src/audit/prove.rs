//! `audit prove`: a folder that proves a number to somebody who has neither the store nor this program.
//!
//! From the number down: the manifest names it, the audit log names the manifest, a checkpoint names the log; the record of
//! the table that was measured has a root, and each of its rows a path to that root. `verify.py` checks all of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{Fingerprint, RunId, StageName};
use proofmill_base::merkle::{inclusion, leaf_hash};
use proofmill_catalog::audit::entry::AuditEvent;
use proofmill_catalog::audit::log::{AuditLog, StoredAuditEntry};
use proofmill_store::{
    Artifact, Key, Manifest, RowLeaves, StageOutcome, Store, Stored, find_exact, for_each_row,
    stream_part,
};
use serde::Serialize;
use serde_json::Value as Json;

use crate::SECOND_VERIFIER;
use crate::checkpoint::{Anchor, Checkpoint, Compared, kept};
use crate::note::Signer;
use crate::roots;

/// The version of bundles that this program writes.
pub const BUNDLE_VERSION: u32 = 1;
/// What the inputs of a stage are called among the components of its record.
const INPUT: &str = "input.";

/// What to prove, and how.
#[derive(Clone, Debug)]
pub struct Request {
    pub manifest: Stored<Manifest>,
    /// The stage with the metrics.
    pub stage: StageName,
    /// One of its metrics; all of them if there is none.
    pub metric: Option<String>,
    /// Whether rows stand in the bundle themselves, and not only their hashes.
    pub with_text: bool,
    /// The key that signs the checkpoint, if there is one.
    pub signer: Option<Signer>,
}

/// A proof, as `bundle.json` has it.
#[derive(Clone, Debug, Serialize)]
pub struct Bundle {
    pub v: u32,
    pub run: RunId,
    pub stage: StageName,
    /// The metrics as the manifest has them.
    pub metrics: Vec<Json>,
    /// The settings of the stage: what is measured, and how.
    pub settings: BTreeMap<String, String>,
    pub manifest: NamedRecord,
    /// The record of the stage's own table.
    pub record: NamedRecord,
    pub measured: Vec<Measured>,
    pub entries: Vec<ProvedEntry>,
    /// Entries of the audit log that the checkpoint names.
    pub size: u64,
    pub properties: Vec<Property>,
}

/// A record of the store in the folder `records` of a bundle.
#[derive(Clone, Debug, Serialize)]
pub struct NamedRecord {
    pub key: Key,
    pub sha256: Digest,
}

/// A table that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The input that it was, by its name among the components.
    pub input: String,
    pub stage: StageName,
    pub record: NamedRecord,
    pub rows: u64,
    pub root: Digest,
    /// The file with its rows.
    pub file: String,
}

/// An entry of the audit log, with its path to the root of the checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct ProvedEntry {
    pub seq: u64,
    pub key: Key,
    pub path: Vec<Digest>,
}

/// Something that a reader may want to rely on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Property {
    pub property: &'static str,
    pub status: Status,
    /// By what, or why not.
    pub why: String,
}

/// How far a property is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// By digests and signatures in the bundle.
    Attested,
    /// The store says so, and nothing proves it.
    Asserted,
    NotCovered,
}

impl Status {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Attested => "attested",
            Self::Asserted => "asserted",
            Self::NotCovered => "not covered",
        }
    }
}

/// A row of a measured table, a line of its file.
#[derive(Serialize)]
struct ProvedRow<'a> {
    row: usize,
    leaf: Digest,
    path: Vec<Digest>,
    /// Its canonical bytes, as hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    cbor: Option<&'a str>,
}

/// Writes the proof of a number into the new folder `out`.
///
/// # Errors
///
/// If the run has no such stage or metric, its records or rows cannot be read, or the folder cannot be written.
pub async fn write(store: &Store, request: &Request, out: &Path) -> Result<Bundle> {
    let manifest = &request.manifest.record;
    let (record, metrics) = measured_stage(store, request).await?;
    let folder = Folder::new(out)?;
    folder.record(store, &request.manifest.key).await?;
    folder.stored(&record, store).await?;
    let mut measured = Vec::new();
    for (input, fingerprint) in inputs(&record.record) {
        let Some(of) = manifest.stages.iter().find(|it| it.fingerprint == Some(fingerprint)) else {
            continue;
        };
        let table = artifact(store, of).await?;
        folder.stored(&table, store).await?;
        measured.push(rows(store, request, &folder, &input, of, &table).await?);
    }
    // The roots that were computed just now are in it.
    let log = AuditLog::of(store);
    let entries = log.all().await?;
    let anchor = anchor(store, request, &log, &entries).await?;
    folder.write("checkpoint.txt", anchor.text.as_bytes())?;
    let proved = proved(&entries, &manifest.run, &measured, anchor.checkpoint.size, &folder)?;
    let bundle = Bundle {
        v: BUNDLE_VERSION,
        run: manifest.run.clone(),
        stage: request.stage.clone(),
        metrics,
        settings: settings(&record.record),
        manifest: NamedRecord {
            key: request.manifest.key.clone(),
            sha256: request.manifest.sha256,
        },
        record: NamedRecord { key: record.key.clone(), sha256: record.sha256 },
        properties: properties(manifest, &anchor, &measured, &proved),
        measured,
        entries: proved,
        size: anchor.checkpoint.size,
    };
    let json = serde_json::to_string_pretty(&bundle).map_err(|error| {
        Error::new(ErrorKind::Internal, format!("the bundle cannot be written: {error}"))
    })?;
    folder.write("bundle.json", json.as_bytes())?;
    folder.write("verify.py", SECOND_VERIFIER.as_bytes())?;
    Ok(bundle)
}

/// The checkpoint of a bundle: of the whole log, signed by the key that was given; without one, the latest signed one that the
/// store keeps and that has the run, as far as there is one.
async fn anchor(
    store: &Store,
    request: &Request,
    log: &AuditLog,
    entries: &[StoredAuditEntry],
) -> Result<Anchor> {
    let head = log.head().await?;
    let whole = Checkpoint::at(store, head.as_ref());
    if request.signer.is_some() {
        return Ok(Anchor::new(whole, request.signer.as_ref()));
    }
    let run = &request.manifest.record.run;
    let ended = entries.iter().rposition(|stored| stored.entry.event.run() == Some(run));
    let fits = |anchor: &Anchor| {
        ended.is_some_and(|ended| anchor.checkpoint.size > ended as u64)
            && anchor.compare(store.format(), entries) == Compared::Continued
    };
    let kept = kept(store).await?.into_iter().rev().filter_map(|(_, anchor)| anchor.ok());
    Ok(kept.filter(fits).find(Anchor::is_signed).unwrap_or_else(|| Anchor::new(whole, None)))
}

/// The record of the stage that is proved, and its metrics.
async fn measured_stage(store: &Store, request: &Request) -> Result<(Stored<Artifact>, Vec<Json>)> {
    let manifest = &request.manifest.record;
    let usage = |message: String| Error::new(ErrorKind::Usage, message);
    let of_stage =
        |row: &&Json| row.get("stage").and_then(Json::as_str) == Some(request.stage.as_str());
    let is_meant =
        |row: &&Json| request.metric.as_deref().is_none_or(|metric| own_name(row) == Some(metric));
    let all: Vec<&Json> = manifest.metrics.iter().filter(of_stage).collect();
    let metrics: Vec<Json> = all.iter().copied().filter(is_meant).cloned().collect();
    if metrics.is_empty() {
        let mut known: Vec<String> = manifest.metrics.iter().filter_map(name_of).collect();
        known.dedup();
        let named = match &request.metric {
            Some(metric) => format!("{}.{metric}", request.stage),
            None => request.stage.to_string(),
        };
        return Err(usage(format!("run {} has no metric `{named}`", manifest.run))
            .with_hint(format!("it has {}", known.join(", "))));
    }
    let stage = manifest.stages.iter().find(|it| it.stage == request.stage);
    let stage = stage
        .ok_or_else(|| usage(format!("run {} has no stage `{}`", manifest.run, request.stage)))?;
    Ok((artifact(store, stage).await?, metrics))
}

/// The name of a metric: its stage, and its own.
fn name_of(row: &Json) -> Option<String> {
    let (stage, metric) = (row.get("stage")?.as_str()?, own_name(row)?);
    Some(format!("`{stage}.{metric}`"))
}

/// What `measure` and `compare` call a metric.
fn own_name(row: &Json) -> Option<&str> {
    row.get("name").or_else(|| row.get("metric"))?.as_str()
}

async fn artifact(store: &Store, stage: &StageOutcome) -> Result<Stored<Artifact>> {
    match (&stage.fingerprint, &stage.artifact) {
        (Some(fingerprint), Some(named)) => Ok(find_exact(store, fingerprint, named.sha256).await?),
        _ => Err(Error::new(ErrorKind::Usage, format!("stage `{}` has no table", stage.stage))),
    }
}

/// The inputs of a table, by their names among the components of its record.
fn inputs(record: &Artifact) -> Vec<(String, Fingerprint)> {
    let named = record.components.iter().filter(|(name, _)| name.starts_with(INPUT));
    named.filter_map(|(name, text)| Some((name.clone(), Fingerprint(text.parse().ok()?)))).collect()
}

fn settings(record: &Artifact) -> BTreeMap<String, String> {
    let own = record.components.iter().filter(|(name, _)| !name.starts_with(INPUT));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Writes the rows of a measured table, each with its path.
async fn rows(
    store: &Store,
    request: &Request,
    folder: &Folder,
    input: &str,
    of: &StageOutcome,
    table: &Stored<Artifact>,
) -> Result<Measured> {
    let record = &table.record;
    let (mut leaves, mut texts) = (RowLeaves::default(), Vec::new());
    for part in &record.parts {
        let (_, mut batches) = stream_part(store, part).await?;
        while let Some(batch) = batches.try_next().await? {
            leaves.push(&batch, 1);
            if request.with_text {
                for_each_row(&batch, |row| texts.push(hex(row)));
            }
        }
    }
    let Some(leaves) = leaves.finish() else {
        let message =
            format!("`{}` has {} rows, too many for a proof of each", of.stage, record.rows);
        return Err(Error::new(ErrorKind::Resources, message));
    };
    let file = format!("rows.{}.jsonl", of.stage);
    let mut lines = String::new();
    for row in 0..leaves.len() {
        let (leaf, path) = (leaves[row], inclusion(&leaves, row));
        let line = ProvedRow { row, leaf, path, cbor: texts.get(row).map(String::as_str) };
        let line = serde_json::to_string(&line).unwrap_or_default();
        lines.push_str(&line);
        lines.push('\n');
    }
    folder.write(&file, lines.as_bytes())?;
    let root = roots::root(store, table).await?;
    Ok(Measured {
        input: input.to_owned(),
        stage: of.stage.clone(),
        record: NamedRecord { key: table.key.clone(), sha256: table.sha256 },
        rows: record.rows,
        root,
        file,
    })
}

/// The entries about a run, with their paths to the root of the log.
fn proved(
    entries: &[StoredAuditEntry],
    run: &RunId,
    measured: &[Measured],
    size: u64,
    folder: &Folder,
) -> Result<Vec<ProvedEntry>> {
    let size = usize::try_from(size).unwrap_or(usize::MAX).min(entries.len());
    let leaves: Vec<Digest> = entries[..size].iter().map(|it| leaf_hash(&it.bytes)).collect();
    let is_about = |event: &AuditEvent| match event {
        AuditEvent::Adopted { runs } => runs.iter().any(|adopted| adopted.run == *run),
        AuditEvent::RowsRoot { artifact, .. } => {
            measured.iter().any(|table| table.record.sha256 == *artifact)
        }
        other => other.run() == Some(run),
    };
    let mut proved = Vec::new();
    for (at, stored) in
        entries[..size].iter().enumerate().filter(|(_, it)| is_about(&it.entry.event))
    {
        let key = proofmill_store::LogFolder::of_audit().entry(stored.entry.seq);
        folder.write(&format!("records/{key}"), &stored.bytes)?;
        proved.push(ProvedEntry { seq: stored.entry.seq, key, path: inclusion(&leaves, at) });
    }
    Ok(proved)
}

fn properties(
    manifest: &Manifest,
    anchor: &Anchor,
    measured: &[Measured],
    entries: &[ProvedEntry],
) -> Vec<Property> {
    let mut all = Vec::new();
    let mut add = |property, status, why: &str| {
        all.push(Property { property, status, why: why.to_owned() });
    };
    add(
        "the number",
        Status::Attested,
        "it stands in the manifest, whose digest the audit log names",
    );
    match (entries.is_empty(), anchor.is_signed()) {
        (true, _) => add(
            "the place of the run in the log",
            Status::NotCovered,
            "no entry of the log names it",
        ),
        (false, true) => add(
            "the place of the run in the log",
            Status::Attested,
            "its entries are in the signed checkpoint",
        ),
        (false, false) => {
            add("the place of the run in the log", Status::Asserted, "the checkpoint is unsigned")
        }
    }
    match measured.is_empty() {
        false => add(
            "the rows that it counts",
            Status::Attested,
            "each has a path to the root in the record of the table",
        ),
        true => add(
            "the rows that it counts",
            Status::NotCovered,
            "the run does not name the table that was measured",
        ),
    }
    let kept = manifest.sources.values().filter(|source| source.stored).count();
    match (kept, manifest.sources.values().all(|source| source.stored)) {
        (0, _) => add("pipeline and code", Status::NotCovered, "the run kept no texts"),
        (_, true) => add(
            "pipeline and code",
            Status::Attested,
            "by the digests of all texts, which the store has",
        ),
        (_, false) => {
            add("pipeline and code", Status::Attested, "by digests; some texts were not copied")
        }
    }
    match (manifest.local_models.is_empty(), manifest.models.is_empty()) {
        (true, true) => {}
        (false, true) => {
            add("weights of models", Status::Attested, "by the digests in their identities")
        }
        (_, false) => {
            add("models behind endpoints", Status::Asserted, "an endpoint says which model answers")
        }
    }
    add(
        "that the number follows from the rows",
        Status::Asserted,
        "`proofmill audit replay` computes it again",
    );
    add(
        "who ran it",
        match anchor.is_signed() {
            true => Status::Attested,
            false => Status::NotCovered,
        },
        match anchor.is_signed() {
            true => "the owner of the key that signed the checkpoint",
            false => "no key signed it",
        },
    );
    add(
        "when it ran",
        Status::Asserted,
        "by the clock of its machine; no timestamp is part of the bundle",
    );
    add("licence of the data", Status::NotCovered, "nothing here says");
    all
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The folder of a bundle, which is new.
struct Folder(PathBuf);

impl Folder {
    fn new(path: &Path) -> Result<Self> {
        fs::create_dir(path).map_err(|error| {
            let message = format!("the folder `{}` cannot be made: {error}", path.display());
            Error::new(ErrorKind::Usage, message).with_hint("name a folder that does not exist")
        })?;
        Ok(Self(path.to_owned()))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.0.join(name);
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        folder.and_then(|()| fs::write(&path, bytes)).map_err(|error| {
            let message = format!("`{}` cannot be written: {error}", path.display());
            Error::new(ErrorKind::Resources, message)
        })
    }

    /// Copies a record of the store.
    async fn record(&self, store: &Store, key: &Key) -> Result<()> {
        let bytes = store.get(key).await?;
        self.write(&format!("records/{key}"), &bytes)
    }

    /// Copies the record of a table: from where it lies, or from the copy under its digest if another took its place.
    async fn stored(&self, record: &Stored<Artifact>, store: &Store) -> Result<()> {
        let bytes =
            proofmill_store::artifact_bytes(store, &record.record.fingerprint, record.sha256)
                .await?;
        self.write(&format!("records/{}", record.key), &bytes)
    }
}
