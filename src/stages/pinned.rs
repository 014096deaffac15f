//! A stage whose table is that of a past run, whatever it would read now: the same fingerprint, the same rows.

use std::sync::Arc;

use async_trait::async_trait;
use proofmill_store::{Artifact, verify_part};

use crate::stages::error::StageError;
use crate::stages::fingerprint::Components;
use crate::stages::kind::{Preparation, Preparing};
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::sink::Computed;
use proofmill_pipeline::code::Code;

/// The table of a past run.
#[derive(Debug)]
struct PinnedPlan(Arc<Artifact>);

#[async_trait]
impl StagePlan for PinnedPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        let Artifact { parts, errors, rows_root, .. } = self.0.as_ref();
        for part in parts.iter().chain(errors) {
            verify_part(&execution.sink.store, part).await?;
        }
        let (parts, errors, rows_root) = (parts.clone(), errors.clone(), *rows_root);
        Ok(Computed { parts, errors, rows_root, ..Computed::default() })
    }
}

/// Prepares a stage that has this table.
pub fn prepare(artifact: &Arc<Artifact>, context: &mut Preparing<'_>) -> Option<Preparation> {
    let Some(schema) = artifact.arrow_schema() else {
        let message = format!("the record of `{}` has no columns that can be read", artifact.stage);
        context.diagnostics.error(&[], Code::SourceMissing, message, None);
        return None;
    };
    context.components = Components::of_record(artifact);
    let rows = artifact.rows;
    Some(Preparation::new(Arc::new(schema), PinnedPlan(Arc::clone(artifact))).expecting(Some(rows)))
}
