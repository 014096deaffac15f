//! Who asks: a model whose requests other processes answer, and this one too.
//!
//! Requests that wait are published together, in the order in which they come. The first answer counts; a worker that
//! dies costs time. What an earlier process published and did not take is taken first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt as _};
use proofmill_base::digest::Digest;
use proofmill_base::rng::random_name;
use proofmill_base::waits::Waits;
use proofmill_engine::request::{Answer, Request};
use proofmill_remote::Usage;
use proofmill_store::{Claim, Claimed, Store, StoreError};
use proofmill_udfs::model::{AskError, Key, LanguageModel, OpenError, canonical};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::relay::board::{Board, BoardError, Segments};
use crate::relay::purse::{Grant, Purse, used};
use crate::relay::records::{
    AnswerRecord, AnsweredRequest, KeyedRequest, ModelCard, RequestSegment,
};
use crate::relay::worker::{AnswerError, HELD_MAX, Served, Taken, Worker, WorkerTally, answer};

/// Requests of a segment, at most.
const SEGMENT_MAX: usize = 256;
/// How long the first request of a segment waits for others.
const SEGMENT_WAIT: Duration = Duration::from_millis(200);
/// Requests that wait for their answers at a time: so many segments can be under way.
const IN_FLIGHT_MAX: usize = 64 * SEGMENT_MAX;
/// Calls of the store at a time: segments that are published, answers that are read.
const CALLS_AT_ONCE: usize = 16;
/// Answers are in the ledger so long after they were taken: it waits for others for a few seconds. The next run requests
/// one that is not.
const RECORDED: Duration = Duration::from_secs(60);
/// Time between two looks for answers.
const LOOK: Duration = Duration::from_millis(500);
/// How long requests wait for workers where this process cannot answer them itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a process takes part in asking through a store.
#[derive(Clone, Debug)]
pub struct Relay {
    pub store: Store,
}

/// A model that answers through the store.
#[derive(Debug)]
pub struct RelayedModel {
    inner: Arc<dyn LanguageModel>,
    sender: mpsc::Sender<Message>,
    given: Arc<Mutex<Given>>,
    pump: JoinHandle<()>,
}

/// What processes have answered.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// What answers of others have used, as far as answers say it.
    pub usage: Usage,
    /// Requests by the name of the process, this one among them.
    pub by: BTreeMap<String, u64>,
    /// The name of this process.
    pub own: String,
}

/// What the pump gets to do.
enum Message {
    Ask(Wanted),
    /// Nothing more comes, and segments whose answers were taken are not needed any more.
    End(oneshot::Sender<()>),
}

/// A request that waits for its answer.
struct Wanted {
    request: KeyedRequest,
    reply: oneshot::Sender<Result<Answer, AskError>>,
}

impl RelayedModel {
    /// The model of `card`, which `inner` is on this machine.
    ///
    /// # Errors
    ///
    /// If the store does not take what is said there.
    pub async fn start(
        relay: &Relay,
        card: ModelCard,
        inner: Arc<dyn LanguageModel>,
    ) -> Result<Self, BoardError> {
        let store = &relay.store;
        let board = Board::of(store);
        board.announce(&card).await?;
        let name = random_name(store.rng().as_ref(), 16);
        let (stop, clock) = (CancellationToken::new(), Arc::clone(store.clock()));
        let tally = Arc::new(WorkerTally::new(stop, clock));
        tally.is_also(&card.name);
        let claimed = Claimed::worker(&name)?;
        let claim = Claim::take(store, &claimed, tally.clone()).await?;
        let (sender, receiver) = mpsc::channel(IN_FLIGHT_MAX);
        let given = Given { own: name.clone(), ..Given::default() };
        let given = Arc::new(Mutex::new(given));
        let served = Arc::new(Served::new(card.clone(), Arc::clone(&inner)));
        let worker = Worker::new(board.clone(), name.clone(), Arc::clone(&tally));
        let pump = Pump {
            board,
            model: card.id(),
            purse: Purse::new(&card.settings),
            card,
            name,
            tally,
            served: Some(served),
            worker,
            pending: Vec::new(),
            waiting: HashMap::new(),
            known: HashMap::new(),
            done: Vec::new(),
            own: JoinSet::new(),
            alone: None,
            given: Arc::clone(&given),
        };
        let pump = tokio::spawn(async move {
            let ended = pump.go_on(receiver).await;
            if let Some(claim) = claim {
                claim.end().await;
            }
            // The run may not wait for it any more.
            let _ = ended.map(|ended| ended.send(()));
        });
        Ok(Self { inner, sender, given, pump })
    }

