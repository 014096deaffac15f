//! Answers that were forgotten: never replayed, by no process, whatever is merged, killed or
//! reopened.

use super::{SMALL, entry, key, origin, texts};
use crate::merge::merge;
use crate::record::{Body, Segment};
use crate::state::State;
use crate::{Ledger, Scope};
use proofmill_store::Store;
use proofmill_store::faulty::{Fault, FaultyStore, Op};

/// Calls that the history below does not reach.
const CALLS_MAX: usize = 60;

fn requests(numbers: impl IntoIterator<Item = u64>) -> Scope {
    Scope::Requests(numbers.into_iter().map(key).collect())
}

async fn append(ledger: &Ledger, numbers: std::ops::Range<u64>, said: &str) {
    ledger.record(numbers.map(|n| entry(n, said)).collect()).await.unwrap();
    ledger.flush().await.unwrap();
}

fn some(said: &str, times: usize) -> Vec<Option<String>> {
    vec![Some(said.to_owned()); times]
}

#[tokio::test]
async fn two_processes_and_a_new_answer() {
    let store = FaultyStore::in_memory().await.1;
    let (one, two) =
        (Ledger::with(&store, SMALL).await.unwrap(), Ledger::with(&store, SMALL).await.unwrap());
    append(&one, 0..4, "wrong").await;
    two.refresh().await.unwrap();
    assert_eq!(texts(&two, 0..4).await, some("wrong", 4));
    assert_eq!(one.forget(requests([1, 2, 99]), "mia", "swapped").await.unwrap(), 2);
    let left = [Some("wrong".to_owned()), None, None, Some("wrong".to_owned())];
    assert_eq!(texts(&one, 0..4).await, left);
    two.refresh().await.unwrap();
    assert_eq!(texts(&two, 0..4).await, left);
    // The other one answers anew, and that counts for ever.
    append(&two, 0..4, "right").await;
    append(&one, 0..4, "late").await;
    let expected = ["wrong", "right", "right", "wrong"].map(|said| Some(said.to_owned()));
    for ledger in [&one, &two, &Ledger::with(&store, SMALL).await.unwrap()] {
        ledger.compact().await.unwrap();
        assert_eq!(texts(ledger, 0..4).await, expected);
    }
    // Nothing is recorded of what is not there, and all of what was.
    assert_eq!(one.forget(requests([77]), "mia", "").await.unwrap(), 0);
    let kept = Ledger::with(&store, SMALL).await.unwrap().forgotten();
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].forget.author.as_str(), kept[0].forget.answers), ("mia", 2));
    assert_eq!(kept[0].forget.reason, "swapped");
}

#[tokio::test]
async fn a_merge_that_was_under_way_brings_nothing_back() {
    let store = FaultyStore::in_memory().await.1;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    append(&ledger, 0..3, "wrong").await;
    append(&ledger, 3..6, "wrong").await;
    let state = ledger.state();
    let written = merge(&store, &state.live, &state.forgotten, SMALL.blocks).await.unwrap();
    let into = Segment { past: state.forgotten.len() as u64, ..written.segment.as_ref().clone() };
    let from: Vec<_> = state.live.iter().map(|segment| segment.key.clone()).collect();
    let all = Scope::Models(vec![origin().model.to_string()]);
    assert_eq!(ledger.forget(all.clone(), "mia", "").await.unwrap(), 6);
    append(&ledger, 0..1, "right").await;
    let body = |state: &State| {
        state.position(&from)?;
        Some(Body::Merge { from: from.clone(), into: into.clone() })
    };
    assert!(ledger.commit_merge(written, body).await.unwrap());
    let mut expected = vec![None; 6];
    expected[0] = Some("right".to_owned());
    assert_eq!(texts(&ledger, 0..6).await, expected);
    // Merged once more they are gone, and so it stays when the log is shortened.
    append(&ledger, 10..11, "a").await;
    assert!(ledger.compact().await.unwrap().merges > 0);
    for n in 11..20 {
        append(&ledger, n..n + 1, "a").await;
    }
    assert!(ledger.compact().await.unwrap().log_objects_removed > 0);
    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    assert_eq!(texts(&reopened, 0..6).await, expected);
    assert_eq!(reopened.state().live.iter().map(|segment| segment.rows).sum::<u64>(), 11);
    assert_eq!(reopened.forgotten().len(), 1);
    // What came after stays until it is forgotten as well.
    assert_eq!(reopened.forget(all, "mia", "").await.unwrap(), 11);
    let compacted = reopened.compact().await.unwrap();
    assert_eq!(texts(&reopened, 0..20).await, vec![None; 20], "{compacted:?}");
}

