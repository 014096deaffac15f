//! Generations by `POST /completions`.

use proofmill_engine::request::{Answer, RequestError};

use super::call::Call;
use super::generate::{Spoken, Task};
use crate::settings::Settings;
use crate::wire::completions::{CompletionsChoice, CompletionsRequest, CompletionsResponse};

/// What is sent: the forced prefix is the end of the prompt.
pub fn call(task: &Task<'_>, settings: &Settings) -> Result<Call, RequestError> {
    let prompt = format!("{}{}", task.prompt, task.prefix);
    let body = CompletionsRequest {
        model: &settings.model,
        prompt: &prompt,
        max_tokens: task.max_tokens,
        sampling: &task.sampling,
        stop: task.stop,
        logprobs: settings.offers.logprobs.then_some(1),
        echo: None,
    };
    Call::new("completions", &body, prompt.len(), task.new_tokens_max())
}

/// What the response means.
pub fn answer(task: &Task<'_>, response: CompletionsResponse) -> Result<Answer, RequestError> {
    let spoken = response.choices.into_iter().map(|choice: CompletionsChoice| Spoken {
        index: choice.index,
        text: choice.text,
        finish_reason: choice.finish_reason,
        stop_reason: choice.stop_reason,
        logprobs: choice.logprobs.unwrap_or_default().token_logprobs,
    });
    task.answer(spoken.collect(), response.usage)
}
