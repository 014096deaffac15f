//! The log of a run: order, ownership, damage.

use object_store::ObjectStoreExt as _;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::{faulty, in_memory, on_disk, run};
use crate::faulty::{Fault, Op};
use crate::sealed::{seal, unseal};
use crate::{Body, Entry, LogFolder, RunLog, Store, StoreError, read_log};
use proofmill_base::digest::Digest;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Event {
    Began { pipeline: String },
    StageDone { stage: String, rows: u64 },
}

fn done(rows: u64) -> Event {
    Event::StageDone { stage: "answers".into(), rows }
}

async fn log_of(store: &Store, events: u64) -> RunLog<Event> {
    let first = Event::Began { pipeline: "teachme".into() };
    let mut log = RunLog::create(store, &run(1), &first).await.unwrap();
    for rows in 1..events {
        assert_eq!(log.append(&done(rows)).await.unwrap(), rows);
    }
    log
}

async fn read(store: &Store) -> Result<Vec<Entry<Event>>, StoreError> {
    read_log(store, &run(1)).await
}

#[tokio::test]
async fn entries_read_back_in_order() {
    let (_folder, disk) = on_disk().await;
    for store in [in_memory().await, disk] {
        assert_eq!(read(&store).await.unwrap(), []);
        let log = log_of(&store, 40).await;
        let entries = read(&store).await.unwrap();
        assert_eq!(entries.len(), 40);
        assert_eq!(entries[39].event(), Some(&done(39)));
        let head = store.get(&LogFolder::of_run(&run(1)).entry(39)).await.unwrap();
        assert_eq!((log.head().seq, log.head().sha256), (39, Digest::of(&head)));
        let again = RunLog::create(&store, &run(1), &done(0)).await.unwrap_err();
        assert!(matches!(again, StoreError::LogExists { .. }), "{again}");
    }
}

#[tokio::test]
async fn a_stale_owner_is_fenced() {
    let store = in_memory().await;
    let mut stale = log_of(&store, 3).await;
    let (mut owner, entries) = RunLog::<Event>::take_over(&store, &run(1)).await.unwrap();
    assert_eq!((owner.epoch(), entries.len()), (2, 4));
    assert_eq!(entries[3].body, Body::Fence);

    let error = stale.append(&done(3)).await.unwrap_err();
    assert!(matches!(error, StoreError::Fenced { epoch: 2, .. }), "{error}");
    let error = stale.append(&done(3)).await.unwrap_err();
    assert!(matches!(error, StoreError::LogStopped { .. }), "{error}");

    assert_eq!(owner.append(&done(4)).await.unwrap(), 4);
    assert_eq!(read(&store).await.unwrap().len(), 5);
    let missing = RunLog::<Event>::take_over(&store, &run(2)).await.unwrap_err();
    assert!(matches!(missing, StoreError::LogMissing { .. }), "{missing}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_take_over_only_the_last_owns_the_run() {
    let (_folder, disk) = on_disk().await;
    for store in [in_memory().await, disk] {
        drop(log_of(&store, 2).await);
        let takers = (0..8).map(|_| {
            let store = store.clone();
            tokio::spawn(
                async move { RunLog::<Event>::take_over(&store, &run(1)).await.unwrap().0 },
            )
        });
        let logs = futures::future::try_join_all(takers).await.unwrap();
        let mut epochs: Vec<u64> = logs.iter().map(RunLog::epoch).collect();
        epochs.sort_unstable();
        assert_eq!(epochs, [2, 3, 4, 5, 6, 7, 8, 9]);
        for mut log in logs {
            let appended = log.append(&done(1)).await;
            assert_eq!(appended.is_ok(), log.epoch() == 9, "{appended:?}");
        }
        assert_eq!(read(&store).await.unwrap().len(), 11);
    }
}

#[tokio::test]
async fn after_an_unknown_outcome_the_next_owner_finds_out() {
    let (objects, store) = faulty().await;
    let mut log = log_of(&store, 2).await;
    // The entry is stored, every answer is lost, and nothing can be read back.
    let mut script = vec![(Op::Put, 0, Fault::FailAfter)];
    script.extend((1..50).map(|nth| (Op::Put, nth, Fault::FailBefore)));
    script.extend((0..50).map(|nth| (Op::Get, nth, Fault::BrokenBody)));
    objects.script(script);
    let error = log.append(&done(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::CommitUnknown { .. }), "{error}");
    objects.script(vec![]);
    let error = log.append(&done(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::LogStopped { .. }), "{error}");
    let (_, entries) = RunLog::<Event>::take_over(&store, &run(1)).await.unwrap();
    assert_eq!(entries[2].event(), Some(&done(2)));
}

/// A change to a finished log by somebody who may write to the store.
#[derive(Clone, Debug)]
enum Tampering {
    Flip {
        seq: u64,
        at: usize,
        bit: u8,
    },
    Drop {
        seq: u64,
    },
    Swap {
        a: u64,
        b: u64,
    },
    /// Other content with a fresh seal: only the chain can tell.
    Reseal {
        seq: u64,
    },
    /// Another run's entry.
    Foreign {
        seq: u64,
    },
    /// An old entry once more at the end.
    Repeat {
        seq: u64,
    },
}

const ENTRIES: u64 = 12;

fn tampering() -> impl Strategy<Value = Tampering> {
    let inner = 0..ENTRIES - 1;
    prop_oneof![
        (0..ENTRIES, any::<usize>(), 0u8..8).prop_map(|(seq, at, bit)| Tampering::Flip {
            seq,
            at,
            bit
        }),
        inner.clone().prop_map(|seq| Tampering::Drop { seq }),
        (0..ENTRIES, 1..ENTRIES).prop_map(|(a, by)| Tampering::Swap { a, b: (a + by) % ENTRIES }),
        inner.prop_map(|seq| Tampering::Reseal { seq }),
        (0..ENTRIES).prop_map(|seq| Tampering::Foreign { seq }),
        (0..ENTRIES).prop_map(|seq| Tampering::Repeat { seq }),
    ]
}

async fn tamper(store: &Store, how: &Tampering) {
    let key = |seq: &u64| LogFolder::of_run(&run(1)).entry(*seq);
    match how {
        Tampering::Flip { seq, at, bit } => {
            let mut bytes = store.get(&key(seq)).await.unwrap().to_vec();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            store.put(&key(seq), bytes.into()).await.unwrap();
        }
        Tampering::Drop { seq } => store.objects().delete(key(seq).path()).await.unwrap(),
        Tampering::Swap { a, b } => {
            let (at_a, at_b) =
                (store.get(&key(a)).await.unwrap(), store.get(&key(b)).await.unwrap());
            store.put(&key(a), at_b.into()).await.unwrap();
            store.put(&key(b), at_a.into()).await.unwrap();
        }
        Tampering::Reseal { seq } => {
            let bytes = store.get(&key(seq)).await.unwrap();
            let mut entry: Entry<Event> = unseal(&key(seq), &bytes).unwrap();
            entry.body = Body::Event(done(1_000_000));
            store.put(&key(seq), seal(&key(seq), &entry).unwrap().into()).await.unwrap();
        }
        Tampering::Foreign { seq } => {
            let bytes = store.get(&key(seq)).await.unwrap();
            let mut entry: Entry<Event> = unseal(&key(seq), &bytes).unwrap();
            entry.run = run(2);
            store.put(&key(seq), seal(&key(seq), &entry).unwrap().into()).await.unwrap();
        }
        Tampering::Repeat { seq } => {
            let bytes = store.get(&key(seq)).await.unwrap();
            store.put(&key(&ENTRIES), bytes.into()).await.unwrap();
        }
    }
}

proptest! {
    #[test]
    fn any_change_to_a_finished_log_is_found(how in tampering()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = in_memory().await;
            log_of(&store, ENTRIES).await;
            assert_eq!(read(&store).await.unwrap().len() as u64, ENTRIES);
            tamper(&store, &how).await;
            let error = read(&store).await.expect_err(&format!("{how:?}"));
            assert!(!error.is_transient(), "{error}");
            assert!(RunLog::<Event>::take_over(&store, &run(1)).await.is_err());
        });
    }
}

