//! Create-exactly-once under faults and races.

use bytes::Bytes;
use proptest::prelude::*;

use super::{faulty, in_memory, on_disk};
use crate::faulty::{Fault, Op};
use crate::{Created, Key, Store, StoreError};

fn key(name: &str) -> Key {
    Key::try_from(name.to_owned()).unwrap()
}

#[tokio::test]
async fn every_single_fault_resolves_to_the_truth() {
    let faults = [
        Fault::FailBefore,
        Fault::FailAfter,
        Fault::ExistsAfter,
        Fault::ConflictBefore,
        Fault::PreconditionBefore,
    ];
    let reads = [Fault::FailBefore, Fault::BrokenBody, Fault::TruncatedBody];
    let (objects, store) = faulty().await;
    for (n, put) in faults.into_iter().enumerate() {
        for (m, read) in reads.into_iter().enumerate() {
            let key = key(&format!("k{n}/{m}"));
            objects.script(vec![(Op::Put, 0, put), (Op::Get, 0, read)]);
            let created = store.create(&key, Bytes::from_static(b"ours")).await.unwrap();
            assert_eq!(created, Created::Won, "{put:?} {read:?}");
            assert_eq!(store.get(&key).await.unwrap(), "ours", "{put:?} {read:?}");
        }
    }
}

#[tokio::test]
async fn what_was_there_before_is_returned_not_replaced() {
    let (objects, store) = faulty().await;
    for fault in [Fault::FailBefore, Fault::ConflictBefore, Fault::PreconditionBefore] {
        objects.script(vec![]);
        let key = key(&format!("k{}", fault as usize));
        store.put(&key, "theirs".into()).await.unwrap();
        objects.script(vec![(Op::Put, 0, fault)]);
        let created = store.create(&key, Bytes::from_static(b"ours")).await.unwrap();
        assert_eq!(created, Created::Lost("theirs".into()), "{fault:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_final_and_an_unresolved_outcome_is_called_unknown() {
    let (objects, store) = faulty().await;
    objects.script(vec![(Op::Put, 0, Fault::Denied)]);
    let error = store.create(&key("a"), Bytes::from_static(b"a")).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    assert_eq!(objects.calls(Op::Put), 1);

    objects.script((0..100).map(|nth| (Op::Put, nth, Fault::FailBefore)).collect());
    let error = store.create(&key("b"), Bytes::from_static(b"b")).await.unwrap_err();
    assert!(matches!(error, StoreError::CommitUnknown { attempts: 7, .. }), "{error}");
    assert!(error.is_transient());
}

async fn race(store: &Store, keys: usize) {
    const WRITERS: usize = 16;
    for k in 0..keys {
        let key = key(&format!("race/{k}"));
        let writers = (0..WRITERS).map(|writer| {
            let (store, key) = (store.clone(), key.clone());
            let body = Bytes::from(format!("{writer}").repeat(1000));
            tokio::spawn(async move { (body.clone(), store.create(&key, body).await.unwrap()) })
        });
        let outcomes = futures::future::try_join_all(writers).await.unwrap();
        let stored = store.get(&key).await.unwrap();
        let winners: Vec<&Bytes> = outcomes
            .iter()
            .filter(|(_, created)| *created == Created::Won)
            .map(|(body, _)| body)
            .collect();
        assert_eq!(winners, [&stored], "{k}");
        for (_, created) in &outcomes {
            assert!(*created == Created::Won || *created == Created::Lost(stored.clone()), "{k}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_writers_in_memory_have_one_winner() {
    race(&in_memory().await, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_writers_on_disk_have_one_winner() {
    let (_folder, store) = on_disk().await;
    race(&store, 30).await;
}

fn fault() -> impl Strategy<Value = Fault> {
    prop::sample::select(vec![
        Fault::FailBefore,
        Fault::FailAfter,
        Fault::ExistsAfter,
        Fault::ConflictBefore,
        Fault::PreconditionBefore,
        Fault::BrokenBody,
    ])
}

proptest! {
    /// Whatever fails, "won" means that our bytes are stored and "lost" returns what is stored.
    #[test]
    fn outcomes_never_lie(
        puts in prop::collection::vec((0usize..8, fault()), 0..8),
        gets in prop::collection::vec((0usize..8, fault()), 0..8),
        rival in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (objects, store) = faulty().await;
            let key = key("k");
            if rival {
                store.put(&key, "theirs".into()).await.unwrap();
            }
            let puts = puts.into_iter().map(|(nth, fault)| (Op::Put, nth, fault));
            let gets = gets.into_iter().map(|(nth, fault)| (Op::Get, nth, fault));
            objects.script(puts.chain(gets).collect());
            let created = store.create(&key, Bytes::from_static(b"ours")).await;
            objects.script(vec![]);
            match created {
                Ok(Created::Won) => assert_eq!(store.get(&key).await.unwrap(), "ours"),
                Ok(Created::Lost(bytes)) => {
                    assert_eq!(bytes, "theirs");
                    assert_eq!(store.get(&key).await.unwrap(), bytes);
                    assert!(rival);
                }
                Err(error) => assert!(matches!(error, StoreError::CommitUnknown { .. }), "{error}"),
            }
        });
    }
}
