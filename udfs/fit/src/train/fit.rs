//! The training loop: pairs in, a model out.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::atomic::{self, AtomicBool};
use std::time::Duration;

use crate::data::batch::{Order, Pair, tokens_of};
use crate::data::input;
use crate::error::{FitError, Set};
use crate::graph::gradients::{Computer, Mode};
use crate::model::fitted::Fitted;
use crate::model::origin::Origin;
use crate::model::start::Start;
use crate::rng::{CounterRng, Purpose};
use crate::settings::Checked;
use crate::train::judge::exact_match;
use crate::train::learning_rate::rate;
use crate::train::optimizer;
use crate::train::progress::{Look, Progress, Report};
use crate::train::reward::Baseline;
use crate::train::state::{Best, State, digest};
use crate::train::task::{Examples, Task};
use proofmill_settings::fit::{Judge, Keep, Objective, Save, Training};

/// How a fit runs on this machine. None of it changes a byte of the result.
pub struct Run<'a> {
    /// Parts of a step that are computed at the same time; at least 1.
    pub threads: usize,
    /// A checkpoint file, written at every evaluation and when the fit is cancelled. If it is there, the
    /// fit resumes from it.
    pub state: Option<&'a Path>,
    /// Ends the fit before the next step once it is true.
    pub cancel: &'a AtomicBool,
    /// A folder that is written while the judge is `exact_match`; nothing lies there else.
    pub scratch: &'a Path,
    /// Time since some moment; only for the speed in reports.
    pub clock: &'a dyn Fn() -> Duration,
    pub progress: &'a mut dyn Progress,
}

/// Trains a model on `train`, and stops by `dev` if there are any and the settings say so.
pub fn fit(
    settings: &Training,
    start: &Start,
    train: &[Pair],
    dev: &[Pair],
    run: Run<'_>,
) -> Result<Fitted, FitError> {
    settings.check()?;
    if train.is_empty() {
        return Err(FitError::NoPairs);
    }
    let patience = settings.patience.map(|most| ("patience", most.to_string()));
    let before = settings.evaluate_start.then(|| ("evaluate_start", "true".to_owned()));
    if let (Some((setting, value)), true) = (patience.or(before), dev.is_empty()) {
        return Err(FitError::NoDev { setting, value });
    }
    input::check(Set::Train, train, settings)?;
    input::check(Set::Dev, dev, settings)?;
    for (set, pairs) in [(Set::Train, train), (Set::Dev, dev)] {
        if settings.objective == Objective::Similarity && pairs.len() == 1 {
            return Err(FitError::OnePair { set });
        }
    }
    let origin = start.origin(settings.objective, train, settings.seed)?;
    let dev_texts = dev;
    let train = input::encode(Set::Train, train, &origin, settings)?;
    let dev = input::encode(Set::Dev, dev, &origin, settings)?;
    let digest = digest(settings, &origin, &train, &dev)?;
    let task = Task::new(settings, &origin);
    let train = task.examples(train, &origin, run.threads)?;
    let dev = task.examples(dev, &origin, run.threads)?;
    let kept = match run.state {
        Some(file) => State::read(file, &digest, &origin.plan)?,
        None => None,
    };
    let state = kept.unwrap_or_else(|| State::new(origin.weights.clone()));
    let (train, dev) = (&train, &dev);
    Fit { settings, origin: &origin, task, train, dev, dev_texts, digest, state }.run(run)
}

/// A fit under way.
struct Fit<'a> {
    settings: &'a Training,
    origin: &'a Origin,
    task: Task,
    train: &'a Examples,
    dev: &'a Examples,
    /// The dev pairs as texts.
    dev_texts: &'a [Pair],
    digest: String,
    state: State,
}

