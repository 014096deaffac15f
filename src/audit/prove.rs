//! `audit prove`: a folder that proves a number to somebody who has neither the store nor this program.
//!
//! From the number down: the manifest names it, the audit log names the manifest, a checkpoint names the log; the record of
//! the table that was measured has a root, and each of its rows a path to that root. `verify.py` checks all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{Fingerprint, RunId, StageName};
use proofmill_base::merkle::{FullTree, leaf_hash};
use proofmill_base::suggest;
use proofmill_catalog::audit::entry::AuditEvent;
use proofmill_catalog::audit::log::{AuditLog, StoredAuditEntry};
use proofmill_catalog::lineage::{INPUT, ITEM_IDS};
use proofmill_store::{
    Artifact, Key, LogFolder, Manifest, StageOutcome, Store, Stored, artifact_bytes, find_exact,
};
use serde_json::Value as Json;

use crate::SECOND_VERIFIER;
use crate::bundle::{
    BUNDLE_VERSION, Bundle, Item, Measured, NamedRecord, ProvedEntry, RowsOfItem, UpstreamTable,
    properties,
};
use crate::checkpoint::{Anchor, Checkpoint, Compared, kept};
use crate::note::Signer;
use crate::proved_rows::{ProvedRows, Wanted, has_items};
use crate::roots;
use crate::timestamp::Stamp;

/// What to prove, and how.
#[derive(Clone, Debug)]
pub struct Request {
    pub manifest: Stored<Manifest>,
    /// The stage with the metrics.
    pub stage: StageName,
    /// One of its metrics; all of them if there is none.
    pub metric: Option<String>,
    /// The id of an item whose rows in all tables upstream are proved too.
    pub item: Option<String>,
    /// Whether rows stand in the bundle themselves, and not only their hashes.
    pub with_text: bool,
    /// The key that signs the checkpoint, if there is one.
    pub signer: Option<Signer>,
    /// A checkpoint that was kept outside the store and has the run.
    pub anchor: Option<Anchor>,
    /// The timestamp of that anchor.
    pub stamp: Option<Stamp>,
}

/// Writes the proof of a number into the new folder `out`.
///
/// # Errors
///
/// If the run has no such stage or metric, its records or rows cannot be read, or the folder cannot be written.
pub async fn write(store: &Store, request: &Request, out: &Path) -> Result<Bundle> {
    let folder = Folder::new(out)?;
    let written = fill(store, request, &folder).await;
    if written.is_err() {
        // A part of a proof is none, and the folder would be in the way of the next try.
        let _ = fs::remove_dir_all(out);
    }
    written
}

