//! A run on a terminal: a bar for each stage that computes, with its rows, their rate and what is
//! left, above a bar for the whole.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

use crate::ids::StageName;
use crate::report::lines::line;
use crate::report::units::count;
use crate::run::notice::{Notice, Observer};
use crate::stages::progress::Progress;
use crate::store::StageStatus;

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
    stages: HashMap<StageName, (ProgressBar, Arc<Progress>)>,
}

impl Terminal {
    /// Draws on standard error; the caller calls [`Self::tick`] now and then.
    pub fn new() -> Self {
        Self { bars: MultiProgress::new(), state: Mutex::default() }
    }

    /// Brings the bars up to date.
    pub fn tick(&self) {
        let Ok(state) = self.state.lock() else { return };
        for (bar, progress) in state.stages.values() {
            if let Some(total) = progress.rows_total() {
                bar.set_length(total.max(progress.rows()));
            }
            bar.set_position(progress.rows());
        }
    }

    fn begin(&self, stage: &StageName, progress: &Arc<Progress>) {
        let Ok(mut state) = self.state.lock() else { return };
        if state.stages.len() >= BARS_MAX {
            return;
        }
        let known = progress.rows_total().is_some();
        let style = if known {
            "  {prefix:<28} {bar:24.cyan/dim} {human_pos}/{human_len} rows  {rate}  {eta} left"
        } else {
            "  {prefix:<28} {spinner} {human_pos} rows  {rate}  {elapsed}"
        };
        let bar =
            ProgressBar::new(progress.rows_total().unwrap_or(0)).with_prefix(stage.to_string());
        let style =
            ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{} rows/s", count(state.per_sec() as u64));
        }));
        let bar = match &state.whole {
            Some(whole) => self.bars.insert_before(whole, bar),
            None => self.bars.add(bar),
        };
        bar.enable_steady_tick(TICK);
        state.stages.insert(stage.clone(), (bar, Arc::clone(progress)));
    }

    fn end(&self, stage: &StageName) {
        let Ok(mut state) = self.state.lock() else { return };
        if let Some((bar, _)) = state.stages.remove(stage) {
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
            Notice::StageRetried { .. } | Notice::CheckFailed { .. } => {}
        }
        let quiet = matches!(notice, Notice::StageFinished { outcome, notes }
            if outcome.status == StageStatus::Computed && notes.is_empty() && outcome.error_rows == 0);
        if let Some(line) = line(notice).filter(|_| !quiet) {
            let _ = self.bars.println(line);
        }
    }
}
