//! What is recorded is found, the first answer wins, and what is no answer is refused.

use arrow::array::AsArray as _;
use chrono::DateTime;

use super::{SMALL, entry, key, on_disk, origin, request, text, texts};
use crate::{Ledger, LedgerError, NewEntry};
use proofmill_base::digest::Digest;
use proofmill_store::faulty::{FaultyStore, Op};

#[tokio::test]
async fn answers_are_found_buffered_stored_and_after_reopening() {
    let (_folder, disk) = on_disk().await;
    for store in [FaultyStore::in_memory().await.1, disk] {
        let ledger = Ledger::with(&store, SMALL).await.unwrap();
        assert_eq!(texts(&ledger, 0..3).await, [None, None, None]);
        ledger.record((0..20).map(|n| entry(n, &format!("a{n}"))).collect()).await.unwrap();
        let expected: Vec<_> =
            [5, 99, 0, 5, 19].iter().map(|n| (*n < 20).then(|| format!("a{n}"))).collect();
        assert_eq!(texts(&ledger, [5, 99, 0, 5, 19]).await, expected);
        let unseen = Ledger::with(&store, SMALL).await.unwrap();
        ledger.flush().await.unwrap();
        assert_eq!(texts(&ledger, [5, 99, 0, 5, 19]).await, expected);
        assert_eq!(texts(&unseen, [5]).await, [None]);
        unseen.refresh().await.unwrap();
        assert_eq!(texts(&unseen, [5, 99, 0, 5, 19]).await, expected);
    }
}

#[tokio::test]
async fn every_column_reads_back() {
    let (_folder, store) = on_disk().await;
    let ledger = Ledger::open(&store).await.unwrap();
    let recorded = ledger.record(vec![entry(1, "ä\n\u{0}")]).await.unwrap();
    ledger.flush().await.unwrap();
    let reopened = Ledger::open(&store).await.unwrap();
    let found = reopened.look_up(&[key(1)]).await.unwrap().remove(0).unwrap();
    let micros = recorded[0].created_at.timestamp_micros();
    assert_eq!(found.created_at, DateTime::from_timestamp_micros(micros).unwrap());
    let mut expected = recorded[0].as_ref().clone();
    expected.created_at = found.created_at;
    assert_eq!(*found, expected);
    assert_eq!(found.origin, origin());

    // Any reader of Parquet sees the same, with the request.
    let parts = reopened.parts();
    let batches = proofmill_store::read_part(&store, &parts[0]).await.unwrap();
    assert_eq!(batches[0].schema().fields().len(), 8);
    let requests = batches[0].column_by_name("request").unwrap().as_string::<i32>();
    assert_eq!(requests.value(0), request(1));
}

#[tokio::test]
async fn the_first_answer_stays() {
    let store = FaultyStore::in_memory().await.1;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    let counts = ledger.record(vec![entry(1, "a"), entry(1, "b"), entry(2, "c")]).await.unwrap();
    assert_eq!(counts.iter().map(|answer| text(answer)).collect::<Vec<_>>(), ["a", "a", "c"]);
    for flushed in [false, true] {
        if flushed {
            ledger.flush().await.unwrap();
        }
        let counts = ledger.record(vec![entry(2, "x"), entry(3, "d")]).await.unwrap();
        assert_eq!(counts.iter().map(|answer| text(answer)).collect::<Vec<_>>(), ["c", "d"]);
    }
    assert_eq!(texts(&ledger, 1..4).await, ["a", "c", "d"].map(|text| Some(text.to_owned())));
}

#[tokio::test]
async fn of_two_processes_the_one_that_commits_first_wins_also_after_merging() {
    let store = FaultyStore::in_memory().await.1;
    let slow = Ledger::with(&store, SMALL).await.unwrap();
    let fast = Ledger::with(&store, SMALL).await.unwrap();
    let recorded = slow.record(vec![entry(1, "slow"), entry(2, "slow")]).await.unwrap();
    assert_eq!(text(&recorded[0]), "slow");
    fast.record(vec![entry(1, "fast"), entry(3, "fast")]).await.unwrap();
    fast.flush().await.unwrap();
    slow.flush().await.unwrap();
    fast.record(vec![entry(4, "fast")]).await.unwrap();
    fast.flush().await.unwrap();
    let expected = ["fast", "slow", "fast", "fast"].map(|text| Some(text.to_owned()));
    slow.refresh().await.unwrap();
    assert_eq!(texts(&slow, 1..5).await, expected);
    assert_eq!(texts(&fast, 1..5).await, expected);
    let done = fast.compact().await.unwrap();
    assert_eq!((done.merges, done.segments_merged, done.rows_rewritten), (1, 3, 4));
    assert_eq!(texts(&fast, 1..5).await, expected);
    assert_eq!(texts(&slow, 1..5).await, expected, "what was opened stays readable");
    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    assert_eq!(texts(&reopened, 1..5).await, expected);
}

