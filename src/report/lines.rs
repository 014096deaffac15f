//! A run as lines of text, for logs: one line an event.

use std::time::Duration;

use crate::console;
use crate::report::asked;
use crate::report::units::{bytes, count, duration, plural};
use crate::run::notice::{Notice, Observer};
use proofmill_base::styled::printable;
use proofmill_pipeline::checks::CheckSeverity;
use proofmill_store::{Outcome, StageStatus};

/// Longest row of a check that is shown, in characters.
const EXAMPLE_CHARS_MAX: usize = 300;

/// Writes each notice as a line to standard error. If that fails, the run goes on.
pub struct Lines;

impl Observer for Lines {
    fn notice(&self, notice: &Notice<'_>) {
        line(notice).iter().for_each(|line| console::remark(&line.into()));
    }
}

/// The notice as a line; `None` for what only a progress bar shows.
pub fn line(notice: &Notice<'_>) -> Option<String> {
    Some(match notice {
        Notice::Started { run, stages, cached } => {
            let stages = plural(*stages, "stage");
            format!("run {run}: {stages}, {cached} in the store")
        }
        Notice::Remark { text } => format!("remark: {}", printable(text, true)),
        Notice::StageStarted { .. } => return None,
        Notice::StageRetried { stage, message, delay } => {
            format!("retrying {stage} in {}: {}", duration(*delay), printable(message, true))
        }
        Notice::StageFinished { outcome, notes, asked } => {
            if outcome.status == StageStatus::Cached {
                return None;
            }
            let rows = plural(outcome.rows as usize, "row");
            let size = bytes(outcome.bytes);
            let time = duration(Duration::from_millis(outcome.wall_ms));
            let errors = match outcome.error_rows {
                0 => String::new(),
                n => format!(", {} error rows", count(n)),
            };
            let notes: Vec<_> =
                notes.iter().map(|note| format!("\n  note: {}", printable(note, true))).collect();
            let wall = Duration::from_millis(outcome.wall_ms);
            let asked = asked.map(|counts| format!("; {}", asked::at_the_end(&counts, wall)));
            let asked = asked.unwrap_or_default();
            format!(
                "done {}: {rows}, {size}{errors}, {time}{asked}{}",
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
            format!("run {how} after {}", duration(*wall))
        }
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
    use proofmill_store::StageOutcome;

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
    fn a_stage_that_asked_models_says_so() {
        let asked = Counts {
            rows: 122,
            settled: 122,
            asked: 118,
            answered: 116,
            replayed: 4,
            failed: 2,
            prompt_tokens: 8000,
            output_tokens: 21,
        };
        let said = |asked, notes: &[String]| {
            line(&Notice::StageFinished { outcome: &outcome(), notes, asked }).unwrap()
        };
        insta::assert_snapshot!(
            said(Some(asked), &["nothing else".to_owned()]),
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
