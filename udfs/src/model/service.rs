//! Answers the requests of one batch of rows: recorded ones from the ledger, the others from the
//! model, each distinct request once.

use std::any::Any;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use proofmill_base::waits::{WaitFor, Waits};
use proofmill_engine::request::{Answer, Request};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Sleep, sleep};
use tracing::{Instrument, debug};

use super::answers::{from_json, is_blank, output_tokens, to_json};
use super::canonical::{self, Key};
use super::counters::Counters;
use super::error::{Class, Failure, ModelError, Unanswered, label};
use super::in_flight::{Fresh, Running};
use super::language_model::OpenError;
use super::ledger::{LedgerError, New};
use super::models::{Models, Opened};
use super::settings::{OnError, Replay};

/// Requests in a row without an answer, after all retries, that show that there will be none; or twice as
/// many as the model takes at a time, if that is more: these fail together.
const UNANSWERED_MIN: u64 = 16;

/// What a row asks.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) request: Request,
    pub(super) on_error: OnError,
    pub(super) replay: Replay,
}

/// What a row got.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) key: Key,
    pub(super) request: Arc<Request>,
    pub(super) result: Result<Arc<Answer>, Failure>,
}

/// Answers all rows of a batch, in their order, and counts. Dropping the future gives up what no
/// other batch waits for.
pub(super) async fn answer(
    models: &Models,
    opened: &Arc<Opened>,
    function: &'static str,
    asks: Vec<Ask>,
    counters: &Arc<Counters>,
) -> Result<Vec<Reply>, ModelError> {
    let mut batch = Batch::new(models, opened, function, asks, counters);
    counters.rows(batch.rows.len());
    // Claimed before the look-up: a request that ends after it is waited for, one that ended before
    // it has recorded its answer.
    let claims: Vec<Arc<Running>> =
        batch.questions.iter().map(|question| opened.in_flight.claim(question.key)).collect();
    let (rows, requests) = (batch.rows.len(), batch.questions.len());
    debug!(model = opened.name, function, rows, requests, "batch started");
    batch.replay().await?;
    let replayed = batch.questions.iter().filter(|question| question.result.is_some()).count();
    batch.ask(claims).await?;
    debug!(model = opened.name, function, rows, requests, replayed, "batch finished");
    Ok(batch.replies())
}

/// A distinct request of the batch.
struct Question {
    key: Key,
    request: Arc<Request>,
    canonical: String,
    /// Whether the query fails if this does.
    fatal: bool,
    /// Whether it may be sent to the model.
    may_ask: bool,
    /// Rows that ask it.
    rows: usize,
    result: Option<Result<Arc<Answer>, Failure>>,
}

struct Batch<'a> {
    models: &'a Models,
    opened: &'a Arc<Opened>,
    function: &'static str,
    counters: &'a Arc<Counters>,
    questions: Vec<Question>,
    /// The question of each row.
    rows: Vec<usize>,
    /// Answers that came and are not recorded: their questions.
    chunk: Vec<(usize, String)>,
    chunk_bytes: usize,
    /// When the chunk must be recorded.
    due: Option<Pin<Box<Sleep>>>,
}

impl<'a> Batch<'a> {
    fn new(
        models: &'a Models,
        opened: &'a Arc<Opened>,
        function: &'static str,
        asks: Vec<Ask>,
        counters: &'a Arc<Counters>,
    ) -> Self {
        let mut questions: Vec<Question> = Vec::new();
        let mut known = HashMap::new();
        let mut rows = Vec::with_capacity(asks.len());
        for ask in asks {
            let canonical = canonical::canonical(&ask.request);
            let key = canonical::key(opened.model.identity(), &canonical);
            let at = *known.entry(key).or_insert_with(|| {
                questions.push(Question {
                    key,
                    request: Arc::new(ask.request),
                    canonical,
                    fatal: false,
                    may_ask: false,
                    rows: 0,
                    result: None,
                });
                questions.len() - 1
            });
            let question = &mut questions[at];
            question.fatal |= ask.on_error == OnError::Fail;
            question.may_ask |= ask.replay == Replay::First;
            question.rows += 1;
            rows.push(at);
        }
        let (chunk, chunk_bytes, due) = (Vec::new(), 0, None);
        Self { models, opened, function, counters, questions, rows, chunk, chunk_bytes, due }
    }

