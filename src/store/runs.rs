//! Which runs a store holds.

use object_store::ObjectStore as _;

use crate::ids::{PipelineName, RunId};
use crate::store::error::Result;
use crate::store::layout::runs_prefix;
use crate::store::manifest::examine;
use crate::store::{Key, Manifest, Store, Stored, manifest_key};

/// Manifests that a search reads at a time.
const MANIFESTS_PER_STEP: usize = 16;

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
    let mut runs: Vec<RunId> = names.filter_map(|name| name.parse().ok()).collect();
    runs.sort_unstable_by(|a, b| b.cmp(a));
    Ok(runs)
}

/// The manifest of the newest finished run, of one pipeline or of any.
///
/// # Errors
///
/// When the store fails, or a manifest on the way cannot be trusted: it could be the one sought.
pub async fn latest_manifest(
    store: &Store,
    pipeline: Option<&PipelineName>,
) -> Result<Option<Stored<Manifest>>> {
    let runs = run_ids(store).await?;
    for runs in runs.chunks(MANIFESTS_PER_STEP) {
        let keys: Vec<Key> = runs.iter().map(manifest_key).collect();
        for (bytes, run) in store.get_all(&keys).await?.into_iter().zip(runs) {
            let Some(bytes) = bytes else { continue };
            let manifest = examine(run, &bytes)?;
            if pipeline.is_none_or(|name| *name == manifest.record.pipeline.name) {
                return Ok(Some(manifest));
            }
        }
    }
    Ok(None)
}
