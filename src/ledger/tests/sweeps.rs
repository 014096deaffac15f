//! What was merged is removed, and no process loses an answer by it.

use std::collections::BTreeSet;

use super::{SMALL, entry, segments, texts};
use crate::record::{Body, LogEntry};
use crate::{Ledger, Limits, log};
use proofmill_store::faulty::{Fault, FaultyStore, Op};
use proofmill_store::{Key, LogFolder, Store, unseal};

/// Calls of one operation that the history of [`a_single_fault_anywhere_loses_nothing`] does not reach.
const CALLS_MAX: usize = 200;

async fn append(ledger: &Ledger, n: u64) {
    ledger.record_durably(vec![entry(n, &format!("a{n}"))]).await.unwrap();
}

fn said(numbers: std::ops::Range<u64>) -> Vec<Option<String>> {
    numbers.map(|n| Some(format!("a{n}"))).collect()
}

/// Segments that lie in the store and do not count.
async fn superfluous(store: &Store) -> BTreeSet<Key> {
    let ledger = Ledger::with(store, SMALL).await.unwrap();
    let lying = segments(store).await;
    let lying: BTreeSet<Key> = lying.into_iter().collect();
    let live = ledger.state().live.iter().map(|segment| segment.key.clone()).collect();
    assert!(lying.is_superset(&live), "{live:?} of {lying:?}");
    lying.difference(&live).cloned().collect()
}

/// Segments that entries of the log say were merged.
pub(super) async fn merged_by_the_log(store: &Store) -> BTreeSet<Key> {
    let mut merged = BTreeSet::new();
    for key in store.list(&LogFolder::of_ledger().prefix()).await.unwrap() {
        let bytes = store.get(&key).await.unwrap();
        if let Ok(LogEntry { body: Body::Merge { from, .. }, .. }) = unseal(&key, &bytes) {
            merged.extend(from);
        }
    }
    merged
}

/// Every segment counts or is about to be removed.
pub(super) async fn assert_nothing_leaks(store: &Store) {
    let (superfluous, merged) = (superfluous(store).await, merged_by_the_log(store).await);
    assert!(superfluous.is_subset(&merged), "{superfluous:?} of {merged:?}");
}

#[tokio::test]
async fn objects_stay_few_over_a_hundred_merges_with_a_reader_and_another_writer() {
    let store = FaultyStore::in_memory().await.1;
    let open = async || Ledger::with(&store, SMALL).await.unwrap();
    let (ledger, reader, writer) = (open().await, open().await, open().await);
    let (mut n, mut merges, mut most) = (0, 0, 0);
    // What the reader saw, it sees for ever, although it is not notified of merges.
    let mut seen = 0;
    while merges < 100 {
        let who = if n % 5 == 4 { &writer } else { &ledger };
        append(who, n).await;
        n += 1;
        merges += ledger.compact_if_fragmented().await.unwrap().map_or(0, |done| done.merges);
        if n % 7 == 0 {
            assert_eq!(texts(&reader, 0..seen).await, said(0..seen));
            if n % 21 == 0 {
                append(&reader, n).await;
                seen = n + 1;
            }
        }
        let segments = segments(&store).await.len();
        most =
            most.max(segments + store.list(&LogFolder::of_ledger().prefix()).await.unwrap().len());
    }
    assert!(most <= 40, "{most} objects at once");
    assert_nothing_leaks(&store).await;
    for ledger in [&ledger, &reader, &writer, &open().await] {
        ledger.refresh().await.unwrap();
        assert_eq!(texts(ledger, 0..n).await, said(0..n));
    }
}

