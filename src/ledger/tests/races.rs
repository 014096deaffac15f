//! Several processes at once on one store.

use std::collections::{BTreeMap, HashSet};

use super::{SMALL, entry, key, on_disk, text, texts};
use crate::Ledger;
use crate::entry::Row;
use proofmill_store::Store;
use proofmill_store::faulty::FaultyStore;

const WRITERS: u64 = 4;
const ROUNDS: u64 = 12;
const KEYS: u64 = 40;

/// Every writer answers overlapping requests, flushes and merges as it goes.
async fn race(store: &Store) {
    let writers = (0..WRITERS).map(|who| {
        let store = store.clone();
        tokio::spawn(async move {
            let ledger = Ledger::with(&store, SMALL).await.unwrap();
            let mut seen: BTreeMap<u64, String> = BTreeMap::new();
            for round in 0..ROUNDS {
                let numbers = (0..10).map(|n| (round * 7 + n * (who + 1)) % KEYS);
                let entries = numbers.map(|n| entry(n, &format!("{who} in {round}"))).collect();
                ledger.record(entries).await.unwrap();
                ledger.flush().await.unwrap();
                if (round + who) % 3 == 0 {
                    ledger.compact().await.unwrap();
                }
                // What was durable once never changes.
                for (n, found) in (0..KEYS).zip(texts(&ledger, 0..KEYS).await) {
                    if let Some(before) = seen.get(&n) {
                        assert_eq!(found.as_ref(), Some(before), "{n}");
                    }
                    seen.extend(found.map(|found| (n, found)));
                }
            }
            seen
        })
    });
    let seen = futures::future::try_join_all(writers).await.unwrap();
    let reopened = Ledger::with(store, SMALL).await.unwrap();
    let found = texts(&reopened, 0..KEYS).await;
    for seen in seen {
        for (n, said) in seen {
            assert_eq!(found[usize::try_from(n).unwrap()], Some(said), "{n}");
        }
    }
    reopened.compact().await.unwrap();
    assert_eq!(texts(&reopened, 0..KEYS).await, found);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_in_memory_agree_on_every_answer() {
    for _ in 0..5 {
        race(&FaultyStore::in_memory().await.1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_on_disk_agree_on_every_answer() {
    let (_folder, store) = on_disk().await;
    race(&store).await;
}

/// Tasks of one process that answer the same requests all get the same answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_that_share_a_ledger_get_one_answer() {
    let store = FaultyStore::in_memory().await.1;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    for round in 0..30 {
        let tasks = (0..8).map(|task| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                let entries = (0..5).map(|n| entry(round * 5 + n, &task.to_string())).collect();
                let counts = ledger.record(entries).await.unwrap();
                if task % 2 == 0 {
                    ledger.flush().await.unwrap();
                }
                counts.iter().map(|answer| text(answer)).collect::<Vec<_>>()
            })
        });
        let answers = futures::future::try_join_all(tasks).await.unwrap();
        let kinds: HashSet<_> = answers.into_iter().collect();
        assert_eq!(kinds.len(), 1, "{kinds:?}");
        let now = texts(&ledger, round * 5..round * 5 + 5).await;
        let counted = kinds.into_iter().next().unwrap();
        assert_eq!(now.into_iter().flatten().collect::<Vec<_>>(), counted);
    }
}

#[tokio::test]
async fn what_became_durable_after_a_look_up_is_looked_up_again() {
    let store = FaultyStore::in_memory().await.1;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    let (known, state) = ledger.look_up_in_state(&[key(1)]).await.unwrap();
    ledger.record(vec![entry(1, "first")]).await.unwrap();
    ledger.flush().await.unwrap();
    let second = Row::new(entry(1, "second"), "w".into(), store.clock().now());
    assert_eq!(ledger.insert(vec![second.clone()], known, &state), Err(vec![second]));
}
