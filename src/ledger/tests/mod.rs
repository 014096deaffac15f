//! Tests of the ledger as a whole.

mod answers;
mod damage;
mod faults;
mod forgotten;
mod histories;
mod objects;
mod races;
mod sweeps;

use std::sync::Arc;

use crate::{Answer, BlockLimits, Ledger, Limits, NewEntry, Origin, Tiers};
use proofmill_base::clock::SystemClock;
use proofmill_base::digest::Digest;
use proofmill_base::ids::RunId;
use proofmill_base::rng::SeededRng;
use proofmill_store::{Key, Location, Store};

/// Limits at which a few rows make several blocks, and a few segments a merge.
const SMALL: Limits = Limits {
    buffer_bytes: 64 << 20,
    index_bytes: 256 << 20,
    answer_bytes: 0,
    blocks: BlockLimits { rows: 3, bytes: 1 << 20 },
    tiers: Tiers {
        lowest_bytes: 1,
        growth: 1 << 20,
        merge_min: 3,
        merge_max: 4,
        full_bytes: 1 << 30,
    },
    log_entries: 5,
    margin: 3,
};

/// A store in a folder that lives as long as the first value.
async fn on_disk() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Local(folder.path().join("store"));
    let rng = Arc::new(SeededRng::from_entropy());
    let store = Store::open(&location, Arc::new(SystemClock::default()), rng).await.unwrap();
    (folder, store)
}

/// The segments that lie in the store, whether they count or not.
async fn segments(store: &Store) -> Vec<Key> {
    let folder = Key::try_from("ledger/segments".to_owned()).unwrap();
    store.list(folder.path()).await.unwrap()
}

fn request(n: u64) -> String {
    format!(r#"{{"prompt":"fact {n}","sample":0}}"#)
}

fn key(n: u64) -> Digest {
    Digest::of(request(n).as_bytes())
}

fn origin() -> Origin {
    let run: RunId = "20261121-021500123-k3f9qa".parse().unwrap();
    Origin { model: "sha256:77d0".into(), kind: "generate".into(), run }
}

/// The answer `text` to request `n`.
fn entry(n: u64, text: &str) -> NewEntry {
    let answer = serde_json::to_string(text).unwrap();
    NewEntry::new(key(n), origin(), &request(n), &answer).unwrap()
}

/// The text of an answer, as [`entry`] took it.
fn text(answer: &Answer) -> String {
    serde_json::from_str(&answer.answer).unwrap()
}

/// The texts of what the ledger knows about requests.
async fn texts(ledger: &Ledger, requests: impl IntoIterator<Item = u64>) -> Vec<Option<String>> {
    let keys: Vec<Digest> = requests.into_iter().map(key).collect();
    let found = ledger.look_up(&keys).await.unwrap();
    found.iter().map(|answer| answer.as_deref().map(text)).collect()
}

/// The run layer spawns these: each must be a future that can move between threads.
#[test]
fn all_calls_can_be_spawned() {
    fn sendable<T: Send>(_: impl FnOnce(&'static Ledger) -> T) {}
    sendable(|ledger| ledger.look_up(&[]));
    sendable(|ledger| ledger.record(Vec::new()));
    sendable(Ledger::flush);
    sendable(Ledger::refresh);
    sendable(|ledger| ledger.record_durably(Vec::new()));
    sendable(Ledger::compact);
    sendable(Ledger::compact_if_fragmented);
    sendable(|ledger| Ledger::open(ledger.store()));
}
