//! Keys, redirects, sizes: where nothing may leak or grow.

use std::sync::Arc;
use std::time::Duration;

use proofmill_remote::{ModelError, OpenError, RemoteError, RemoteModel, Settings};

use crate::fake_clock::{Always, FakeClock};
use crate::fake_server::{FakeServer, Reply};
use crate::support::{HI, greedy, model, open, settings};

const SECRET: &str = "sk-hush-hush";

fn with_key(base_url: &str) -> RemoteModel {
    let settings = Settings { api_key_env: Some("THE_KEY".to_owned()), ..settings(base_url) };
    let environment = |name: &str| (name == "THE_KEY").then(|| SECRET.to_owned());
    RemoteModel::open(settings, environment, Arc::new(FakeClock::default()), Arc::new(Always(0)))
        .unwrap()
}

#[tokio::test]
async fn the_key_is_sent_and_never_shown() {
    let server = FakeServer::start([
        Reply::ok(HI),
        Reply::status(401, format!(r#"{{"error": {{"message": "bad key {SECRET}"}}}}"#)),
        Reply::status(400, format!("what is {SECRET}?")),
        Reply::ok(format!("{{{SECRET}")),
    ])
    .await;
    let model = with_key(&server.base_url);
    model.ask(&greedy()).await.unwrap();
    assert!(server.received()[0].head.contains(&format!("authorization: bearer {SECRET}\r\n")));

    let refused = model.ask(&greedy()).await.unwrap_err();
    assert!(refused.to_string().contains("`THE_KEY` (401): bad key ***;"), "{refused}");
    assert!(refused.to_string().contains("THE_KEY"), "{refused}");
    let errors =
        [refused, model.ask(&greedy()).await.unwrap_err(), model.ask(&greedy()).await.unwrap_err()];
    assert!(!format!("{model:?} {errors:?}").contains(SECRET));
}

#[tokio::test]
async fn without_a_name_no_key_is_sent() {
    let server = FakeServer::start([Reply::ok(HI), Reply::status(403, "who are you?")]).await;
    let (model, _) = model(&server);
    model.ask(&greedy()).await.unwrap();
    assert!(!server.received()[0].head.contains("authorization"));
    let error = model.ask(&greedy()).await.unwrap_err().to_string();
    assert!(error.contains("`api_key_env`") && error.contains("who are you?"), "{error}");
}

#[test]
fn keys_that_are_not_there() {
    let open = |value: Option<&str>| {
        let settings =
            Settings { api_key_env: Some("THE_KEY".to_owned()), ..Settings::new("http://h", "m") };
        let environment = |_: &str| value.map(str::to_owned);
        RemoteModel::open(
            settings,
            environment,
            Arc::new(FakeClock::default()),
            Arc::new(Always(0)),
        )
        .unwrap_err()
    };
    let name = || "THE_KEY".to_owned();
    assert_eq!(open(None), OpenError::KeyMissing { name: name() });
    for value in ["", " ", "two\nlines hush"] {
        assert_eq!(open(Some(value)), OpenError::KeyInvalid { name: name() });
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = FakeServer::start([Reply::ok(HI)]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: {}/completions\r\n", other.base_url);
        let server = FakeServer::start([Reply::with(status, &location, "")]).await;
        let error = with_key(&server.base_url).ask(&greedy()).await.unwrap_err();
        let RemoteError::Model { error: ModelError::Redirected { location, .. }, .. } = error
        else {
            panic!("{error:?}")
        };
        assert_eq!(location, format!("{}/completions", other.base_url));
    }
    assert!(other.received().is_empty());
}

#[tokio::test]
async fn a_response_that_is_too_large_is_not_kept() {
    let long = HI.replace("hi", &"x".repeat(5_000));
    let server = FakeServer::start([Reply::ok(&long)]).await;
    let ask = async |bytes: u32| {
        let settings = Settings { response_bytes_max: bytes, ..settings(&server.base_url) };
        open(settings, Arc::new(FakeClock::default())).ask(&greedy()).await
    };
    let length = u32::try_from(long.len()).unwrap();
    assert!(ask(length).await.is_ok());
    let error = ask(length - 1).await.unwrap_err();
    assert!(error.to_string().contains("`response_bytes_max`"), "{error}");
    assert!(matches!(error, RemoteError::Row { attempts: 1, .. }));
}

#[tokio::test]
async fn long_explanations_are_cut() {
    let server = FakeServer::start([Reply::status(400, "y".repeat(200_000))]).await;
    let (model, _) = model(&server);
    let error = model.ask(&greedy()).await.unwrap_err().to_string();
    assert!(error.contains(&"y".repeat(300)) && error.len() < 600, "{}", error.len());
}

#[test]
fn settings_under_which_nothing_works() {
    let open = |change: fn(&mut Settings)| {
        let mut settings = Settings::new("http://h/v1", "m");
        change(&mut settings);
        RemoteModel::open(settings, |_| None, Arc::new(FakeClock::default()), Arc::new(Always(0)))
            .unwrap_err()
    };
    for error in [
        open(|settings| settings.timeout = Duration::ZERO),
        open(|settings| settings.connect_timeout = Duration::ZERO),
        open(|settings| settings.response_bytes_max = 0),
    ] {
        assert!(matches!(error, OpenError::Zero { .. }), "{error}");
    }
    assert!(matches!(open(|settings| settings.base_url.clear()), OpenError::BaseUrl { .. }));
}
