//! What the process of a run says with each beat, and how it obeys an order to stop.

use std::sync::{Arc, Mutex, PoisonError};

use proofmill_base::ids::StageName;
use proofmill_catalog::progress::{RunProgress, StageProgress};
use proofmill_store::Pulse;
use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;

use crate::run::notice::{Notice, Observer};
use crate::stages::progress::Progress;

/// Watches a run for its beats, and passes on what it sees.
pub struct RunPulse {
    observer: Arc<dyn Observer>,
    stop: CancellationToken,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    stages: usize,
    ended: usize,
    running: Vec<(StageName, Arc<Progress>)>,
}

impl RunPulse {
    /// For a run that `observer` watches and `stop` ends.
    pub fn new(observer: Arc<dyn Observer>, stop: CancellationToken) -> Self {
        Self { observer, stop, seen: Mutex::default() }
    }
}

impl Seen {
    fn end(&mut self, stage: &str) {
        self.ended += 1;
        self.running.retain(|(running, _)| running.as_str() != stage);
    }
}

impl Observer for RunPulse {
    fn notice(&self, notice: &Notice<'_>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match notice {
            Notice::Started { stages, .. } => *seen = Seen { stages: *stages, ..Seen::default() },
            Notice::StageStarted { stage, progress } => {
                seen.running.push(((*stage).clone(), Arc::clone(progress)));
            }
            Notice::StageFinished { outcome, .. } => seen.end(outcome.stage.as_str()),
            Notice::StageFailed { stage, .. } => seen.end(stage.as_str()),
            Notice::Remark { .. }
            | Notice::StageQueued { .. }
            | Notice::StageRetried { .. }
            | Notice::CheckFailed { .. }
            | Notice::Finished { .. } => {}
        }
        drop(seen);
        self.observer.notice(notice);
    }
}

impl Pulse for RunPulse {
    fn progress(&self) -> Json {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(stage, progress): &(StageName, Arc<Progress>)| StageProgress {
            stage: stage.clone(),
            rows: progress.rows(),
            rows_total: progress.rows_total(),
            requests: progress.requests().map_or(0, |counts| counts.replayed + counts.answered),
        };
        let running = seen.running.iter().map(of).collect();
        json!(RunProgress { stages: seen.stages, ended: seen.ended, running })
    }

    fn stop(&self) {
        self.stop.cancel();
    }
}