#[tokio::test]
async fn durable_answers_are_those_that_every_later_look_up_gives() {
    let (objects, store) = FaultyStore::in_memory().await;
    let slow = Ledger::with(&store, SMALL).await.unwrap();
    let fast = Ledger::with(&store, SMALL).await.unwrap();
    let counts = fast.record_durably(vec![entry(1, "fast"), entry(3, "fast")]).await.unwrap();
    assert_eq!(counts.iter().map(|answer| text(answer)).collect::<Vec<_>>(), ["fast", "fast"]);
    let counts = slow.record_durably(vec![entry(1, "slow"), entry(2, "slow")]).await.unwrap();
    assert_eq!(counts.iter().map(|answer| text(answer)).collect::<Vec<_>>(), ["fast", "slow"]);
    // No other process committed anything: what was recorded counts, and no row is read.
    objects.script(vec![]);
    let counts = slow.record_durably(vec![entry(4, "slow")]).await.unwrap();
    assert_eq!(text(&counts[0]), "slow");
    assert_eq!(objects.calls(Op::Get), 1, "the look for a newer entry of the log");
}

#[test]
fn what_is_no_answer_is_refused() {
    for (answer, reason) in
        [("", "empty"), (" null ", "empty"), ("\"\"", "empty"), ("{}", "empty"), ("yes", "JSON")]
    {
        let error = NewEntry::new(key(1), origin(), &request(1), answer).unwrap_err();
        assert!(matches!(&error, LedgerError::Refused { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{answer}: {error}");
    }
}

#[tokio::test]
async fn keys_that_begin_alike_are_distinguished() {
    let key = |last: u8| {
        let mut bytes = [7; 32];
        bytes[31] = last;
        Digest::from(bytes)
    };
    let entry =
        |last: u8| NewEntry::new(key(last), origin(), &request(1), &format!("\"{last}\"")).unwrap();
    let store = FaultyStore::in_memory().await.1;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    ledger.record([1, 2, 4, 5, 6].map(entry).into()).await.unwrap();
    ledger.flush().await.unwrap();
    let found = ledger.look_up(&[0, 1, 2, 3, 4, 5, 6, 7].map(key)).await.unwrap();
    let found: Vec<&str> = found.iter().map(|a| a.as_ref().map_or("", |a| &a.answer)).collect();
    assert_eq!(found, ["", "\"1\"", "\"2\"", "", "\"4\"", "\"5\"", "\"6\"", ""]);
}

#[tokio::test]
async fn flushes_that_come_together_share_a_commit() {
    let (objects, store) = FaultyStore::in_memory().await;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    ledger.flush().await.unwrap();
    objects.script(vec![]);
    let each = (0..50).map(|n| {
        let ledger = ledger.clone();
        async move {
            ledger.record(vec![entry(n, "a")]).await?;
            tokio::task::yield_now().await;
            ledger.flush().await
        }
    });
    futures::future::try_join_all(each).await.unwrap();
    assert_eq!(objects.calls(Op::Put), 2, "a segment and an entry");
    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    assert!(texts(&reopened, 0..50).await.iter().all(Option::is_some));
    ledger.flush().await.unwrap();
    assert_eq!(objects.calls(Op::Put), 2, "nothing new, nothing stored");
}

#[tokio::test]
async fn a_full_buffer_becomes_a_segment_by_itself() {
    let store = FaultyStore::in_memory().await.1;
    let limits = super::Limits { buffer_bytes: 10_000, ..SMALL };
    let ledger = Ledger::with(&store, limits).await.unwrap();
    for n in 0..100 {
        ledger.record(vec![entry(n, &"long".repeat(50))]).await.unwrap();
    }
    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    let durable = texts(&reopened, 0..100).await.iter().flatten().count();
    assert!((80..100).contains(&durable), "{durable}");
}
