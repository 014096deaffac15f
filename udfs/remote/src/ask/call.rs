//! One HTTP request to be made.

use proofmill_engine::request::RequestError;
use serde::Serialize;

/// What is sent where, and about how many tokens it will take.
#[derive(Clone, Debug)]
pub struct Call {
    /// The part of the address after the base.
    pub interface: &'static str,
    pub body: Vec<u8>,
    /// A guess of all its tokens, for the limit per minute until the endpoint tells the count.
    pub tokens: u32,
}

impl Call {
    /// A call with a text of so many bytes, and at most so many new tokens.
    pub fn new(
        interface: &'static str,
        body: &impl Serialize,
        text_bytes: usize,
        new_tokens: u32,
    ) -> Result<Self, RequestError> {
        let body = serde_json::to_vec(body).map_err(|error| {
            RequestError::Invalid(format!("the request cannot be written as JSON: {error}"))
        })?;
        // Four bytes a token is the usual rule for English.
        let text = u32::try_from(text_bytes.div_ceil(4)).unwrap_or(u32::MAX);
        Ok(Self { interface, body, tokens: text.saturating_add(new_tokens) })
    }
}

/// A request that the endpoint cannot be asked.
pub fn invalid<T>(reason: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError::Invalid(reason.into()))
}

/// A response that is no answer.
pub fn failed<T>(reason: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError::Failed(reason.into()))
}
