//! Eight processes that look after one schedule, die at any step, and have clocks that differ: two hundred nights give two
//! hundred runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, TimeDelta, Utc};
use proofmill_base::clock::SystemClock;
use proofmill_base::ids::RunId;
use proofmill_base::rng::{Rng, SeededRng};
use proofmill_catalog::audit::entry::Ending;
use proofmill_store::Store;

use crate::decision::{apply, decide};
use crate::file;
use crate::log::ScheduleLog;
use crate::state::{ScheduleEvent, ScheduleState};
use crate::tests::checks;

const PROCESSES: u64 = 8;
const NIGHTS: i64 = 200;

fn start() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_225_600, 0).unwrap()
}

/// What a store knows of runs: which process owns each, and whether it has ended.
#[derive(Default)]
struct Runs {
    owner: Option<u64>,
    begun: u64,
    ended: u64,
}

struct World {
    store: Store,
    log: ScheduleLog,
    minutes: AtomicI64,
    runs: Mutex<HashMap<RunId, Runs>>,
    /// The number of the life of each process: what an earlier life owned is dead.
    lives: AtomicU64,
}

/// The process was killed.
struct Killed;

impl World {
    fn now(&self, process: u64) -> DateTime<Utc> {
        // One of them is an hour ahead.
        let ahead = if process == 3 { 60 } else { 0 };
        start() + TimeDelta::minutes(self.minutes.load(Ordering::SeqCst) + ahead)
    }

    fn owned(&self, run: &RunId, act: impl FnOnce(&mut Runs)) {
        act(self.runs.lock().unwrap().entry(run.clone()).or_default());
    }

    /// One look: what `schedule tick` does.
    async fn look(
        &self,
        process: u64,
        life: u64,
        rng: &dyn Rng,
        alive: &Mutex<Vec<u64>>,
    ) -> Result<(), Killed> {
        let step = || match rng.next_u64() % 12 {
            0 => Err(Killed),
            _ => Ok(()),
        };
        let writer = format!("process-{process}-{life}");
        let state = self.log.head().await.unwrap().state;
        step()?;
        let mut to_run = None;
        if let Some(open) = &state.open {
            let mut is_ended = false;
            let mut is_busy = false;
            self.owned(&open.run, |run| {
                is_ended = run.ended > 0;
                is_busy = run.owner.is_some_and(|owner| alive.lock().unwrap().contains(&owner));
            });
            match (is_ended, is_busy) {
                (true, _) => self.ended(&writer, &open.run).await,
                (false, true) => return Ok(()),
                (false, false) => to_run = Some(open.run.clone()),
            }
        }
        step()?;
        if to_run.is_none() {
            let (run, now) = (RunId::new(self.now(process), rng), self.now(process));
            let event =
                |state: &ScheduleState| Ok(decide(state, now, &run)?.map(ScheduleEvent::Decided));
            let appended = self.log.append(&writer, event).await.unwrap();
            step()?;
            if let Some((_, ScheduleEvent::Decided(decided))) = appended {
                to_run = decided.fired.map(|fired| fired.run).filter(|fired| *fired == run);
            }
        }
        let Some(run) = to_run else { return Ok(()) };
        // The sign of life decides who runs it.
        let mut is_ours = false;
        self.owned(&run, |run| {
            let is_free = run.owner.is_none_or(|owner| !alive.lock().unwrap().contains(&owner));
            if is_free && run.ended == 0 {
                (run.owner, is_ours) = (Some(life), true);
                run.begun += u64::from(run.begun == 0);
            }
        });
        if !is_ours {
            return Ok(());
        }
        step()?;
        tokio::task::yield_now().await;
        step()?;
        self.owned(&run, |run| run.ended += 1);
        step()?;
        self.ended(&writer, &run).await;
        Ok(())
    }

    async fn ended(&self, writer: &str, run: &RunId) {
        let event = |state: &ScheduleState| {
            let is_open = state.open.as_ref().is_some_and(|open| open.run == *run);
            let event = ScheduleEvent::Ended {
                run: run.clone(),
                how: Ending::Succeeded,
                verdict: None,
                requests: None,
                sampled: Vec::new(),
            };
            Ok(is_open.then_some(event))
        };
        self.log.append(writer, event).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_nights_are_two_hundred_runs() {
    let store = Store::in_memory(Arc::new(SystemClock::default()), Arc::new(SeededRng::new(1)));
    let store = store.await.unwrap();
    let text = "kind: schedule\nname: nightly\npipeline: p\ncron: \"0 2 * * *\"\nmissed: { all: 500 }\nwindow: 8784h\n";
    let schedule = file::parse("s.yaml", text.as_bytes(), start(), checks()).unwrap();
    let log = ScheduleLog::of(&store, &schedule.name);
    log.append("test", |state| apply(state, schedule.clone(), start()).map(Some)).await.unwrap();
    let world = Arc::new(World {
        store,
        log,
        minutes: AtomicI64::new(0),
        runs: Mutex::default(),
        lives: AtomicU64::new(0),
    });
    let alive = Arc::new(Mutex::new(Vec::new()));
    let processes: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let (world, alive) = (Arc::clone(&world), Arc::clone(&alive));
            tokio::spawn(async move {
                let rng = SeededRng::new(process);
                while world.minutes.load(Ordering::SeqCst) < (NIGHTS + 60) * 24 * 60 {
                    let life = world.lives.fetch_add(1, Ordering::SeqCst);
                    alive.lock().unwrap().push(life);
                    // Lives as long as chance has it.
                    while world.look(process, life, &rng, &alive).await.is_ok() {
                        // The clock goes on, and back now and then.
                        let minutes = (rng.next_u64() % 400) as i64 - 100;
                        world.minutes.fetch_add(minutes, Ordering::SeqCst);
                        if world.minutes.load(Ordering::SeqCst) > (NIGHTS + 60) * 24 * 60 {
                            break;
                        }
                        tokio::task::yield_now().await;
                    }
                    alive.lock().unwrap().retain(|other| *other != life);
                }
            })
        })
        .collect();
    for process in processes {
        process.await.unwrap();
    }
    let entries = world.log.latest(usize::MAX, |_| true).await.unwrap();
    let mut planned: Vec<DateTime<Utc>> = Vec::new();
    let mut ends: HashMap<RunId, u64> = HashMap::new();
    for entry in &entries {
        match &entry.event {
            ScheduleEvent::Decided(decided) => {
                planned.extend(decided.fired.iter().map(|fired| fired.planned));
                assert_eq!(decided.skipped, [], "nothing is too late here");
            }
            ScheduleEvent::Ended { run, .. } => *ends.entry(run.clone()).or_default() += 1,
            _ => {}
        }
    }
    planned.reverse();
    let expected: Vec<DateTime<Utc>> = schedule
        .calendar(start())
        .unwrap()
        .after(start())
        .take(planned.len())
        .map(|planned| planned.instant)
        .collect();
    assert!(planned.len() >= NIGHTS as usize, "{} nights", planned.len());
    assert_eq!(planned, expected, "each night once, in order");
    assert!(ends.values().all(|ends| *ends == 1), "{ends:?}");
    assert!(world.store.list(&proofmill_store::schedules_prefix()).await.unwrap().len() > 400);
    let runs = world.runs.lock().unwrap();
    assert!(runs.values().filter(|run| run.begun > 0).count() <= planned.len());
    assert!(ends.keys().all(|run| runs[run].ended == 1), "no run is computed twice to its end");
    assert!(world.lives.load(Ordering::SeqCst) > 500, "processes died");
}
