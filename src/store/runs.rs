//! Which runs a store holds.

use object_store::ObjectStore as _;

use crate::error::Result;
use crate::layout::runs_prefix;
use crate::{Key, Store};
use proofmill_base::ids::RunId;

/// All runs that have begun, newest first. Names that are no run ids are passed over.
///
/// # Errors
///
/// When the store cannot list, also after retries.
pub async fn run_ids(store: &Store) -> Result<Vec<RunId>> {
    let prefix = runs_prefix();
    let key = Key::try_from(prefix.to_string())?;
    let objects = store.objects();
    let listed = store.retry("list", &key, || objects.list_with_delimiter(Some(&prefix))).await?;
    let names = listed.common_prefixes.iter().filter_map(|path| path.filename());
    let runs = names.filter_map(|name| name.parse::<RunId>().ok());
    let mut runs: Vec<RunId> = runs.filter(|run| run.began().is_some()).collect();
    runs.sort_unstable_by(|a, b| b.cmp(a));
    Ok(runs)
}
