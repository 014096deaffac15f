//! Who answers: takes one segment after the other of the models that it can be, asks them, and records what they say.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use proofmill_base::clock::Clock;
use proofmill_base::digest::Digest;
use proofmill_base::rng::mix64;
use proofmill_base::waits::Waits;
use proofmill_engine::request::Request;
use proofmill_remote::Usage;
use proofmill_remote::budget::within;
use proofmill_store::{ClaimWatch, Claimed, Pulse, StoreError};
use proofmill_udfs::model::{AskError, LanguageModel, OpenError};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::relay::board::{Board, BoardError, Segments, Standing};
use crate::relay::purse::used;
use crate::relay::records::{
    AnswerRecord, AnsweredRequest, ModelCard, RELAY_VERSION, Refusal, RequestSegment,
};

/// Segments that a process holds at a time: while the last requests of one are answered, the next begins.
pub const HELD_MAX: usize = 2;

/// A segment that cannot be read is looked at again after so long.
const UNREADABLE: Duration = Duration::from_secs(60);

/// A model that a worker is.
#[derive(Debug)]
pub struct Served {
    pub card: ModelCard,
    pub model: Arc<dyn LanguageModel>,
    /// A permit for each request that the model takes at a time, over all segments.
    permits: Semaphore,
}

impl Served {
    pub fn new(card: ModelCard, model: Arc<dyn LanguageModel>) -> Self {
        let permits = Semaphore::new(model.concurrency().clamp(1, Semaphore::MAX_PERMITS));
        Self { card, model, permits }
    }
}

/// How far a worker is, as its beat tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerProgress {
    /// The names of the models that it is.
    pub models: Vec<String>,
    /// Segments that it holds.
    pub held: u64,
    /// Requests that it has answered.
    pub answered: u64,
    /// How many of them had no answer.
    pub refused: u64,
    /// Requests a minute, since the beat before.
    #[serde(default)]
    pub per_minute: u64,
}

/// What a worker counts, for its beat.
#[derive(Debug)]
pub struct WorkerTally {
    models: Mutex<Vec<String>>,
    clock: Arc<dyn Clock>,
    /// When the last beat was, and what had been answered then.
    last: Mutex<(Duration, u64)>,
    held: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    /// Set when somebody orders the worker to stop.
    pub stop: CancellationToken,
}

impl WorkerTally {
    /// Of a worker that `stop` ends.
    pub fn new(stop: CancellationToken, clock: Arc<dyn Clock>) -> Self {
        let last = Mutex::new((clock.monotonic(), 0));
        let (models, held, answered, refused) = Default::default();
        Self { models, clock, last, held, answered, refused, stop }
    }

    /// Takes note of a model that it is.
    pub fn is_also(&self, model: &str) {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).push(model.to_owned());
    }

    /// How far it is. The speed is that since the last call.
    pub fn progress(&self) -> WorkerProgress {
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (held, answered, refused) = (of(&self.held), of(&self.answered), of(&self.refused));
        let (now, all) = (self.clock.monotonic(), answered + refused);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (then, before) = std::mem::replace(&mut *last, (now, all));
        let millis = now.saturating_sub(then).as_millis().try_into().unwrap_or(u64::MAX);
        let per_minute = ((all - before) * 60_000).checked_div(millis).unwrap_or_default();
        WorkerProgress { models, held, answered, refused, per_minute }
    }
}

impl Pulse for WorkerTally {
    fn progress(&self) -> Json {
        json!(self.progress())
    }

    fn stop(&self) {
        self.stop.cancel();
    }
}

/// Takes segments for one process.
#[derive(Debug)]
pub struct Worker {
    board: Board,
    /// The name under which it has claimed to be a worker.
    name: String,
    tally: Arc<WorkerTally>,
    /// Those who hold segments, each watched.
    watched: HashMap<String, ClaimWatch>,
    /// Segments that could not be read, and when that was: the run that asks for them may replace them.
    unreadable: HashMap<Digest, Duration>,
    /// Segments that it holds.
    holding: HashSet<Digest>,
}

