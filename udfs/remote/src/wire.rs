//! The JSON of the protocol: as much of it as is sent, and as much as is read. Unknown fields are
//! ignored.

use std::collections::HashMap;

use proofmill_engine::request::ResponseFormat;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// How tokens are chosen. Fields that are None are not sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// Only with a temperature above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Only where offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Only with a temperature above 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Only if there is more than one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u32>,
}

/// `usage`. What is missing counts as 0: embeddings have no `completion_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct WireUsage {
    #[serde(default)]
    pub prompt_tokens: u32,
    /// Tokens of all answers together.
    #[serde(default)]
    pub completion_tokens: u32,
    /// Those tokens of the prompt that the endpoint had in its cache.
    #[serde(default, rename = "prompt_tokens_details", deserialize_with = "cached")]
    pub cached_tokens: u32,
}

/// `cached_tokens` of the details of a prompt. An answer is no worse without them: whatever else stands
/// there counts as none.
fn cached<'de, D: Deserializer<'de>>(details: D) -> Result<u32, D::Error> {
    let details = Value::deserialize(details)?;
    let tokens = details.get("cached_tokens").and_then(Value::as_u64).unwrap_or(0);
    Ok(u32::try_from(tokens).unwrap_or(u32::MAX))
}

/// What an endpoint says that answered: the model behind a name may become another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Reported {
    #[serde(default, deserialize_with = "text")]
    pub model: Option<String>,
    #[serde(default, deserialize_with = "text")]
    pub system_fingerprint: Option<String>,
}

/// A text, cut; nothing for whatever else stands there: an answer is no worse without it.
fn text<'de, D: Deserializer<'de>>(field: D) -> Result<Option<String>, D::Error> {
    let field = Value::deserialize(field)?;
    let cut = |text: &str| text.chars().take(REPORTED_CHARS_MAX).collect();
    Ok(field.as_str().filter(|text| !text.is_empty()).map(cut))
}

/// Characters of a name that an endpoint reports.
const REPORTED_CHARS_MAX: usize = 200;

/// A response that may tell its token counts, and who answered.
pub trait Counted {
    /// The counts, if the response has them.
    fn usage(&self) -> Option<WireUsage>;

    /// Who answered, as far as the response says.
    fn reported(&self) -> &Reported;
}

/// Body of `POST /completions`.
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

/// Response of `POST /completions`.
#[derive(Clone, Debug, Deserialize)]
pub struct CompletionsResponse {
    pub choices: Vec<CompletionsChoice>,
    pub usage: Option<WireUsage>,
    #[serde(flatten)]
    pub reported: Reported,
}

/// One choice of [`CompletionsResponse`].
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

    fn reported(&self) -> &Reported {
        &self.reported
    }
}

/// Tells a field that is null from one that is missing.
pub fn present<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(field).map(Some)
}

/// Body of `POST /chat/completions`.
#[derive(Clone, Debug, Serialize)]
pub struct ChatRequest<'a> {
    pub model: &'a str,
    pub messages: Vec<Message<'a>>,
    pub max_tokens: u32,
    #[serde(flatten)]
    pub sampling: &'a Sampling,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    /// Some servers tell nothing without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_format: Option<&'a ResponseFormat>,
}

/// One turn.
#[derive(Clone, Debug, Serialize)]
pub struct Message<'a> {
    pub role: &'a str,
    pub content: &'a str,
}

/// Response of `POST /chat/completions`.
#[derive(Clone, Debug, Deserialize)]
pub struct ChatResponse {
    pub choices: Vec<ChatChoice>,
    pub usage: Option<WireUsage>,
    #[serde(flatten)]
    pub reported: Reported,
}

/// One choice of [`ChatResponse`].
#[derive(Clone, Debug, Deserialize)]
pub struct ChatChoice {
    #[serde(default)]
    pub index: u32,
    pub message: Said,
    pub finish_reason: Option<String>,
    #[serde(default, deserialize_with = "present")]
    pub stop_reason: Option<Value>,
    pub logprobs: Option<ChatLogprobs>,
}

/// What the model said.
#[derive(Clone, Debug, Deserialize)]
pub struct Said {
    pub content: Option<String>,
    /// Why it says nothing, as OpenAI tells it.
    pub refusal: Option<String>,
    /// Thoughts that are no part of the answer, under either name that servers use.
    pub reasoning_content: Option<String>,
    pub reasoning: Option<String>,
}

/// Log-probabilities of the answer.
#[derive(Clone, Debug, Deserialize)]
pub struct ChatLogprobs {
    pub content: Option<Vec<ChatToken>>,
}

/// One token of the answer.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct ChatToken {
    pub logprob: Option<f64>,
}

impl Counted for ChatResponse {
    fn usage(&self) -> Option<WireUsage> {
        self.usage
    }

    fn reported(&self) -> &Reported {
        &self.reported
    }
}

/// Body of `POST /embeddings`.
#[derive(Clone, Debug, Serialize)]
pub struct EmbeddingsRequest<'a> {
    pub model: &'a str,
    pub input: &'a str,
}

/// Response of `POST /embeddings`.
#[derive(Clone, Debug, Deserialize)]
pub struct EmbeddingsResponse {
    pub data: Vec<Embedding>,
    pub usage: Option<WireUsage>,
    #[serde(flatten)]
    pub reported: Reported,
}

/// One vector.
#[derive(Clone, Debug, Deserialize)]
pub struct Embedding {
    pub embedding: Vec<f32>,
}

impl Counted for EmbeddingsResponse {
    fn usage(&self) -> Option<WireUsage> {
        self.usage
    }

    fn reported(&self) -> &Reported {
        &self.reported
    }
}