#[tokio::test]
async fn what_was_merged_stays_for_as_many_entries_as_the_margin_says() {
    let limits = Limits { margin: 6, ..SMALL };
    let store = FaultyStore::in_memory().await.1;
    let ledger = Ledger::with(&store, limits).await.unwrap();
    let first = async |ledger: &Ledger| {
        append(ledger, 0).await;
        ledger.state().live[0].key.clone()
    };
    let first = first(&ledger).await;
    let (mut merged_at, mut n) = (None, 1);
    while store.get_opt(&first).await.unwrap().is_some() {
        append(&ledger, n).await;
        n += 1;
        ledger.compact_if_fragmented().await.unwrap();
        let state = ledger.state();
        if merged_at.is_none() && !state.names(&first) {
            merged_at = Some(state.position.next - 1);
        }
    }
    let passed = ledger.state().position.next - 1 - merged_at.unwrap();
    assert!((6..=6 + 5 + 3).contains(&passed), "{passed}");
}

/// Counting and forgetting go through all segments: some of them go meanwhile.
#[tokio::test]
async fn who_reads_the_whole_ledger_goes_on_with_what_became_of_merged_segments() {
    let limits = Limits { margin: 0, log_entries: 1, ..SMALL };
    let store = FaultyStore::in_memory().await.1;
    let (ledger, reader) =
        (Ledger::with(&store, limits).await.unwrap(), Ledger::with(&store, limits).await.unwrap());
    for n in 0..5 {
        append(&ledger, n).await;
    }
    reader.refresh().await.unwrap();
    let done = ledger.compact().await.unwrap();
    assert!(done.segments_removed >= 4, "{done:?}");
    let models = reader.models().await.unwrap();
    assert_eq!(models.iter().map(|model| model.answers()).sum::<u64>(), 5);
}

/// A process sleeps between the entry of its segment and the proof that it counts; meanwhile others merge
/// the segment and remove it. It must not append what is gone.
#[tokio::test]
async fn a_segment_that_was_removed_meanwhile_is_not_appended_again() {
    let limits = Limits { margin: 0, log_entries: 1, ..SMALL };
    let (objects, store) = FaultyStore::in_memory().await;
    let (sleeper, other) =
        (Ledger::with(&store, limits).await.unwrap(), Ledger::with(&store, limits).await.unwrap());
    // Its second listing: the first one reads on, and finds nothing.
    let pause = objects.pause(Op::List, 1);
    let flush = tokio::spawn(async move {
        append(&sleeper, 0).await;
        sleeper
    });
    pause.begun().await;
    other.refresh().await.unwrap();
    let gone = other.state().live[0].key.clone();
    for n in 1..3 {
        append(&other, n).await;
    }
    assert_eq!(other.compact().await.unwrap().segments_removed, 3);
    assert!(store.get_opt(&gone).await.unwrap().is_none());
    pause.end();
    let sleeper = flush.await.unwrap();
    for ledger in [&sleeper, &other, &Ledger::with(&store, limits).await.unwrap()] {
        assert_eq!(texts(ledger, 0..3).await, said(0..3));
        assert!(!ledger.state().names(&gone));
    }
    assert_nothing_leaks(&store).await;
}

/// A reader sleeps before it asks for the entry after the last; meanwhile that place is filled, covered by a
/// checkpoint, emptied, and filled again by a process that slept longer still.
#[tokio::test]
async fn an_entry_that_does_not_count_is_not_read() {
    let (objects, store) = FaultyStore::in_memory().await;
    let open = async || Ledger::with(&store, SMALL).await.unwrap();
    let (reader, late, other) = (open().await, open().await, open().await);
    // Before its entry; its segment is the put before.
    let pause = objects.pause(Op::Put, 1);
    let lost = entry(7, "late");
    let late = tokio::spawn(async move { late.record_durably(vec![lost]).await.unwrap() });
    pause.begun().await;
    let sleep = objects.pause(Op::Get, 0);
    let reading = tokio::spawn(async move {
        reader.refresh().await.unwrap();
        reader
    });
    sleep.begun().await;
    other.record_durably(vec![entry(7, "first")]).await.unwrap();
    log::checkpoint(&store, &other.state(), 0).await.unwrap();
    let proof = objects.pause(Op::List, 0);
    pause.end();
    // The entry lies there, and its writer is about to find out that it does not count.
    proof.begun().await;
    sleep.end();
    let reader = reading.await.unwrap();
    assert_eq!(texts(&reader, [7]).await, [Some("first".to_owned())]);
    proof.end();
    let counts = late.await.unwrap();
    assert_eq!(super::text(&counts[0]), "first");
    append(&reader, 8).await;
    assert_eq!(texts(&open().await, [7]).await, [Some("first".to_owned())]);
}

