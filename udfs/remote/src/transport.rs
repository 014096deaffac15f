//! One HTTP exchange: sends to an address below the base URL, reads within bounds, classifies.

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

use proofmill_base::clock::Clock;
use proofmill_engine::request::RequestError;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use reqwest::{Client, Response, Url, redirect};
use tracing::debug;

use crate::error::OpenError;
use crate::failure::{self, Failure, Passing, Refusal};
use crate::retry::retry_after;
use crate::settings::{Key, Settings};

/// Most bytes that are read of a response that is no success.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// The HTTP side of a model.
#[derive(Debug)]
pub struct Transport {
    client: Client,
    base_url: BaseUrl,
    key: Option<Key>,
    api_key_env: Option<String>,
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
        let base_url = BaseUrl::parse(&settings.base_url)?;
        let key =
            settings.api_key_env.as_deref().map(|name| read_key(name, environment)).transpose()?;
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
            base_url,
            key,
            api_key_env: settings.api_key_env.clone(),
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
        clock: &dyn Clock,
    ) -> Result<Vec<u8>, Failure> {
        let url = self.base_url.url(interface);
        let mut request =
            self.client.post(&url).header(CONTENT_TYPE, "application/json").body(body);
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.header());
        }
        let began = clock.monotonic();
        let ms = || clock.monotonic().saturating_sub(began).as_millis() as u64;
        let broken = |error| {
            debug!(ms = ms(), "endpoint did not answer");
            self.broken(&url, error)
        };
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status();
        if !status.is_success() {
            let failure = self.refused(&url, response, clock).await;
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
        failure::quote(text, self.key.as_ref())
    }

    async fn refused(&self, url: &str, mut response: Response, clock: &dyn Clock) -> Failure {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let retry_after =
            header(RETRY_AFTER).and_then(|value| retry_after(value, clock.now().into()));
        let location = header(LOCATION).map(|location| self.quote(location));
        // The status alone says what to do; what can be read of the body is explanation.
        let (body, _) = read(&mut response, REFUSAL_BYTES_MAX).await.unwrap_or_default();
        let (code, said) =
            (failure::error_code(&body), failure::error_message(&body, self.key.as_ref()));
        let refusal = Refusal {
            url,
            model: &self.model,
            api_key_env: self.api_key_env.as_deref(),
            status: response.status().as_u16(),
            said: &said,
            code: code.as_deref(),
            location: location.as_deref(),
            retry_after,
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
        Failure::Passing { what, retry_after: None }
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

/// The addresses of an endpoint's interfaces.
#[derive(Clone, Debug)]
pub struct BaseUrl {
    /// Without a slash at its end.
    base: String,
}

impl BaseUrl {
    /// Errors: not http or https, no host, or with credentials, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, OpenError> {
        let refused = |reason: &str| Err(OpenError::BaseUrl { reason: reason.to_owned() });
        let url = match Url::parse(text.trim()) {
            Ok(url) => url,
            Err(error) => return refused(&format!("is no URL ({error})")),
        };
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return refused("is not `http://…` or `https://…`");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refused("has credentials in it; put the key into a variable (`api_key_env`)");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refused("has a query or a fragment");
        }
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned() })
    }

    /// The address of an interface, for example `chat/completions`.
    pub fn url(&self, interface: &str) -> String {
        format!("{}/{interface}", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for base in ["http://h:8000/v1", "http://h:8000/v1/", " http://h:8000/v1//"] {
            assert_eq!(
                BaseUrl::parse(base).unwrap().url("embeddings"),
                "http://h:8000/v1/embeddings"
            );
        }
        assert_eq!(BaseUrl::parse("https://h").unwrap().url("x/y"), "https://h/x/y");
    }

    #[test]
    fn refused_and_no_secret_repeated() {
        for base in [
            "",
            "h:8000",
            "ftp://h/",
            "http://",
            "http://u:hush@h/v1",
            "http://h/?k=hush",
            "http://h/#a",
        ] {
            let error = BaseUrl::parse(base).unwrap_err().to_string();
            assert!(error.contains("`url`") && !error.contains("hush"), "{error}");
        }
    }
}
