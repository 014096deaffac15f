//! Generations by `POST /chat/completions`.

use proofmill_engine::request::{Answer, RequestError};

use super::call::{Call, failed, invalid};
use super::generate::{Spoken, Task};
use crate::settings::Settings;
use crate::wire::chat::{ChatChoice, ChatRequest, ChatResponse, Message};

/// What is sent: the prompt as the user's turn, after the system's where there is one.
pub fn call(
    task: &Task<'_>,
    system: Option<&str>,
    settings: &Settings,
) -> Result<Call, RequestError> {
    if !task.prefix.is_empty() {
        return invalid(
            "a chat endpoint cannot be made to begin with a given text; leave `prefix` out, or \
             set `api` to completions",
        );
    }
    let system = system.map(|content| Message { role: "system", content });
    let user = Message { role: "user", content: task.prompt };
    let messages: Vec<_> = system.into_iter().chain([user]).collect();
    let bytes = messages.iter().map(|message| message.content.len()).sum();
    let body = ChatRequest {
        model: &settings.model,
        messages,
        max_tokens: task.max_tokens,
        sampling: &task.sampling,
        stop: task.stop,
        logprobs: settings.offers.logprobs.then_some(true),
        top_logprobs: settings.offers.logprobs.then_some(1),
    };
    Call::new("chat/completions", &body, bytes, task.new_tokens_max())
}

/// What the response means.
pub fn answer(task: &Task<'_>, response: ChatResponse) -> Result<Answer, RequestError> {
    let spoken = response.choices.into_iter().map(spoken).collect::<Result<_, _>>()?;
    task.answer(spoken, response.usage)
}

fn spoken(choice: ChatChoice) -> Result<Spoken, RequestError> {
    let said = choice.message;
    let thoughts = [said.reasoning_content, said.reasoning];
    let thought = thoughts.iter().flatten().any(|text| !text.is_empty());
    let text = said.content.unwrap_or_default();
    if let Some(refusal) = said.refusal.filter(|_| text.is_empty()) {
        let refusal: String = refusal.chars().take(300).collect();
        return failed(format!("the model refuses to answer: {refusal}"));
    }
    if text.is_empty() && thought {
        return failed(
            "the answer ended inside the model's reasoning, before any text; raise `max_tokens`",
        );
    }
    let tokens = choice.logprobs.and_then(|logprobs| logprobs.content).unwrap_or_default();
    Ok(Spoken {
        index: choice.index,
        text,
        finish_reason: choice.finish_reason,
        stop_reason: choice.stop_reason,
        logprobs: tokens.iter().map(|token| token.logprob).collect(),
    })
}
