//! `POST /chat/completions`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::completions::present;
use super::sampling::Sampling;
use super::usage::{Counted, WireUsage};

/// The body that is sent.
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
}

/// One turn.
#[derive(Clone, Debug, Serialize)]
pub struct Message<'a> {
    pub role: &'static str,
    pub content: &'a str,
}

/// The body that comes back.
#[derive(Clone, Debug, Deserialize)]
pub struct ChatResponse {
    pub choices: Vec<ChatChoice>,
    pub usage: Option<WireUsage>,
}

/// One answer.
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
}
