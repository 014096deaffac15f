//! Generations by either interface: what is refused, what is sent, and what the response means.
//! No I/O.

use proofmill_engine::request::{
    Answer, Body, Finish, Generate, Generation, Message as Turn, Prompt, RequestError,
    ResponseFormat, Strategy,
};
use serde_json::Value;

use crate::call::{Call, TRUNCATE, failed, invalid};
use crate::settings::Settings;
use crate::wire::{
    ChatChoice, ChatRequest, ChatResponse, CompletionsChoice, CompletionsRequest,
    CompletionsResponse, Message, Sampling, WireUsage,
};
use proofmill_settings::endpoint::Capabilities;

/// Roles of the turn that instructs the model.
const SYSTEM: [&str; 2] = ["system", "developer"];

/// Log-probabilities are at most 0, but for rounding.
const LOGPROB_MAX: f64 = 1e-3;

/// A generation that can be requested from an endpoint.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    /// Empty beside messages.
    pub prompt: &'a str,
    /// The turns of a chat, instead of a prompt.
    pub messages: &'a [Turn],
    /// What the answer is made to begin with.
    pub prefix: &'a str,
    /// The fields that choose tokens.
    pub sampling: Sampling,
    pub samples: u32,
    /// Most new tokens per answer.
    pub max_tokens: u32,
    pub stop: &'a [String],
    pub response_format: Option<&'a ResponseFormat>,
}

/// One answer as either interface gives it.
#[derive(Clone, Debug, Default)]
pub struct RawChoice {
    /// Its place among the answers.
    pub index: u32,
    pub text: String,
    pub finish_reason: Option<String>,
    /// What ended it: a text is a stop text, null the end; None where the endpoint does not tell.
    pub stop_reason: Option<Value>,
    /// Natural log-probabilities of its tokens; empty where the endpoint gave none.
    pub logprobs: Vec<Option<f64>>,
}

impl<'a> Task<'a> {
    /// Refuses what no endpoint does, or not this one.
    pub fn parse(
        generate: &'a Generate,
        capabilities: &Capabilities,
    ) -> Result<Self, RequestError> {
        let (prompt, messages) = match &generate.prompt {
            Prompt::Text(prompt) => (prompt.as_str(), &[][..]),
            Prompt::Messages(messages) if messages.is_empty() => {
                return invalid("there are no messages; give at least one");
            }
            Prompt::Messages(messages) => ("", &messages[..]),
            Prompt::Passages(_) => {
                return invalid(
                    "an endpoint cannot read several passages; give the prompt as one text",
                );
            }
        };
        if generate.truncate.is_some() {
            return invalid(TRUNCATE);
        }
        if !generate.choices.is_empty() {
            return invalid(
                "an endpoint cannot be held to `choices`; score the texts as continuations, or use \
                 a model on this machine",
            );
        }
        if generate.logprobs {
            return invalid(
                "an endpoint's tokens are not told one by one; leave out `logprobs` (their sum is told where \
                 `capabilities` has them), or use a model on this machine",
            );
        }
        if let Some(ResponseFormat::Regex(_)) = generate.response_format {
            return invalid(
                "an endpoint knows no form by `regex`; give a `json_schema`, or use a model on this machine",
            );
        }
        if generate.min_tokens > 0 {
            return invalid("an endpoint does not know `min_tokens`; leave it out");
        }
        if generate.max_tokens == 0 {
            return invalid("`max_tokens` is 0; give at least 1");
        }
        if generate.stop.iter().any(String::is_empty) {
            return invalid("a text in `stop` is empty; leave it out");
        }
        let (sampling, samples) = sampling(&generate.strategy, capabilities)?;
        Ok(Self {
            prompt,
            messages,
            prefix: &generate.prefix,
            sampling,
            samples,
            max_tokens: generate.max_tokens,
            stop: &generate.stop,
            response_format: generate.response_format.as_ref(),
        })
    }

    /// Most tokens of all answers together.
    pub fn new_tokens_max(&self) -> u32 {
        self.max_tokens.saturating_mul(self.samples)
    }

