//! How much is in flight and how much per minute.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proofmill_base::clock::SystemClock;
use proofmill_remote::{RemoteModel, Settings};

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
async fn one_who_is_told_to_wait_holds_the_others_back() {
    let told = Reply::with(429, "retry-after: 1\r\n", "");
    let server = FakeServer::start([told, Reply::ok(HI)]).await;
    let model = open(settings(&server.base_url), Arc::new(SystemClock::default()));
    let (first, later) = (greedy(), greedy());
    let (first, later) = tokio::join!(model.ask(&first), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let asked = Instant::now();
        model.ask(&later).await.map(|_| asked.elapsed())
    });
    assert!(first.is_ok());
    assert!(later.unwrap() > Duration::from_millis(500));
}
