//! The audit log as a run writes it; and endings that a process did not live to record, which the next one enters,
//! marked as late.

use std::collections::BTreeMap;

use proofmill_base::ids::RunId;
use proofmill_store::{Claimed, Life, PipelineRef, Store, Trigger, life, writer_name};

use crate::audit::entry::{AuditEvent, RunEnd};
use crate::audit::log::{AuditLog, AuditLogError, LogHead};
use crate::audit::records::Records;

/// Runs that one process looks at.
const LOOKED_AT_MAX: usize = 64;

/// The audit log as a run writes it.
#[derive(Clone, Debug)]
pub struct RunAudit {
    log: AuditLog,
    writer: String,
}

impl RunAudit {
    /// The log of `store`, after entering endings of runs whose processes are gone.
    ///
    /// # Errors
    ///
    /// If the log is broken, or the store fails.
    pub async fn open(store: &Store) -> Result<Self, AuditLogError> {
        let writer = writer_name(store);
        complete(store, &writer).await?;
        Ok(Self { log: AuditLog::of(store), writer })
    }

    /// Enters that a run begins.
    ///
    /// # Errors
    ///
    /// If the log is broken, or the store fails.
    pub async fn began(
        &self,
        run: &RunId,
        pipeline: &PipelineRef,
        trigger: &Trigger,
    ) -> Result<(), AuditLogError> {
        let (run, pipeline, trigger) = (run.clone(), pipeline.clone(), trigger.clone());
        let event = AuditEvent::RunBegan { run, pipeline, trigger };
        self.log.append(&self.writer, |_| Some(event.clone())).await.map(drop)
    }

    /// Enters that a run ended, and gives the head of the log after it.
    ///
    /// # Errors
    ///
    /// If the log is broken, or the store fails.
    pub async fn ended(&self, end: RunEnd) -> Result<Option<LogHead>, AuditLogError> {
        let event = AuditEvent::RunEnded(end);
        self.log.append(&self.writer, |_| Some(event.clone())).await
    }
}

/// Enters the endings of runs whose processes are gone.
async fn complete(store: &Store, writer: &str) -> Result<(), AuditLogError> {
    let log = AuditLog::of(store);
    let Some(head) = log.head().await? else { return Ok(()) };
    for open in head.state.open.iter().take(LOOKED_AT_MAX) {
        // One that is published and alive is about to enter its end itself.
        if life(store, &Claimed::run(&open.run)).await? == Life::Alive {
            continue;
        }
        let records = match Records::of(store, &open.run).await {
            Ok(records) => records,
            // What cannot be read is for `audit verify` to report.
            Err(error) if error.is_broken_record() || error.is_newer() => continue,
            Err(error) => return Err(error.into()),
        };
        let Some(how) = records.ending else { continue };
        let end = RunEnd {
            run: open.run.clone(),
            pipeline: open.pipeline.clone(),
            how,
            manifest: records.manifest,
            log: records.log,
            heads: BTreeMap::new(),
            late: true,
        };
        let event = |head: Option<&LogHead>| {
            let is_open = head.is_some_and(|head| head.state.is_open(&open.run));
            is_open.then(|| AuditEvent::RunEnded(end.clone()))
        };
        log.append(writer, event).await?;
    }
    Ok(())
}