async fn fill(store: &Store, request: &Request, folder: &Folder) -> Result<Bundle> {
    let manifest = &request.manifest.record;
    let (record, metrics) = measured_stage(store, request).await?;
    folder.record(store, &request.manifest.key).await?;
    folder.stored(&record, store).await?;
    let mut measured = Vec::new();
    if metrics.is_empty() {
        // Its rows are the numbers.
        let own = stage_of(manifest, &request.stage)?;
        measured.push(rows(store, request, folder, None, own, &record).await?);
    }
    for (input, fingerprint) in inputs(&record.record) {
        let Some(of) = manifest.stages.iter().find(|it| it.fingerprint == Some(fingerprint)) else {
            continue;
        };
        let table = artifact(store, of).await?;
        folder.stored(&table, store).await?;
        measured.push(rows(store, request, folder, Some(input), of, &table).await?);
    }
    let behind = upstream(store, manifest, &record.record).await?;
    let item = item(store, request, &behind, folder).await?;
    let mut upstream = Vec::new();
    for (stage, table) in &behind {
        if !measured.iter().any(|it| it.record.sha256 == table.sha256) {
            folder.stored(table, store).await?;
            upstream.push(UpstreamTable { stage: stage.clone(), record: NamedRecord::of(table) });
        }
    }
    // The roots that were computed just now are in it.
    let log = AuditLog::of(store);
    let entries = log.all().await?;
    let anchor = anchor(store, request, &log, &entries).await?;
    folder.write("checkpoint.txt", anchor.text.as_bytes())?;
    if let Some(stamp) = &request.stamp {
        folder.write("checkpoint.tsr", &stamp.response)?;
    }
    let rooted: Vec<Digest> = behind.iter().map(|(_, table)| table.sha256).collect();
    let proved = proved(&entries, &manifest.run, &rooted, anchor.checkpoint.size, folder)?;
    let is_logged = proved.iter().any(|it| names_manifest(&entries, it, request));
    let bundle = Bundle {
        v: BUNDLE_VERSION,
        run: manifest.run.clone(),
        stage: request.stage.clone(),
        metrics,
        settings: settings(&record.record),
        manifest: NamedRecord::of(&request.manifest),
        record: NamedRecord::of(&record),
        properties: properties(
            manifest,
            &anchor,
            request.stamp.as_ref(),
            is_logged,
            &measured,
            &behind.iter().map(|(_, table)| table.record.as_ref()).collect::<Vec<_>>(),
        ),
        measured,
        upstream,
        item,
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

/// Whether an entry names the manifest of the run that is proved.
fn names_manifest(entries: &[StoredAuditEntry], proved: &ProvedEntry, request: &Request) -> bool {
    let sha256 = Some(request.manifest.sha256);
    let run = &request.manifest.record.run;
    let entry = entries.iter().find(|stored| stored.entry.seq == proved.seq);
    entry.is_some_and(|stored| match &stored.entry.event {
        AuditEvent::RunEnded(end) => end.run == *run && end.manifest == sha256,
        AuditEvent::Adopted { runs } => {
            runs.iter().any(|adopted| adopted.run == *run && adopted.manifest == sha256)
        }
        _ => false,
    })
}

/// The tables that a record was made of, through any number of others, each with its stage.
async fn upstream(
    store: &Store,
    manifest: &Manifest,
    record: &Artifact,
) -> Result<Vec<(StageName, Stored<Artifact>)>> {
    let mut seen = BTreeSet::new();
    let (mut tables, mut open) = (Vec::new(), inputs(record));
    while let Some((_, fingerprint)) = open.pop() {
        let of = manifest.stages.iter().find(|it| it.fingerprint == Some(fingerprint));
        let Some(of) = of.filter(|_| seen.insert(fingerprint)) else { continue };
        let table = artifact(store, of).await?;
        open.extend(inputs(&table.record));
        tables.push((of.stage.clone(), table));
    }
    Ok(tables)
}

/// Writes the rows of the requested item in each of `tables`, and the facts that they name.
async fn item(
    store: &Store,
    request: &Request,
    tables: &[(StageName, Stored<Artifact>)],
    folder: &Folder,
) -> Result<Option<Item>> {
    let Some(id) = &request.item else { return Ok(None) };
    let mut facts = BTreeSet::new();
    let mut rows_of = BTreeMap::new();
    // The second time for the facts, which rows of other tables name.
    for _ in 0..2 {
        let named = std::mem::take(&mut facts);
        for (stage, table) in tables.iter().filter(|(_, table)| has_items(&table.record)) {
            let wanted = Wanted::Item { id, facts: &named };
            let rows = ProvedRows::read(store, table, wanted, request.with_text).await?;
            facts.extend(rows.facts.iter().cloned());
            if rows.len() > 0 {
                let file = format!("item.{stage}.jsonl");
                rows_of.insert(stage, (file, rows, table));
            }
        }
        if facts.is_empty() {
            break;
        }
    }
    let mut of_item = Vec::new();
    for (stage, (file, rows, table)) in rows_of {
        folder.stream(&file, |out| rows.write(out))?;
        of_item.push(RowsOfItem {
            stage: stage.clone(),
            record: NamedRecord::of(table),
            rows: table.record.rows,
            of_item: rows.len() as u64,
            root: roots::root(store, table).await?,
            file,
        });
    }
    match of_item.is_empty() {
        false => Ok(Some(Item { id: id.clone(), tables: of_item })),
        true => {
            let message = format!("no table upstream of `{}` has rows of `{id}`", request.stage);
            Err(Error::new(ErrorKind::Usage, message)
                .with_hint(format!("items are named by `{}`", ITEM_IDS.join("`, `"))))
        }
    }
}

/// The checkpoint of a bundle: the one that was given; or of the whole log, signed by the key that was given; without either,
/// the latest signed one that the store keeps and that has the run, as far as there is one.
async fn anchor(
    store: &Store,
    request: &Request,
    log: &AuditLog,
    entries: &[StoredAuditEntry],
) -> Result<Anchor> {
    let run = &request.manifest.record.run;
    let ended = entries.iter().rposition(|stored| stored.entry.event.run() == Some(run));
    let fits = |anchor: &Anchor| {
        ended.is_some_and(|ended| anchor.checkpoint.size > ended as u64)
            && anchor.compare(store.format(), entries) == Compared::Continued
    };
    if let Some(anchor) = &request.anchor {
        return match fits(anchor) {
            true => Ok(anchor.clone()),
            false => {
                let message = format!("the anchor is not of a log that has run {run}");
                Err(Error::new(ErrorKind::Usage, message)
                    .with_hint("`proofmill audit anchor --check FILE` compares it with the log; one of now has the run"))
            }
        };
    }
    let head = log.head().await?;
    let whole = Checkpoint::at(store, head.as_ref());
    if request.signer.is_some() {
        return Ok(Anchor::new(whole, request.signer.as_ref()));
    }
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
    let of_stage = manifest.metrics.iter().filter(of_stage);
    let metrics: Vec<Json> = of_stage.filter(is_meant).cloned().collect();
    let stage = stage_of(manifest, &request.stage)?;
    if let (Some(metric), true) = (&request.metric, metrics.is_empty()) {
        let known: BTreeSet<String> = manifest.metrics.iter().filter_map(name_of).collect();
        let known: Vec<String> = known.into_iter().collect();
        return Err(usage(format!(
            "run {} has no metric `{}.{metric}`",
            manifest.run, request.stage
        ))
        .with_hint(format!(
            "it has {}; without a metric, the rows of a stage are proved",
            known.join(", ")
        )));
    }
    Ok((artifact(store, stage).await?, metrics))
}

fn stage_of<'a>(manifest: &'a Manifest, name: &StageName) -> Result<&'a StageOutcome> {
    let stage = manifest.stages.iter().find(|it| it.stage == *name);
    stage.ok_or_else(|| {
        let message = format!("run {} has no stage `{name}`", manifest.run);
        let known = manifest.stages.iter().map(|it| it.stage.as_str());
        let hint = suggest::help(name.as_str(), known);
        hint.into_iter().fold(Error::new(ErrorKind::Usage, message), Error::with_hint)
    })
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
    input: Option<String>,
    of: &StageOutcome,
    table: &Stored<Artifact>,
) -> Result<Measured> {
    let rows = ProvedRows::read(store, table, Wanted::All, request.with_text).await?;
    let file = format!("rows.{}.jsonl", of.stage);
    folder.stream(&file, |out| rows.write(out))?;
    Ok(Measured {
        input,
        stage: of.stage.clone(),
        record: NamedRecord::of(table),
        rows: table.record.rows,
        root: roots::root(store, table).await?,
        file,
    })
}

