//! The digest of every object that records name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt, stream};

use proofmill_base::digest::Digest;
use proofmill_base::ids::RunId;
use proofmill_store::{Key, Store, StoreError};

use crate::finding::{Fault, Finding};
use crate::verify::scope::{Collected, Phase, Scope, Step, Watcher};

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
    scope: &Scope,
    objects: &Objects,
    watcher: &dyn Watcher,
    found: &mut Collected,
) -> Result<(), StoreError> {
    let sum = |sizes: &mut dyn Iterator<Item = u64>| sizes.fold(0, u64::saturating_add);
    let all = (objects.len() as u64, sum(&mut objects.values().map(|named| named.bytes)));
    let unknown = objects.iter().filter(|(key, _)| !found.known.contains(key.as_str()));
    let journal = scope.journal.as_ref();
    let is_done = |(key, named): &(&Key, &Named)| {
        journal.is_some_and(|journal| journal.has(key.as_str(), named.sha256))
    };
    let (done_before, open): (Vec<_>, Vec<_>) = unknown.partition(is_done);
    let (small, large): (Vec<_>, Vec<_>) =
        open.into_iter().partition(|(_, named)| named.bytes <= SMALL_BYTES_MAX);
    let progress = Mutex::new(found.examined);
    let done = |objects: u64, bytes: u64| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.objects += objects;
        progress.bytes = progress.bytes.saturating_add(bytes);
        let bytes = (progress.bytes, all.1);
        watcher.step(Step { phase: Phase::Objects, done: progress.objects, all: all.0, bytes });
    };
    done(done_before.len() as u64, sum(&mut done_before.iter().map(|(_, named)| named.bytes)));
    let note = |group: &[(&Key, &Named)], findings: &[Finding]| {
        if let Some(journal) = journal {
            let is_right = |(key, _): &&(&Key, &Named)| {
                findings.iter().all(|finding| finding.object != key.as_str())
            };
            let right = group.iter().filter(is_right);
            journal.add(right.map(|(key, named)| (key.as_str(), named.sha256)));
        }
    };
    let at_once = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let groups: Vec<_> = small
        .chunks(SMALL_AT_ONCE)
        .map(|group| {
            let (done, note) = (&done, &note);
            async move {
                let findings = digest_small(store, group).await?;
                note(group, &findings);
                done(group.len() as u64, sum(&mut group.iter().map(|(_, named)| named.bytes)));
                Ok::<_, StoreError>(findings)
            }
        })
        .collect();
    let large: Vec<_> = large
        .into_iter()
        .map(|(key, named)| {
            let (done, note) = (&done, &note);
            async move {
                let digest = store.digest(key).await?;
                let findings: Vec<Finding> = difference(key, named, digest).into_iter().collect();
                note(&[(key, named)], &findings);
                done(1, named.bytes);
                Ok::<_, StoreError>(findings)
            }
        })
        .collect();
    let mut findings: Vec<Finding> = Vec::new();
    let of_small = stream::iter(groups).buffer_unordered(at_once).try_collect::<Vec<_>>().await?;
    findings.extend(of_small.into_iter().flatten());
    let of_large =
        stream::iter(large).buffer_unordered(at_once).try_collect::<Vec<Vec<_>>>().await?;
    findings.extend(of_large.into_iter().flatten());
    found.examined = progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    findings.into_iter().for_each(|finding| found.add(finding));
    Ok(())
}

/// Digests small objects together. One that is not as long as it should be is not read: it may not fit into memory.
async fn digest_small(store: &Store, group: &[(&Key, &Named)]) -> Result<Vec<Finding>, StoreError> {
    let keys: Vec<Key> = group.iter().map(|(key, _)| (*key).clone()).collect();
    let sizes = store.sizes(&keys).await?;
    let (mut findings, mut whole) = (Vec::new(), Vec::new());
    for ((key, named), size) in group.iter().zip(sizes) {
        match size {
            Some(size) if size == named.bytes => whole.push((*key, *named)),
            size => findings.push(wrong_size(key, named, size)),
        }
    }
    let keys = whole.iter().map(|(key, _)| (*key).clone()).collect();
    let digests = store.digests(keys).await?;
    let differ = whole.iter().zip(digests);
    findings.extend(differ.filter_map(|((key, named), digest)| difference(key, named, digest)));
    Ok(findings)
}

/// That an object is not there, or has another size.
fn wrong_size(key: &Key, Named { bytes, what, runs, .. }: &Named, size: Option<u64>) -> Finding {
    let (fault, detail) = match size {
        None => (Fault::Missing, format!("{what}: it is not in the store")),
        Some(size) => {
            (Fault::Changed, format!("{what}: {bytes} bytes were recorded, {size} are there"))
        }
    };
    Finding::new(key.as_str(), fault, detail).of_runs(runs.iter().cloned())
}

/// What is wrong with an object of this digest and size, or with one that is not there.
fn difference(key: &Key, named: &Named, digest: Option<(Digest, u64)>) -> Option<Finding> {
    match digest {
        Some((found, _)) if found == named.sha256 => None,
        Some((found, size)) if size == named.bytes => {
            let Named { sha256, what, runs, .. } = named;
            let detail = format!("{what}: SHA-256 {sha256} was recorded, {found} is there");
            let finding = Finding::new(key.as_str(), Fault::Changed, detail);
            Some(finding.of_runs(runs.iter().cloned()))
        }
        other => Some(wrong_size(key, named, other.map(|(_, size)| size))),
    }
}
