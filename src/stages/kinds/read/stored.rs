//! `read: { run, stage }`: the table of a past run. Its rows stay where they are.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;
use proofmill_store::{Part, verify_part};

use crate::stages::error::StageError;
use crate::stages::kind::{Preparation, Preparing};
use crate::stages::kinds::read::limit::FirstRows;
use crate::stages::plan::{Execution, StagePlan};
use crate::stages::sink::Computed;
use crate::stages::stored_tables::StoredTable;
use crate::stages::tables::rows::of_parts;
use proofmill_base::digest::Digest;
use proofmill_pipeline::code::Code;
use proofmill_pipeline::kinds::read::{Read, StoredName};

/// A table of a past run.
#[derive(Debug)]
struct StoredPlan {
    parts: Vec<Part>,
    /// Rows that failed there.
    errors: Vec<Part>,
    /// The root of the table, where its record has one.
    rows_root: Option<Digest>,
    limit: Option<u64>,
    note: String,
}

#[async_trait]
impl StagePlan for StoredPlan {
    async fn compute(&self, execution: &Execution<'_>) -> Result<Computed, StageError> {
        for part in self.parts.iter().chain(&self.errors) {
            verify_part(&execution.sink.store, part).await?;
        }
        let (parts, rows_root) = (self.parts.clone(), self.rows_root);
        let mut computed = Computed { parts, rows_root, ..Computed::default() };
        let mut notes = vec![self.note.clone()];
        if let Some(limit) = self.limit {
            let mut limited = FirstRows::to(limit);
            let mut rows = of_parts(self.parts.clone(), execution.sink.store.clone());
            while let Some(batch) = rows.try_next().await? {
                limited.add(batch)?;
            }
            notes.extend(limited.note());
            if let Some(rows) = limited.finish()? {
                computed = execution.sink.table(rows).await?;
            }
        }
        Ok(Computed { errors: self.errors.clone(), notes, ..computed })
    }
}

/// Prepares a `read` of the table that `run` and `stage` name.
pub fn prepare(
    settings: &Read,
    (run, stage): (&StoredName, &StoredName),
    context: &mut Preparing<'_>,
) -> Option<Preparation> {
    let Preparing { from_store, components, diagnostics, .. } = context;
    let of_files = [
        ("format", settings.format.is_some()),
        ("compression", settings.compression.is_some()),
        ("encoding", settings.encoding.is_some()),
        ("columns", settings.columns.is_some()),
        ("records", settings.records.is_some()),
        ("delimiter", settings.delimiter.is_some()),
        ("header", settings.header.is_some()),
    ];
    if let Some((key, _)) = of_files.into_iter().find(|(_, given)| *given) {
        let message = format!("`{key}` applies to files, but this is the table of a run");
        let help = "leave it out; an `sql` stage can rename and convert columns".to_owned();
        diagnostics.error(&["read", key], Code::UnknownKey, message, Some(help));
        return None;
    }
    let name = (run.0.clone(), stage.0.clone());
    let table = match from_store.tables.get(&name) {
        Some(Ok(table)) => table,
        Some(Err((message, help))) => {
            let message = message.clone();
            diagnostics.error(&["read", "run"], Code::SourceMissing, message, help.clone());
            return None;
        }
        None => {
            let message = "no store is available to look up the run".to_owned();
            diagnostics.error(&["read", "run"], Code::SourceMissing, message, None);
            return None;
        }
    };
    let StoredTable { run, artifact, errors: of_errors } = table;
    let (parts, errors, rows_root) = match of_errors.is_some() {
        true => (artifact.errors.clone(), Vec::new(), None),
        false => (artifact.parts.clone(), artifact.errors.clone(), artifact.rows_root),
    };
    let schema = match of_errors {
        Some(schema) => Some(Arc::clone(schema)),
        None => artifact.arrow_schema().filter(|_| artifact.files.is_empty()).map(Arc::new),
    };
    let Some(schema) = schema else {
        let message = format!(
            "`{}` of run `{run}` is not a table: it is of kind `{}`",
            stage.0, artifact.kind
        );
        diagnostics.error(&["read", "stage"], Code::SourceMissing, message, None);
        return None;
    };
    components.set_settings(settings);
    // What counts is the table, wherever it lies; its error rows are part of it here.
    components.set("stored.sha256", artifact.digest());
    let failed: String = errors.iter().map(|part| format!("{}\n", part.sha256)).collect();
    components.set("stored.errors.sha256", Digest::of(failed.as_bytes()));
    components.set("stored.part", if of_errors.is_some() { "errors" } else { "rows" });
    let rows = parts.iter().map(|part| part.rows).sum::<u64>();
    let limit = settings.limit;
    let note = format!("the table `{}` of run {run}", stage.0);
    let plan = StoredPlan { parts, errors, rows_root, limit, note };
    Some(Preparation::new(schema, plan).expecting(limit.map_or(rows, |limit| limit.min(rows))))
}
