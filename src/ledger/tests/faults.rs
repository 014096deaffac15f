//! Whatever fails: what is found afterwards was recorded, and nothing acknowledged is lost.

use super::{SMALL, entry, texts};
use crate::entry::Row;
use crate::segment_writer::write_rows;
use crate::{Ledger, log};
use proofmill_store::Store;
use proofmill_store::faulty::{Fault, FaultyStore, Op};

/// Calls of one operation that the history below does not reach.
const CALLS_MAX: usize = 60;

/// Three flushes and a merge; returns how many flushes were acknowledged.
async fn history(store: &Store) -> usize {
    let Ok(ledger) = Ledger::with(store, SMALL).await else { return 0 };
    let mut acknowledged = 0;
    for batch in 0..3 {
        let entries = (batch * 5..batch * 5 + 5).map(|n| entry(n, &format!("a{n}"))).collect();
        if ledger.record(entries).await.is_err() || ledger.flush().await.is_err() {
            return acknowledged;
        }
        acknowledged += 1;
    }
    let _ = ledger.compact().await;
    acknowledged
}

/// After a failure the batches found are the first ones, at least those acknowledged, each whole.
async fn assert_prefix(store: &Store, acknowledged: usize, context: &str) {
    let reopened = Ledger::with(store, SMALL).await.unwrap();
    let found = texts(&reopened, 0..15).await;
    let batches = found.iter().flatten().count() / 5;
    assert!(batches >= acknowledged, "{context}: {batches} of {acknowledged}");
    for (n, found) in found.into_iter().enumerate() {
        assert_eq!(found, (n < batches * 5).then(|| format!("a{n}")), "{context}: {n}");
    }
    // And the ledger goes on.
    reopened.record((0..20).map(|n| entry(n, &format!("a{n}"))).collect()).await.unwrap();
    reopened.flush().await.unwrap();
    reopened.compact().await.unwrap();
    assert!(texts(&reopened, 0..20).await.iter().all(Option::is_some), "{context}");
}

#[tokio::test]
async fn a_single_fault_anywhere_is_survived() {
    let puts = [
        Fault::FailBefore,
        Fault::FailAfter,
        Fault::ExistsAfter,
        Fault::ConflictBefore,
        Fault::PreconditionBefore,
        Fault::Denied,
    ];
    let gets = [
        Fault::FailBefore,
        Fault::TruncatedBody,
        Fault::BrokenBody,
        Fault::FlippedBody,
        Fault::Denied,
    ];
    let puts = puts.map(|fault| (Op::Put, fault));
    let gets = gets.map(|fault| (Op::Get, fault));
    let lists = [(Op::List, Fault::FailBefore)];
    let faults = puts.into_iter().chain(gets).chain(lists);
    for (op, fault) in faults {
        for nth in 0..CALLS_MAX {
            let (objects, store) = FaultyStore::in_memory().await;
            objects.script(vec![(op, nth, fault)]);
            let acknowledged = history(&store).await;
            if objects.calls(op) <= nth {
                break;
            }
            assert!(acknowledged == 3 || fault == Fault::Denied || fault == Fault::FlippedBody);
            objects.script(vec![]);
            assert_prefix(&store, acknowledged, &format!("{op:?} {nth} {fault:?}")).await;
        }
    }
}

/// The store is gone from some call on, as for a process that is killed there.
#[tokio::test]
async fn a_death_at_any_request_leaves_a_prefix() {
    for nth in 0..CALLS_MAX {
        for last in [Fault::FailBefore, Fault::FailAfter] {
            let (objects, store) = FaultyStore::in_memory().await;
            let mut script = vec![(Op::Put, nth, last)];
            script.extend((nth + 1..500).map(|nth| (Op::Put, nth, Fault::FailBefore)));
            objects.script(script);
            let acknowledged = history(&store).await;
            objects.script(vec![]);
            assert_prefix(&store, acknowledged, &format!("{nth} {last:?}")).await;
        }
    }
}

#[tokio::test]
async fn answers_stay_in_memory_when_a_flush_fails_and_the_next_one_stores_them() {
    let (objects, store) = FaultyStore::in_memory().await;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    ledger.record((0..5).map(|n| entry(n, "a")).collect()).await.unwrap();
    objects.script(vec![(Op::Put, 0, Fault::Denied)]);
    assert!(ledger.flush().await.is_err());
    assert!(texts(&ledger, 0..5).await.iter().all(Option::is_some));
    ledger.flush().await.unwrap();
    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    assert!(texts(&reopened, 0..5).await.iter().all(Option::is_some));
}

#[tokio::test]
async fn a_segment_that_no_entry_names_leaves_no_trace() {
    let store = FaultyStore::in_memory().await.1;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    ledger.record(vec![entry(1, "named")]).await.unwrap();
    ledger.flush().await.unwrap();
    let row = Row::new(entry(2, "lost"), "w".into(), store.clock().now());
    write_rows(&store, &[row.into()], SMALL.blocks).await.unwrap();

    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    assert_eq!(texts(&reopened, 1..3).await, [Some("named".to_owned()), None]);
}

/// A process reads the log, sleeps while others append and shorten it, and then creates its entry in a
/// place that is empty again: its answers must not be lost.
#[tokio::test]
async fn an_entry_in_a_place_that_was_emptied_does_not_count_as_committed() {
    let (objects, store) = FaultyStore::in_memory().await;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    let append = async |numbers: std::ops::Range<u64>| {
        for n in numbers {
            ledger.record(vec![entry(n, "a")]).await.unwrap();
            ledger.flush().await.unwrap();
        }
    };
    append(0..3).await;
    let sleeper = Ledger::with(&store, SMALL).await.unwrap();
    // Before its entry; its segment is the put before.
    let pause = objects.pause(Op::Put, 1);
    let late = tokio::spawn(async move {
        sleeper.record_durably(vec![entry(99, "late")]).await.unwrap();
        sleeper.state()
    });
    pause.begun().await;
    append(3..8).await;
    let removed = log::checkpoint(&store, &ledger.state(), SMALL.margin).await.unwrap();
    assert_eq!((removed.log_objects, removed.segments), (8, 0));
    pause.end();
    let state = late.await.unwrap();
    assert_eq!((state.position.next, state.live.len()), (9, 9), "appended twice");

    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    assert_eq!(texts(&reopened, [2, 7, 99]).await, ["a", "a", "late"].map(|t| Some(t.to_owned())));
}
