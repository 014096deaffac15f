//! How much is under way, how much per minute, how much after refusals, and how much in all.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proofmill_base::clock::SystemClock;
use proofmill_remote::{Exhausted, ModelError, RemoteError, RemoteModel, Settings};
use proofmill_settings::endpoint::{Amount, Budget, Prices};

use crate::fake_clock::FakeClock;
use crate::fake_server::{FakeServer, Reply};
use crate::support::{HI, greedy, open, settings};

/// Asks so many times at once.
async fn ask_all(model: RemoteModel, times: usize) -> Arc<RemoteModel> {
    let model = Arc::new(model);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..times {
        let model = model.clone();
        asking.spawn(async move { model.ask(&greedy()).await.unwrap() });
    }
    asking.join_all().await;
    model
}

#[tokio::test]
async fn no_more_are_in_flight_than_allowed() {
    for (allowed, expected) in [(1, 1), (3, 3)] {
        let reply = Reply::Late(Duration::from_millis(60), HI.to_owned());
        let server = FakeServer::start([reply]).await;
        let settings = Settings {
            concurrency: NonZeroU32::new(allowed).unwrap(),
            ..settings(&server.base_url)
        };
        let model = ask_all(open(settings, Arc::new(SystemClock::default())), 9).await;
        assert_eq!(server.in_flight_max(), expected);
        assert_eq!(model.usage().answers, 9);
    }
}

#[tokio::test]
async fn requests_per_minute() {
    let server = FakeServer::start([Reply::ok(HI)]).await;
    let host = Arc::new(FakeClock::default());
    let settings =
        Settings { requests_per_minute: NonZeroU32::new(3), ..settings(&server.base_url) };
    ask_all(open(settings, host.clone()), 7).await;
    assert_eq!(host.slept(), [Duration::from_secs(60); 2]);
}

#[tokio::test]
async fn tokens_per_minute_are_those_that_the_endpoint_counts() {
    let server = FakeServer::start([Reply::ok(HI)]).await;
    let host = Arc::new(FakeClock::default());
    // Guessed are 2 + 16 tokens, counted are 5: four requests make 20, and a fifth may make 18.
    let settings = Settings {
        tokens_per_minute: NonZeroU32::new(33),
        concurrency: NonZeroU32::MIN,
        ..settings(&server.base_url)
    };
    ask_all(open(settings, host.clone()), 5).await;
    assert_eq!(host.slept(), [Duration::from_secs(60)]);
}

#[tokio::test]
async fn a_request_that_must_wait_waits_alone() {
    let refusal = Reply::with(429, "retry-after: 1\r\n", "");
    let server = FakeServer::start([refusal, Reply::ok(HI)]).await;
    let model = open(settings(&server.base_url), Arc::new(SystemClock::default()));
    let (first, later) = (greedy(), greedy());
    let began = Instant::now();
    let (first, later) =
        tokio::join!(async { model.ask(&first).await.map(|_| began.elapsed()) }, async {
            while server.received().is_empty() {
                tokio::task::yield_now().await;
            }
            model.ask(&later).await.map(|_| began.elapsed())
        });
    let (first, later) = (first.unwrap(), later.unwrap());
    assert!(first >= Duration::from_secs(1), "{first:?}");
    assert!(later < first, "{later:?} {first:?}");
}

#[tokio::test]
async fn refusals_lower_what_is_sent_at_a_time() {
    // The first burst is refused; of what is sent later, no more than half is there at a time.
    let refusal = || Reply::with(429, "retry-after: 0\r\n", "");
    let late = Reply::Late(Duration::from_millis(60), HI.to_owned());
    let server = FakeServer::start([refusal(), refusal(), refusal(), refusal(), late]).await;
    let settings =
        Settings { concurrency: NonZeroU32::new(4).unwrap(), ..settings(&server.base_url) };
    let model = ask_all(open(settings, Arc::new(FakeClock::default())), 4).await;
    assert_eq!((model.usage().answers, model.usage().retries), (4, 4));
    assert!(server.late_max() <= 2, "{}", server.late_max());
}