    /// Takes what the ledger has, and what is known to fail.
    async fn replay(&mut self) -> Result<(), ModelError> {
        let keys: Vec<Key> = self.questions.iter().map(|question| question.key).collect();
        let recorded = self.models.ledger.look_up(&keys).await;
        let recorded = recorded.map_err(|cause| self.ledger_error(cause))?;
        self.expect_all(recorded.len(), keys.len())?;
        for (at, json) in recorded.into_iter().enumerate() {
            let Some(json) = json else { continue };
            self.settle(at, &json)?;
            self.counters.replayed(self.questions[at].rows);
        }
        for at in 0..self.questions.len() {
            let Question { key, result: None, rows, .. } = &self.questions[at] else { continue };
            if let Some(failure) = self.counters.failed_before(key).cloned() {
                self.counters.failed_again(*rows);
                self.counters.failed(1);
                self.counters.rows_failed(*rows);
                self.fail(at, failure).await?;
            }
        }
        Ok(())
    }

    /// Asks the model for the rest, recording answers as they come.
    async fn ask(&mut self, claims: Vec<Arc<Running>>) -> Result<(), ModelError> {
        let mut running: JoinSet<(usize, Arc<Running>)> = JoinSet::new();
        let mut tasks: HashMap<Id, usize> = HashMap::new();
        let mut spent = None;
        for (at, claim) in claims.iter().enumerate() {
            let question = &self.questions[at];
            if question.result.is_some() {
                continue;
            }
            if !question.may_ask {
                let message = "there is no recorded answer, and `replay` is 'only'";
                self.counters.failed(1);
                self.counters.rows_failed(question.rows);
                self.fail(at, Failure::failed(message)).await?;
                continue;
            }
            let (opened, claim) = (Arc::clone(self.opened), Arc::clone(claim));
            let (request, key, rows) = (Arc::clone(&question.request), question.key, question.rows);
            let counters = Arc::clone(self.counters);
            let work = async move {
                let asker = Asker::of(&counters);
                let asking = claim.result.get_or_init(|| async {
                    let fresh = ask_model(&opened, &request, key, &counters, &asker).await;
                    note(&fresh, &opened, &counters);
                    fresh
                });
                while_wanted(asking, &asker, &counters).await;
                // At once, before others are sent.
                if let Some(Err(Unanswered::Row(_))) = claim.result.get() {
                    counters.rows_failed(rows);
                }
                (at, claim)
            };
            let task = running.spawn(work.in_current_span());
            tasks.insert(task.id(), at);
        }
        loop {
            let next = running.join_next_with_id();
            let ended = match &mut self.due {
                None => next.await,
                Some(due) => tokio::select! {
                    biased;
                    ended = next => ended,
                    () = due => {
                        self.record().await?;
                        continue;
                    }
                },
            };
            match ended {
                None => break,
                Some(Ok((_, (at, claim)))) => match claim.result.get() {
                    Some(Ok(fresh)) => self.came(at, fresh.clone()).await?,
                    Some(Err(Unanswered::Row(failure))) => self.fail(at, failure.clone()).await?,
                    Some(Err(Unanswered::Model(cause))) => {
                        // What came is recorded; to ask on would only fail again.
                        let cause = cause.clone();
                        self.record().await?;
                        return Err(self.model_error(cause));
                    }
                    // What is under way ends; whatever is sent from now on comes here too.
                    Some(Err(Unanswered::Spent(cause))) => spent = Some(cause.clone()),
                    None if self.counters.stopped().is_some() => self.leave(at),
                    None => self.fail(at, Failure::failed("the request got lost")).await?,
                },
                Some(Err(error)) => {
                    self.counters.failed(1);
                    if let Some(at) = tasks.get(&error.id()) {
                        self.counters.rows_failed(self.questions[*at].rows);
                        self.fail(*at, Failure::failed(broken(error))).await?;
                    }
                }
            }
        }
        self.record().await?;
        match spent {
            None => Ok(()),
            Some(cause) => {
                let (function, model) = (self.function, self.opened.name.clone());
                Err(ModelError::Spent { function, model, cause })
            }
        }
    }

