//! Sends JSON to an address that a user named: one message, once, without following redirects.

use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url, redirect};

use proofmill_base::error::{Error, ErrorKind, Result};

/// How long an exchange may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The longest part of a refusal that is shown, in characters.
const SHOWN_MAX: usize = 200;
/// Bytes of a refusal that are read.
const READ_MAX: usize = 4 << 10;

/// A client for one address.
#[derive(Debug)]
pub struct Post {
    client: Client,
    url: Url,
    token: Option<String>,
}

impl Post {
    /// A client that sends to `url`, with a bearer token if there is one. Connects to nothing.
    ///
    /// # Errors
    ///
    /// If it is not an address of HTTP, or has a password in it.
    pub fn to(url: &str, token: Option<String>) -> Result<Self> {
        let usage = |message: &str| Error::new(ErrorKind::Usage, message.to_owned());
        let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = parsed.ok_or_else(|| {
            usage("the address to send to is not a URL that begins with `http://` or `https://`")
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(usage("the address to send to has a user or a password in it")
                .with_hint("put the token into the environment variable that the help names"));
        }
        let client = Client::builder()
            .user_agent(concat!("proofmill/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .referer(false)
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| usage(&format!("no client for HTTP can be made: {error}")))?;
        Ok(Self { client, url, token })
    }

    /// Sends one JSON document.
    ///
    /// # Errors
    ///
    /// If the other side does not answer, or not with success.
    pub async fn send(&self, json: String) -> Result<()> {
        let mut request =
            self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let place = self.url.host_str().unwrap_or_default();
        let failed = |reason: String| {
            Error::new(
                ErrorKind::Resources,
                format!("`{place}` did not take what was sent: {reason}"),
            )
            .with_hint("sending all of it again does no harm")
        };
        let mut response = request.body(json).send().await.map_err(|error| {
            // The address itself may hold a secret in its query.
            failed(error.without_url().to_string())
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        // No more is read than is shown, whatever the other side sends.
        let mut bytes = Vec::new();
        while let (true, Ok(Some(piece))) = (bytes.len() < READ_MAX, response.chunk().await) {
            bytes.extend_from_slice(&piece);
        }
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(token) = &self.token {
            text = text.replace(token.as_str(), "…");
        }
        let text: String = text.chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect();
        Err(failed(format!("{status} {text}")))
    }
}
