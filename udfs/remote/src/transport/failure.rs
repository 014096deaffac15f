//! What came of an attempt that gave no answer, and whose business it is.

use std::time::Duration;

use proofmill_engine::request::RequestError;

use crate::error::{ModelError, RemoteError};

/// An attempt without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another attempt may help.
    Passing {
        what: Passing,
        /// How long the endpoint asks to wait (`Retry-After`).
        asked: Option<Duration>,
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
    pub key_env: Option<&'a str>,
    /// The status, not 2xx.
    pub status: u16,
    pub said: &'a str,
    /// The server's code for the error.
    pub code: Option<&'a str>,
    /// `Location`.
    pub location: Option<&'a str>,
    /// `Retry-After`.
    pub asked: Option<Duration>,
}

impl Refusal<'_> {
    /// Who must act.
    pub fn classify(self) -> Failure {
        let Self { url, model, key_env, status, said, code, location, asked } = self;
        let (url, said) = (url.to_owned(), said.to_owned());
        Failure::Model(match (status, key_env) {
            (402, _) => ModelError::Quota { url, status, said },
            (429, _) if code == Some("insufficient_quota") => {
                ModelError::Quota { url, status, said }
            }
            (408 | 409 | 425 | 429 | 500..=599, _) => {
                return Failure::Passing { what: Passing::Status { status, said }, asked };
            }
            (300..=399, _) => {
                let location = location.unwrap_or("an unnamed place").to_owned();
                ModelError::Redirected { url, status, location }
            }
            (401 | 403, Some(name)) => ModelError::Key { url, name: name.to_owned(), status, said },
            (401 | 403, None) => ModelError::NoKey { url, status, said },
            (404 | 405 | 410, _) => {
                ModelError::NotFound { url, model: model.to_owned(), status, said }
            }
            _ => {
                return Failure::Row(RequestError::Invalid(format!(
                    "{url} refuses the request ({status}): {said}; change the prompt or the \
                     options it names"
                )));
            }
        })
    }
}

impl Failure {
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
                 `timeout`",
                allowed.as_secs_f64()
            ),
            Passing::Broken { reason } => format!("the answer broke off: {reason}"),
            Passing::Status { status: 429, said } => format!(
                "the endpoint limits the rate (429): {said}; lower `concurrency`, or set \
                 `requests_per_minute` or `tokens_per_minute`"
            ),
            Passing::Status { status, said } => format!("the endpoint failed ({status}): {said}"),
        };
        RemoteError::Row { error: RequestError::Failed(reason), attempts, transient: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(status: u16, key_env: Option<&str>, code: Option<&str>) -> Failure {
        let refusal = Refusal {
            url: "http://h/v1/completions",
            model: "m",
            key_env,
            status,
            said: "words",
            code,
            location: Some("http://other/"),
            asked: Some(Duration::from_secs(3)),
        };
        refusal.classify()
    }

    #[test]
    fn every_status_has_a_class() {
        for status in 300..600 {
            let class = match classify(status, None, None) {
                Failure::Passing { asked, .. } => {
                    assert_eq!(asked, Some(Duration::from_secs(3)));
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
        let text = |status, key_env, code| classify(status, key_env, code).finally(1).to_string();
        assert!(text(401, Some("MY_KEY"), None).contains("`MY_KEY`"));
        assert!(text(401, None, None).contains("`key_env`"));
        assert!(text(404, None, None).contains("`url`"));
        assert!(text(307, None, None).contains("http://other/"));
        assert!(text(429, None, Some("insufficient_quota")).contains("quota"));
        assert!(text(429, None, None).contains("`requests_per_minute`"));
        assert!(text(422, None, None).contains("words"));
    }
}
