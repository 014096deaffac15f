//! When a query asks a model no more: too many rows failed, no server answers, or nothing may be spent.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use proofmill_udfs::model::{Recording, Stopped};

mod support;

use support::model::{Echo, Fixture};
use support::{batch, context_of};

const CLASSES: &str = "SELECT coalesce(g['error']['class'], 'answered') AS class FROM \
                       (SELECT generate('echo', p, {on_error: 'capture'}) AS g FROM t)";

/// A session whose table `t(p)` has these prompts, over a model that takes so many at a time.
fn session(
    concurrency: usize,
    prompts: impl IntoIterator<Item = String>,
) -> (SessionContext, Fixture) {
    let fixture = Fixture::new(Echo::new(concurrency), Recording::default());
    let context = context_of(1);
    fixture.register(&context);
    let column: ArrayRef = Arc::new(StringArray::from_iter_values(prompts));
    let table = RecordBatch::try_from_iter([("p", column)]).unwrap();
    context.register_batch("t", table).unwrap();
    (context, fixture)
}

/// How many rows there are of each class.
async fn classes(context: &SessionContext) -> BTreeMap<String, usize> {
    let rows = batch(context, CLASSES).await.unwrap();
    let column = cast(rows.column(0), &DataType::Utf8).unwrap();
    let mut counts = BTreeMap::new();
    for class in column.as_string::<i32>().iter().flatten() {
        *counts.entry(class.to_owned()).or_insert(0) += 1;
    }
    counts
}

fn numbered(word: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |n| format!("{word} {n}"))
}

#[tokio::test]
async fn after_more_failures_than_may_be_nothing_more_is_sent_and_answers_stay() {
    let prompts = numbered("fine", 5).chain(numbered("!fail", 100));
    let (context, fixture) = session(2, prompts);
    fixture.counters.stop_beyond(3);
    let counts = classes(&context).await;
    let requests = fixture.echo.requests.load(SeqCst);
    // The fourth failure is seen while some more are under way, and no batch of rows begins after it.
    assert!((9..=14).contains(&requests), "{requests}");
    assert_eq!(counts["answered"], 5);
    assert_eq!(counts["failed"] + counts["unasked"], 100, "{counts:?}");
    assert_eq!(counts["failed"], requests - 5);
    assert_eq!(fixture.counters.stopped(), Some(Stopped::FailedRows));
    assert_eq!(fixture.ledger.answers.lock().unwrap().len(), 5);
}

#[tokio::test]
async fn without_a_limit_every_row_is_sent() {
    let (context, fixture) = session(2, numbered("!busy", 100));
    assert_eq!(classes(&context).await["transient"], 100);
    assert_eq!((fixture.echo.requests.load(SeqCst), fixture.counters.stopped()), (100, None));
}

#[tokio::test]
async fn when_no_server_answers_the_rest_is_not_sent() {
    let (context, fixture) = session(2, numbered("!busy", 100));
    fixture.counters.stop_beyond(u64::MAX);
    let counts = classes(&context).await;
    let stopped = fixture.counters.stopped();
    let Some(Stopped::Unanswered { requests: 16, reason }) = &stopped else {
        panic!("{stopped:?}")
    };
    assert_eq!(reason, "somebody else prints");
    assert!((16..=19).contains(&counts["transient"]), "{counts:?}");
    assert_eq!(fixture.echo.requests.load(SeqCst), counts["transient"]);
}

#[tokio::test]
async fn a_model_that_takes_many_at_a_time_has_as_many_more_chances() {
    let (context, fixture) = session(20, numbered("!busy", 100));
    fixture.counters.stop_beyond(u64::MAX);
    let counts = classes(&context).await;
    assert!((40..=61).contains(&counts["transient"]), "{counts:?}");
}

#[tokio::test]
async fn one_answer_in_between_is_a_sign_of_life() {
    let prompts = (0..100).map(|n| match n % 12 {
        11 => format!("fine {n}"),
        _ => format!("!busy {n}"),
    });
    let (context, fixture) = session(1, prompts);
    fixture.counters.stop_beyond(u64::MAX);
    assert_eq!(classes(&context).await["answered"], 8);
    assert_eq!((fixture.echo.requests.load(SeqCst), fixture.counters.stopped()), (100, None));
}

#[tokio::test]
async fn what_is_under_way_when_nothing_may_be_spent_is_kept() {
    let prompts = ["a", "b", "!spent", "c"].map(str::to_owned);
    let (context, fixture) = session(8, prompts);
    let error = batch(&context, CLASSES).await.unwrap_err().strip_backtrace();
    assert!(error.contains("`generate`: model `echo`: the paper is used up"), "{error}");
    assert_eq!(fixture.ledger.answers.lock().unwrap().len(), 3);
}
