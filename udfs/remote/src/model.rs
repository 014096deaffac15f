//! A model behind an endpoint: asks, waits, tries again, counts.

use std::sync::Arc;
use std::time::Duration;

use proofmill_base::clock::Clock;
use proofmill_base::rng::Rng;
use proofmill_base::waits::{WaitFor, Waits};
use proofmill_engine::request::{Answer, Request, RequestError, Score};
use serde::de::DeserializeOwned;
use tracing::{Instrument, error_span, info};

use crate::budget::{AllowanceSlot, Meter};
use crate::call::{self, Call};
use crate::error::{OpenError, RemoteError};
use crate::failure::Failure;
use crate::generate::{self, Task};
use crate::limits::{Gate, Sending};
use crate::retry::next_wait;
use crate::score;
use crate::settings::Settings;
use crate::transport::Transport;
use crate::usage::{Money, Usage};
use crate::wire::{Counted, Reported};
use proofmill_settings::endpoint::Api;

/// Answers requests by asking an endpoint. Shared by reference; dropping the future of an answer
/// gives the request up.
#[derive(Debug)]
pub struct RemoteModel {
    settings: Settings,
    transport: Transport,
    gate: Gate,
    meter: Meter,
    allowance: AllowanceSlot,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
}

/// The time between two attempts at a request.
struct Pause {
    time: Duration,
    why: WaitFor,
}

impl RemoteModel {
    /// Checks the settings and reads the key; connects to nothing. `environment` gives the value
    /// of a variable; `rng` decides jitter, no answer depends on it.
    pub fn open(
        settings: Settings,
        environment: impl Fn(&str) -> Option<String>,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
    ) -> Result<Self, OpenError> {
        let bounds = [
            ("timeout", settings.timeout.is_zero()),
            ("connect_timeout", settings.connect_timeout.is_zero()),
            ("response_bytes_max", settings.response_bytes_max == 0),
        ];
        if let Some((setting, _)) = bounds.into_iter().find(|(_, zero)| *zero) {
            return Err(OpenError::Zero { setting });
        }
        Ok(Self {
            transport: Transport::open(&settings, environment)?,
            gate: Gate::new(&settings),
            meter: Meter::new(settings.budget, settings.prices),
            allowance: AllowanceSlot::default(),
            settings,
            clock,
            rng,
        })
    }

    /// The same, which sends no more than the allowance in `slot` lets pass.
    pub fn within(self, slot: AllowanceSlot) -> Self {
        Self { allowance: slot, ..self }
    }

    /// The answer to a request. What the endpoint cannot do is refused before anything is sent.
    pub async fn ask(&self, request: &Request) -> Result<Answer, RemoteError> {
        self.ask_watched(request, &Waits::default()).await
    }

    /// As [`Self::ask`]; `waits` shows what the request waits for.
    pub async fn ask_watched(
        &self,
        request: &Request,
        waits: &Waits,
    ) -> Result<Answer, RemoteError> {
        let settings = &self.settings;
        match request {
            Request::Generate(generate) => {
                let task =
                    Task::parse(generate, &settings.capabilities).map_err(RemoteError::unsent)?;
                match settings.api {
                    Api::Completions => {
                        let call = generate::completions_call(&task, settings);
                        let read = |body| generate::completions_answer(&task, body);
                        self.exchange(call, read, waits).await
                    }
                    Api::Chat => {
                        let system = settings.system.as_deref();
                        let call = generate::chat_call(&task, system, settings);
                        let read = |body| generate::chat_answer(&task, body);
                        self.exchange(call, read, waits).await
                    }
                }
            }
            Request::Score(score) => self.score(score, waits).await,
            Request::Embed(embed) => {
                let call = call::embed_call(embed, settings);
                self.exchange(call, call::embed_answer, waits).await
            }
            Request::Classify(_) => Err(RemoteError::unsent(RequestError::Invalid(
                "an endpoint tells no classes; use a model on this machine".to_owned(),
            ))),
            Request::Hidden(_) => Err(RemoteError::unsent(RequestError::Invalid(
                "an endpoint does not show hidden states; use a model on this machine".to_owned(),
            ))),
        }
    }

    /// What was requested so far.
    pub fn usage(&self) -> Usage {
        self.meter.read()
    }

    /// Who answered, as the endpoint says, with how many answers.
    pub fn reported(&self) -> Vec<(Reported, u64)> {
        self.meter.reported()
    }

    /// What that cost; `None` without prices.
    pub fn cost(&self) -> Option<Money> {
        self.meter.cost()
    }

