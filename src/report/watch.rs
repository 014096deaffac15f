//! What somebody who watches a run knows of it at a time: which stages compute, how far they are, how fast,
//! what they wait for, and how much of the whole is done. It reads no clock: it is given the time,
//! which is monotonic time of the run's clock.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proofmill_base::ids::StageName;
use proofmill_base::waits::{WaitFor, Waiting};
use proofmill_udfs::model::Counts;

use crate::draw::cells::format_float;
use crate::report::model_usage;
use crate::report::units::{clock, count};
use crate::run::notice::Notice;
use crate::stages::progress::Progress;

/// The time that a pace is measured over.
const WINDOW: Duration = Duration::from_secs(30);
/// The time between two measures.
const STEP: Duration = Duration::from_secs(1);
/// A wait that is shorter is not shown, and a pace over less than that neither.
const SHORT: Duration = Duration::from_secs(1);

/// A run under way.
#[derive(Debug, Default)]
pub struct Watched {
    began: Duration,
    stages: usize,
    /// Stages that ended, well or not.
    ended: usize,
    /// How long stages may take that have not begun.
    expected: HashMap<StageName, Duration>,
    /// What the stages took that ended.
    spent: Duration,
    running: Vec<Running>,
    /// Stages that wait for a core.
    queued: Vec<StageName>,
    /// Requests to models by stages that ended.
    requests: Counts,
}

/// A stage under way.
#[derive(Debug)]
pub struct Running {
    pub stage: StageName,
    progress: Arc<Progress>,
    began: Duration,
    expected: Duration,
    /// Rows at times, of the last [`WINDOW`].
    measured: VecDeque<(Duration, u64)>,
    /// Since when all of its requests wait.
    waiting: Option<Duration>,
    /// When a line was last written about it.
    said: Duration,
}

/// How far a stage is.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The share of its rows, steps or entries; `None` if unknown.
    pub share: Option<f64>,
    /// What there is to say, in the order of weight.
    pub words: Vec<String>,
}

impl Watched {
    /// Takes note of something that happens at `now`.
    pub fn notice(&mut self, notice: &Notice<'_>, now: Duration) {
        match notice {
            Notice::Started { stages, expected, .. } => {
                *self = Self {
                    began: now,
                    stages: *stages,
                    expected: (*expected).clone(),
                    ..Self::default()
                };
            }
            Notice::StageQueued { stage } => self.queued.push((*stage).clone()),
            Notice::StageStarted { stage, progress } => {
                self.queued.retain(|queued| queued != *stage);
                let before = self.take(stage, now);
                let expected = self.expected.remove(*stage).or(before).unwrap_or_default();
                self.running.push(Running {
                    stage: (*stage).clone(),
                    progress: Arc::clone(progress),
                    began: now,
                    expected,
                    measured: VecDeque::from([(now, progress.rows())]),
                    waiting: None,
                    said: now,
                });
            }
            Notice::StageFinished { outcome, .. } => self.end(&outcome.stage, now),
            Notice::StageFailed { stage, .. } => self.end(stage, now),
            Notice::Remark { .. }
            | Notice::StageRetried { .. }
            | Notice::CheckFailed { .. }
            | Notice::Finished { .. } => {}
        }
    }

    fn end(&mut self, stage: &StageName, now: Duration) {
        self.ended += 1;
        self.queued.retain(|queued| queued != stage);
        self.expected.remove(stage);
        self.take(stage, now);
    }

    /// Takes a stage out of those that run; how long it was expected to take, if it ran.
    fn take(&mut self, stage: &StageName, now: Duration) -> Option<Duration> {
        let at = self.running.iter().position(|running| running.stage == *stage)?;
        let running = self.running.remove(at);
        self.spent += now.saturating_sub(running.began);
        self.requests = self.requests + running.progress.requests().unwrap_or_default();
        Some(running.expected)
    }

    /// Measures how fast the stages are.
    pub fn tick(&mut self, now: Duration) {
        self.running.iter_mut().for_each(|running| running.measure(now));
    }