/// A segment that a worker holds.
#[derive(Debug)]
pub struct Taken {
    served: Arc<Served>,
    segment: RequestSegment,
    epoch: u32,
}

impl Taken {
    pub fn id(&self) -> Digest {
        self.segment.id()
    }

    /// The model that it asks, with its name.
    pub fn model(&self) -> (Digest, String) {
        (self.segment.model, self.served.card.name.clone())
    }
}

impl Worker {
    pub fn new(board: Board, name: String, tally: Arc<WorkerTally>) -> Self {
        let (watched, unreadable, holding) = Default::default();
        Self { board, name, tally, watched, unreadable, holding }
    }

    /// Takes a segment of a model that it is; `None` if there is none to take now. What cannot be read is said to `remark`.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn take(
        &mut self,
        served: &BTreeMap<Digest, Arc<Served>>,
        found: &BTreeMap<Digest, Segments>,
        remark: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Option<Taken>, StoreError> {
        for (model, served) in served {
            let Some(segments) = found.get(model) else { continue };
            // Each worker begins elsewhere, so that few want the same.
            let seed = self.name.bytes().fold(0, |seed, byte| mix64(seed ^ u64::from(byte)));
            let now = self.board.store().clock().monotonic();
            let is_unreadable = |id: &Digest| {
                self.unreadable.get(id).is_some_and(|at| now.saturating_sub(*at) < UNREADABLE)
            };
            let is_free = |(id, it): &(&Digest, &Standing)| {
                it.is_open && !it.is_answered && !is_unreadable(id) && !self.holding.contains(id)
            };
            let mut free: Vec<(Digest, Standing)> =
                segments.iter().filter(is_free).map(|(id, it)| (*id, *it)).collect();
            free.sort_by_key(|(id, standing)| {
                (standing.epoch.is_some(), mix64(seed ^ first_bytes(*id)))
            });
            for (id, standing) in free {
                let Some(epoch) = self.epoch(*model, id, standing).await? else { continue };
                if !stored(self.board.claim(*model, id, epoch, &self.name).await)? {
                    continue;
                }
                match self.board.requests(&served.card, id).await {
                    Ok(Some(segment)) => {
                        self.holding.insert(id);
                        self.tally.held.fetch_add(1, Ordering::Relaxed);
                        return Ok(Some(Taken { served: Arc::clone(served), segment, epoch }));
                    }
                    Ok(None) => {}
                    Err(BoardError::Store(error))
                        if !error.is_broken_record() && !error.is_newer() =>
                    {
                        return Err(error);
                    }
                    Err(error) => {
                        self.unreadable.insert(id, now);
                        remark(format!("{error}; the segment is left alone"));
                    }
                }
                stored(self.board.give_back(*model, id, epoch).await)?;
            }
        }
        Ok(None)
    }

    /// The epoch in which a segment can be claimed; `None` while another holds it.
    async fn epoch(
        &mut self,
        model: Digest,
        id: Digest,
        standing: Standing,
    ) -> Result<Option<u32>, StoreError> {
        let Some(last) = standing.epoch else { return Ok(Some(0)) };
        let Some(holder) = stored(self.board.holder(model, id, last).await)? else {
            return Ok(None);
        };
        let store = self.board.store();
        // A claim without a valid name is over.
        let Ok(claimed) = Claimed::worker(&holder) else { return Ok(Some(last + 1)) };
        let watch = self.watched.entry(holder).or_insert_with(|| ClaimWatch::new(store, claimed));
        Ok(watch.is_gone(store).await?.then_some(last + 1))
    }

    pub fn holds(&self, id: &Digest) -> bool {
        self.holding.contains(id)
    }

