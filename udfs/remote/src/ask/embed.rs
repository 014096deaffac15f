//! Vectors by `POST /embeddings`.

use proofmill_engine::request::{Answer, Body, Embed, RequestError};

use super::call::{Call, failed, invalid};
use super::generate::TRUNCATE;
use crate::settings::Settings;
use crate::wire::embeddings::{EmbeddingsRequest, EmbeddingsResponse};

/// What is sent.
pub fn call(embed: &Embed, settings: &Settings) -> Result<Call, RequestError> {
    if embed.truncate.is_some() {
        return invalid(TRUNCATE);
    }
    let body = EmbeddingsRequest { model: &settings.model, input: &embed.text };
    Call::new("embeddings", &body, embed.text.len(), 0)
}

/// What the response means. The vector is the endpoint's: nothing is normalised here.
pub fn answer(response: EmbeddingsResponse) -> Result<Answer, RequestError> {
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
