//! Scores by `POST /completions` that echoes the prompt with its log-probabilities.

use proofmill_engine::request::{Answer, Body, RequestError, Score, Scored};

use super::call::{Call, failed, invalid};
use super::echo;
use super::generate::TRUNCATE;
use crate::settings::{Api, Settings};
use crate::wire::completions::{CompletionsRequest, CompletionsResponse};
use crate::wire::sampling::Sampling;

/// Refuses what no endpoint does, or not this one.
pub fn check(score: &Score, settings: &Settings) -> Result<(), RequestError> {
    if !settings.offers.scores {
        return invalid(
            "this endpoint does not offer scores; they need completions that know `echo` with \
             `logprobs`",
        );
    }
    if settings.api != Api::Completions {
        return invalid("a chat endpoint cannot score; set `api` to completions");
    }
    if score.truncate.is_some() {
        return invalid(TRUNCATE);
    }
    if score.with_end {
        return invalid("an endpoint cannot score the end of the text; leave `with_end` out");
    }
    if score.prompt.is_empty() {
        return invalid("an endpoint cannot score without a prompt; give one");
    }
    if score.continuations.is_empty() || score.continuations.iter().any(String::is_empty) {
        return invalid("a continuation is missing or empty; give texts");
    }
    Ok(())
}

/// What is sent for one continuation. One token is generated and dropped: to some servers 0 means
/// "no limit".
pub fn call(prompt: &str, continuation: &str, settings: &Settings) -> Result<Call, RequestError> {
    let text = format!("{prompt}{continuation}");
    let sampling = Sampling { temperature: 0.0, top_p: None, top_k: None, seed: None, n: None };
    let body = CompletionsRequest {
        model: &settings.model,
        prompt: &text,
        max_tokens: 1,
        sampling: &sampling,
        stop: &[],
        logprobs: Some(1),
        echo: Some(true),
    };
    Call::new("completions", &body, text.len(), 1)
}

/// The score of one continuation, and how many tokens come before it.
pub fn scored(
    prompt: &str,
    continuation: &str,
    response: CompletionsResponse,
) -> Result<(Scored, u32), RequestError> {
    let Some(choice) = response.choices.into_iter().next() else {
        return failed("the endpoint gave no answer (`choices` is empty)");
    };
    let told = match choice.logprobs {
        Some(told) if !told.tokens.is_empty() => told,
        _ => return failed(NO_PROMPT_LOGPROBS),
    };
    let length = told.tokens.len();
    let tops = told.top_logprobs.as_deref().unwrap_or_default();
    if told.token_logprobs.len() != length || tops.len() != length {
        return failed(NO_PROMPT_LOGPROBS);
    }
    // Without the echo, the tokens are those that were generated.
    if !choice.text.starts_with(prompt) {
        return failed(NO_PROMPT_LOGPROBS);
    }
    let Some(range) = echo::continuation(&told, prompt, continuation) else {
        return failed(
            "the continuation does not begin and end between two of the model's tokens; a space \
             between prompt and continuation belongs to the continuation",
        );
    };
    let mut scored = Scored { logprob: 0.0, tokens: 0, is_greedy: true };
    for place in range.clone() {
        let (Some(logprob), Some(top)) = (told.token_logprobs[place], &tops[place]) else {
            return failed("a token of the continuation has no log-probability");
        };
        scored.logprob += logprob;
        scored.tokens += 1;
        scored.is_greedy &= top.values().all(|other| *other <= logprob);
    }
    Ok((scored, u32::try_from(range.start).unwrap_or(u32::MAX)))
}

/// The answer of all continuations.
pub fn answer(scores: Vec<(Scored, u32)>) -> Answer {
    Answer {
        prompt_tokens: scores.first().map_or(0, |(_, before)| *before),
        prompt_truncated: false,
        body: Body::Scores(scores.into_iter().map(|(scored, _)| scored).collect()),
    }
}

const NO_PROMPT_LOGPROBS: &str = "the response has no log-probabilities of the prompt; the \
                                  endpoint does not know `echo` with `logprobs`, so set `scores` \
                                  to false and use another one";
