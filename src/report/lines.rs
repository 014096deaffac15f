//! A run as lines of text, for logs: one line an event.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::console;
use crate::report::model_usage;
use crate::report::units::{bytes, duration, plural};
use crate::report::watch::Watched;
use crate::run::notice::{Notice, Observer};
use proofmill_base::clock::Clock;
use proofmill_base::styled::printable;
use proofmill_pipeline::checks::CheckSeverity;
use proofmill_store::{Outcome, StageOutcome, StageStatus};

/// Longest row of a check that is shown, in characters.
const EXAMPLE_CHARS_MAX: usize = 300;

/// How long a stage may compute without a line about it.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Writes each notice as a line to standard error, and one now and then about stages that compute. If that fails,
/// the run goes on.
pub struct Lines {
    clock: Arc<dyn Clock>,
    watched: Mutex<Watched>,
}

impl Lines {
    /// The caller calls [`Self::tick`] now and then.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, watched: Mutex::default() }
    }

    /// Writes what is due about stages that compute.
    pub fn tick(&self) {
        self.due().iter().for_each(|line| console::remark(&line.into()));
    }

    fn due(&self) -> Vec<String> {
        let (mut watched, now) = (self.watched(), self.clock.monotonic());
        watched.tick(now);
        watched.due(SILENCE_MAX, now)
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Lines {
    fn notice(&self, notice: &Notice<'_>) {
        let mut watched = self.watched();
        watched.notice(notice, self.clock.monotonic());
        line(notice, &watched).iter().for_each(|line| console::remark(&line.into()));
    }
}

/// The notice as a line; `None` for what only a display of its progress shows. `watched` has taken note of it.
pub fn line(notice: &Notice<'_>, watched: &Watched) -> Option<String> {
    Some(match notice {
        Notice::Started { run, stages, cached, .. } => {
            let stages = plural(*stages, "stage");
            format!("run {run}: {stages}, {cached} in the store")
        }
        Notice::Remark { text } => format!("remark: {}", printable(text, true)),
        Notice::StageQueued { .. } | Notice::StageStarted { .. } => return None,
        Notice::StageRetried { stage, message, delay } => {
            format!("retrying {stage} in {}: {}", duration(*delay), printable(message, true))
        }
        Notice::StageFinished { outcome, notes, requests } => {
            if outcome.status == StageStatus::Cached {
                return reused(outcome);
            }
            let rows = plural(outcome.rows as usize, "row");
            let size = bytes(outcome.bytes);
            let time = duration(Duration::from_millis(outcome.wall_ms));
            let errors = match outcome.error_rows {
                0 => String::new(),
                n => format!(", {}", plural(n as usize, "error row")),
            };
            let notes: Vec<_> =
                notes.iter().map(|note| format!("\n  note: {}", printable(note, true))).collect();
            let wall = Duration::from_millis(outcome.wall_ms);
            let requests =
                requests.map(|counts| format!("; {}", model_usage::at_the_end(&counts, wall)));
            let requests = requests.unwrap_or_default();
            format!(
                "done {}: {rows}, {size}{errors}, {time}{requests}{}",
                outcome.stage,
                notes.concat()
            )
        }
        Notice::CheckFailed { stage, verdict } => {
            let level = match verdict.severity {
                CheckSeverity::Error => "check failed",
                CheckSeverity::Warn => "warning",
            };
            let rows = verdict.examples.iter();
            let rows: Vec<_> =
                rows.map(|row| format!("\n    {}", shortened(&printable(row, true)))).collect();
            format!(
                "{level} {stage}: `{}`: {}{}",
                printable(&verdict.check, true),
                printable(&verdict.message, true),
                rows.concat()
            )
        }
        Notice::StageFailed { stage, message } => {
            let lines: Vec<_> = message.lines().map(|line| printable(line, true)).collect();
            // No line of a message looks like one of ours.
            format!("failed {stage}: {}", lines.join("\n    "))
        }
        Notice::Finished { outcome, wall } => {
            let how = match outcome {
                Outcome::Succeeded => "succeeded",
                Outcome::Failed => "failed",
                Outcome::Interrupted => "was stopped",
            };
            let requests = watched.requests(*wall);
            let requests = requests.map(|text| format!("\nmodels: {text}")).unwrap_or_default();
            format!("run {how} after {}{requests}", duration(*wall))
        }
    })
}

/// A table that was there is spoken of if rows are missing from it.
fn reused(cached: &StageOutcome) -> Option<String> {
    let errors = cached.error_rows;
    (errors > 0).then(|| {
        format!(
            "reused {}: {}, {}; `--rerun {}` retries them",
            cached.stage,
            plural(cached.rows as usize, "row"),
            plural(errors as usize, "error row"),
            cached.stage
        )
    })
}

/// A row of a check on one line.
fn shortened(row: &str) -> String {
    match row.char_indices().nth(EXAMPLE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &row[..end]),
        None => row.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proofmill_udfs::model::Counts;

    use super::*;

    fn outcome() -> StageOutcome {
        StageOutcome {
            stage: "answers".parse().unwrap(),
            kind: "generate".to_owned(),
            fingerprint: None,
            status: StageStatus::Computed,
            cached_from: None,
            rows: 120,
            bytes: 33 << 10,
            error_rows: 2,
            wall_ms: 6500,
            artifact: None,
        }
    }

    #[test]
    fn a_stage_with_inference_reports_its_requests() {
        let requests = Counts {
            rows: 122,
            settled: 122,
            sent: 118,
            answered: 116,
            replayed: 4,
            failed: 2,
            prompt_tokens: 8000,
            output_tokens: 21,
            ..Counts::default()
        };
        let said = |requests, notes: &[String]| {
            let notice = Notice::StageFinished { outcome: &outcome(), notes, requests };
            line(&notice, &Watched::default()).unwrap()
        };
        insta::assert_snapshot!(
            said(Some(requests), &["nothing else".to_owned()]),
            @r"
        done answers: 120 rows, 33.0 KiB, 2 error rows, 6.5 s; 118 asked, 4 replayed, 2 failed, 1,234 tokens/s
          note: nothing else
        "
        );
        insta::assert_snapshot!(
            said(None, &[]),
            @"done answers: 120 rows, 33.0 KiB, 2 error rows, 6.5 s"
        );
    }
}