    /// What processes have answered so far.
    pub fn given(&self) -> Given {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the exchange, and takes away what was published and answered: its answers are recorded.
    pub async fn end(&self) {
        let (sender, ended) = oneshot::channel();
        if self.sender.send(Message::End(sender)).await.is_ok() {
            let _ = ended.await;
        }
    }
}

impl Drop for RelayedModel {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

#[async_trait]
impl LanguageModel for RelayedModel {
    fn identity(&self) -> &str {
        self.inner.identity()
    }

    async fn ask(&self, request: Request, key: Key, _: &Waits) -> Result<Answer, AskError> {
        let request = KeyedRequest { key: Digest::from(key), request: canonical(&request) };
        let (reply, answer) = oneshot::channel();
        let gone = || AskError::Model(OpenError::new("the requests to workers have ended"));
        let wanted = Message::Ask(Wanted { request, reply });
        self.sender.send(wanted).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    async fn examine(&self) -> Result<(), OpenError> {
        self.inner.examine().await
    }

    fn concurrency(&self) -> usize {
        IN_FLIGHT_MAX
    }
}

/// Those who wait, by the key of their request.
type Askers = HashMap<Digest, Vec<Wanted>>;

/// A segment that is not answered yet.
struct Waiting {
    segment: RequestSegment,
    askers: Askers,
}

/// What publishes requests, looks for answers, and answers itself where it can.
struct Pump {
    board: Board,
    model: Digest,
    card: ModelCard,
    name: String,
    tally: Arc<WorkerTally>,
    /// The model on this machine, as long as it answers.
    served: Option<Arc<Served>>,
    worker: Worker,
    pending: Vec<Wanted>,
    waiting: HashMap<Digest, Waiting>,
    /// The segment that has a request.
    known: HashMap<Digest, Digest>,
    /// Segments that were answered, and when they were taken.
    done: Vec<(Digest, Duration)>,
    own: JoinSet<(Digest, Result<(), AnswerError>)>,
    /// Why this process cannot answer itself, and since when no worker has either.
    alone: Option<(OpenError, Duration)>,
    given: Arc<Mutex<Given>>,
    /// The budget of the model.
    purse: Purse,
}

impl Pump {
    /// Goes on until the end; gives who waits for it.
    async fn go_on(mut self, mut receiver: mpsc::Receiver<Message>) -> Option<oneshot::Sender<()>> {
        let clock = Arc::clone(self.board.store().clock());
        if let Err(error) = self.adopt().await {
            warn!(%error, "what earlier processes published cannot be read");
        }
        let mut looked = clock.monotonic();
        let mut began: Option<Duration> = None;
        loop {
            let now = clock.monotonic();
            let rest = began.map(|began| (began + SEGMENT_WAIT).saturating_sub(now));
            let look = (looked + LOOK).saturating_sub(now);
            let wait = rest.unwrap_or(look).min(look);
            tokio::select! {
                message = receiver.recv() => match message {
                    None => return None,
                    Some(Message::Ask(wanted)) => self.want(wanted),
                    Some(Message::End(ended)) => {
                        self.own.shutdown().await;
                        self.clear().await;
                        return Some(ended);
                    }
                },
                Some(ended) = self.own.join_next() => {
                    self.ended(ended);
                    looked = Duration::ZERO;
                }
                () = clock.sleep(wait) => {}
            }
            let now = clock.monotonic();
            if !self.pending.is_empty() {
                began.get_or_insert(now);
            }
            let is_due = began.is_some_and(|began| now.saturating_sub(began) >= SEGMENT_WAIT);
            if self.pending.len() >= SEGMENT_MAX || is_due && !self.pending.is_empty() {
                if self.publish().await {
                    looked = Duration::ZERO;
                }
                began = (!self.pending.is_empty()).then_some(now);
            } else if self.pending.is_empty() {
                began = None;
            }
            if now.saturating_sub(looked) >= LOOK && !self.waiting.is_empty() {
                if let Err(error) = self.look().await {
                    warn!(%error, "the answers of workers cannot be read now");
                }
                looked = clock.monotonic();
            } else if now.saturating_sub(looked) >= LOOK {
                looked = now;
            }
        }
    }

