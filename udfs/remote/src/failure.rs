//! What came of an attempt that gave no answer, whose business it is, and what the server says about
//! it, fit for a message.

use std::time::Duration;

use proofmill_engine::request::RequestError;
use serde_json::Value;

use crate::error::{ModelError, RemoteError};
use crate::settings::Key;

/// An attempt without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another attempt may help.
    Passing {
        what: Passing,
        /// How long the endpoint asks to wait (`Retry-After`).
        retry_after: Option<Duration>,
    },
    /// The request will always fail.
    Row(RequestError),
    Model(ModelError),
}

/// What may be over the next time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passing {
    /// No connection.
    Unreachable { url: String, reason: String },
    /// No complete answer in the time allowed for one attempt.
    Timeout { allowed: Duration },
    /// The connection ended in the middle of the answer.
    Broken { reason: String },
    /// 408, 409, 425, 429 or 5xx.
    Status { status: u16, said: String },
}

/// Facts about a response that is no success.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    pub url: &'a str,
    pub model: &'a str,
    /// The variable of the key that was sent.
    pub api_key_env: Option<&'a str>,
    /// The status, not 2xx.
    pub status: u16,
    pub said: &'a str,
    /// The server's code for the error.
    pub code: Option<&'a str>,
    /// `Location`.
    pub location: Option<&'a str>,
    /// `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl Refusal<'_> {
    /// Which error this is, and whether another attempt may help.
    pub fn classify(self) -> Failure {
        let Self { url, model, api_key_env, status, said, code, location, retry_after } = self;
        let (url, said) = (url.to_owned(), said.to_owned());
        Failure::Model(match (status, api_key_env) {
            (402, _) => ModelError::Quota { url, status, said },
            (429, _) if code == Some("insufficient_quota") => {
                ModelError::Quota { url, status, said }
            }
            (408 | 409 | 425 | 429 | 500..=599, _) => {
                return Failure::Passing { what: Passing::Status { status, said }, retry_after };
            }
            (300..=399, _) => {
                let location = location.unwrap_or("an unnamed address").to_owned();
                ModelError::Redirected { url, status, location }
            }
            (401 | 403, Some(name)) => ModelError::Key { url, name: name.to_owned(), status, said },
            (401 | 403, None) => ModelError::NoKey { url, status, said },
            (404 | 405 | 410, _) => {
                ModelError::NotFound { url, model: model.to_owned(), status, said }
            }
            _ => {
                return Failure::Row(RequestError::Invalid(format!(
                    "{url} rejects the request ({status}): {said}; change the prompt or the \
                     options it names"
                )));
            }
        })
    }
}

impl Failure {
    /// Whether the endpoint wants fewer requests: 429, or any status with a time to wait.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Passing { what, retry_after } => {
                retry_after.is_some() || matches!(what, Passing::Status { status: 429, .. })
            }
            Self::Row(_) | Self::Model(_) => false,
        }
    }

    /// The error when nothing more is tried.
    pub fn finally(self, attempts: u32) -> RemoteError {
        let what = match self {
            Self::Model(error) => return RemoteError::Model { error, attempts },
            Self::Row(error) => return RemoteError::Row { error, attempts, transient: false },
            Self::Passing { what, .. } => what,
        };
        let reason = match what {
            Passing::Unreachable { url, reason } => {
                let error = ModelError::Unreachable { url, reason };
                return RemoteError::Model { error, attempts };
            }
            Passing::Timeout { allowed } => format!(
                "no complete answer within {} s; lower `max_tokens` or `concurrency`, or raise \
                 the model's `timeout_seconds`",
                allowed.as_secs_f64()
            ),
            Passing::Broken { reason } => {
                format!("the connection ended inside the response: {reason}")
            }
            Passing::Status { status: 429, said } => format!(
                "the endpoint limits the rate (429): {said}; lower `concurrency`, or set \
                 `requests_per_minute` or `tokens_per_minute`"
            ),
            Passing::Status { status, said } => format!("the endpoint failed ({status}): {said}"),
        };
        RemoteError::Row { error: RequestError::Failed(reason), attempts, transient: true }
    }
}

/// Most characters that are quoted.
const QUOTED_MAX: usize = 300;

