//! The digest of every object that records name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use futures::{StreamExt, TryStreamExt, stream};

use proofmill_base::digest::Digest;
use proofmill_base::ids::RunId;
use proofmill_store::{Key, Store, StoreError};

use crate::finding::{Fault, Finding};
use crate::verify::scope::{Collected, Watcher};

/// Size up to which objects are read many at a time, in bytes.
const SMALL_BYTES_MAX: u64 = 256 << 10;
/// Small objects that are read and digested together.
const SMALL_AT_ONCE: usize = 128;

/// Objects by their keys, each once.
pub(super) type Objects = BTreeMap<Key, Named>;

/// What a record says of an object.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub sha256: Digest,
    pub bytes: u64,
    /// What it is, for people.
    pub what: String,
    /// Runs that name it by themselves; those that rest on its table are found by the table.
    pub runs: BTreeSet<RunId>,
}

impl Named {
    /// Adds an object that `run` names.
    pub fn add(
        objects: &mut Objects,
        key: Key,
        sha256: Digest,
        bytes: u64,
        what: String,
        run: &RunId,
    ) {
        let new = || Self { sha256, bytes, what, runs: BTreeSet::new() };
        objects.entry(key).or_insert_with(new).runs.insert(run.clone());
    }
}

/// Digests the objects, and compares.
pub(super) async fn examine(
    store: &Store,
    objects: &Objects,
    watcher: &dyn Watcher,
    found: &mut Collected,
) -> Result<(), StoreError> {
    let all = (objects.len() as u64, objects.values().map(|named| named.bytes).sum());
    let unknown = objects.iter().filter(|(key, _)| !found.known.contains(key.as_str()));
    let (small, large): (Vec<_>, Vec<_>) =
        unknown.partition(|(_, named)| named.bytes <= SMALL_BYTES_MAX);
    let progress = Mutex::new(found.examined);
    let done = |objects: u64, bytes: u64| {
        let mut progress = progress.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        progress.objects += objects;
        progress.bytes += bytes;
        watcher.digested(*progress, all);
    };
    let at_once = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let groups: Vec<_> = small
        .chunks(SMALL_AT_ONCE)
        .map(|group| {
            let keys: Vec<Key> = group.iter().map(|(key, _)| (*key).clone()).collect();
            let done = &done;
            async move {
                let digests = store.digests(keys).await?;
                done(group.len() as u64, group.iter().map(|(_, named)| named.bytes).sum());
                let findings = group
                    .iter()
                    .zip(digests)
                    .filter_map(|((key, named), digest)| difference(key, named, digest));
                Ok::<_, StoreError>(findings.collect::<Vec<Finding>>())
            }
        })
        .collect();
    let large: Vec<_> = large
        .into_iter()
        .map(|(key, named)| {
            let done = &done;
            async move {
                let digest = store.digest(key).await?;
                done(1, named.bytes);
                Ok::<_, StoreError>(difference(key, named, digest).into_iter().collect())
            }
        })
        .collect();
    let mut findings: Vec<Finding> = Vec::new();
    let of_small = stream::iter(groups).buffer_unordered(at_once).try_collect::<Vec<_>>().await?;
    findings.extend(of_small.into_iter().flatten());
    let of_large =
        stream::iter(large).buffer_unordered(at_once).try_collect::<Vec<Vec<_>>>().await?;
    findings.extend(of_large.into_iter().flatten());
    found.examined = progress.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    findings.into_iter().for_each(|finding| found.add(finding));
    Ok(())
}

/// What is wrong with an object of this digest and size, or with one that is not there.
fn difference(key: &Key, named: &Named, digest: Option<(Digest, u64)>) -> Option<Finding> {
    let Named { sha256, bytes, what, runs } = named;
    let (fault, detail) = match digest {
        None => (Fault::Missing, format!("{what}: it is not in the store")),
        Some((found, _)) if found == *sha256 => return None,
        Some((_, size)) if size != *bytes => {
            (Fault::Changed, format!("{what}: {bytes} bytes were recorded, {size} are there"))
        }
        Some((found, _)) => {
            (Fault::Changed, format!("{what}: SHA-256 {sha256} was recorded, {found} is there"))
        }
    };
    Some(Finding::new(key.as_str(), fault, detail).of_runs(runs.iter().cloned()))
}