    /// Takes over what earlier processes published for the same model.
    async fn adopt(&mut self) -> Result<(), BoardError> {
        let found = self.board.look().await?;
        let Some(segments) = found.get(&self.model) else { return Ok(()) };
        for (id, standing) in segments {
            if standing.is_open
                && let Ok(Some(segment)) = self.board.requests(&self.card, *id).await
            {
                self.expect(*id, segment);
            } else if !standing.is_open && standing.is_answered {
                // Of a worker that was thought dead, and came back after its segment was taken away.
                self.board.reject(self.model, *id).await?;
            }
        }
        Ok(())
    }

    fn expect(&mut self, id: Digest, segment: RequestSegment) {
        self.known.extend(segment.requests.iter().map(|it| (it.key, id)));
        self.waiting.entry(id).or_insert(Waiting { segment, askers: HashMap::new() });
    }

    fn want(&mut self, wanted: Wanted) {
        let key = wanted.request.key;
        match self.known.get(&key).and_then(|id| self.waiting.get_mut(id)) {
            Some(waiting) => {
                // One of an earlier process counts from here on: nothing waits for what no row asks.
                self.purse.hand(waiting.segment.id(), waiting.segment.share);
                waiting.askers.entry(key).or_default().push(wanted);
            }
            None => self.pending.push(wanted),
        }
    }

    /// Publishes what waits and may be spent, in the order in which it came; whether that is something.
    async fn publish(&mut self) -> bool {
        let cut = self.cut();
        let (is_some, board) = (!cut.is_empty(), &self.board);
        let calls: Vec<_> = cut
            .into_iter()
            .map(|(segment, askers)| async move {
                let done = board.publish(&segment).await;
                (segment, askers, done)
            })
            .collect();
        let published: Vec<_> = stream::iter(calls).buffer_unordered(CALLS_AT_ONCE).collect().await;
        for (segment, askers, done) in published {
            match done {
                Ok(id) => {
                    self.expect(id, segment);
                    if let Some(waiting) = self.waiting.get_mut(&id) {
                        waiting.askers = askers;
                    }
                }
                Err(error) => {
                    self.purse.settle(segment.id(), Usage::default());
                    let error = OpenError::new(error);
                    for wanted in askers.into_values().flatten() {
                        let _ = wanted.reply.send(Err(AskError::Model(error.clone())));
                    }
                }
            }
        }
        is_some
    }

    /// Cuts what waits into segments, as far as the budget of the model allows.
    fn cut(&mut self) -> Vec<(RequestSegment, Askers)> {
        let mut cut = Vec::new();
        while !self.pending.is_empty() {
            let most = self.pending.len().min(SEGMENT_MAX);
            let share = match self.purse.grant(most as u64) {
                Grant::Free => None,
                Grant::Share(share) => Some(share),
                Grant::Later => break,
                Grant::Never(exhausted) => {
                    let error = OpenError::new(exhausted);
                    for wanted in self.pending.drain(..) {
                        let _ = wanted.reply.send(Err(AskError::Spent(error.clone())));
                    }
                    break;
                }
            };
            let granted = share.and_then(|share| share.requests).unwrap_or(u64::MAX);
            let most = most.min(usize::try_from(granted).unwrap_or(usize::MAX));
            let rest = self.pending.split_off(most);
            let wanted = std::mem::replace(&mut self.pending, rest);
            let mut requests: Vec<KeyedRequest> = Vec::with_capacity(wanted.len());
            let mut askers = Askers::new();
            for wanted in wanted {
                let same = askers.entry(wanted.request.key).or_default();
                if same.is_empty() {
                    requests.push(wanted.request.clone());
                }
                same.push(wanted);
            }
            let segment = RequestSegment::new(self.model, requests, share);
            self.purse.hand(segment.id(), share);
            cut.push((segment, askers));
        }
        cut
    }

