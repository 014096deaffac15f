//! The exchange of requests over a store that counts, fails and sleeps, and among workers that do not agree.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures::future::join_all;
use proofmill_base::clock::{Clock, SystemClock};
use proofmill_base::retry::RetryPolicy;
use proofmill_base::rng::SeededRng;
use proofmill_base::waits::Waits;
use proofmill_engine::request::{Answer, Body, Embed, Request};
use proofmill_settings::endpoint::Budget;
use proofmill_store::faulty::{Fault, FaultyStore, Op};
use proofmill_store::{Claim, Claimed, RelayKey, RelayObject, Store};
use proofmill_udfs::model::{AskError, Key, LanguageModel, OpenError, canonical, key};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::relay::board::Board;
use crate::relay::coordinator::{Relay, RelayedModel};
use crate::relay::records::{KeyedRequest, ModelCard, RELAY_VERSION, RequestSegment};
use crate::relay::worker::{Served, Worker, WorkerTally, answer};

const IDENTITY: &str = "{\"weights\":\"w\"}";
/// Time between two looks of a worker.
const LOOK: Duration = Duration::from_millis(500);

/// A model that answers with one number, or that this process cannot be.
#[derive(Debug)]
struct Fake {
    says: Option<f32>,
    takes: Duration,
    asked: AtomicUsize,
}

impl Fake {
    fn saying(says: Option<f32>) -> Arc<Self> {
        Self::taking(Duration::ZERO, says)
    }

    fn taking(takes: Duration, says: Option<f32>) -> Arc<Self> {
        Arc::new(Self { says, takes, asked: AtomicUsize::new(0) })
    }
}

#[async_trait]
impl LanguageModel for Fake {
    fn identity(&self) -> &str {
        IDENTITY
    }

    async fn ask(&self, request: Request, _: Key, _: &Waits) -> Result<Answer, AskError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let Some(says) = self.says else {
            return Err(AskError::Model(OpenError::new("there is no key here")));
        };
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        let Request::Embed(Embed { text, .. }) = request else { panic!("another request") };
        let body = Body::Vector(vec![says, text.len() as f32]);
        Ok(Answer { prompt_tokens: 1, prompt_truncated: false, body })
    }

    fn concurrency(&self) -> usize {
        8
    }
}

/// A clock of tests: its time passes faster, and its date is off by some hours.
#[derive(Debug)]
struct Hasty {
    clock: SystemClock,
    speed: u32,
    hours: i64,
}

#[async_trait]
impl Clock for Hasty {
    fn now(&self) -> DateTime<Utc> {
        self.clock.now() + chrono::Duration::hours(self.hours)
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic() * self.speed
    }

    async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration / self.speed).await;
    }
}

/// A store over these objects, of a process of its own, whose time passes a hundred times as fast.
async fn store(objects: &Arc<FaultyStore>, hours: i64, seed: u64) -> Store {
    store_at(objects, 100, hours, seed).await
}

async fn store_at(objects: &Arc<FaultyStore>, speed: u32, hours: i64, seed: u64) -> Store {
    let clock = Arc::new(Hasty { clock: SystemClock::default(), speed, hours });
    let rng = Arc::new(SeededRng::new(seed));
    let url = "s3://bucket/prefix".parse().unwrap();
    Store::over(objects.clone(), url, clock, rng, RetryPolicy::default()).await.unwrap()
}

async fn faulty() -> Arc<FaultyStore> {
    FaultyStore::in_memory().await.0
}

fn card() -> ModelCard {
    ModelCard {
        v: RELAY_VERSION,
        name: "encoder".to_owned(),
        identity: IDENTITY.to_owned(),
        settings: serde_json::from_str("{\"path\": \"m\"}").unwrap(),
    }
}

