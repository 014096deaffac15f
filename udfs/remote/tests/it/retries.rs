//! What is tried again, after how long, and what is said in the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proofmill_base::clock::SystemClock;
use proofmill_engine::request::RequestError;
use proofmill_remote::{ModelError, RemoteError, Settings, Usage};

use crate::fake_clock::FakeClock;
use crate::fake_server::{FakeServer, Reply};
use crate::support::{HI, generations, greedy, model, open, settings};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test]
async fn a_rate_limit_waits_as_long_as_requested() {
    let date = "retry-after: Sun, 06 Nov 1994 08:49:57 GMT\r\n";
    let server = FakeServer::start([
        Reply::with(429, "Retry-After: 7\r\n", "slow down"),
        Reply::with(503, date, ""),
        Reply::ok(HI),
    ])
    .await;
    let (model, host) = model(&server);
    assert_eq!(generations(model.ask(&greedy()).await.unwrap())[0].text, "hi");
    // 7 s and half of the jitter's first bound; then what is left until the date, and half of the
    // second bound.
    let first = Duration::from_millis(7_500);
    assert_eq!(host.slept(), [first, seconds(20) - first + seconds(1)]);
    let usage = Usage {
        requests: 3,
        retries: 2,
        answers: 1,
        uncounted: 0,
        prompt_tokens: 3,
        cached_tokens: 0,
        output_tokens: 2,
    };
    assert_eq!(model.usage(), usage);
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    for failure in [
        Reply::status(408, ""),
        Reply::status(409, ""),
        Reply::status(425, ""),
        Reply::status(500, "oops"),
        Reply::status(502, "<html>"),
        Reply::Cut(HI.to_owned()),
        Reply::Close,
    ] {
        let server = FakeServer::start([failure.clone(), Reply::ok(HI)]).await;
        let (model, host) = model(&server);
        assert!(model.ask(&greedy()).await.is_ok(), "{failure:?}");
        assert_eq!(host.slept(), [Duration::from_millis(500)], "{failure:?}");
        assert_eq!(server.received().len(), 2, "{failure:?}");
    }
}

#[tokio::test]
async fn in_the_end_the_row_fails_and_may_be_sent_another_time() {
    let server = FakeServer::start([Reply::status(500, r#"{"error": {"message": "boom"}}"#)]).await;
    let (model, host) = model(&server);
    let error = model.ask(&greedy()).await.unwrap_err();
    assert_eq!(error.to_string(), "the endpoint failed (500): boom (after 4 attempts)");
    assert!(matches!(error, RemoteError::Row { attempts: 4, transient: true, .. }));
    assert_eq!(host.slept(), [Duration::from_millis(500), seconds(1), seconds(2)]);
    assert_eq!((model.usage().requests, model.usage().retries), (4, 3));
}

#[tokio::test]
async fn a_wait_beyond_the_total_is_not_begun() {
    let server = FakeServer::start([Reply::with(429, "retry-after: 101\r\n", "")]).await;
    let (model, host) = model(&server);
    let error = model.ask(&greedy()).await.unwrap_err();
    assert!(matches!(error, RemoteError::Row { attempts: 1, transient: true, .. }), "{error}");
    assert!(host.slept().is_empty());
}

#[tokio::test]
async fn a_silent_server_is_given_up() {
    let server = FakeServer::start([Reply::Hang]).await;
    let mut settings = settings(&server.base_url);
    settings.timeout = Duration::from_millis(100);
    settings.retry.retries_max = 1;
    let began = Instant::now();
    let model = open(settings, Arc::new(FakeClock::default()));
    let error = model.ask(&greedy()).await.unwrap_err();
    assert!(began.elapsed() < seconds(3));
    assert!(error.to_string().contains("within 0.1 s"), "{error}");
    assert!(error.to_string().contains("raise the model's `timeout_seconds`"), "{error}");
    assert!(matches!(error, RemoteError::Row { attempts: 2, transient: true, .. }));
}

#[tokio::test]
async fn a_server_that_is_not_there_fails_the_model() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let model = open(settings(&base_url), Arc::new(FakeClock::default()));
    let error = model.ask(&greedy()).await.unwrap_err();
    let RemoteError::Model { error: ModelError::Unreachable { url, .. }, attempts: 4 } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(*url, format!("{base_url}/completions"));
}

#[tokio::test]
async fn what_is_final_is_not_tried_again() {
    for status in [400, 401, 402, 403, 404, 405, 413, 422, 302, 307] {
        let server = FakeServer::start([Reply::status(status, "")]).await;
        let (model, host) = model(&server);
        let error = model.ask(&greedy()).await.unwrap_err();
        assert_eq!((server.received().len(), host.slept().len()), (1, 0), "{status}");
        let row = matches!(
            &error,
            RemoteError::Row { error: RequestError::Invalid(_), attempts: 1, transient: false }
        );
        assert_eq!(row, [400, 413, 422].contains(&status), "{status}: {error}");
    }
}

#[tokio::test]
async fn who_gives_up_waiting_frees_the_place() {
    let server = FakeServer::start([Reply::Hang, Reply::ok(HI)]).await;
    let settings =
        Settings { concurrency: std::num::NonZeroU32::MIN, ..settings(&server.base_url) };
    let model = open(settings, Arc::new(SystemClock::default()));
    let abandoned = tokio::time::timeout(Duration::from_millis(200), model.ask(&greedy())).await;
    assert!(abandoned.is_err());
    assert!(model.ask(&greedy()).await.is_ok());
}
