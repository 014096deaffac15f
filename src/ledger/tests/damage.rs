//! Damaged objects: found before anything is decoded, and named.

use super::{SMALL, entry, key, segments, texts};
use crate::{Ledger, LedgerError};
use proofmill_base::error::Error;
use proofmill_store::faulty::{Fault, FaultyStore, Op};
use proofmill_store::{Key, LogFolder, Store, StoreError};

async fn stored(store: &Store) -> (Ledger, Key) {
    let ledger = Ledger::with(store, SMALL).await.unwrap();
    ledger.record((0..30).map(|n| entry(n, "a")).collect()).await.unwrap();
    ledger.flush().await.unwrap();
    let segments = segments(store).await;
    (ledger, segments[0].clone())
}

#[tokio::test]
async fn a_flipped_bit_anywhere_in_a_segment_never_changes_an_answer() {
    let store = FaultyStore::in_memory().await.1;
    let (_, segment) = stored(&store).await;
    let good = store.get(&segment).await.unwrap();
    let keys: Vec<_> = (0..30).map(key).collect();
    let mut found_damage = 0;
    for at in (0..good.len()).step_by(37) {
        let mut bad = good.to_vec();
        bad[at] ^= 4;
        store.put(&segment, bad.into()).await.unwrap();
        let reopened = Ledger::with(&store, SMALL).await.unwrap();
        match reopened.look_up(&keys).await {
            // What a look-up does not read may be damaged: requests, and the mark at the start.
            Ok(found) => {
                assert!(found.iter().all(|a| a.as_ref().unwrap().answer.as_ref() == "\"a\""))
            }
            Err(error) => {
                assert!(matches!(error, LedgerError::Store(StoreError::Corrupt { .. })), "{error}");
                assert!(error.to_string().contains(segment.as_str()), "{error}");
                let hint = Error::from(error).hint.unwrap();
                assert!(hint.contains("backup"), "{hint}");
                found_damage += 1;
            }
        }
    }
    assert!(found_damage > 10, "{found_damage}");
}

#[tokio::test]
async fn a_merge_does_not_take_damaged_requests_over() {
    let store = FaultyStore::in_memory().await.1;
    let (ledger, segment) = stored(&store).await;
    for n in 100..102 {
        ledger.record(vec![entry(n, "b")]).await.unwrap();
        ledger.flush().await.unwrap();
    }
    let live = ledger.state().live.clone();
    let open = crate::segment_reader::OpenSegment::open(&store, live[0].clone()).await.unwrap();
    let block = open.index.blocks()[2];
    let mut bad = store.get(&segment).await.unwrap().to_vec();
    bad[usize::try_from(block.answers().end).unwrap() + 3] ^= 1;
    store.put(&segment, bad.into()).await.unwrap();
    let error = ledger.compact().await.unwrap_err();
    assert!(error.to_string().contains(segment.as_str()), "{error}");
    assert_eq!(ledger.state().live, live, "nothing was committed");
    assert!(texts(&ledger, 0..30).await.iter().all(Option::is_some));
}

#[tokio::test]
async fn a_missing_segment_and_a_missing_entry_are_named() {
    let store = FaultyStore::in_memory().await.1;
    let (ledger, segment) = stored(&store).await;
    for n in 100..102 {
        ledger.record(vec![entry(n, "b")]).await.unwrap();
        ledger.flush().await.unwrap();
    }
    store.delete(&segment).await.unwrap();
    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    let error = reopened.look_up(&[key(3)]).await.unwrap_err();
    assert!(error.to_string().contains(segment.as_str()), "{error}");
    store.delete(&LogFolder::of_ledger().entry(1)).await.unwrap();
    let error = Ledger::with(&store, SMALL).await.unwrap_err();
    assert!(matches!(error, LedgerError::Gap { seq: 1 }), "{error}");
}

#[tokio::test]
async fn a_changed_entry_of_the_log_is_refused() {
    let store = FaultyStore::in_memory().await.1;
    stored(&store).await;
    // Another ledger, whose entries are as good as ours.
    let other = Ledger::with(&FaultyStore::in_memory().await.1, SMALL).await.unwrap();
    for n in 0..2 {
        other.record(vec![entry(n, "b")]).await.unwrap();
        other.flush().await.unwrap();
    }
    let foreign = other.store().get(&LogFolder::of_ledger().entry(1)).await.unwrap();
    store.put(&LogFolder::of_ledger().entry(1), foreign.clone().into()).await.unwrap();
    let error = Ledger::with(&store, SMALL).await.unwrap_err();
    assert!(matches!(error, LedgerError::Broken { seq: 1, .. }), "{error}");
    let mut bad = foreign.to_vec();
    bad[20] ^= 1;
    store.put(&LogFolder::of_ledger().entry(1), bad.into()).await.unwrap();
    let error = Ledger::with(&store, SMALL).await.unwrap_err();
    assert!(matches!(error, LedgerError::Store(StoreError::Damaged { .. })), "{error}");
}

#[tokio::test]
async fn what_was_damaged_on_its_way_only_is_read_once_more() {
    let (objects, store) = FaultyStore::in_memory().await;
    stored(&store).await;
    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    objects.script(vec![(Op::Get, 0, Fault::FlippedBody), (Op::Get, 2, Fault::FlippedBody)]);
    assert_eq!(texts(&reopened, [3]).await, [Some("a".to_owned())]);
    assert_eq!(objects.calls(Op::Get), 4);
}
