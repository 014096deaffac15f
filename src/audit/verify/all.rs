//! A verification from its scope to its findings.

use proofmill_store::{Store, StoreError};

use crate::finding::{Level, Verified};
use crate::verify::scope::{Collected, Scope, Watcher};
use crate::verify::{dependants, entries, objects, others, runs, tables};

/// Verifies a store, or a run.
///
/// # Errors
///
/// If the store fails: then nothing is known of what was not examined. Whatever is wrong with the store itself is a finding.
pub async fn verify(
    store: &Store,
    scope: &Scope,
    watcher: &dyn Watcher,
) -> Result<Verified, StoreError> {
    let mut found = Collected::default();
    let log = entries::examine(store, scope, &mut found).await?;
    let runs = runs::examine(store, scope, &log, watcher, &mut found).await?;
    let (mut named, tables) = (runs.objects, runs.tables);
    if scope.run.is_none() {
        others::examine(store, &log, &runs.stages, &mut named, &mut found).await?;
    }
    if scope.level >= Level::Digests {
        objects::examine(store, scope, &named, watcher, &mut found).await?;
    }
    if scope.level >= Level::Rows {
        tables::examine(store, scope, &tables, &log.roots, watcher, &mut found).await?;
    }
    dependants::name(store, &runs.stages, &mut found.findings).await?;
    found.findings.sort_by(|a, b| (a.fault, &a.object).cmp(&(b.fault, &b.object)));
    found.findings.dedup();
    let Collected { examined, findings, attested, .. } = found;
    Ok(Verified { level: scope.level as u8, examined, findings, attested })
}
