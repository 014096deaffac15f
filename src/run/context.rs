//! What all stages of a run share.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use indexmap::IndexMap;
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::run::notice::Observer;
use crate::run::planned::RunPlan;
use crate::run::replay::Replay;
use crate::session::Engine;
use crate::stages::plan::Prepared;
use crate::stages::queries::second_plan::Tally;
use crate::stages::sink::Kept;
use proofmill_base::digest::Digest;
use proofmill_base::ids::{RunId, StageName};
use proofmill_store::Store;

/// What all stages of a run share.
pub struct Context {
    pub run: RunId,
    pub prepared: Prepared,
    /// What becomes of each.
    pub plan: RunPlan,
    pub engine: Arc<Engine>,
    pub store: Store,
    /// Folder on this machine for opened indexes; may be emptied at any time.
    pub cache: PathBuf,
    pub observer: Arc<dyn Observer>,
    /// Set when somebody stops the run.
    pub stop: CancellationToken,
    /// Permits to compute: one for each core.
    pub permits: Arc<Semaphore>,
    pub kept: Kept,
    /// What is computed again, if the run is a replay: nothing of it counts.
    pub replay: Option<Arc<Replay>>,
    /// Whether queries are computed by a second plan too.
    pub verify: bool,
    /// What these said.
    pub second_plans: Mutex<Tally>,
    /// Which tables have their rows; each is loaded once.
    pub bound: IndexMap<StageName, OnceCell<()>>,
}

impl Context {
    /// The digest of the table that a stage has in this run; `None` before it is known.
    pub fn digest(&self, name: &StageName) -> Option<Digest> {
        let filled = self.prepared.stages.get(name)?.table.stored().map(|stored| stored.digest);
        let planned = || Some(self.plan.stages.get(name)?.action.stored()?.record.digest());
        filled.or_else(planned)
    }
}
