//! A run on a terminal: a bar for each stage that computes, with its rows or steps, their rate and
//! what is left, above a bar for the whole.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

use crate::draw::cells::format_float;
use proofmill_base::styled::Styled;
use proofmill_base::ids::StageName;
use crate::report::asked;
use crate::report::lines::line;
use crate::report::units::count;
use crate::run::notice::{Notice, Observer};
use crate::stages::progress::Progress;
use proofmill_store::StageStatus;

/// How often bars are drawn.
const TICK: Duration = Duration::from_millis(120);
/// Stages that end faster than this never get a bar.
const BARS_MAX: usize = 8;

/// Draws bars on the terminal.
pub struct Terminal {
    bars: MultiProgress,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    whole: Option<ProgressBar>,
    stages: HashMap<StageName, Bar>,
}

/// The bar of one stage.
struct Bar {
    bar: ProgressBar,
    progress: Arc<Progress>,
    face: Face,
}

/// What a bar shows. A stage may find out on the way how many rows there are, ask a model, or train
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    /// Rows so far.
    Open,
    /// Rows of how many, and how long that takes.
    Known,
    /// Rows so far, and what models are asked.
    OpenAsking,
    /// Rows of how many, how long that takes, and what models are asked.
    KnownAsking,
    /// Steps of how many, the loss, and how long that takes.
    Training,
}

impl Face {
    fn of(progress: &Progress) -> Self {
        if progress.training().is_some() {
            return Self::Training;
        }
        match (progress.rows_total().is_some(), progress.asked().is_some()) {
            (false, false) => Self::Open,
            (true, false) => Self::Known,
            (false, true) => Self::OpenAsking,
            (true, true) => Self::KnownAsking,
        }
    }

    fn template(self) -> &'static str {
        match self {
            Self::Open => "  {prefix:<28} {spinner} {human_pos} rows  {rate}  {elapsed}",
            Self::Known => {
                "  {prefix:<28} {bar:24.cyan/dim} {human_pos}/{human_len} rows  {rate}  {eta} left"
            }
            Self::OpenAsking => "  {prefix:<28} {spinner} {human_pos} rows  {asked}  {elapsed}",
            Self::KnownAsking => {
                "  {prefix:<28} {bar:24.cyan/dim} {human_pos}/{human_len} rows  {asked}  {eta} left"
            }
            Self::Training => {
                "  {prefix:<28} {bar:24.cyan/dim} {human_pos}/{human_len} steps  {loss}  {eta} left"
            }
        }
    }

    fn style(self, progress: &Arc<Progress>) -> ProgressStyle {
        let (progress, trained) = (Arc::clone(progress), Arc::clone(progress));
        ProgressStyle::with_template(self.template())
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
                let _ = write!(out, "{} rows/s", count(state.per_sec() as u64));
            })
            .with_key("asked", move |state: &ProgressState, out: &mut dyn Write| {
                let counts = progress.asked().unwrap_or_default();
                let _ = out.write_str(&asked::under_way(&counts, state.elapsed()));
            })
            .with_key("loss", move |_: &ProgressState, out: &mut dyn Write| {
                let _ = out.write_str(&loss(&trained));
            })
    }
}

/// The loss of a training; nothing before its first step.
fn loss(progress: &Progress) -> String {
    let trained = progress.training().filter(|training| training.step > 0);
    trained.map(|training| format!("loss {}", format_float(training.loss))).unwrap_or_default()
}

impl Bar {
    /// Brings it up to date.
    fn update(&mut self) {
        let face = Face::of(&self.progress);
        if face != self.face {
            self.face = face;
            self.bar.set_style(face.style(&self.progress));
        }
        if let Some(training) = self.progress.training() {
            self.bar.set_length(training.steps);
            self.bar.set_position(training.step);
            return;
        }
        if let Some(total) = self.progress.rows_total() {
            self.bar.set_length(total.max(self.progress.rows()));
        }
        self.bar.set_position(self.progress.rows());
    }
}