#[tokio::test]
async fn who_waits_to_be_sent_again_takes_no_place_of_the_fewer() {
    let refusal = || Reply::with(429, "retry-after: 1\r\n", "");
    let server = FakeServer::start([refusal(), refusal(), Reply::ok(HI)]).await;
    let settings =
        Settings { concurrency: NonZeroU32::new(4).unwrap(), ..settings(&server.base_url) };
    let model = open(settings, Arc::new(SystemClock::default()));
    let request = greedy();
    let began = Instant::now();
    let refused = async { tokio::join!(model.ask(&request), model.ask(&request)) };
    let (refused, others) = tokio::join!(refused, async {
        while server.received().len() < 2 {
            tokio::task::yield_now().await;
        }
        // Both know by then that they wait; two of four are sent at a time.
        tokio::time::sleep(Duration::from_millis(200)).await;
        for _ in 0..3 {
            model.ask(&request).await.unwrap();
        }
        began.elapsed()
    });
    assert!(refused.0.is_ok() && refused.1.is_ok());
    assert!(others < Duration::from_secs(1), "{others:?}");
}

fn budgeted(server: &FakeServer, budget: Budget) -> RemoteModel {
    let prices = Some(Prices {
        prompt: Amount::of_millionths(1_000_000),
        cached: Some(Amount::of_millionths(0)),
        completion: Amount::of_millionths(2_000_000),
    });
    let settings = Settings { budget, prices, ..settings(&server.base_url) };
    open(settings, Arc::new(FakeClock::default()))
}

fn used_up(error: &RemoteError) -> &str {
    match error {
        RemoteError::Model {
            error: ModelError::Budget(Exhausted::UsedUp { limit, .. }),
            attempts: 0,
        } => limit,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_budget_of_requests_counts_every_attempt() {
    let server = FakeServer::start([Reply::status(500, ""), Reply::ok(HI)]).await;
    let model = budgeted(&server, Budget { requests: Some(3), ..Budget::default() });
    for _ in 0..2 {
        model.ask(&greedy()).await.unwrap();
    }
    let error = model.ask(&greedy()).await.unwrap_err();
    assert_eq!(used_up(&error), "requests");
    assert_eq!(
        error.to_string(),
        "`budget.requests` of 3 is used up; spent: 3 requests (1 repeated), 6 prompt tokens, 4 \
         completion tokens, cost 0.000014"
    );
    assert_eq!(server.received().len(), 3);
}

#[tokio::test]
async fn a_retry_is_not_sent_beyond_the_budget() {
    let server = FakeServer::start([Reply::status(500, "")]).await;
    let model = budgeted(&server, Budget { requests: Some(2), ..Budget::default() });
    assert_eq!(used_up(&model.ask(&greedy()).await.unwrap_err()), "requests");
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn budgets_of_tokens_and_money_end_with_the_answer_that_reaches_them() {
    for (budget, limit) in [
        (Budget { prompt_tokens: Some(6), ..Budget::default() }, "prompt_tokens"),
        (Budget { completion_tokens: Some(4), ..Budget::default() }, "completion_tokens"),
        // 3 + 2 · 2 millionths of a unit an answer.
        (Budget { money: Some(Amount::of_millionths(14)), ..Budget::default() }, "money"),
    ] {
        let server = FakeServer::start([Reply::ok(HI)]).await;
        let model = budgeted(&server, budget);
        for _ in 0..2 {
            model.ask(&greedy()).await.unwrap();
        }
        assert_eq!(used_up(&model.ask(&greedy()).await.unwrap_err()), limit);
        assert_eq!(server.received().len(), 2);
    }
}

#[tokio::test]
async fn cached_tokens_have_their_own_price() {
    let body = |details: &str| {
        let usage = format!(
            r#""usage": {{"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {details}}}"#
        );
        format!(r#"{{"choices": [{{"text": "hi", "finish_reason": "stop"}}], {usage}}}"#)
    };
    let replies = [r#"{"cached_tokens": 8}"#, "null", "7", r#"{"cached_tokens": "x"}"#];
    let server = FakeServer::start(replies.map(|details| Reply::ok(body(details)))).await;
    let model = budgeted(&server, Budget::default());
    for cost in ["0.000004", "0.000016", "0.000028", "0.00004"] {
        model.ask(&greedy()).await.unwrap();
        assert_eq!(model.cost().unwrap().to_string(), cost);
    }
    assert_eq!(model.usage().cached_tokens, 8);
}

#[tokio::test]
async fn an_endpoint_that_does_not_count_cannot_have_a_budget_of_tokens() {
    let body = r#"{"choices": [{"text": "hi", "finish_reason": "length"}]}"#;
    let server = FakeServer::start([Reply::ok(body)]).await;
    let model = budgeted(&server, Budget { completion_tokens: Some(100), ..Budget::default() });
    model.ask(&greedy()).await.unwrap();
    let error = model.ask(&greedy()).await.unwrap_err().to_string();
    assert!(
        error.contains("does not count tokens") && error.contains("`budget.requests`"),
        "{error}"
    );
}
