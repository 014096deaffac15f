//! Logs that no process owns: the head however long they are, gaps, and entries of another history.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{in_memory, on_disk};
use crate::sealed::{Record, seal};
use crate::{LogFolder, LogRecord, OpenLog, OpenLogError, Position, Store};
use proofmill_base::digest::Digest;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    v: u32,
    seq: u64,
    prev: Option<Digest>,
    nonce: u64,
}

impl Record for Line {
    const VERSION: u32 = 1;
}

impl LogRecord for Line {
    fn seq(&self) -> u64 {
        self.seq
    }

    fn prev(&self) -> Option<Digest> {
        self.prev
    }
}

fn log() -> OpenLog<Line> {
    OpenLog::new(LogFolder::of_audit())
}

/// Appends so many entries.
async fn grow(store: &Store, position: &mut Position, entries: u64) {
    for _ in 0..entries {
        let line = Line { v: 1, seq: position.next, prev: position.head, nonce: position.next };
        let bytes: Bytes = log().create(store, &line).await.unwrap().unwrap();
        log().admit(position, &bytes).unwrap();
    }
}

#[tokio::test]
async fn the_head_is_found_however_long_the_log_is() {
    let (_folder, disk) = on_disk().await;
    for (store, lengths) in [(in_memory().await, 0..300), (disk, 0..40)] {
        let mut position = Position::default();
        for length in lengths {
            let head = log().head(&store).await.unwrap();
            assert_eq!(head.map(|head| head.entry.seq + 1).unwrap_or_default(), length);
            grow(&store, &mut position, 1).await;
        }
    }
}

#[tokio::test]
async fn an_entry_that_is_missing_between_others_is_a_gap() {
    for missing in [0, 1, 7, 15, 16, 17, 100, 198] {
        let store = in_memory().await;
        grow(&store, &mut Position::default(), 200).await;
        store.delete(&log().folder.entry(missing)).await.unwrap();
        // The search may pass over it; a reading never does.
        match log().head(&store).await {
            Err(OpenLogError::Gap { seq }) => assert_eq!(seq, missing),
            Ok(Some(head)) => assert_eq!(head.entry.seq, 199),
            other => panic!("{other:?}"),
        }
        let read = log().read_on(&store, &mut Position::default()).await;
        assert!(matches!(read, Err(OpenLogError::Gap { seq }) if seq == missing), "{read:?}");
    }
}

#[tokio::test]
async fn entries_before_another_are_one_chain_or_none() {
    let store = in_memory().await;
    grow(&store, &mut Position::default(), 20).await;
    let head = log().head(&store).await.unwrap().unwrap().entry;
    let before = log().before(&store, 5, &head).await.unwrap();
    assert_eq!(
        before.iter().map(|it| it.entry.seq).collect::<Vec<_>>(),
        (5..19).collect::<Vec<_>>()
    );
    let key = log().folder.entry(9);
    let foreign = Line { v: 1, seq: 9, prev: None, nonce: 0 };
    store.put(&key, seal(&key, &foreign).unwrap().into()).await.unwrap();
    let error = log().before(&store, 5, &head).await.unwrap_err();
    assert!(matches!(error, OpenLogError::Broken { seq: 9 | 10, .. }), "{error}");
    let error = log().read_on(&store, &mut Position::default()).await.unwrap_err();
    assert!(matches!(error, OpenLogError::Broken { seq: 9, .. }), "{error}");
}

#[tokio::test]
async fn a_place_that_is_taken_is_not_taken_twice() {
    let store = in_memory().await;
    let line = |nonce| Line { v: 1, seq: 0, prev: None, nonce };
    assert!(log().create(&store, &line(1)).await.unwrap().is_some());
    assert!(log().create(&store, &line(2)).await.unwrap().is_none());
    // The same bytes are one's own: a retry after a failure that hid a success.
    assert!(log().create(&store, &line(1)).await.unwrap().is_some());
}
