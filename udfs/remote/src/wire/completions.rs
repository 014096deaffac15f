//! `POST /completions`.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::sampling::Sampling;
use super::usage::{Counted, WireUsage};

/// The body that is sent.
#[derive(Clone, Debug, Serialize)]
pub struct CompletionsRequest<'a> {
    pub model: &'a str,
    pub prompt: &'a str,
    pub max_tokens: u32,
    #[serde(flatten)]
    pub sampling: &'a Sampling,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo: Option<bool>,
}

/// The body that comes back.
#[derive(Clone, Debug, Deserialize)]
pub struct CompletionsResponse {
    pub choices: Vec<CompletionsChoice>,
    pub usage: Option<WireUsage>,
}

/// One answer.
#[derive(Clone, Debug, Deserialize)]
pub struct CompletionsChoice {
    #[serde(default)]
    pub index: u32,
    pub text: String,
    pub finish_reason: Option<String>,
    /// What ended the answer, where the endpoint says so: a text is a stop text, null the end.
    #[serde(default, deserialize_with = "present")]
    pub stop_reason: Option<Value>,
    pub logprobs: Option<TokenLogprobs>,
}

/// Log-probabilities, one per token. The lists have the same length where they are not missing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct TokenLogprobs {
    #[serde(default)]
    pub tokens: Vec<String>,
    #[serde(default)]
    pub token_logprobs: Vec<Option<f64>>,
    /// The likeliest tokens at each place, the chosen one possibly among them.
    pub top_logprobs: Option<Vec<Option<HashMap<String, f64>>>>,
    /// Characters of the text before each token.
    pub text_offset: Option<Vec<u64>>,
}

impl Counted for CompletionsResponse {
    fn usage(&self) -> Option<WireUsage> {
        self.usage
    }
}

/// Tells a field that is null from one that is missing.
pub fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}
