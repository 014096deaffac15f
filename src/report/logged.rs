//! A run as entries of the log. Which run, stage and attempt an entry is about is given by the
//! spans that it happens in; what is logged outside of its stage names it.

use proofmill_udfs::model::Counts;
use tracing::{error, info, warn};

use crate::run::notice::{Notice, Observer};
use proofmill_pipeline::checks::CheckSeverity;
use proofmill_store::{Outcome, StageOutcome, StageStatus};

/// Logs each notice.
pub struct Logged;

impl Observer for Logged {
    fn notice(&self, notice: &Notice<'_>) {
        match notice {
            Notice::Started { stages, cached, .. } => info!(stages, cached, "run started"),
            Notice::Remark { text } => warn!("{text}"),
            Notice::StageQueued { .. } => {}
            Notice::StageStarted { .. } => info!("stage started"),
            Notice::StageRetried { message, delay, .. } => {
                warn!(
                    reason = message,
                    delay_ms = delay.as_millis() as u64,
                    "stage is tried again"
                );
            }
            Notice::StageFinished { outcome, notes, requests } => {
                for note in *notes {
                    info!(stage = %outcome.stage, note, "stage has a note");
                }
                stage_finished(outcome, requests.unwrap_or_default());
            }
            Notice::CheckFailed { stage, verdict } => {
                let (check, reason) = (&verdict.check, &verdict.message);
                match verdict.severity {
                    CheckSeverity::Error => error!(%stage, check, reason, "check failed"),
                    CheckSeverity::Warn => warn!(%stage, check, reason, "check failed"),
                }
            }
            Notice::StageFailed { stage, message } => {
                error!(%stage, reason = message, "stage failed");
            }
            Notice::Finished { outcome, wall } => {
                let ms = wall.as_millis() as u64;
                match outcome {
                    Outcome::Succeeded => info!(ms, "run succeeded"),
                    Outcome::Failed => error!(ms, "run failed"),
                    Outcome::Interrupted => warn!(ms, "run was stopped"),
                }
            }
        }
    }
}

fn stage_finished(outcome: &StageOutcome, counts: Counts) {
    let StageOutcome { stage, kind, rows, bytes, error_rows, wall_ms: ms, .. } = outcome;
    let fingerprint = outcome.fingerprint.map(|it| it.to_string()).unwrap_or_default();
    let status = match outcome.status {
        StageStatus::Computed => "computed",
        StageStatus::Cached => "cached",
        StageStatus::Failed => "failed",
        StageStatus::Skipped => "skipped",
    };
    let Counts { sent: asked, replayed, failed, prompt_tokens, output_tokens, .. } = counts;
    info!(
        %stage, kind, fingerprint, status, rows, bytes, error_rows, ms,
        asked, replayed, failed, prompt_tokens, output_tokens,
        "stage finished"
    );
}