    /// The stages under way, the oldest first.
    pub fn running(&self) -> &[Running] {
        &self.running
    }

    /// The share of the run that is done, by time: what was spent of that and of what is left. Below 1 before
    /// its end.
    pub fn share(&self, now: Duration) -> f64 {
        let elapsed = |running: &Running| now.saturating_sub(running.began);
        let spent = self.spent + self.running.iter().map(elapsed).sum::<Duration>();
        // Who waits for its turn is served as others are by then.
        let asking = self.running.iter().filter(|running| running.progress.requests().is_some());
        let pace = asking.filter_map(|running| running.pace(now)).min_by(f64::total_cmp);
        let left = self.running.iter().map(|running| {
            let in_turn = || running.wait_shown(now).and_then(|_| running.left_at(pace?));
            // One that takes longer than expected is not about to end for that.
            let guess = running.expected.saturating_sub(elapsed(running));
            let guess = guess.max(elapsed(running) / 4);
            running.left(now).or_else(in_turn).unwrap_or(guess)
        });
        let left = left.sum::<Duration>() + self.expected.values().sum::<Duration>();
        let (spent, left) = (spent.as_secs_f64(), left.as_secs_f64());
        if spent > 0.0 { (spent / (spent + left)).min(0.99) } else { 0.0 }
    }

    /// The run as a whole, in words.
    pub fn words(&self, now: Duration) -> Vec<String> {
        let wall = now.saturating_sub(self.began);
        let mut words = vec![format!("{}/{} stages", self.ended, self.stages), clock(wall)];
        let share = self.share(now);
        // Guesses about the beginning are worth little.
        if wall >= Duration::from_secs(5) && (0.03..0.99).contains(&share) {
            let left = (wall.as_secs_f64() * (1.0 - share) / share).round();
            words.push(format!("about {} left", clock(Duration::from_secs_f64(left))));
        }
        match self.queued.len() {
            0 => {}
            1 => words.push("1 waits for a core".to_owned()),
            n => words.push(format!("{n} wait for a core")),
        }
        words
    }

    /// A line about each stage that computes and was not spoken of for `silence`, for logs.
    pub fn due(&mut self, silence: Duration, now: Duration) -> Vec<String> {
        let whole = self.words(now).join(", ");
        let mut lines = Vec::new();
        for running in &mut self.running {
            if now.saturating_sub(running.said) >= silence {
                running.said = now;
                let words = running.status(now).words.join(", ");
                lines.push(format!("{}: {words}; {whole}", running.stage));
            }
        }
        lines
    }

    /// Requests to models by all stages that ended; `None` if there were none.
    pub fn requests(&self, wall: Duration) -> Option<String> {
        (self.requests != Counts::default()).then(|| model_usage::in_all(&self.requests, wall))
    }
}