    /// Takes answers that came, and a segment to answer.
    async fn look(&mut self) -> Result<(), BoardError> {
        let found = self.board.look().await?;
        let empty = Segments::new();
        let segments = found.get(&self.model).unwrap_or(&empty);
        // Another process that asks the same was done with it.
        let is_gone =
            |id: &&Digest| segments.get(id).is_none_or(|it| !it.is_answered && !it.is_open);
        let gone: Vec<Digest> = self.waiting.keys().filter(is_gone).copied().collect();
        gone.into_iter().for_each(|id| self.want_again(id));
        // Answers to requests that no row of this process asks stay for another.
        let is_answered = |(id, it): &(&Digest, &Waiting)| {
            !it.askers.is_empty() && segments.get(id).is_some_and(|it| it.is_answered)
        };
        let board = &self.board;
        let answered = self.waiting.iter().filter(is_answered);
        let calls: Vec<_> =
            answered.map(|(id, it)| async { (*id, board.answers(&it.segment).await) }).collect();
        let read: Vec<_> = stream::iter(calls).buffer_unordered(CALLS_AT_ONCE).collect().await;
        for (id, answers) in read {
            self.take_answers(id, answers).await?;
        }
        self.clear_recorded(segments).await;
        self.answer_own(&found).await?;
        self.give_up();
        Ok(())
    }

    /// Says to those who wait that there is no answer, where neither this process nor a worker gives any.
    fn give_up(&mut self) {
        let now = self.board.store().clock().monotonic();
        let Some((error, since)) = &self.alone else { return };
        if now.saturating_sub(*since) < PATIENCE {
            return;
        }
        let (patience, identity) = (PATIENCE.as_secs(), &self.card.identity);
        let message = format!(
            "{error}; and no worker with the identity {identity} answered within {patience} s"
        );
        let error = OpenError::new(message);
        let mut unanswered = std::mem::take(&mut self.pending);
        for (id, waiting) in self.waiting.drain() {
            self.purse.settle(id, Usage::default());
            unanswered.extend(waiting.askers.into_values().flatten());
        }
        for wanted in unanswered {
            let _ = wanted.reply.send(Err(AskError::Model(error.clone())));
        }
        self.known.clear();
    }

    async fn take_answers(
        &mut self,
        id: Digest,
        answers: Result<Option<AnswerRecord>, BoardError>,
    ) -> Result<(), BoardError> {
        let record = match answers {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(()),
            Err(BoardError::Store(error)) if !error.is_broken_record() && !error.is_newer() => {
                return Err(error.into());
            }
            Err(error) => {
                warn!(%error, "answers of a worker cannot be used: the segment is open again");
                return self.board.reject(self.model, id).await;
            }
        };
        let Some(mut waiting) = self.waiting.remove(&id) else { return Ok(()) };
        self.count(&record);
        for (request, answered) in waiting.segment.requests.iter().zip(record.answers) {
            self.known.remove(&request.key);
            let mut askers = waiting.askers.remove(&request.key).unwrap_or_default();
            if matches!(answered, AnsweredRequest::Unsent) {
                self.pending.extend(askers);
                continue;
            }
            let last = askers.pop();
            for asker in askers {
                let _ = asker.reply.send(AnsweredRequest::taken(answered.clone()));
            }
            if let Some(asker) = last {
                let _ = asker.reply.send(answered.taken());
            }
        }
        let now = self.board.store().clock().monotonic();
        self.done.push((id, now));
        self.alone.iter_mut().for_each(|(_, since)| *since = now);
        Ok(())
    }

    /// Adds what a process has answered, and what that used unless it is this one, whose model counts that.
    fn count(&mut self, record: &AnswerRecord) {
        let is_sent = |it: &&AnsweredRequest| !matches!(it, AnsweredRequest::Unsent);
        let sent = record.answers.iter().filter(is_sent);
        let mut usage = Usage { requests: sent.clone().count() as u64, ..Usage::default() };
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        *given.by.entry(record.worker.clone()).or_default() += usage.requests;
        for answer in sent.filter_map(|it| it.clone().taken().ok()) {
            usage = usage + used(&answer);
        }
        self.purse.settle(record.segment, usage);
        if record.worker != self.name {
            given.usage = given.usage + usage;
        }
    }

