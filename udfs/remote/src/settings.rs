//! What a model is opened with: what a user chooses about an endpoint, and its key.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use reqwest::header::HeaderValue;

use proofmill_settings::endpoint::{Api, Budget, Capabilities, Prices};

/// Where a model is and how it is to be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Everything before `/completions`, usually ending in `/v1`. http or https, without
    /// credentials, query and fragment.
    pub base_url: String,
    /// What the endpoint calls the model.
    pub model: String,
    /// Which interface generations use: `POST /completions` continues the prompt as it is, `POST /chat/completions` takes it for
    /// what the user says.
    pub api: Api,
    /// What comes before that, for a chat.
    pub system: Option<String>,
    /// What the endpoint can do beyond the least of the protocol.
    pub capabilities: Capabilities,
    /// Name of the environment variable that holds the key. Its value is read once, on opening,
    /// and sent as a bearer token. Without a name no key is sent.
    pub api_key_env: Option<String>,
    /// Most requests under way, including those that wait for their next attempt.
    pub concurrency: NonZeroU32,
    /// Most attempts in any 60 seconds.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Most tokens in any 60 seconds, prompt and answer together.
    pub tokens_per_minute: Option<NonZeroU32>,
    /// Most that may be spent on the model.
    pub budget: Budget,
    /// What tokens cost.
    pub prices: Option<Prices>,
    /// Longest time for one attempt, from connecting to the last byte.
    pub timeout: Duration,
    /// Longest time for connecting; counts towards `timeout`.
    pub connect_timeout: Duration,
    /// What happens after an attempt that failed.
    pub retry: Retry,
    /// Most bytes of one response.
    pub response_bytes_max: u32,
    /// Whether proxies of the environment (`HTTPS_PROXY` and so on) are used.
    pub environment_proxy: bool,
}

impl Settings {
    /// A model at `base_url` with the defaults: completions, no key, 8 requests at a time, no rate
    /// limit and no budget, 10 minutes per attempt, 64 MiB per response, no proxy.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api: Api::Completions,
            system: None,
            capabilities: Capabilities::default(),
            api_key_env: None,
            concurrency: NonZeroU32::MIN.saturating_add(7),
            requests_per_minute: None,
            tokens_per_minute: None,
            budget: Budget::default(),
            prices: None,
            timeout: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(10),
            retry: Retry::default(),
            response_bytes_max: 64 << 20,
            environment_proxy: false,
        }
    }
}

/// Exponential back-off with full jitter, within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts after the first.
    pub retries_max: u32,
    /// Upper bound of the first delay; doubles each time.
    pub first_delay: Duration,
    /// Upper bound of every delay that the endpoint does not ask for.
    pub delay_max: Duration,
    /// No further attempt is begun later than this after the first one.
    pub total_max: Duration,
}

impl Default for Retry {
    /// 6 retries, delays of up to 0.5, 1, 2, ... 30 seconds, half an hour in all.
    fn default() -> Self {
        Self {
            retries_max: 6,
            first_delay: Duration::from_millis(500),
            delay_max: Duration::from_secs(30),
            total_max: Duration::from_secs(1800),
        }
    }
}

/// A secret that neither `Debug` nor an error shows.
#[derive(Clone)]
pub struct Key {
    secret: String,
    header: HeaderValue,
}

impl Key {
    /// None if the text is empty or cannot stand in a header.
    pub fn parse(secret: &str) -> Option<Self> {
        let secret = secret.trim();
        let mut header = HeaderValue::from_str(&format!("Bearer {secret}")).ok()?;
        header.set_sensitive(true);
        (!secret.is_empty()).then(|| Self { secret: secret.to_owned(), header })
    }

    /// The value of `Authorization`.
    pub fn header(&self) -> HeaderValue {
        self.header.clone()
    }

    /// A text of the server's with the secret blacked out, should it repeat it.
    pub fn redact(&self, text: &str) -> String {
        text.replace(&self.secret, "***")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_the_secret() {
        let key = Key::parse(" sk-secret\n").unwrap();
        assert_eq!(key.header().to_str().unwrap(), "Bearer sk-secret");
        assert!(!format!("{key:?} {:?}", key.header()).contains("secret"));
        assert_eq!(key.redact("bad key sk-secret!"), "bad key ***!");
    }

    #[test]
    fn texts_that_are_no_key() {
        for text in ["", "  ", "a\nb", "a\0b"] {
            assert!(Key::parse(text).is_none(), "{text:?}");
        }
    }
}