impl Fit<'_> {
    fn run(mut self, run: Run<'_>) -> Result<Fitted, FitError> {
        let Training { batch, seed, .. } = *self.settings;
        let pairs = &self.train.pairs;
        let mut order = Order::new(pairs, batch as usize, seed, self.task.compares());
        let inertia = self.settings.baseline;
        let mut baseline = Baseline::after(pairs, &mut order, self.state.step, inertia);
        let (began, mut tokens) = ((run.clock)(), 0);
        for look in &self.state.looks {
            run.progress.report(&look.report(self.settings.steps));
        }
        if self.settings.evaluate_start && self.state.step == 0 && self.state.looks.is_empty() {
            let mut report = Report::before(self.settings.steps);
            self.evaluate(&mut report, &run)?;
            self.state.looks.push(Look::of(&report));
            run.progress.report(&report);
        }
        while !self.is_done() {
            if run.cancel.load(atomic::Ordering::Relaxed) {
                self.keep(run.state)?;
                let kept = run.state.is_some();
                return Err(FitError::Cancelled { step: self.state.step, kept });
            }
            let pairs = order.step(self.state.step);
            tokens += tokens_of(&self.train.pairs, pairs);
            let mut report = self.step(pairs, baseline.value, run.threads)?;
            baseline.take(&self.train.pairs, pairs);
            let due = self.state.step.is_multiple_of(self.settings.evaluate_every)
                || self.state.step == self.settings.steps;
            if due && !self.dev.pairs.is_empty() {
                self.evaluate(&mut report, &run)?;
            }
            if due {
                self.state.looks.push(Look::of(&report));
                self.keep(run.state)?;
            }
            let seconds = (run.clock)().saturating_sub(began).as_secs_f64();
            report.tokens_per_second = if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 };
            run.progress.report(&report);
        }
        self.fitted()
    }

    fn is_done(&self) -> bool {
        let impatient = self.settings.patience.is_some_and(|most| self.state.stale >= most);
        impatient || self.state.step >= self.settings.steps
    }

    fn keep(&self, file: Option<&Path>) -> Result<(), FitError> {
        file.map_or(Ok(()), |file| self.state.write(file, &self.digest))
    }

    /// Changes the weights once.
    fn step(&mut self, pairs: &[usize], baseline: f64, threads: usize) -> Result<Report, FitError> {
        let Self { settings, origin, state, .. } = self;
        let learning_rate = rate(settings, state.step);
        let mode = Mode {
            rng: CounterRng::new(settings.seed, Purpose::Dropout).of(u64::from(state.step)),
            dropout: settings.dropout,
            smoothing: settings.label_smoothing,
            baseline,
        };
        state.step += 1;
        let computer = Computer::new(&origin.plan, &state.weights, threads);
        let (loss, grad) = self.task.gradient(&computer, self.train, pairs, mode)?;
        let length = optimizer::length(&grad);
        for (what, value) in [("the loss", loss), ("the gradient", length)] {
            if !value.is_finite() {
                return Err(FitError::NotFinite { what, value, step: state.step, learning_rate });
            }
        }
        optimizer::step(
            settings,
            &origin.plan.parameters,
            &mut state.weights,
            &mut state.moments,
            &grad,
            length,
            (state.step, learning_rate),
        );
        Ok(Report {
            step: state.step,
            steps: settings.steps,
            loss: Some(loss),
            dev_loss: None,
            exact_match: None,
            best: false,
            gradient: length,
            learning_rate,
            tokens_per_second: 0.0,
        })
    }

    /// Looks at the dev pairs.
    fn evaluate(&mut self, report: &mut Report, run: &Run<'_>) -> Result<(), FitError> {
        let state = &mut self.state;
        let computer = Computer::new(&self.origin.plan, &state.weights, run.threads);
        let loss = self.task.loss(&computer, self.dev, self.settings.batch as usize)?;
        if !loss.is_finite() {
            let (step, learning_rate) = (state.step, report.learning_rate);
            let (what, value) = ("the dev loss", loss);
            return Err(FitError::NotFinite { what, value, step, learning_rate });
        }
        let exact_match = match self.settings.judge {
            Judge::Loss => None,
            Judge::ExactMatch => {
                let evaluation = (state.step, state.step, Some(loss));
                let fitted = Fitted::new(self.origin, &state.weights, Save::F32, evaluation)?;
                let longest = self.dev.pairs.iter().map(|pair| pair.output.len()).max();
                let tokens = longest.unwrap_or(1) as u32;
                Some(exact_match(&fitted, self.dev_texts, tokens, run.scratch, run.threads)?)
            }
        };
        let better = |best: &Best| match exact_match.partial_cmp(&best.exact_match) {
            Some(Ordering::Equal) | None => loss < best.loss,
            Some(order) => order == Ordering::Greater,
        };
        report.best = state.best.as_ref().is_none_or(better);
        (report.dev_loss, report.exact_match) = (Some(loss), exact_match);
        if report.best {
            let weights = state.weights.clone();
            state.best = Some(Best { step: state.step, loss, exact_match, weights });
            state.stale = 0;
        } else {
            state.stale += 1;
        }
        Ok(())
    }

    fn fitted(self) -> Result<Fitted, FitError> {
        let State { step, weights, best, .. } = self.state;
        let save = self.settings.save;
        match (best, self.settings.keep) {
            (Some(best), Keep::Best) => {
                let evaluation = (step, best.step, Some(best.loss));
                Fitted::new(self.origin, &best.weights, save, evaluation)
            }
            (best, _) => {
                let loss = best.filter(|best| best.step == step).map(|best| best.loss);
                Fitted::new(self.origin, &weights, save, (step, step, loss))
            }
        }
    }
}
