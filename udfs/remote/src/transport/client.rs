//! One attempt: send, read within bounds, classify.

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use proofmill_engine::request::RequestError;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use reqwest::{Client, Response, redirect};
use tracing::debug;

use super::failure::{Failure, Passing, Refusal};
use super::place::Place;
use super::words;
use crate::error::OpenError;
use crate::host::Host;
use crate::key::Key;
use crate::retry::after;
use crate::settings::Settings;

/// Most bytes that are read of a response that is no success.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// The HTTP side of a model.
#[derive(Debug)]
pub struct Transport {
    client: Client,
    place: Place,
    key: Option<Key>,
    key_env: Option<String>,
    model: String,
    timeout: Duration,
    response_bytes_max: usize,
}

impl Transport {
    /// Reads the key and sets up a client; connects to nothing.
    pub fn open(
        settings: &Settings,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, OpenError> {
        let place = Place::parse(&settings.base_url)?;
        let key =
            settings.key_env.as_deref().map(|name| read_key(name, environment)).transpose()?;
        let mut client = Client::builder()
            .user_agent(concat!("proofmill/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .timeout(settings.timeout)
            .connect_timeout(settings.connect_timeout)
            .pool_max_idle_per_host(settings.concurrency.get() as usize);
        if !settings.environment_proxy {
            client = client.no_proxy();
        }
        Ok(Self {
            client: client.build().map_err(|error| OpenError::Client { reason: chain(&error) })?,
            place,
            key,
            key_env: settings.key_env.clone(),
            model: settings.model.clone(),
            timeout: settings.timeout,
            response_bytes_max: settings.response_bytes_max as usize,
        })
    }

    /// Sends a JSON body to an interface and returns the body of a success.
    pub async fn post(
        &self,
        interface: &str,
        body: Vec<u8>,
        host: &dyn Host,
    ) -> Result<Vec<u8>, Failure> {
        let url = self.place.url(interface);
        let mut request =
            self.client.post(&url).header(CONTENT_TYPE, "application/json").body(body);
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.header());
        }
        let began = host.monotonic();
        let ms = || host.monotonic().saturating_sub(began).as_millis() as u64;
        let broken = |error| {
            debug!(ms = ms(), "endpoint did not answer");
            self.broken(&url, error)
        };
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status();
        if !status.is_success() {
            let failure = self.refused(&url, response, host).await;
            debug!(status = status.as_u16(), ms = ms(), "endpoint refused");
            return Err(failure);
        }
        let (bytes, whole) = read(&mut response, self.response_bytes_max).await.map_err(broken)?;
        let (status, bytes_read) = (status.as_u16(), bytes.len());
        debug!(status, ms = ms(), bytes = bytes_read, "endpoint answered");
        if whole {
            return Ok(bytes);
        }
        Err(Failure::Row(RequestError::Failed(format!(
            "the answer has more than {} bytes; lower `max_tokens`, or raise `response_bytes_max`",
            self.response_bytes_max
        ))))
    }

    /// The server's text as it may be quoted.
    pub fn quote(&self, text: &str) -> String {
        words::quote(text, self.key.as_ref())
    }

    async fn refused(&self, url: &str, mut response: Response, host: &dyn Host) -> Failure {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let asked = header(RETRY_AFTER).and_then(|value| after::parse(value, host.now()));
        let location = header(LOCATION).map(|location| self.quote(location));
        // The status alone says what to do; what can be read of the body is explanation.
        let (body, _) = read(&mut response, REFUSAL_BYTES_MAX).await.unwrap_or_default();
        let (code, said) = (words::code(&body), words::of_body(&body, self.key.as_ref()));
        let refusal = Refusal {
            url,
            model: &self.model,
            key_env: self.key_env.as_deref(),
            status: response.status().as_u16(),
            said: &said,
            code: code.as_deref(),
            location: location.as_deref(),
            asked,
        };
        refusal.classify()
    }

    fn broken(&self, url: &str, error: reqwest::Error) -> Failure {
        let (timeout, connect) = (error.is_timeout(), error.is_connect());
        let reason = self.quote(&chain(&error.without_url()));
        let what = if connect {
            Passing::Unreachable { url: url.to_owned(), reason }
        } else if timeout {
            Passing::Timeout { allowed: self.timeout }
        } else {
            Passing::Broken { reason }
        };
        Failure::Passing { what, asked: None }
    }
}

fn read_key(name: &str, environment: impl Fn(&str) -> Option<String>) -> Result<Key, OpenError> {
    let name = name.to_owned();
    match environment(&name) {
        None => Err(OpenError::KeyMissing { name }),
        Some(secret) => Key::parse(&secret).ok_or(OpenError::KeyInvalid { name }),
    }
}

/// The body up to so many bytes, and whether that is all of it.
async fn read(response: &mut Response, bytes_max: usize) -> reqwest::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = bytes_max - bytes.len();
        if chunk.len() > room {
            bytes.extend_from_slice(&chunk[..room]);
            return Ok((bytes, false));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok((bytes, true))
}

/// An error with its causes, which reqwest does not show.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a String cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
