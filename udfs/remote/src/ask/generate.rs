//! Generations, whichever interface makes them: what is refused, and what an answer is.

use proofmill_engine::request::{
    Answer, Body, Finish, Generate, Generation, Prompt, RequestError, Strategy,
};
use serde_json::Value;

use super::call::{failed, invalid};
use crate::settings::Offers;
use crate::wire::sampling::Sampling;
use crate::wire::usage::WireUsage;

/// A generation that an endpoint can be asked for.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    pub prompt: &'a str,
    /// What the answer is made to begin with.
    pub prefix: &'a str,
    /// The fields that choose tokens.
    pub sampling: Sampling,
    pub samples: u32,
    /// Most new tokens per answer.
    pub max_tokens: u32,
    pub stop: &'a [String],
}

/// One answer as either interface gives it.
#[derive(Clone, Debug, Default)]
pub struct Spoken {
    /// Its place among the answers.
    pub index: u32,
    pub text: String,
    pub finish_reason: Option<String>,
    /// What ended it: a text is a stop text, null the end; None where the endpoint does not tell.
    pub stop_reason: Option<Value>,
    /// Natural log-probabilities of its tokens; empty where none were told.
    pub logprobs: Vec<Option<f64>>,
}

impl<'a> Task<'a> {
    /// Refuses what no endpoint does, or not this one.
    pub fn parse(generate: &'a Generate, offers: &Offers) -> Result<Self, RequestError> {
        let Prompt::Text(prompt) = &generate.prompt else {
            return invalid(
                "an endpoint cannot read several passages; give the prompt as one text",
            );
        };
        if generate.truncate.is_some() {
            return invalid(TRUNCATE);
        }
        if !generate.among.is_empty() {
            return invalid(
                "an endpoint cannot be held to `among`; score the texts as continuations, or use \
                 a model on this machine",
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
        let (sampling, samples) = sampling(&generate.strategy, offers)?;
        Ok(Self {
            prompt,
            prefix: &generate.prefix,
            sampling,
            samples,
            max_tokens: generate.max_tokens,
            stop: &generate.stop,
        })
    }

    /// Most tokens of all answers together.
    pub fn new_tokens_max(&self) -> u32 {
        self.max_tokens.saturating_mul(self.samples)
    }

    /// The answer made of what was spoken.
    pub fn answer(
        &self,
        mut spoken: Vec<Spoken>,
        usage: Option<WireUsage>,
    ) -> Result<Answer, RequestError> {
        let count = spoken.len();
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
        spoken.sort_by_key(|one| one.index);
        let generations = spoken.into_iter().map(|one| self.generation(one, usage));
        Ok(Answer {
            prompt_tokens: usage.unwrap_or_default().prompt_tokens,
            prompt_truncated: false,
            body: Body::Generations(generations.collect::<Result<_, _>>()?),
        })
    }

    fn generation(
        &self,
        spoken: Spoken,
        usage: Option<WireUsage>,
    ) -> Result<Generation, RequestError> {
        let cut = first_stop(&spoken.text, self.stop);
        let told = self.finish(spoken.finish_reason.as_deref(), spoken.stop_reason.as_ref())?;
        // Some servers leave the stop text in the answer.
        let (new, finish) = match cut {
            Some(end) => (&spoken.text[..end], Finish::Stop),
            None => (spoken.text.as_str(), told),
        };
        let total = usage.unwrap_or_default().completion_tokens;
        if new.is_empty() && cut.is_none() && total == 0 && spoken.logprobs.is_empty() {
            return failed("the endpoint generated nothing: an empty text of no tokens");
        }
        let output_tokens = match self.samples {
            1 => total,
            // `usage` has only the sum over all answers.
            _ => u32::try_from(spoken.logprobs.len()).unwrap_or(u32::MAX),
        };
        Ok(Generation {
            text: format!("{}{new}", self.prefix),
            finish,
            logprob: sum(&spoken.logprobs),
            score: None,
            output_tokens,
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

/// Why nothing is cut.
pub const TRUNCATE: &str = "an endpoint cannot cut by tokens; shorten the text, and leave \
                            `truncate` out";

fn sampling(strategy: &Strategy, offers: &Offers) -> Result<(Sampling, u32), RequestError> {
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
            if top_k > 0 && !offers.top_k {
                return invalid("this endpoint does not offer `top_k`; leave it out");
            }
            if samples == 0 {
                return invalid("`samples` is 0; give at least 1");
            }
            if samples > 1 && !offers.samples {
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
                top_k: offers.top_k.then_some(top_k),
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