    /// Keeps an answer until the chunk is recorded.
    async fn came(&mut self, at: usize, fresh: Fresh) -> Result<(), ModelError> {
        let Fresh { json, counts } = fresh;
        if !counts {
            self.examine().await?;
            return self.settle(at, &json);
        }
        let recording = self.models.recording;
        self.chunk_bytes += json.len() + self.questions[at].canonical.len();
        self.chunk.push((at, json));
        self.due.get_or_insert_with(|| Box::pin(sleep(recording.wait)));
        if self.chunk.len() >= recording.answers || self.chunk_bytes >= recording.bytes {
            self.record().await?;
        }
        Ok(())
    }

    /// Records the chunk and takes the answers that count.
    async fn record(&mut self) -> Result<(), ModelError> {
        self.due = None;
        self.chunk_bytes = 0;
        let (rows, new): (Vec<usize>, Vec<New>) = std::mem::take(&mut self.chunk)
            .into_iter()
            .map(|(at, answer)| {
                let question = &mut self.questions[at];
                let new = New {
                    key: question.key,
                    model: self.opened.model.identity().to_owned(),
                    kind: canonical::kind(&question.request),
                    request: std::mem::take(&mut question.canonical),
                    answer,
                };
                (at, new)
            })
            .unzip();
        if new.is_empty() {
            return Ok(());
        }
        self.examine().await?;
        let counted = self.models.ledger.record(new).await;
        let counted = counted.map_err(|cause| self.ledger_error(cause))?;
        self.expect_all(counted.len(), rows.len())?;
        rows.into_iter().zip(counted).try_for_each(|(at, json)| self.settle(at, &json))
    }

    /// Fails if what the model answered may be another model's: it is neither recorded nor given out.
    async fn examine(&self) -> Result<(), ModelError> {
        self.opened.model.examine().await.map_err(|cause| self.model_error(cause))
    }

    fn model_error(&self, cause: OpenError) -> ModelError {
        ModelError::Open { function: self.function, model: self.opened.name.clone(), cause }
    }

    /// The answer of a question is the one written here.
    fn settle(&mut self, at: usize, json: &str) -> Result<(), ModelError> {
        let question = &mut self.questions[at];
        match from_json(&question.request, json) {
            Ok(answer) => {
                question.result = Some(Ok(Arc::new(answer)));
                self.counters.settled(question.rows);
                Ok(())
            }
            Err(error) => {
                let digest = canonical::hex(&question.key);
                let message = format!(
                    "the recorded answer to request {digest} does not fit it ({error}); the ledger \
                     is damaged or of another version"
                );
                Err(self.ledger_error(LedgerError::new(message)))
            }
        }
    }

    /// A question is not sent: so much failed that nothing more is.
    fn leave(&mut self, at: usize) {
        self.questions[at].result = Some(Err(Failure::unasked()));
    }

    /// A question has no answer. If that ends the query, what came is recorded first.
    async fn fail(&mut self, at: usize, failure: Failure) -> Result<(), ModelError> {
        if self.questions[at].fatal {
            self.record().await?;
            return Err(ModelError::Row {
                function: self.function,
                model: self.opened.name.clone(),
                label: Some(label(&self.questions[at].request, &self.questions[at].key)),
                failure,
            });
        }
        self.questions[at].result = Some(Err(failure));
        self.counters.settled(self.questions[at].rows);
        Ok(())
    }

