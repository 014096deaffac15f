//! What lies in a store and no run names: records of tables, the ledger, memories.

use proofmill_ledger::{Ledger, LedgerError};
use proofmill_store::{
    ChainOnly, Key, LogFolder, OpenLog, OpenLogError, Position, Store, StoreError,
    artifacts_prefix, format_key, memories_prefix, read_artifact, runs_prefix,
};

use proofmill_base::digest::Digest;

use crate::finding::{Fault, Finding};
use crate::verify::entries::Logged;
use crate::verify::objects::{Named, Objects};
use crate::verify::runs::objects_of;
use crate::verify::scope::Collected;

/// Records that are read at a time.
const WINDOW: usize = 512;

/// Examines them, and adds the objects that they name.
pub(super) async fn examine(
    store: &Store,
    log: &Logged,
    objects: &mut Objects,
    found: &mut Collected,
) -> Result<(), StoreError> {
    records(store, objects, found).await?;
    ledger(store, objects, found).await?;
    memories(store, found).await?;
    heads(store, log, found).await?;
    let is_data = |key: &Key| key.as_str().split('/').nth(2) == Some("data");
    let keys = store.list(&runs_prefix()).await?;
    let unnamed = keys.iter().filter(|key| is_data(key) && !objects.contains_key(*key));
    found.examined.unnamed = unnamed.count() as u64;
    Ok(())
}

/// Every record of a table, whether a run names it or not.
async fn records(
    store: &Store,
    objects: &mut Objects,
    found: &mut Collected,
) -> Result<(), StoreError> {
    let mut keys = store.list(&artifacts_prefix()).await?;
    keys.retain(|key| !found.read.contains(key) && !found.known.contains(key.as_str()));
    for window in keys.chunks(WINDOW) {
        for (bytes, key) in store.get_all(window).await?.into_iter().zip(window) {
            let Some(bytes) = bytes else { continue };
            if let Some(stored) = found.take(key, read_artifact(key, &bytes), &[])? {
                objects_of(&stored.record, &stored.record.created_by, objects);
            }
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

/// The chain of each memory.
async fn memories(store: &Store, found: &mut Collected) -> Result<(), StoreError> {
    let keys = store.list(&memories_prefix()).await?;
    let mut names: Vec<&str> =
        keys.iter().filter_map(|key| key.as_str().split('/').nth(1)).collect();
    names.dedup();
    for name in names {
        let Ok(name) = name.parse() else { continue };
        let log = OpenLog::<ChainOnly>::new(LogFolder::of_memory(&name));
        let mut position = Position { next: log.folder.first(), head: None };
        match log.read_on(store, &mut position).await {
            Ok(_) => {}
            Err(OpenLogError::Gap { seq }) => {
                let detail =
                    format!("entry {seq} of the memory `{name}` is missing, later entries exist");
                found.add(Finding::new(log.folder.entry(seq).as_str(), Fault::Missing, detail));
            }
            Err(OpenLogError::Broken { seq, reason }) => {
                let detail = format!("entry {seq} of the memory `{name}` {reason}");
                found.add(Finding::new(log.folder.entry(seq).as_str(), Fault::ChainBroken, detail));
            }
            Err(OpenLogError::Store(error)) => {
                let key = error.key().and_then(|key| Key::try_from(key.to_owned()).ok());
                let key = key.unwrap_or_else(|| log.folder.entry(position.next));
                found.take::<()>(&key, Err(error), &[])?;
            }
        }
    }
    Ok(())
}
