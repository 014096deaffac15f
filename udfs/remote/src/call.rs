//! The HTTP request of one exchange, and the requests that need no more than one: embeddings.

use proofmill_engine::request::{Answer, Body, Embed, RequestError};
use serde::Serialize;

use crate::settings::Settings;
use crate::wire::{EmbeddingsRequest, EmbeddingsResponse};

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

/// A request that the endpoint cannot serve.
pub fn invalid<T>(reason: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError::Invalid(reason.into()))
}

/// A response that is no answer.
pub fn failed<T>(reason: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError::Failed(reason.into()))
}

/// Why nothing is cut.
pub const TRUNCATE: &str = "an endpoint cannot cut by tokens; shorten the text, and leave \
                            `truncate` out";

/// The call of `POST /embeddings`.
pub fn embed_call(embed: &Embed, settings: &Settings) -> Result<Call, RequestError> {
    if embed.truncate.is_some() {
        return invalid(TRUNCATE);
    }
    let body = EmbeddingsRequest { model: &settings.model, input: &embed.text };
    Call::new("embeddings", &body, embed.text.len(), 0)
}

/// The answer to [`embed_call`]. The vector is the endpoint's: nothing is normalised here.
pub fn embed_answer(response: EmbeddingsResponse) -> Result<Answer, RequestError> {
    let usage = response.usage.unwrap_or_default();
    let count = response.data.len();
    let Ok([one]) = <[_; 1]>::try_from(response.data) else {
        return failed(format!("the endpoint gave {count} vectors for one text"));
    };
    if one.embedding.is_empty() {
        return failed("the endpoint gave a vector without numbers");
    }
    if let Some(place) = one.embedding.iter().position(|number| !number.is_finite()) {
        return failed(format!("number {place} of the endpoint's vector does not fit an f32"));
    }
    Ok(Answer {
        prompt_tokens: usage.prompt_tokens,
        prompt_truncated: false,
        body: Body::Vector(one.embedding),
    })
}
