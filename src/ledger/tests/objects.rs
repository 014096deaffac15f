//! How many objects and requests the ledger costs.

use std::time::Instant;

use super::{SMALL, entry, key, on_disk, segments, texts};
use crate::{BlockLimits, Ledger, Limits, Tiers};
use proofmill_base::digest::Digest;
use proofmill_store::faulty::{FaultyStore, Op};
use proofmill_store::{LogFolder, Store};

async fn objects(store: &Store) -> (usize, usize) {
    let segments = segments(store).await.len();
    (segments, store.list(&LogFolder::of_ledger().prefix()).await.unwrap().len())
}

/// The default sizes, divided by what makes a batch of 5 rows the batch of 5,000.
fn scaled() -> Limits {
    let tiers = Tiers { lowest_bytes: 2 << 10, growth: 8, full_bytes: 1 << 20, ..Tiers::default() };
    let blocks = BlockLimits { rows: 16, bytes: 1 << 20 };
    Limits { answer_bytes: 0, tiers, blocks, ..Limits::default() }
}

#[tokio::test]
async fn many_appends_stay_few_objects() {
    let store = FaultyStore::in_memory().await.1;
    let ledger = Ledger::with(&store, scaled()).await.unwrap();
    let mut most = 0;
    for batch in 0..600 {
        let entries = (batch * 5..batch * 5 + 5).map(|n| entry(n, "an answer")).collect();
        ledger.record(entries).await.unwrap();
        ledger.flush().await.unwrap();
        ledger.compact_if_fragmented().await.unwrap();
        let (segments, log) = objects(&store).await;
        most = most.max(segments + log);
    }
    assert!(most < 130, "{most} objects at once");
    let (segments, log) = (ledger.state().live.len(), objects(&store).await.1);
    assert!(segments < 30 && log < 80, "{segments} segments, {log} objects of the log");
    let reopened = Ledger::with(&store, scaled()).await.unwrap();
    assert!(texts(&reopened, 0..3_000).await.iter().all(Option::is_some));
}

#[tokio::test]
async fn a_process_that_starts_reads_a_checkpoint_and_what_came_after() {
    let (objects, store) = FaultyStore::in_memory().await;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    for n in 0..40 {
        ledger.record(vec![entry(n, "a")]).await.unwrap();
        ledger.flush().await.unwrap();
    }
    let done = ledger.compact().await.unwrap();
    assert!(done.log_objects_removed >= 40, "{done:?}");
    ledger.record(vec![entry(99, "a")]).await.unwrap();
    ledger.flush().await.unwrap();
    objects.script(vec![]);
    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    assert!(objects.calls(Op::Get) <= 3, "{}", objects.calls(Op::Get));
    assert!(texts(&reopened, 0..40).await.iter().all(Option::is_some));
}

#[tokio::test]
async fn a_batch_costs_one_read_for_each_segment_and_a_few_for_what_is_found() {
    let (objects, store) = FaultyStore::in_memory().await;
    let ledger = Ledger::open(&store).await.unwrap();
    for batch in 0..6 {
        let entries = (batch * 2_000..(batch + 1) * 2_000).map(|n| entry(n, "an answer")).collect();
        ledger.record(entries).await.unwrap();
        ledger.flush().await.unwrap();
    }
    let forgetful = Limits { answer_bytes: 0, ..Limits::default() };
    let reopened = Ledger::with(&store, forgetful).await.unwrap();
    let reads = async |keys: Vec<Digest>| {
        objects.script(vec![]);
        let found = reopened.look_up(&keys).await.unwrap();
        (objects.calls(Op::Get), found.iter().flatten().count())
    };
    // Opening reads the end of each of the six segments; the process that wrote them need not.
    assert_eq!(reads((50_000..51_000).map(key).collect()).await, (6, 0));
    assert_eq!(reads((50_000..60_000).map(key).collect()).await, (0, 0));
    assert_eq!(reads((2_000..4_000).map(key).collect()).await, (1, 2_000));
    assert_eq!(reads((0..12_000).map(key).collect()).await, (6, 12_000));
    assert_eq!(reads(vec![key(7)]).await, (1, 1));
    assert_eq!(reads(vec![key(7)]).await, (1, 1));
    objects.script(vec![]);
    assert_eq!(ledger.look_up(&[key(60_000)]).await.unwrap(), [None]);
    assert_eq!(objects.calls(Op::Get), 0);
}