    /// Takes note that a segment is not held any more.
    pub fn let_go(&mut self, id: Digest) {
        self.holding.remove(&id);
        self.tally.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers a segment, and records that. If the model does not answer, the segment is given back.
///
/// # Errors
///
/// Why the model does not answer; a failure of the store.
pub async fn answer(
    board: &Board,
    name: &str,
    tally: &WorkerTally,
    taken: &Taken,
) -> Result<(), AnswerError> {
    let (served, id) = (&taken.served, taken.segment.id());
    let (share, prices) = (&taken.segment.share, served.card.settings.prices.as_ref());
    let spent = Mutex::new(Usage::default());
    let spent = || spent.lock().unwrap_or_else(PoisonError::into_inner);
    let spent = &spent;
    let ask = |text: String, key: Digest| async move {
        let Ok(_permit) = served.permits.acquire().await else {
            return Ok(AnsweredRequest::Passing(Refusal::Cancelled));
        };
        let request: Request = match serde_json::from_str(&text) {
            Ok(request) => request,
            Err(error) => {
                let reason = format!("this worker cannot read the request: {error}");
                return Ok(AnsweredRequest::Refused(Refusal::Failed(reason)));
            }
        };
        if let Some(share) = share {
            let mut spent = spent();
            if within(share, &spent, prices).is_err() {
                return Ok(AnsweredRequest::Unsent);
            }
            spent.requests += 1;
        }
        let answer = served.model.ask(request, *key.as_bytes(), &Waits::default()).await;
        if let Ok(answer) = &answer {
            let mut spent = spent();
            *spent = *spent + used(answer);
        }
        Ok(match answer {
            Ok(answer) => match serde_json::to_string(&answer) {
                Ok(json) => AnsweredRequest::Answer(json),
                Err(error) => AnsweredRequest::Refused(Refusal::Failed(error.to_string())),
            },
            Err(AskError::Row(error)) => AnsweredRequest::Refused(error.into()),
            Err(AskError::Passing(error)) => AnsweredRequest::Passing(error.into()),
            Err(AskError::Model(error) | AskError::Spent(error)) => return Err(error),
        })
    };
    let requests = taken.segment.requests.iter();
    let replies: Vec<_> = requests.map(|it| ask(it.request.clone(), it.key)).collect();
    let at_once = served.model.concurrency().clamp(1, replies.len().max(1));
    let mut replies = stream::iter(replies).buffered(at_once);
    let mut answers = Vec::with_capacity(taken.segment.requests.len());
    while let Some(reply) = replies.next().await {
        match reply {
            Ok(answered) => answers.push(answered),
            Err(error) => {
                drop(replies);
                board.give_back(taken.segment.model, id, taken.epoch).await?;
                return Err(AnswerError::Model(error));
            }
        }
    }
    drop(replies);
    if let Err(error) = served.model.examine().await {
        board.give_back(taken.segment.model, id, taken.epoch).await?;
        return Err(AnswerError::Model(error));
    }
    for answered in &answers {
        match answered {
            AnsweredRequest::Answer(_) => tally.answered.fetch_add(1, Ordering::Relaxed),
            AnsweredRequest::Refused(_) | AnsweredRequest::Passing(_) => {
                tally.refused.fetch_add(1, Ordering::Relaxed)
            }
            AnsweredRequest::Unsent => 0,
        };
    }
    let record = AnswerRecord { v: RELAY_VERSION, segment: id, worker: name.to_owned(), answers };
    Ok(board.answer(taken.segment.model, &record).await?)
}

/// Gives a segment back that is not answered.
///
/// # Errors
///
/// If the store fails.
pub async fn give_back(board: &Board, taken: &Taken) -> Result<(), BoardError> {
    board.give_back(taken.segment.model, taken.segment.id(), taken.epoch).await
}

/// Why a segment is not answered.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error(transparent)]
    Board(#[from] BoardError),
    /// The model does not answer.
    #[error(transparent)]
    Model(OpenError),
}

/// What a store did; nothing else can be wrong where no record is read.
fn stored<T>(result: Result<T, BoardError>) -> Result<T, StoreError> {
    result.map_err(|error| match error {
        BoardError::Store(error) => error,
        BoardError::Wrong { key, reason } => StoreError::Damaged { key, reason },
    })
}

fn first_bytes(digest: Digest) -> u64 {
    let bytes = digest.as_bytes();
    bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
