//! What can go wrong, by who must act: on opening, for one row, for the whole model.

use proofmill_engine::request::RequestError;

/// Settings with which no model can be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The base URL is not one.
    #[error("`url` {reason}; write it like `http://127.0.0.1:8000/v1`")]
    BaseUrl {
        /// What is wrong. Does not show the URL, which may hold credentials.
        reason: String,
    },
    /// The environment lacks the key.
    #[error("the environment variable `{name}` is not set; put the endpoint's key there")]
    KeyMissing { name: String },
    /// The environment has something that is no key.
    #[error(
        "the environment variable `{name}` is empty or has characters that an HTTP header cannot \
         hold; put the endpoint's key there, and nothing else"
    )]
    KeyInvalid { name: String },
    /// A bound of zero, under which nothing could be answered.
    #[error("`{setting}` is zero; give at least 1")]
    Zero { setting: &'static str },
    /// The HTTP client cannot be made.
    #[error("the HTTP client cannot be set up: {reason}")]
    Client { reason: String },
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// This request; others may fare better.
    #[error("{error}{}", after(*attempts))]
    Row {
        error: RequestError,
        /// Times it was sent; 0 if it was refused here.
        attempts: u32,
        /// Whether the same request may well succeed another time.
        transient: bool,
    },
    /// Every request to this model: ask no more.
    #[error("{error}{}", after(*attempts))]
    Model {
        error: ModelError,
        /// Times the request was sent.
        attempts: u32,
    },
}

/// What keeps a whole model from answering.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// 401 or 403 to a key.
    #[error(
        "{url} rejects the API key in the environment variable `{name}` ({status}): {said}; put a \
         valid key there that may use this model"
    )]
    Key {
        url: String,
        name: String,
        /// 401 or 403.
        status: u16,
        said: String,
    },
    /// 401 or 403 without a key.
    #[error(
        "{url} requires an API key ({status}): {said}; name the environment variable that holds it in \
         `api_key_env`"
    )]
    NoKey {
        url: String,
        /// 401 or 403.
        status: u16,
        said: String,
    },
    /// 404, 405 or 410.
    #[error(
        "{url} has no such path or no model `{model}` ({status}): {said}; check `url` \
         (everything before `/completions`, usually up to `/v1`), the name of the model, and \
         whether the endpoint offers this API"
    )]
    NotFound { url: String, model: String, status: u16, said: String },
    /// 402, or 429 with the code `insufficient_quota`.
    #[error(
        "{url} requires payment or a higher quota ({status}): {said}; raise the account's quota"
    )]
    Quota { url: String, status: u16, said: String },
    /// Any 3xx. Redirects are not followed, so that a key goes nowhere but to `url`.
    #[error(
        "{url} redirects to `{location}` ({status}), and redirects are not followed; if you trust \
         that address, give it as `url`"
    )]
    Redirected { url: String, status: u16, location: String },
    /// What this run may spend is spent.
    #[error("{0}")]
    Budget(Exhausted),
    /// No connection, also after retries.
    #[error("{url} cannot be reached: {reason}; check `url` and that the server is running")]
    Unreachable { url: String, reason: String },
}

/// Why no more may be spent on a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// As much as allowed is spent.
    #[error("`budget.{limit}` of {most} is used up; spent: {spent}")]
    UsedUp {
        /// The key below `budget`.
        limit: &'static str,
        most: String,
        /// All that was spent, in words.
        spent: String,
    },
    /// The endpoint answers, and does not tell how many tokens that took.
    #[error(
        "the endpoint does not count tokens (no `usage` in its answer), so a budget of tokens or money \
         cannot be kept; limit `budget.requests` instead"
    )]
    Uncounted,
}

impl RemoteError {
    /// A request that is refused before anything is sent.
    pub(crate) fn unsent(error: RequestError) -> Self {
        Self::Row { error, attempts: 0, transient: false }
    }

    /// A request whose answer was no good.
    pub(crate) fn answered(error: RequestError, attempts: u32) -> Self {
        Self::Row { error, attempts, transient: false }
    }
}

impl From<Exhausted> for RemoteError {
    fn from(exhausted: Exhausted) -> Self {
        // How often this one request was sent is not what the budget is about.
        Self::Model { error: ModelError::Budget(exhausted), attempts: 0 }
    }
}

fn after(attempts: u32) -> String {
    if attempts > 1 { format!(" (after {attempts} attempts)") } else { String::new() }
}
