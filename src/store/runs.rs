//! Which runs a store holds.

use crate::Store;
use crate::error::Result;
use crate::layout::runs_prefix;
use proofmill_base::ids::RunId;

/// All runs that have begun, newest first. Names that are no run ids are passed over.
///
/// # Errors
///
/// When the store cannot list, also after retries.
pub async fn run_ids(store: &Store) -> Result<Vec<RunId>> {
    let names = store.folders(&runs_prefix()).await?;
    let runs = names.iter().filter_map(|name| name.parse::<RunId>().ok());
    let mut runs: Vec<RunId> = runs.filter(|run| run.began().is_some()).collect();
    runs.sort_unstable_by(|a, b| b.cmp(a));
    Ok(runs)
}