fn with_budget(requests: u64) -> ModelCard {
    let budget =
        format!(r#"{{"url": "http://h/v1", "model": "m", "budget": {{"requests": {requests}}}}}"#);
    ModelCard { settings: serde_json::from_str(&budget).unwrap(), ..card() }
}

/// A worker with a clock of its own that answers until it is aborted.
async fn worker(store: Store, name: &'static str, model: Arc<Fake>) -> JoinHandle<()> {
    let tally = WorkerTally::new(CancellationToken::new(), Arc::clone(store.clock()));
    let tally = Arc::new(tally);
    let claimed = Claimed::worker(name).unwrap();
    let claim = Claim::take(&store, &claimed, tally.clone()).await.unwrap();
    tokio::spawn(async move {
        let (_claim, board) = (claim, Board::of(&store));
        let served = Arc::new(Served::new(card(), model));
        let served = BTreeMap::from([(card().id(), served)]);
        let mut worker = Worker::new(board.clone(), name.to_owned(), Arc::clone(&tally));
        loop {
            // As the host does: what fails for a while is tried again at the next look.
            if let Ok(found) = board.look().await
                && let Ok(Some(taken)) = worker.take(&served, &found, &|_| {}).await
            {
                let _ = answer(&board, name, &tally, &taken).await;
                worker.let_go(taken.id());
            } else {
                store.clock().sleep(LOOK).await;
            }
        }
    })
}

fn request(row: usize) -> (Request, Key) {
    let text = format!("{row:0>width$}", width = 4 + row % 3);
    let request = Request::Embed(Embed { text, truncate: None });
    let key = key(IDENTITY, &canonical(&request));
    (request, key)
}

/// What each row got.
async fn ask(model: &RelayedModel, rows: usize) -> Vec<Vec<f32>> {
    let waits = Waits::default();
    let asked = (0..rows).map(|row| {
        let (request, key) = request(row);
        model.ask(request, key, &waits)
    });
    let answers = join_all(asked).await.into_iter().map(|answer| answer.unwrap().body);
    answers
        .map(|body| match body {
            Body::Vector(vector) => vector,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn expected(rows: usize, says: f32) -> Vec<Vec<f32>> {
    (0..rows).map(|row| vec![says, (4 + row % 3) as f32]).collect()
}

async fn coordinator(store: &Store, inner: Option<f32>) -> RelayedModel {
    let relay = Relay { store: store.clone() };
    RelayedModel::start(&relay, card(), Fake::saying(inner)).await.unwrap()
}

/// The targets of the specification, `docs/specs/workers.md`; listings are of time and not of segments.
#[tokio::test]
async fn a_segment_takes_few_calls_of_the_store() {
    const SEGMENTS: usize = 16;
    let objects = faulty().await;
    let helper = Fake::saying(Some(1.0));
    let worker = worker(store_at(&objects, 1, 0, 2).await, "helper", helper.clone()).await;
    let store = store_at(&objects, 1, 0, 1).await;
    let model = coordinator(&store, None).await;
    // The process finds out that it cannot answer.
    ask(&model, 1).await;
    objects.script(vec![]);
    assert_eq!(ask(&model, 256 * SEGMENTS).await, expected(256 * SEGMENTS, 1.0));
    model.end().await;
    worker.abort();
    let each = |op| objects.calls(op).div_ceil(SEGMENTS);
    let (puts, gets, deletes) = (each(Op::Put), each(Op::Get), each(Op::Delete));
    assert!(puts <= 6 && gets <= 12 && deletes <= 4, "{puts} puts, {gets} gets, {deletes} deletes");
    assert_eq!(
        helper.asked.load(Ordering::Relaxed),
        256 * SEGMENTS + 1,
        "each once, and the first again"
    );
}

/// Any call fails, with and without effect: every row has its answer, and what is asked twice is a segment at most.
#[tokio::test]
async fn a_call_that_fails_costs_no_row() {
    for op in [Op::Put, Op::Get, Op::List, Op::Delete] {
        for fault in [Fault::FailBefore, Fault::FailAfter] {
            for nth in 0..12 {
                let objects = faulty().await;
                let helper = Fake::saying(Some(1.0));
                let of_worker = store(&objects, 0, 2).await;
                let of_run = store(&objects, 0, 1).await;
                let worker = worker(of_worker, "helper", helper.clone()).await;
                objects.script(vec![(op, nth, fault)]);
                let model = coordinator(&of_run, Some(1.0)).await;
                assert_eq!(ask(&model, 300).await, expected(300, 1.0), "{op:?} {nth} {fault:?}");
                model.end().await;
                worker.abort();
                let asked = helper.asked.load(Ordering::Relaxed);
                assert!(asked <= 300 + 256, "{op:?} {nth} {fault:?}: {asked}");
            }
        }
    }
}

/// Two workers answer one segment, each something else: every process gets the answers that were recorded first.
#[tokio::test]
async fn the_first_answers_count() {
    let objects = faulty().await;
    let store = store(&objects, 0, 1).await;
    let board = Board::of(&store);
    let model = coordinator(&store, None).await;
    let asking = ask(&model, 200);
    let answering = async {
        let clock = Arc::clone(store.clock());
        let tally = Arc::new(WorkerTally::new(CancellationToken::new(), clock));
        let mut held = Vec::new();
        // The first takes it; to the second it is dead, and so its epoch is the next.
        for (name, says) in [("slow", 1.0), ("fast", 2.0)] {
            let served = Arc::new(Served::new(card(), Fake::saying(Some(says))));
            let served = BTreeMap::from([(card().id(), served)]);
            let mut worker = Worker::new(board.clone(), name.to_owned(), Arc::clone(&tally));
            let taken = loop {
                let found = board.look().await.unwrap();
                if let Some(taken) = worker.take(&served, &found, &|_| {}).await.unwrap() {
                    break taken;
                }
                store.clock().sleep(LOOK).await;
            };
            held.push((name, taken));
        }
        for (name, taken) in held.iter().rev() {
            answer(&board, name, &tally, taken).await.unwrap();
        }
    };
    let (rows, ()) = tokio::join!(asking, answering);
    let says: Vec<f32> = rows.iter().map(|row| row[0]).collect();
    assert!(says.iter().all(|it| *it == says[0]), "of one worker: {says:?}");
    assert_eq!(says[0], 2.0, "the one that was done first");
}

/// The date of a worker counts for nothing: one that is an hour off keeps what it holds, and a silent one loses it.
#[tokio::test]
async fn a_clock_that_is_off_by_an_hour_costs_nothing() {
    for hours in [-1, 1] {
        let objects = faulty().await;
        let helpers = [Fake::saying(Some(1.0)), Fake::saying(Some(1.0))];
        let mut workers = Vec::new();
        for (seed, (name, helper)) in ["early", "late"].into_iter().zip(&helpers).enumerate() {
            let of_worker = store(&objects, hours * seed as i64, 2 + seed as u64).await;
            workers.push(worker(of_worker, name, helper.clone()).await);
        }
        let model = coordinator(&store(&objects, 0, 1).await, None).await;
        assert_eq!(ask(&model, 2048).await, expected(2048, 1.0));
        model.end().await;
        workers.iter().for_each(JoinHandle::abort);
        let asked: usize = helpers.iter().map(|it| it.asked.load(Ordering::Relaxed)).sum();
        assert_eq!(asked, 2048, "nothing was taken from a worker that is alive");
    }
}

/// Workers that die at any time, and others that come: no row is lost, and what is asked twice was in flight.
#[tokio::test]
async fn workers_die_and_no_row_is_lost() {
    const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut again = 0;
    for round in 0..10 {
        let objects = faulty().await;
        let helper = Fake::taking(Duration::from_millis(1), Some(1.0));
        let running: Arc<Mutex<Option<JoinHandle<()>>>> = Arc::default();
        let model = coordinator(&store(&objects, 0, 1).await, None).await;
        let killing = async {
            for (at, name) in NAMES.into_iter().enumerate() {
                let of_worker = store(&objects, 0, 2 + at as u64).await;
                let next = worker(of_worker, name, helper.clone()).await;
                if let Some(dead) = running.lock().unwrap().replace(next) {
                    dead.abort();
                }
                tokio::time::sleep(Duration::from_millis((3 * at as u64 + round) % 17)).await;
            }
        };
        let (rows, ()) = tokio::join!(ask(&model, 3000), killing);
        assert_eq!(rows, expected(3000, 1.0));
        model.end().await;
        running.lock().unwrap().take().unwrap().abort();
        let asked = helper.asked.load(Ordering::Relaxed);
        assert!(asked <= 3000 + NAMES.len() * 256, "{asked}");
        again += asked - 3000;
    }
    assert!(again > 0, "no worker died while it answered");
}

/// What an earlier run published with shares of the budget, and no row asks for any more, holds nothing back.
#[tokio::test]
async fn shares_of_an_earlier_run_hold_nothing_back() {
    let objects = faulty().await;
    let store = store(&objects, 0, 1).await;
    let card = with_budget(300);
    for (rows, share) in [(1000..1256, 256), (2000..2044, 44)] {
        let requests = rows.map(|row| {
            let (request, key) = request(row);
            KeyedRequest { key: key.into(), request: canonical(&request) }
        });
        let share = Budget { requests: Some(share), ..Budget::default() };
        let segment = RequestSegment::new(card.id(), requests.collect(), Some(share));
        Board::of(&store).publish(&segment).await.unwrap();
    }
    let relay = Relay { store };
    let model = RelayedModel::start(&relay, card, Fake::saying(Some(1.0))).await.unwrap();
    let asking = tokio::time::timeout(Duration::from_secs(30), ask(&model, 300));
    assert_eq!(asking.await.expect("it hangs"), expected(300, 1.0));
    let (request, key) = request(300);
    let more = model.ask(request, key, &Waits::default()).await;
    assert!(matches!(more, Err(AskError::Spent(_))), "{more:?}");
}

/// Where no worker comes, and the process cannot answer, both reasons are given, and who would have to come.
#[tokio::test]
async fn requests_do_not_wait_for_ever() {
    let objects = faulty().await;
    let relay = Relay { store: store(&objects, 0, 1).await };
    // Those that the budget holds back wait for shares that never come back.
    let model = RelayedModel::start(&relay, with_budget(300), Fake::saying(None)).await.unwrap();
    let waits = Waits::default();
    let asked = (0..400).map(|row| {
        let (request, key) = request(row);
        model.ask(request, key, &waits)
    });
    let answers = tokio::time::timeout(Duration::from_secs(30), join_all(asked)).await;
    for answer in answers.expect("it hangs") {
        let error = answer.unwrap_err().to_string();
        for part in ["there is no key here", IDENTITY, "within 60 s"] {
            assert!(error.contains(part), "{error}");
        }
    }
}

/// Requests that were damaged in the store are published anew by the next run, and the same worker answers them.
#[tokio::test]
async fn damaged_requests_are_replaced() {
    let objects = faulty().await;
    let of_run = store(&objects, 0, 1).await;
    let (request, key) = request(0);
    let keyed = KeyedRequest { key: key.into(), request: canonical(&request) };
    let segment = RequestSegment::new(card().id(), vec![keyed], None);
    let object = RelayObject::Requests(segment.id());
    let place = RelayKey { model: card().id(), object }.key();
    of_run.create(&place, "{\"v\":1,\"mod".into()).await.unwrap();
    let worker = worker(store(&objects, 0, 2).await, "helper", Fake::saying(Some(1.0))).await;
    // It has seen what is damaged.
    of_run.clock().sleep(LOOK * 10).await;
    let model = coordinator(&of_run, None).await;
    let asking = tokio::time::timeout(Duration::from_secs(30), ask(&model, 1));
    assert_eq!(asking.await.expect("it hangs"), expected(1, 1.0));
    worker.abort();
}