/// The server's words about an error: its message where the body has one, otherwise the body.
pub fn error_message(body: &[u8], key: Option<&Key>) -> String {
    let text = String::from_utf8_lossy(body);
    let message = serde_json::from_slice::<Value>(body).ok().and_then(|value| message_of(&value));
    quote(message.as_deref().unwrap_or(&text), key)
}

/// The machine-readable code of an error (`error.code`, or `error.type` without one).
pub fn error_code(body: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let error = value.get("error")?;
    let text = |name| error.get(name).and_then(Value::as_str).map(str::to_owned);
    text("code").or_else(|| text("type"))
}

/// One line, without the key, at most 300 characters.
pub fn quote(text: &str, key: Option<&Key>) -> String {
    let text = key.map_or_else(|| text.to_owned(), |key| key.redact(text));
    let line = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = line.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "no explanation".to_owned(),
        None => line,
    }
}

/// `error.message`, `error`, `message` or `detail`, whichever servers use.
fn message_of(value: &Value) -> Option<String> {
    let error = value.get("error");
    let places = [error.and_then(|error| error.get("message")), error];
    let places = places.into_iter().chain(["message", "detail"].map(|name| value.get(name)));
    places.flatten().find(|place| !place.is_null()).map(|place| match place {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(status: u16, api_key_env: Option<&str>, code: Option<&str>) -> Failure {
        let refusal = Refusal {
            url: "http://h/v1/completions",
            model: "m",
            api_key_env,
            status,
            said: "words",
            code,
            location: Some("http://other/"),
            retry_after: Some(Duration::from_secs(3)),
        };
        refusal.classify()
    }

    #[test]
    fn every_status_has_a_class() {
        for status in 300..600 {
            let class = match classify(status, None, None) {
                Failure::Passing { retry_after, .. } => {
                    assert_eq!(retry_after, Some(Duration::from_secs(3)));
                    "passing"
                }
                Failure::Row(_) => "row",
                Failure::Model(_) => "model",
            };
            let expected = match status {
                408 | 409 | 425 | 429 | 500.. => "passing",
                300..=399 | 401..=405 | 410 => "model",
                _ => "row",
            };
            assert_eq!(class, expected, "{status}");
        }
    }

    #[test]
    fn messages_say_what_to_do() {
        let text =
            |status, api_key_env, code| classify(status, api_key_env, code).finally(1).to_string();
        assert!(text(401, Some("MY_KEY"), None).contains("`MY_KEY`"));
        assert!(text(401, None, None).contains("`api_key_env`"));
        assert!(text(404, None, None).contains("`url`"));
        assert!(text(307, None, None).contains("http://other/"));
        assert!(text(429, None, Some("insufficient_quota")).contains("quota"));
        assert!(text(429, None, None).contains("`requests_per_minute`"));
        assert!(text(422, None, None).contains("words"));
    }

    #[test]
    fn the_message_is_found_wherever_servers_put_it() {
        for (body, said) in [
            (r#"{"error": {"message": "too\nlong", "code": 7}}"#, "too long"),
            (r#"{"error": "nope"}"#, "nope"),
            (r#"{"detail": "Unexpected fields"}"#, "Unexpected fields"),
            (r#"{"message": "hm"}"#, "hm"),
            (r#"{"error": null, "message": "hm"}"#, "hm"),
            (r#"{"detail": [{"loc": 1}]}"#, r#"[{"loc":1}]"#),
            ("<h1>Bad Gateway</h1>", "<h1>Bad Gateway</h1>"),
            ("", "no explanation"),
        ] {
            assert_eq!(error_message(body.as_bytes(), None), said);
        }
    }

    #[test]
    fn long_words_are_cut_and_the_key_is_hidden() {
        let key = Key::parse("sk-1").unwrap();
        let said = quote(&format!("key sk-1 {}", "é".repeat(400)), Some(&key));
        assert!(said.starts_with("key *** é") && said.ends_with('…'));
        assert_eq!(said.chars().count(), QUOTED_MAX + 1);
    }

    #[test]
    fn codes() {
        assert_eq!(
            error_code(br#"{"error": {"code": "insufficient_quota"}}"#).unwrap(),
            "insufficient_quota"
        );
        assert_eq!(error_code(br#"{"error": {"code": null, "type": "t"}}"#).unwrap(), "t");
        assert_eq!(error_code(b"no json"), None);
    }
}