    fn want_again(&mut self, id: Digest) {
        let Some(waiting) = self.waiting.remove(&id) else { return };
        self.purse.settle(id, Usage::default());
        waiting.segment.requests.iter().for_each(|request| {
            self.known.remove(&request.key);
        });
        let mut askers = waiting.askers;
        for request in &waiting.segment.requests {
            self.pending.extend(askers.remove(&request.key).unwrap_or_default());
        }
    }

    /// Answers segments itself, as any worker does.
    async fn answer_own(&mut self, found: &BTreeMap<Digest, Segments>) -> Result<(), StoreError> {
        let Some(served) = self.served.clone() else { return Ok(()) };
        let models = BTreeMap::from([(self.model, served)]);
        while self.own.len() < HELD_MAX {
            let remark = |text: String| warn!("{text}");
            let Some(taken) = self.worker.take(&models, found, &remark).await? else { break };
            self.begin(taken);
        }
        Ok(())
    }

    fn begin(&mut self, taken: Taken) {
        let (board, name, tally) = (self.board.clone(), self.name.clone(), Arc::clone(&self.tally));
        self.own.spawn(async move {
            let answered = answer(&board, &name, &tally, &taken).await;
            (taken.id(), answered)
        });
    }

    fn ended(&mut self, ended: Result<(Digest, Result<(), AnswerError>), tokio::task::JoinError>) {
        let Ok((id, answered)) = ended else { return };
        self.worker.let_go(id);
        match answered {
            Ok(()) => {}
            Err(AnswerError::Board(error)) => warn!(%error, "answers are not recorded yet"),
            Err(AnswerError::Model(error)) => {
                // Workers may be able to.
                self.served = None;
                let now = self.board.store().clock().monotonic();
                self.alone.get_or_insert((error, now));
            }
        }
    }

    /// Takes away what was answered, and what no worker has begun and no row waits for: the run was stopped.
    async fn clear(&mut self) {
        let found = self.board.look().await.unwrap_or_default();
        // What this process holds itself is not answered any more.
        let is_begun = |id: &Digest| {
            !self.worker.holds(id)
                && found
                    .get(&self.model)
                    .and_then(|all| all.get(id))
                    .is_none_or(|it| it.epoch.is_some())
        };
        let is_wanted = |waiting: &Waiting| {
            waiting.askers.values().flatten().any(|wanted| !wanted.reply.is_closed())
        };
        let waiting = self.waiting.iter();
        let left =
            waiting.filter(|(id, it)| !it.askers.is_empty() && !is_wanted(it) && !is_begun(id));
        let left: Vec<Digest> = left.map(|(id, _)| *id).collect();
        left.iter().for_each(|id| drop(self.waiting.remove(id)));
        let done = std::mem::take(&mut self.done).into_iter().map(|(id, _)| id);
        let segments = found.get(&self.model).cloned().unwrap_or_default();
        self.remove(done.chain(left).collect(), &segments).await;
    }

    /// Takes away what was answered so long ago that it is recorded: listings stay short.
    async fn clear_recorded(&mut self, segments: &Segments) {
        let now = self.board.store().clock().monotonic();
        let is_recorded =
            |(_, taken): &mut (Digest, Duration)| now.saturating_sub(*taken) >= RECORDED;
        let recorded: Vec<Digest> = self.done.extract_if(.., is_recorded).map(|it| it.0).collect();
        self.remove(recorded, segments).await;
    }

    async fn remove(&self, ids: Vec<Digest>, segments: &Segments) {
        let (board, model) = (&self.board, self.model);
        let epoch = |id: &Digest| segments.get(id).and_then(|it| it.epoch);
        let calls: Vec<_> = ids.into_iter().map(|id| board.clear(model, id, epoch(&id))).collect();
        let removed: Vec<_> = stream::iter(calls).buffer_unordered(CALLS_AT_ONCE).collect().await;
        for error in removed.into_iter().filter_map(Result::err) {
            warn!(%error, "answered requests are left in the store");
        }
    }
}