    /// How the model was opened.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// One exchange per continuation, one after the other: rows run beside each other already.
    async fn score(&self, score: &Score, waits: &Waits) -> Result<Answer, RemoteError> {
        score::check(score, &self.settings).map_err(RemoteError::unsent)?;
        let mut scores = Vec::with_capacity(score.continuations.len());
        for continuation in &score.continuations {
            let call = score::score_call(&score.prompt, continuation, &self.settings);
            let read = |body| score::scored(&score.prompt, continuation, body);
            scores.push(self.exchange(call, read, waits).await?);
        }
        Ok(score::score_answer(scores))
    }

    /// Sends until there is an answer or no more is to be tried, then reads it.
    async fn exchange<B: DeserializeOwned + Counted, T>(
        &self,
        call: Result<Call, RequestError>,
        read: impl FnOnce(B) -> Result<T, RequestError>,
        waits: &Waits,
    ) -> Result<T, RemoteError> {
        let call = call.map_err(RemoteError::unsent)?;
        // Kept until the answer is read, so that the memory for answers is bounded as well.
        let _place = self.gate.place(waits).await;
        let mut started = None;
        let mut attempts = 0;
        let (bytes, ticket) = loop {
            let mut sending = self.gate.send(waits).await;
            let ticket = self.gate.admit(&*self.clock, call.tokens, waits).await;
            if self.allowance.get().is_some_and(|allowance| !allowance.take()) {
                let _wait = waits.begin(WaitFor::Budget, None);
                std::future::pending::<()>().await;
            }
            self.meter.attempt(attempts + 1)?;
            sending.starts();
            attempts += 1;
            let started = *started.get_or_insert_with(|| self.clock.monotonic());
            let span = error_span!("request", endpoint = self.settings.base_url, sent = attempts);
            let posted = self.transport.post(call.interface, call.body.clone(), &*self.clock);
            match posted.instrument(span.clone()).await {
                Ok(bytes) => break (bytes, ticket),
                Err(failure) => {
                    let wait = span.in_scope(|| self.wait(failure, attempts, started, &sending))?;
                    // A request that waits for its next attempt holds up no other.
                    drop(sending);
                    let until = self.clock.monotonic().saturating_add(wait.time);
                    let _wait = waits.begin(wait.why, Some(until));
                    self.clock.sleep(wait.time).await;
                }
            }
        };
        self.gate.answered();
        let body: B = serde_json::from_slice(&bytes)
            .map_err(|error| RemoteError::answered(self.misread(&error, &bytes), attempts))?;
        self.meter.answer(body.usage());
        self.meter.answered_by(body.reported());
        if let Some(usage) = body.usage() {
            let tokens = usage.prompt_tokens.saturating_add(usage.completion_tokens);
            self.gate.settle(&ticket, tokens);
        }
        read(body).map_err(|error| RemoteError::answered(error, attempts))
    }

    /// How long to wait for another attempt, or that there is none.
    fn wait(
        &self,
        failure: Failure,
        attempts: u32,
        started: Duration,
        sending: &Sending<'_>,
    ) -> Result<Pause, RemoteError> {
        let now = self.clock.monotonic();
        let (elapsed, random) = (now.saturating_sub(started), self.rng.next_u64());
        let retry = &self.settings.retry;
        let (retry_after, time) = match &failure {
            Failure::Passing { retry_after, .. } => {
                (*retry_after, next_wait(retry, attempts, elapsed, *retry_after, random))
            }
            Failure::Row(_) | Failure::Model(_) => (None, None),
        };
        if failure.is_refusal() {
            // A wait that is too long for this request is none for the others.
            let wait = time.map(|time| retry_after.unwrap_or(time)).unwrap_or_default();
            self.gate.refused(sending, now.saturating_add(wait));
        }
        let error = failure.finally(attempts);
        let Some(time) = time else {
            info!(reason = %error, "request failed");
            return Err(error);
        };
        info!(reason = %error, wait_ms = time.as_millis() as u64, "request is sent again");
        let why = match retry_after {
            Some(_) => WaitFor::RetryAfter,
            None => WaitFor::Backoff,
        };
        Ok(Pause { time, why })
    }

    fn misread(&self, error: &serde_json::Error, bytes: &[u8]) -> RequestError {
        let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
        RequestError::Failed(format!(
            "the endpoint's answer is not what the protocol says: {}; it begins `{}`",
            self.transport.quote(&error.to_string()),
            self.transport.quote(&begin)
        ))
    }
}
