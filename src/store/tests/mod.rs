//! Tests of the store as a whole: faults, races, damage.

mod claim;
mod commit;
mod flusher;
mod local;
mod log;
mod open_log;
mod parts;
mod records;

use std::sync::Arc;

use crate::faulty::{FaultyStore, StillClock};
use crate::{Location, Store};
use proofmill_base::ids::RunId;
use proofmill_base::rng::SeededRng;

/// A store in memory whose faults the test scripts.
async fn faulty() -> (Arc<FaultyStore>, Store) {
    FaultyStore::in_memory().await
}

async fn in_memory() -> Store {
    faulty().await.1
}

/// A store in a folder that lives as long as the first value.
async fn on_disk() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Local(folder.path().join("made/store"));
    let rng = Arc::new(SeededRng::from_entropy());
    let store = Store::open(&location, Arc::new(StillClock::default()), rng).await.unwrap();
    (folder, store)
}

fn run(n: u64) -> RunId {
    let at = chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::seconds(n.try_into().unwrap());
    RunId::new(at, &SeededRng::new(n))
}

/// Every object in the store, staging files included when it is a folder.
async fn keys(store: &Store) -> Vec<String> {
    use futures::TryStreamExt as _;
    use object_store::ObjectStore as _;
    let listed: Vec<_> = store.objects().list(None).try_collect().await.unwrap();
    let mut keys: Vec<String> = listed.into_iter().map(|meta| meta.location.to_string()).collect();
    keys.sort();
    keys
}

/// The run layer spawns these: each must be a future that can move between threads.
#[test]
fn all_calls_can_be_spawned() {
    use crate::*;
    fn sendable<T: Send>(_: impl FnOnce(&'static Store) -> T) {}
    let run: &'static RunId = Box::leak(Box::new(run(1)));
    let fingerprint: &'static proofmill_base::ids::Fingerprint = Box::leak(Box::new(
        proofmill_base::ids::Fingerprint(proofmill_base::digest::Digest::of(b"")),
    ));
    sendable(|store| store.get_all(&[]));
    sendable(|store| store.exists_all(&[]));
    sendable(|store| find(store, fingerprint));
    sendable(|store| find_many(store, &[]));
    sendable(|store| read_log::<String>(store, run));
    sendable(|store| RunLog::<String>::take_over(store, run));
    sendable(|store| async move {
        let first = "first".to_owned();
        RunLog::create(store, run, &first).await?.append(&first).await
    });
    sendable(|store| read_manifest(store, run));
    sendable(run_ids);
    sendable(|store| async move {
        let manifest = read_manifest(store, run).await.unwrap().unwrap();
        let artifact = find(store, fingerprint).await.unwrap().found().unwrap();
        publish(store, &artifact.record).await.unwrap();
        publish_manifest(store, &manifest.record).await.unwrap();
        let part = artifact.record.parts[0].clone();
        verify_part(store, &part).await.unwrap();
        let batches = read_part(store, &part).await.unwrap();
        let (schema, _rows) = stream_part(store, &part).await.unwrap();
        let mut writer = PartWriter::create(store, part.key, schema).unwrap();
        writer.write(&batches[0]).await.unwrap();
        let folder = std::path::Path::new("");
        write_file(store, format_key(), "a".parse().unwrap(), folder).await.unwrap();
        writer.finish().await
    });
}