impl Terminal {
    /// Draws on standard error; the caller calls [`Self::tick`] now and then.
    pub fn new() -> Self {
        Self { bars: MultiProgress::new(), state: Mutex::default() }
    }

    /// Brings the bars up to date.
    pub fn tick(&self) {
        let Ok(mut state) = self.state.lock() else { return };
        state.stages.values_mut().for_each(Bar::update);
    }

    fn begin(&self, stage: &StageName, progress: &Arc<Progress>) {
        let Ok(mut state) = self.state.lock() else { return };
        if state.stages.len() >= BARS_MAX {
            return;
        }
        let bar =
            ProgressBar::new(progress.rows_total().unwrap_or(0)).with_prefix(stage.to_string());
        let face = Face::of(progress);
        bar.set_style(face.style(progress));
        let bar = match &state.whole {
            Some(whole) => self.bars.insert_before(whole, bar),
            None => self.bars.add(bar),
        };
        bar.enable_steady_tick(TICK);
        state.stages.insert(stage.clone(), Bar { bar, progress: Arc::clone(progress), face });
    }

    fn end(&self, stage: &StageName) {
        let Ok(mut state) = self.state.lock() else { return };
        if let Some(Bar { bar, .. }) = state.stages.remove(stage) {
            bar.finish_and_clear();
            self.bars.remove(&bar);
        }
        if let Some(whole) = &state.whole {
            whole.inc(1);
        }
    }
}

impl Default for Terminal {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Terminal {
    fn notice(&self, notice: &Notice<'_>) {
        match notice {
            Notice::Started { stages, .. } => {
                let bar = self.bars.add(ProgressBar::new(*stages as u64));
                let style = ProgressStyle::with_template("{bar:30} {pos}/{len} stages  {elapsed}");
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                if let Ok(mut state) = self.state.lock() {
                    state.whole = Some(bar);
                }
            }
            Notice::StageStarted { stage, progress } => self.begin(stage, progress),
            Notice::StageFinished { outcome, .. } => self.end(&outcome.stage),
            Notice::StageFailed { stage, .. } => self.end(stage),
            Notice::Finished { .. } => {
                if let Ok(mut state) = self.state.lock()
                    && let Some(whole) = state.whole.take()
                {
                    whole.finish_and_clear();
                }
            }
            Notice::Remark { .. } | Notice::StageRetried { .. } | Notice::CheckFailed { .. } => {}
        }
        let quiet = matches!(notice, Notice::StageFinished { outcome, notes, asked: None }
            if outcome.status == StageStatus::Computed && notes.is_empty() && outcome.error_rows == 0);
        if let Some(line) = line(notice).filter(|_| !quiet) {
            let _ = self.bars.println(Styled::from(line).as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_face_can_be_drawn() {
        let rows = [Face::Open, Face::Known, Face::OpenAsking, Face::KnownAsking];
        for face in rows.into_iter().chain([Face::Training]) {
            assert!(ProgressStyle::with_template(face.template()).is_ok(), "{face:?}");
        }
    }

    #[test]
    fn a_bar_shows_what_turns_up_on_the_way() {
        let progress = Progress::default();
        assert_eq!(Face::of(&progress), Face::Open);
        progress.expect_rows(5);
        progress.add_rows(2);
        assert_eq!((Face::of(&progress), progress.rows()), (Face::Known, 2));
        progress.expect_answers(7);
        assert_eq!((progress.rows(), progress.rows_total()), (0, Some(7)));
    }

    #[test]
    fn a_training_shows_its_steps_and_its_loss() {
        let progress = Progress::default();
        progress.expect_rows(3);
        progress.expect_steps(400);
        assert_eq!((Face::of(&progress), loss(&progress)), (Face::Training, String::new()));
        progress.set_step(20, 1.5);
        let mut bar =
            Bar { bar: ProgressBar::hidden(), progress: Arc::new(progress), face: Face::Open };
        bar.update();
        assert_eq!((bar.bar.position(), bar.bar.length()), (20, Some(400)));
        assert_eq!((bar.face, loss(&bar.progress)), (Face::Training, "loss 1.5000".to_owned()));
    }
}