    /// The answer made of what the endpoint returned.
    pub fn answer(
        &self,
        mut choices: Vec<RawChoice>,
        usage: Option<WireUsage>,
    ) -> Result<Answer, RequestError> {
        let count = choices.len();
        if count == 0 {
            return failed("the endpoint gave no answer (`choices` is empty)");
        }
        if count != self.samples as usize {
            return failed(format!(
                "the endpoint gave {count} answers instead of {}; it seems not to know `n`, so \
                 ask for one sample per request",
                self.samples
            ));
        }
        choices.sort_by_key(|one| one.index);
        let generations = choices.into_iter().map(|one| self.generation(one, usage));
        Ok(Answer {
            prompt_tokens: usage.unwrap_or_default().prompt_tokens,
            prompt_truncated: false,
            body: Body::Generations(generations.collect::<Result<_, _>>()?),
        })
    }

    fn generation(
        &self,
        choice: RawChoice,
        usage: Option<WireUsage>,
    ) -> Result<Generation, RequestError> {
        let cut = first_stop(&choice.text, self.stop);
        let reported = self.finish(choice.finish_reason.as_deref(), choice.stop_reason.as_ref())?;
        // Some servers leave the stop text in the answer.
        let (new, finish) = match cut {
            Some(end) => (&choice.text[..end], Finish::Stop),
            None => (choice.text.as_str(), reported),
        };
        let total = usage.unwrap_or_default().completion_tokens;
        if new.is_empty() && cut.is_none() && total == 0 && choice.logprobs.is_empty() {
            return failed("the endpoint generated nothing: an empty text of no tokens");
        }
        if let Some(logprob) = choice.logprobs.iter().flatten().find(|it| **it > LOGPROB_MAX) {
            return failed(format!(
                "the endpoint gave a log-probability of {logprob}: it is above 0"
            ));
        }
        let output_tokens = match self.samples {
            1 => total,
            // `usage` has only the sum over all answers.
            _ => u32::try_from(choice.logprobs.len()).unwrap_or(u32::MAX),
        };
        Ok(Generation {
            text: format!("{}{new}", self.prefix),
            finish,
            logprob: sum(&choice.logprobs),
            score: None,
            output_tokens,
            logprobs: None,
        })
    }

    fn finish(
        &self,
        reason: Option<&str>,
        stop_reason: Option<&Value>,
    ) -> Result<Finish, RequestError> {
        match reason {
            Some("length") => Ok(Finish::Length),
            // Two words of text-generation-inference.
            Some("eos_token") => Ok(Finish::End),
            Some("stop_sequence") => Ok(Finish::Stop),
            Some("stop") if self.stop.is_empty() => Ok(Finish::End),
            Some("stop") => Ok(match stop_reason {
                Some(Value::String(_)) | None => Finish::Stop,
                Some(_) => Finish::End,
            }),
            Some("content_filter") => {
                failed("the endpoint's content filter withheld the answer (`content_filter`)")
            }
            Some(other) => failed(format!(
                "the answer ended for a reason that makes no text: `{}`",
                other.chars().take(40).collect::<String>()
            )),
            None => failed("the endpoint does not say why the answer ended (`finish_reason`)"),
        }
    }
}

fn sampling(
    strategy: &Strategy,
    capabilities: &Capabilities,
) -> Result<(Sampling, u32), RequestError> {
    let greedy = Sampling { temperature: 0.0, top_p: None, top_k: None, seed: None, n: None };
    match *strategy {
        Strategy::Greedy => Ok((greedy, 1)),
        Strategy::Beam { .. } => {
            invalid("an endpoint has no beam search; use `greedy` or `sample`")
        }
        Strategy::Sample { temperature, top_k, top_p, seed, samples } => {
            if !(temperature.is_finite() && temperature > 0.0) {
                return invalid(format!("`temperature` is {temperature}; give a number above 0"));
            }
            if !(top_p > 0.0 && top_p <= 1.0) {
                return invalid(format!("`top_p` is {top_p}; give a number above 0, at most 1"));
            }
            if top_k > 0 && !capabilities.top_k {
                return invalid("this endpoint does not offer `top_k`; leave it out");
            }
            if samples == 0 {
                return invalid("`samples` is 0; give at least 1");
            }
            if samples > 1 && !capabilities.samples {
                return invalid(
                    "this endpoint gives one answer per request; ask several times with \
                     different seeds",
                );
            }
            if i64::try_from(seed).is_err() {
                return invalid(format!("`seed` is {seed}; give at most {}", i64::MAX));
            }
            let sampling = Sampling {
                temperature,
                top_p: Some(top_p),
                // Also 0, which is all: without it some servers take a default of the model's.
                top_k: capabilities.top_k.then_some(top_k),
                seed: Some(seed),
                n: (samples > 1).then_some(samples),
            };
            Ok((sampling, samples))
        }
    }
}