#[tokio::test]
async fn what_was_looked_up_is_not_read_again() {
    let (objects, store) = FaultyStore::in_memory().await;
    let ledger = Ledger::open(&store).await.unwrap();
    let entries = (0..2_000).map(|n| entry(n, "an answer")).collect();
    ledger.record_durably(entries).await.unwrap();
    for (keys, reads) in [(0..10, 1), (0..10, 0), (5..15, 1), (0..15, 0)] {
        objects.script(vec![]);
        assert!(texts(&ledger, keys.clone()).await.iter().all(Option::is_some));
        assert_eq!(objects.calls(Op::Get), reads, "{keys:?}");
    }
}

#[tokio::test]
async fn opened_indexes_stay_within_their_memory() {
    let store = FaultyStore::in_memory().await.1;
    let limits = Limits { index_bytes: 60_000, ..Limits::default() };
    let ledger = Ledger::with(&store, limits).await.unwrap();
    for batch in 0..7 {
        let entries = (batch * 2_000..(batch + 1) * 2_000).map(|n| entry(n, "a")).collect();
        ledger.record(entries).await.unwrap();
        ledger.flush().await.unwrap();
        assert!(ledger.index_bytes() <= limits.index_bytes, "{}", ledger.index_bytes());
    }
    assert!(ledger.index_bytes() > 0);
    assert!(texts(&ledger, (0..14_000).step_by(100)).await.iter().all(Option::is_some));
    assert!(ledger.index_bytes() <= limits.index_bytes, "{}", ledger.index_bytes());
}

/// `cargo test --release ledger_at_size -- --ignored --nocapture`: a million answers, in batches of
/// 5,000, merged as they come; then 10,000 random requests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement of half a minute"]
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
async fn ledger_at_size() {
    const ANSWERS: u64 = 1_000_000;
    let (_folder, store) = on_disk().await;
    let ledger = Ledger::open(&store).await.unwrap();
    let proof = "fact1 and fact2 entail int1: the northern hemisphere is tilted towards the sun. ";
    let started = Instant::now();
    let mut rewritten = 0;
    for batch in (0..ANSWERS).step_by(5_000) {
        let said = |n: u64| format!("{}{n}", &proof[..40 + (n as usize * 31) % 40]);
        let entries = (batch..batch + 5_000).map(|n| entry(n, &said(n))).collect();
        ledger.record(entries).await.unwrap();
        ledger.flush().await.unwrap();
        let done = ledger.compact_if_fragmented().await.unwrap();
        rewritten += done.map_or(0, |done| done.bytes_rewritten);
    }
    println!("append, flush, merge: {:.1} s", started.elapsed().as_secs_f64());
    let live = ledger.state().live.clone();
    let bytes: u64 = live.iter().map(|segment| segment.bytes).sum();
    println!("segments: {}, {bytes} bytes, {rewritten} bytes rewritten", live.len());
    println!("objects (segments, log): {:?}", objects(&store).await);

    let started = Instant::now();
    let reopened = Ledger::open(&store).await.unwrap();
    println!("open: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    let keys: Vec<Digest> = (0..10_000_u64).map(|n| key(n * 7_919 % ANSWERS)).collect();
    for temperature in ["cold", "warm"] {
        let started = Instant::now();
        let found = reopened.look_up(&keys).await.unwrap();
        let seconds = started.elapsed().as_secs_f64();
        assert!(found.iter().all(Option::is_some));
        println!("look up 10,000 of {ANSWERS}, {temperature}: {:.0} ms", seconds * 1e3);
    }
    let absent: Vec<Digest> = (0..10_000).map(|n| key(ANSWERS + n)).collect();
    let started = Instant::now();
    assert!(reopened.look_up(&absent).await.unwrap().iter().all(Option::is_none));
    println!("look up 10,000 absent: {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    println!("memory of opened indexes: {} bytes", reopened.index_bytes());
}