impl Running {
    fn measure(&mut self, now: Duration) {
        if self.wait().is_none() {
            self.waiting = None;
        } else {
            self.waiting.get_or_insert(now);
        }
        // A training evaluates its dev set first, if that is configured, and that is no step.
        let begins = self.progress.training().is_some_and(|training| training.step == 0);
        if begins || self.wait_shown(now).is_some() {
            // The pace before says nothing about the one after.
            self.measured.clear();
            return;
        }
        let last = self.measured.back().map_or(Duration::ZERO, |(at, _)| *at);
        if self.measured.is_empty() || now.saturating_sub(last) >= STEP {
            self.measured.push_back((now, self.done().0));
        }
        // One that is older stays, so that the window is whole.
        while self.measured.get(1).is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW) {
            self.measured.pop_front();
        }
    }

    /// Rows, steps or entries: how many, of how many.
    fn done(&self) -> (u64, Option<u64>) {
        if let Some(training) = self.progress.training() {
            return (training.step, Some(training.steps));
        }
        if let Some((entries, total)) = self.progress.entries() {
            return (entries, Some(total));
        }
        let rows = self.progress.rows();
        (rows, self.progress.rows_total().map(|total| total.max(rows)))
    }

    /// Rows, steps or entries a second, of late.
    fn pace(&self, now: Duration) -> Option<f64> {
        let (since, before) = *self.measured.front()?;
        let time = now.saturating_sub(since);
        let rows = self.done().0.checked_sub(before).filter(|rows| *rows > 0)?;
        (time >= SHORT).then(|| rows as f64 / time.as_secs_f64())
    }

    /// How long it goes on; `None` if unknown.
    fn left(&self, now: Duration) -> Option<Duration> {
        self.left_at(self.pace(now)?)
    }

    fn left_at(&self, pace: f64) -> Option<Duration> {
        let (done, total) = self.done();
        let left = total?.saturating_sub(done) as f64 / pace;
        Duration::try_from_secs_f64(left.round()).ok()
    }

    /// What all of its requests wait for; `None` if a model works on one, or there are none.
    fn wait(&self) -> Option<Waiting> {
        let counters = self.progress.counters();
        let waits = counters.waits().now();
        let (turns, held): (Vec<_>, Vec<_>) =
            waits.into_iter().partition(|waiting| waiting.what == WaitFor::Turn);
        let at_the_model: u64 = held.iter().map(|waiting| waiting.requests).sum();
        if counters.in_flight() > at_the_model {
            return None;
        }
        held.into_iter().max_by_key(|waiting| waiting.requests).or(turns.first().copied())
    }

    /// The wait, if it is not a short one.
    fn wait_shown(&self, now: Duration) -> Option<Waiting> {
        let since = self.waiting?;
        self.wait().filter(|_| now.saturating_sub(since) >= SHORT)
    }

    /// How far it is.
    pub fn status(&self, now: Duration) -> Status {
        let elapsed = now.saturating_sub(self.began);
        let (done, total) = self.done();
        let training = self.progress.training();
        let unit = match (training, self.progress.entries(), total.unwrap_or(done)) {
            (Some(_), _, _) => "steps",
            (None, Some(_), _) => "entries",
            (None, None, 1) => "row",
            (None, None, _) => "rows",
        };
        let of = total.map(|total| format!("/{}", count(total))).unwrap_or_default();
        // Of a query that sorts its rows, none is there before the last is answered.
        let answered = self.progress.requests().filter(|_| done == 0 && total.is_none());
        let mut words = vec![match answered {
            Some(counts) => format!("{} answers", count(counts.replayed + counts.answered)),
            None => format!("{}{of} {unit}", count(done)),
        }];
        if let Some(waiting) = self.wait_shown(now) {
            words.push(waits(&waiting, now));
        } else if let Some(training) = training.filter(|training| training.step > 0) {
            words.push(format!("loss {}", format_float(training.loss)));
        } else if let Some(counts) = self.progress.requests() {
            words.push(model_usage::under_way(&counts, elapsed));
        } else if let Some(pace) = self.pace(now) {
            let each = self.progress.entries().map_or("rows", |_| "entries");
            words.push(match pace {
                slow if slow < 9.95 => format!("{slow:.1} {each}/s"),
                fast => format!("{} {each}/s", count(fast.round() as u64)),
            });
        }
        words.push(match self.left(now) {
            Some(left) => format!("{} left", clock(left)),
            None => clock(elapsed),
        });
        words.retain(|word| !word.is_empty());
        let share = total.filter(|total| *total > 0).map(|total| done as f64 / total as f64);
        Status { share, words }
    }
}

/// What is waited for, and how long yet.
fn waits(waiting: &Waiting, now: Duration) -> String {
    let time = waiting.until.map(|until| until.saturating_sub(now));
    let time = time.map(|time| format!(" {}", clock(time))).unwrap_or_default();
    match waiting.what {
        WaitFor::Turn => "waits for its turn at the model".to_owned(),
        WaitFor::Loading => "waits for the model to load".to_owned(),
        WaitFor::RateLimit => format!("waits{time} for the rate limit"),
        WaitFor::RetryAfter => format!("waits{time}, set by the endpoint (Retry-After)"),
        WaitFor::Backoff => format!("waits{time} before the next retry"),
        WaitFor::Budget => "is not sent: the budget of the run is spent".to_owned(),
    }
}
