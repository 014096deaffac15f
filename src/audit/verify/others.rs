//! What lies in a store and no run names: records of tables, the ledger, memories, schedules.

use proofmill_base::digest::Digest;
use proofmill_catalog::audit::entry::Ending;
use proofmill_ledger::{Ledger, LedgerError};
use proofmill_store::{
    Artifact, ChainOnly, Key, LogFolder, OpenLog, OpenLogError, Position, Store, StoreError,
    Stored, artifact_key, artifacts_prefix, format_key, memories_prefix, read_artifact,
    read_source, runs_prefix, schedules_prefix,
};

use crate::finding::{Fault, Finding};
use crate::verify::entries::Logged;
use crate::verify::objects::{Named, Objects};
use crate::verify::runs::{StagesOfRuns, objects_of};
use crate::verify::scope::Collected;

/// Records that are read at a time.
const WINDOW: usize = 512;

/// Examines them, and adds the objects that they name.
pub(super) async fn examine(
    store: &Store,
    log: &Logged,
    stages: &StagesOfRuns,
    objects: &mut Objects,
    found: &mut Collected,
) -> Result<(), StoreError> {
    records(store, log, stages, objects, found).await?;
    ledger(store, objects, found).await?;
    let memories = store.folders(&memories_prefix()).await?;
    chains(store, "memories", &memories, found).await?;
    let schedules = store.folders(&schedules_prefix()).await?;
    chains(store, "schedules", &schedules, found).await?;
    heads(store, log, found).await?;
    verdicts(store, log, objects, found).await?;
    let is_data = |key: &Key| key.as_str().split('/').nth(2) == Some("data");
    let keys = store.list(&runs_prefix()).await?;
    let unnamed = keys.iter().filter(|key| is_data(key) && !objects.contains_key(*key));
    found.examined.unnamed = unnamed.count() as u64;
    Ok(())
}

/// Every record of a table, whether a run names it or not.
async fn records(
    store: &Store,
    log: &Logged,
    stages: &StagesOfRuns,
    objects: &mut Objects,
    found: &mut Collected,
) -> Result<(), StoreError> {
    let mut keys = store.list(&artifacts_prefix()).await?;
    keys.retain(|key| !found.read.contains(key) && !found.known.contains(key.as_str()));
    for window in keys.chunks(WINDOW) {
        for (bytes, key) in store.get_all(window).await?.into_iter().zip(window) {
            let Some(bytes) = bytes else { continue };
            if let Some(stored) = found.take(key, read_artifact(key, &bytes), &[])? {
                if let Some((fault, detail)) = planted(key, &stored, log, stages) {
                    found.add(Finding::new(key.as_str(), fault, detail));
                }
                objects_of(&stored.record, &stored.record.created_by, objects);
            }
        }
    }
    Ok(())
}

/// What is wrong with a record that no run names and later runs would take for their own: the run that it says made it is not
/// known, or names another one. A process that is killed leaves records that nothing names, so only a run that is published
/// tells.
fn planted(
    key: &Key,
    stored: &Stored<Artifact>,
    log: &Logged,
    stages: &StagesOfRuns,
) -> Option<(Fault, String)> {
    let (record, run) = (&stored.record, &stored.record.created_by);
    if log.exists && !log.names(run) {
        let detail = format!("it was made by run {run}, which no entry of the audit log names");
        return Some((Fault::NotLogged, detail));
    }
    let is_published = log.ended.get(run).is_some_and(|end| end.how == Ending::Succeeded);
    let is_current = *key == artifact_key(&record.fingerprint);
    let mut own = stages.get(run)?.iter().map(|(ended, _)| ended);
    let ended = own.find(|ended| ended.fingerprint == Some(record.fingerprint))?;
    let named = ended.artifact.as_ref()?;
    let differs = is_published && is_current && named.sha256 != stored.sha256;
    differs.then(|| {
        let sha256 = named.sha256;
        let detail =
            format!("run {run}, which made it, names another record, with SHA-256 {sha256}");
        (Fault::Contradicts, detail)
    })
}