    fn replies(self) -> Vec<Reply> {
        let replies: Vec<Reply> = self
            .questions
            .into_iter()
            .map(|question| Reply {
                key: question.key,
                request: question.request,
                result: question
                    .result
                    .unwrap_or_else(|| Err(Failure::failed("the request got lost"))),
            })
            .collect();
        self.rows.into_iter().map(|at| replies[at].clone()).collect()
    }

    fn expect_all(&self, given: usize, wanted: usize) -> Result<(), ModelError> {
        if given == wanted {
            return Ok(());
        }
        let message = format!("it gave {given} answers for {wanted} keys");
        Err(self.ledger_error(LedgerError::new(message)))
    }

    fn ledger_error(&self, cause: LedgerError) -> ModelError {
        ModelError::Ledger { function: self.function, model: self.opened.name.clone(), cause }
    }
}

/// One request of a batch, while it is not answered.
struct Asker {
    waits: Waits,
    /// Whether it is this request's turn at the model.
    has_turn: AtomicBool,
}

impl Asker {
    fn of(counters: &Counters) -> Self {
        Self { waits: Waits::within(counters.waits()), has_turn: AtomicBool::new(false) }
    }

    /// Whether it waits to be sent, so that giving it up costs nothing. What a model has that loads is sent.
    fn is_unsent(&self) -> bool {
        !self.has_turn.load(Ordering::Relaxed)
            || self.waits.any(|what| match what {
                WaitFor::Turn
                | WaitFor::RateLimit
                | WaitFor::RetryAfter
                | WaitFor::Backoff
                | WaitFor::Budget => true,
                WaitFor::Loading => false,
            })
    }
}

/// `work`, which is given up where it only waits to be sent when the query asks no more.
async fn while_wanted<T>(
    work: impl Future<Output = T>,
    asker: &Asker,
    counters: &Counters,
) -> Option<T> {
    let (mut work, mut stop) = (pin!(work), pin!(counters.until_stopped()));
    let mut is_stopped = false;
    let wanted = poll_fn(|context| {
        is_stopped = is_stopped || stop.as_mut().poll(context).is_ready();
        // Before it goes on, and when it waits again.
        if is_stopped && asker.is_unsent() {
            return Poll::Ready(None);
        }
        match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if is_stopped && asker.is_unsent() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    wanted.await
}

/// Counts what came of a request.
fn note(fresh: &Result<Fresh, Unanswered>, opened: &Opened, counters: &Counters) {
    match fresh {
        Err(Unanswered::Row(Failure { class: Class::Transient, message })) => {
            counters.failed(1);
            let places = opened.model.concurrency().saturating_mul(2);
            counters.model_did_not_reply(message, UNANSWERED_MIN.max(places as u64));
        }
        Err(Unanswered::Row(_)) => {
            counters.failed(1);
            counters.model_replied();
        }
        Err(Unanswered::Model(_)) => counters.failed(1),
        Err(Unanswered::Spent(_)) => counters.not_sent(),
        Ok(_) => counters.model_replied(),
    }
}

/// Asks when it is this request's turn.
async fn ask_model(
    opened: &Opened,
    request: &Request,
    key: Key,
    counters: &Counters,
    asker: &Asker,
) -> Result<Fresh, Unanswered> {
    let turn = asker.waits.begin(WaitFor::Turn, None);
    let permit = opened.permits.acquire().await;
    drop(turn);
    let _permit = permit.map_err(|error| Failure::failed(error.to_string()))?;
    asker.has_turn.store(true, Ordering::Relaxed);
    counters.sent();
    let _in_flight = counters.hand_over();
    let answer = opened.model.ask(request.clone(), key, &asker.waits).await?;
    let json = to_json(request, &answer)?;
    counters.answered(answer.prompt_tokens.into(), output_tokens(&answer));
    Ok(Fresh { json, counts: !is_blank(&answer) })
}

/// What became of a task that did not end.
fn broken(error: JoinError) -> String {
    if !error.is_panic() {
        return "the runtime ended".into();
    }
    let panic: Box<dyn Any + Send> = error.into_panic();
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the model panicked: {}", text.unwrap_or("no message"))
}