/// Nine flushes by two processes, merged, shortened and swept as they come, beside a reader.
async fn history(store: &Store) -> (u64, Option<Ledger>) {
    let limits = Limits { margin: 2, log_entries: 3, ..SMALL };
    let Ok(reader) = Ledger::with(store, limits).await else { return (0, None) };
    let (Ok(one), Ok(two)) = (Ledger::with(store, limits).await, Ledger::with(store, limits).await)
    else {
        return (0, Some(reader));
    };
    for n in 0..14 {
        let who = if n % 3 == 0 { &two } else { &one };
        let done = who.record_durably(vec![entry(n, &format!("a{n}"))]).await;
        if done.is_err() {
            return (n, Some(reader));
        }
        let _ = one.compact_if_fragmented().await;
        if n == 4 {
            let _ = reader.refresh().await;
        }
    }
    (14, Some(reader))
}

#[tokio::test]
async fn a_single_fault_anywhere_loses_nothing() {
    let faults = [
        (Op::Put, Fault::FailBefore),
        (Op::Put, Fault::FailAfter),
        (Op::Put, Fault::Denied),
        (Op::Get, Fault::BrokenBody),
        (Op::Get, Fault::FlippedBody),
        (Op::Get, Fault::Denied),
        (Op::List, Fault::FailBefore),
        (Op::Delete, Fault::FailBefore),
        (Op::Delete, Fault::FailAfter),
    ];
    for (op, fault) in faults {
        for nth in 0..CALLS_MAX {
            let (objects, store) = FaultyStore::in_memory().await;
            objects.script(vec![(op, nth, fault)]);
            let (acknowledged, reader) = history(&store).await;
            if objects.calls(op) <= nth {
                assert!(nth > 10, "{op:?} {fault:?}: the history is too short");
                break;
            }
            assert!(nth + 1 < CALLS_MAX, "{op:?}: the history is longer");
            objects.script(vec![]);
            let context = format!("{op:?} {nth} {fault:?}");
            let reopened = Ledger::with(&store, SMALL).await.unwrap();
            for ledger in reader.iter().chain([&reopened]) {
                ledger.refresh().await.unwrap();
                let found = texts(ledger, 0..acknowledged).await;
                assert_eq!(found, said(0..acknowledged), "{context}");
            }
            // And the ledger goes on, and removes what is left over.
            for n in 20..40 {
                append(&reopened, n).await;
                reopened.compact_if_fragmented().await.unwrap();
            }
            assert_eq!(texts(&reopened, 0..acknowledged).await, said(0..acknowledged), "{context}");
            if fault != Fault::Denied && fault != Fault::FlippedBody {
                assert_nothing_leaks(&store).await;
            }
        }
    }
}

/// A checkpoint that comes late, by a process that slept since it read the log, removes nothing that counts.
#[tokio::test]
async fn a_late_checkpoint_removes_nothing_that_counts() {
    let (objects, store) = FaultyStore::in_memory().await;
    let limits = Limits { margin: 0, ..SMALL };
    let (sleeper, other) =
        (Ledger::with(&store, limits).await.unwrap(), Ledger::with(&store, limits).await.unwrap());
    for n in 0..4 {
        append(&sleeper, n).await;
    }
    let state = sleeper.state();
    let pause = objects.pause(Op::Put, 0);
    let late = {
        let store = store.clone();
        tokio::spawn(async move { log::checkpoint(&store, &state, 0).await.unwrap() })
    };
    pause.begun().await;
    for n in 4..20 {
        append(&other, n).await;
        other.compact_if_fragmented().await.unwrap();
    }
    pause.end();
    late.await.unwrap();
    for ledger in [&sleeper, &other, &Ledger::with(&store, limits).await.unwrap()] {
        ledger.refresh().await.unwrap();
        assert_eq!(texts(ledger, 0..20).await, said(0..20));
    }
}