/// The verdicts of gates: what the log says of each, and the object that it names.
async fn verdicts(
    store: &Store,
    log: &Logged,
    objects: &mut Objects,
    found: &mut Collected,
) -> Result<(), StoreError> {
    for (judged, seq) in &log.verdicts {
        let (run, verdict) = (&judged.candidate, &judged.verdict);
        let key = LogFolder::of_audit().entry(*seq);
        if !log.names(run) {
            let detail = format!("it judges run {run}, of which no entry says that it began");
            found.add(Finding::new(key.as_str(), Fault::NotLogged, detail));
        }
        let what = "the verdict of a gate".to_owned();
        Named::add(objects, verdict.key(), verdict.sha256, verdict.bytes, what, run);
        // One that is lost or another one is found among the objects.
        let text = match read_source(store, verdict).await {
            Ok(text) => text,
            Err(error) if error.is_damage() => continue,
            Err(error) => return Err(error),
        };
        let said: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let is_so = said.pointer("/judgement/word") == Some(&serde_json::json!(judged.word))
            && said.pointer("/evidence/candidate/run") == Some(&serde_json::json!(run));
        if !is_so {
            let detail = "it names a verdict that says something else".to_owned();
            found.add(Finding::new(key.as_str(), Fault::Contradicts, detail));
        }
    }
    Ok(())
}

/// The log of the ledger, and its segments.
async fn ledger(
    store: &Store,
    objects: &mut Objects,
    found: &mut Collected,
) -> Result<(), StoreError> {
    let folder = LogFolder::of_ledger();
    let finding = |fault, detail: String| Finding::new(folder.prefix().as_ref(), fault, detail);
    match Ledger::open(store).await {
        Ok(ledger) => {
            for (key, sha256, bytes) in ledger.segments() {
                let what = "a segment of recorded answers".to_owned();
                objects.entry(key).or_insert(Named {
                    sha256,
                    bytes,
                    what,
                    runs: Default::default(),
                });
            }
        }
        Err(LedgerError::Store(error)) => {
            let key = error.key().and_then(|key| Key::try_from(key.to_owned()).ok());
            let key = key.unwrap_or_else(format_key);
            found.take::<()>(&key, Err(error), &[])?;
        }
        Err(error @ LedgerError::Gap { seq }) => {
            found.add(Finding::new(folder.entry(seq).as_str(), Fault::Missing, error.to_string()));
        }
        Err(error @ LedgerError::Broken { seq, .. }) => {
            found.add(Finding::new(
                folder.entry(seq).as_str(),
                Fault::ChainBroken,
                error.to_string(),
            ));
        }
        Err(error) => found.add(finding(Fault::Damaged, error.to_string())),
    }
    Ok(())
}

/// The entries of the ledger and of memories that the audit log names as the last ones when a run ended.
async fn heads(store: &Store, log: &Logged, found: &mut Collected) -> Result<(), StoreError> {
    for ((name, seq), (sha256, runs)) in &log.heads {
        let Some(folder) = LogFolder::of_name(name) else { continue };
        let key = folder.entry(*seq);
        let finding = match store.get_opt(&key).await? {
            Some(bytes) if Digest::of(&bytes) == *sha256 => continue,
            Some(_) => {
                let detail =
                    format!("entry {seq} of `{name}` is not the one that the audit log names");
                Finding::new(key.as_str(), Fault::Contradicts, detail)
            }
            // Entries of the ledger are removed once a checkpoint covers them.
            None if folder.extent(store).await?.checkpoint >= Some(*seq) => continue,
            None => {
                let detail =
                    format!("entry {seq} of `{name}`, which the audit log names, is missing");
                Finding::new(key.as_str(), Fault::CutOff, detail)
            }
        };
        if !found.known.contains(key.as_str()) {
            found.add(finding.of_runs(runs.iter().cloned()));
        }
    }
    Ok(())
}

/// The chains of the memories or schedules of these names.
async fn chains(
    store: &Store,
    parent: &str,
    names: &[String],
    found: &mut Collected,
) -> Result<(), StoreError> {
    for name in names {
        let name = format!("{parent}/{name}");
        let Some(folder) = LogFolder::of_name(&name) else { continue };
        let log = OpenLog::<ChainOnly>::new(folder);
        let mut position = Position { next: log.folder.first(), head: None };
        let (seq, fault, detail) = match log.read_on(store, &mut position).await {
            Ok(_) => continue,
            Err(OpenLogError::Gap { seq }) => {
                let detail = format!("entry {seq} of `{name}` is missing, later entries exist");
                (seq, Fault::Missing, detail)
            }
            Err(OpenLogError::Broken { seq, reason }) => {
                (seq, Fault::ChainBroken, format!("entry {seq} of `{name}` {reason}"))
            }
            Err(OpenLogError::Store(error)) => {
                let key = error.key().and_then(|key| Key::try_from(key.to_owned()).ok());
                let key = key.unwrap_or_else(|| log.folder.entry(position.next));
                found.take::<()>(&key, Err(error), &[])?;
                continue;
            }
        };
        found.add(Finding::new(log.folder.entry(seq).as_str(), fault, detail));
    }
    Ok(())
}