#[tokio::test]
async fn errors_name_the_entry_and_both_digests() {
    let store = in_memory().await;
    log_of(&store, 5).await;
    tamper(&store, &Tampering::Reseal { seq: 2 }).await;
    let error = read(&store).await.unwrap_err();
    let StoreError::ChainBroken { seq: 3, expected: Some(expected), found: Some(found), .. } =
        &error
    else {
        panic!("{error}")
    };
    let text = error.to_string();
    assert!(text.contains(&expected.to_string()) && text.contains(&found.to_string()), "{text}");

    let store = in_memory().await;
    log_of(&store, 300).await;
    tamper(&store, &Tampering::Drop { seq: 7 }).await;
    assert!(matches!(read(&store).await.unwrap_err(), StoreError::LogGap { seq: 7, .. }));
}

/// A missing entry is looked for behind the gap, and a listing that fails is requested again.
#[tokio::test]
async fn a_listing_that_fails_is_requested_again() {
    let (objects, store) = faulty().await;
    log_of(&store, 5).await;
    objects.script(vec![(Op::List, 0, Fault::FailBefore)]);
    assert_eq!(read(&store).await.unwrap().len(), 5);
    assert_eq!(objects.calls(Op::List), 2);
    tamper(&store, &Tampering::Drop { seq: 3 }).await;
    objects.script(vec![(Op::List, 0, Fault::FailBefore), (Op::List, 1, Fault::FailBefore)]);
    assert!(matches!(read(&store).await.unwrap_err(), StoreError::LogGap { seq: 3, .. }));
}

#[tokio::test]
async fn a_log_of_a_newer_program_is_refused_by_version() {
    let store = in_memory().await;
    log_of(&store, 2).await;
    let key = LogFolder::of_run(&run(1)).entry(1);
    let mut entry: Entry<Event> = unseal(&key, &store.get(&key).await.unwrap()).unwrap();
    entry.v = 9;
    store.put(&key, seal(&key, &entry).unwrap().into()).await.unwrap();
    let error = read(&store).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 9, known: 2, .. }), "{error}");
}

#[tokio::test]
async fn an_entry_of_one_who_does_not_own_the_run_is_refused_although_the_chain_holds() {
    type Forgery = fn(&mut Entry<Event>);
    let forgeries: [(u64, Forgery); 5] = [
        (3, |entry| entry.writer = "intruder".into()),
        (3, |entry| entry.epoch = 2),
        (3, |entry| (entry.body, entry.epoch) = (Body::Fence, 3)),
        (3, |entry| entry.body = Body::Fence),
        (0, |entry| entry.body = Body::Fence),
    ];
    for (seq, forge) in forgeries {
        let store = in_memory().await;
        log_of(&store, 4).await;
        let key = LogFolder::of_run(&run(1)).entry(seq);
        let mut entry: Entry<Event> = unseal(&key, &store.get(&key).await.unwrap()).unwrap();
        forge(&mut entry);
        store.put(&key, seal(&key, &entry).unwrap().into()).await.unwrap();
        let error = read(&store).await.unwrap_err();
        assert!(matches!(&error, StoreError::WrongEntry { seq: at, .. } if *at == seq), "{error}");
    }
}
