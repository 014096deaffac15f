//! What entries of a run's log say together: how its stages ended, and when it was at work.

use indexmap::IndexMap;
use proofmill_base::ids::StageName;
use proofmill_store::{Entry, Session, StageOutcome, StageStatus};

use crate::event::Event;

/// Stages that ended well, by name. What a run computed stays so when it finds its own table later.
#[derive(Clone, Debug, Default)]
pub struct Outcomes(IndexMap<StageName, StageOutcome>);

impl Outcomes {
    /// Adds how a stage ended.
    pub fn add(&mut self, outcome: &StageOutcome) {
        let is_known = |known: &StageOutcome| {
            outcome.status == StageStatus::Cached && known.artifact == outcome.artifact
        };
        if !self.0.get(&outcome.stage).is_some_and(is_known) {
            self.0.insert(outcome.stage.clone(), outcome.clone());
        }
    }

    /// How a stage ended.
    pub fn get(&self, stage: &StageName) -> Option<&StageOutcome> {
        self.0.get(stage)
    }

    /// All of them, in the order in which they ended first.
    pub fn all(self) -> Vec<StageOutcome> {
        self.0.into_values().collect()
    }
}

/// When a run was at work: from each start to the last entry before the next.
pub fn sessions(entries: &[Entry<Event>]) -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::new();
    for entry in entries {
        match (entry.event(), sessions.last_mut()) {
            (Some(Event::Started { .. }), _) | (_, None) => {
                sessions.push(Session { started_at: entry.t_utc, finished_at: entry.t_utc });
            }
            (_, Some(session)) => session.finished_at = entry.t_utc,
        }
    }
    sessions
}