/// The entries about a run and about roots of its tables, with their paths to the root of the log.
fn proved(
    entries: &[StoredAuditEntry],
    run: &RunId,
    rooted: &[Digest],
    size: u64,
    folder: &Folder,
) -> Result<Vec<ProvedEntry>> {
    let size = usize::try_from(size).unwrap_or(usize::MAX).min(entries.len());
    let tree = FullTree::of(entries[..size].iter().map(|it| leaf_hash(&it.bytes)).collect());
    let is_about = |event: &AuditEvent| match event {
        AuditEvent::Adopted { runs } => runs.iter().any(|adopted| adopted.run == *run),
        AuditEvent::RowsRoot { artifact, .. } => rooted.contains(artifact),
        other => other.run() == Some(run),
    };
    let mut proved = Vec::new();
    for (at, stored) in
        entries[..size].iter().enumerate().filter(|(_, it)| is_about(&it.entry.event))
    {
        let key = LogFolder::of_audit().entry(stored.entry.seq);
        folder.write(&format!("records/{key}"), &stored.bytes)?;
        proved.push(ProvedEntry { seq: stored.entry.seq, key, path: tree.inclusion(at) });
    }
    Ok(proved)
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
        self.stream(name, |out| out.write_all(bytes))
    }

    fn stream(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<()> {
        let path = self.0.join(name);
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = folder.and_then(|()| File::create(&path)).and_then(|file| {
            let mut out = BufWriter::new(file);
            write(&mut out)?;
            out.flush()
        });
        written.map_err(|error| {
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
        let bytes = artifact_bytes(store, &record.record.fingerprint, record.sha256).await?;
        self.write(&format!("records/{}", record.key), &bytes)
    }
}