/// Where the first of the stop texts begins.
fn first_stop(text: &str, stop: &[String]) -> Option<usize> {
    stop.iter().filter_map(|stop| text.find(stop.as_str())).min()
}

/// None if there are no tokens or one of them has no probability.
fn sum(logprobs: &[Option<f64>]) -> Option<f64> {
    if logprobs.is_empty() { None } else { logprobs.iter().copied().sum() }
}

/// The call of `POST /completions`: the forced prefix is the end of the prompt.
pub fn completions_call(task: &Task<'_>, settings: &Settings) -> Result<Call, RequestError> {
    if task.response_format.is_some() {
        return invalid("only a chat endpoint takes `response_format`; set `api` to chat");
    }
    if !task.messages.is_empty() {
        return invalid("only a chat endpoint reads messages; set `api` to chat");
    }
    let prompt = format!("{}{}", task.prompt, task.prefix);
    let body = CompletionsRequest {
        model: &settings.model,
        prompt: &prompt,
        max_tokens: task.max_tokens,
        sampling: &task.sampling,
        stop: task.stop,
        logprobs: settings.capabilities.logprobs.then_some(1),
        echo: None,
    };
    Call::new("completions", &body, prompt.len(), task.new_tokens_max())
}

/// The answer to [`completions_call`].
pub fn completions_answer(
    task: &Task<'_>,
    response: CompletionsResponse,
) -> Result<Answer, RequestError> {
    let choice = |choice: CompletionsChoice| {
        let reported = choice.logprobs.unwrap_or_default();
        let (tokens, logprobs) = (reported.tokens.len(), reported.token_logprobs.len());
        if tokens > 0 && tokens != logprobs {
            return failed(format!(
                "the endpoint gave {tokens} tokens and log-probabilities of {logprobs}"
            ));
        }
        Ok(RawChoice {
            index: choice.index,
            text: choice.text,
            finish_reason: choice.finish_reason,
            stop_reason: choice.stop_reason,
            logprobs: reported.token_logprobs,
        })
    };
    let choices = response.choices.into_iter().map(choice).collect::<Result<_, _>>()?;
    task.answer(choices, response.usage)
}

/// The call of `POST /chat/completions`: the messages as they are, or the prompt as the user's turn; after
/// the model's own `system`, unless the messages begin with one.
pub fn chat_call(
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
    let begins = task.messages.first().is_some_and(|it| SYSTEM.contains(&it.role.as_str()));
    let system = system.filter(|_| !begins).map(|content| Message { role: "system", content });
    let user = task.messages.is_empty().then_some(Message { role: "user", content: task.prompt });
    let turns = task.messages.iter().map(|it| Message { role: &it.role, content: &it.content });
    let messages: Vec<_> = system.into_iter().chain(user).chain(turns).collect();
    let bytes = messages.iter().map(|message| message.content.len()).sum();
    let body = ChatRequest {
        model: &settings.model,
        messages,
        max_tokens: task.max_tokens,
        sampling: &task.sampling,
        stop: task.stop,
        logprobs: settings.capabilities.logprobs.then_some(true),
        top_logprobs: settings.capabilities.logprobs.then_some(1),
        response_format: task.response_format,
    };
    Call::new("chat/completions", &body, bytes, task.new_tokens_max())
}

/// The answer to [`chat_call`].
pub fn chat_answer(task: &Task<'_>, response: ChatResponse) -> Result<Answer, RequestError> {
    let choices = response.choices.into_iter().map(chat_choice).collect::<Result<_, _>>()?;
    task.answer(choices, response.usage)
}

fn chat_choice(choice: ChatChoice) -> Result<RawChoice, RequestError> {
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
    Ok(RawChoice {
        index: choice.index,
        text,
        finish_reason: choice.finish_reason,
        stop_reason: choice.stop_reason,
        logprobs: tokens.iter().map(|token| token.logprob).collect(),
    })
}