#[tokio::test]
async fn a_merge_of_which_nothing_is_left_is_a_segment_like_others() {
    let store = FaultyStore::in_memory().await.1;
    let ledger = Ledger::with(&store, SMALL).await.unwrap();
    for n in 0..3 {
        append(&ledger, n..n + 1, "wrong").await;
    }
    let all = Scope::Models(vec![origin().model.to_string()]);
    assert_eq!(ledger.forget(all, "mia", "").await.unwrap(), 3);
    assert_eq!(ledger.compact().await.unwrap().merges, 1);
    let reopened = Ledger::with(&store, SMALL).await.unwrap();
    assert_eq!(reopened.state().live.iter().map(|it| it.rows).collect::<Vec<_>>(), [0]);
    assert_eq!(texts(&reopened, 0..3).await, vec![None; 3]);
    for n in 0..3 {
        append(&reopened, n..n + 1, "right").await;
    }
    assert_eq!(reopened.compact().await.unwrap().merges, 1);
    assert_eq!(texts(&reopened, 0..3).await, some("right", 3));
}

#[tokio::test]
async fn a_process_that_kept_answers_in_memory_adds_them_anew() {
    let store = FaultyStore::in_memory().await.1;
    let (one, two) =
        (Ledger::with(&store, SMALL).await.unwrap(), Ledger::with(&store, SMALL).await.unwrap());
    append(&one, 0..2, "first").await;
    two.record(vec![entry(0, "second")]).await.unwrap();
    assert_eq!(one.forget(requests([0]), "mia", "").await.unwrap(), 1);
    two.flush().await.unwrap();
    let expected = ["second", "first"].map(|said| Some(said.to_owned()));
    for ledger in [two, Ledger::with(&store, SMALL).await.unwrap()] {
        assert_eq!(texts(&ledger, 0..2).await, expected);
    }
}

#[tokio::test]
async fn answers_are_counted_once_by_model_and_kind() {
    let store = FaultyStore::in_memory().await.1;
    let (one, two) =
        (Ledger::with(&store, SMALL).await.unwrap(), Ledger::with(&store, SMALL).await.unwrap());
    append(&one, 0..5, "a").await;
    append(&two, 3..9, "b").await;
    let models = two.models().await.unwrap();
    assert_eq!(models.len(), 1);
    assert_eq!((models[0].answers(), models[0].kinds["generate"]), (9, 9));
    assert_eq!(models[0].model, origin().model.as_ref());
    assert!(models[0].first <= models[0].last);
    two.forget(requests(0..3), "mia", "").await.unwrap();
    assert_eq!(two.models().await.unwrap()[0].answers(), 6);
}

/// Two flushes, a forgetting, an answer and a compaction: whether the forgetting was acknowledged.
async fn history(store: &Store) -> Option<bool> {
    let ledger = Ledger::with(store, SMALL).await.ok()?;
    for batch in 0..3 {
        let entries = (batch * 5..batch * 5 + 5).map(|n| entry(n, "a")).collect();
        ledger.record(entries).await.ok()?;
        ledger.flush().await.ok()?;
    }
    if ledger.forget(requests(2..7), "mia", "").await.is_err() {
        return Some(false);
    }
    if ledger.record(vec![entry(20, "a")]).await.is_ok() {
        let _ = ledger.flush().await;
    }
    let _ = ledger.compact().await;
    Some(true)
}

#[tokio::test]
async fn a_death_at_any_request_forgets_all_or_nothing() {
    let mut both = [false, false];
    for nth in 0..CALLS_MAX {
        for last in [Fault::FailBefore, Fault::FailAfter] {
            let (objects, store) = FaultyStore::in_memory().await;
            let mut script = vec![(Op::Put, nth, last)];
            script.extend((nth + 1..500).map(|nth| (Op::Put, nth, Fault::FailBefore)));
            objects.script(script);
            let Some(acknowledged) = history(&store).await else { continue };
            objects.script(vec![]);
            let reopened = Ledger::with(&store, SMALL).await.unwrap();
            let found = texts(&reopened, 2..7).await;
            let gone = found.iter().filter(|answer| answer.is_none()).count();
            assert!(gone == 0 || gone == 5, "{nth} {last:?}: {gone} of 5");
            assert!(gone == 5 || !acknowledged, "{nth} {last:?}: it comes back");
            assert_eq!(texts(&reopened, [0, 1, 7, 14]).await, some("a", 4));
            both[usize::from(gone == 5)] = true;
            // And the ledger goes on.
            append(&reopened, 0..15, "b").await;
            reopened.compact().await.unwrap();
            let expected = some(if gone == 5 { "b" } else { "a" }, 5);
            assert_eq!(texts(&reopened, 2..7).await, expected);
        }
    }
    assert_eq!(both, [true, true], "no death was before or none after");
}
