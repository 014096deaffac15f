//! How a run ended, as its own records show it.

use proofmill_base::digest::Digest;
use proofmill_base::ids::{PipelineName, RunId};
use proofmill_store::{
    Claimed, Entry, Head, Life, Outcome, Store, StoreError, life, read_log_to_head, read_manifest,
    run_ids,
};

use crate::audit::entry::{AdoptedRun, AuditEvent, Ending};
use crate::event::Event;

/// What the records of a run say of its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// `None` before it began.
    pub pipeline: Option<PipelineName>,
    /// `None` while it may go on.
    pub ending: Option<Ending>,
    /// Digest of the stored bytes of its manifest; none if it is not published.
    pub manifest: Option<Digest>,
    /// The last entry of its log.
    pub log: Option<Head>,
}

impl Records {
    /// Those of `run`.
    ///
    /// # Errors
    ///
    /// If they are damaged, or the store fails.
    pub async fn of(store: &Store, run: &RunId) -> Result<Self, StoreError> {
        if let Some(manifest) = read_manifest(store, run).await? {
            let record = &manifest.record;
            return Ok(Self {
                pipeline: Some(record.pipeline.name.clone()),
                ending: Some(record.outcome.into()),
                manifest: Some(manifest.sha256),
                log: Some(record.log),
            });
        }
        // Looked at before the log: a process that is gone appends nothing more.
        let life = life(store, &Claimed::run(run)).await?;
        let (entries, log) = read_log_to_head::<Event>(store, run).await?;
        let (mut pipeline, mut finished) = (None, None);
        for event in entries.iter().filter_map(Entry::event) {
            match event {
                Event::Started { pipeline: started, .. } => {
                    (pipeline, finished) = (Some(started.name.clone()), None);
                }
                Event::Finished { outcome } => finished = Some(*outcome),
                Event::Stages(_) | Event::Failed { .. } => {}
            }
        }
        let ending = match finished {
            Some(Outcome::Failed) => Some(Ending::Failed),
            Some(Outcome::Interrupted) => Some(Ending::Stopped),
            // One whose stages all succeeded still has to be published.
            Some(Outcome::Succeeded) | None if life != Life::Dead => None,
            Some(Outcome::Succeeded) | None if entries.is_empty() => Some(Ending::NotBegun),
            Some(Outcome::Succeeded) | None => Some(Ending::Killed),
        };
        Ok(Self { pipeline, ending, manifest: None, log })
    }
}

/// The runs of a store without an audit log, as its first entry names them; `None` if it has none.
///
/// # Errors
///
/// If the store fails. A run whose records cannot be read has no pipeline.
pub async fn adopted(store: &Store) -> Result<Option<AuditEvent>, StoreError> {
    let mut runs = Vec::new();
    for run in run_ids(store).await?.into_iter().rev() {
        let records = match Records::of(store, &run).await {
            // One that has a sign of life only is about to begin.
            Ok(Records { manifest: None, log: None, .. }) => continue,
            Ok(records) => records,
            Err(error) if error.is_broken_record() || error.is_newer() => Records::default(),
            Err(error) => return Err(error),
        };
        let Records { pipeline, ending: how, manifest, .. } = records;
        runs.push(AdoptedRun { run, pipeline, how, manifest });
    }
    Ok((!runs.is_empty()).then_some(AuditEvent::Adopted { runs }))
}
