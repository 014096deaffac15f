//! Which runs a store holds.

use object_store::ObjectStore as _;

use crate::error::Result;
use crate::layout::runs_prefix;
use crate::manifest::examine;
use crate::{Key, Manifest, Store, StoreError, Stored, manifest_key};
use proofmill_base::ids::{PipelineName, RunId};

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
    let runs = names.filter_map(|name| name.parse::<RunId>().ok());
    let mut runs: Vec<RunId> = runs.filter(|run| run.began().is_some()).collect();
    runs.sort_unstable_by(|a, b| b.cmp(a));
    Ok(runs)
}

/// The newest finished run of a pipeline, as far as its manifests can be read.
#[derive(Debug, Default)]
pub struct Latest {
    /// Its manifest; `None` if no run has finished.
    pub manifest: Option<Stored<Manifest>>,
    /// Newer manifests that cannot be read: one of them could be the one sought.
    pub unreadable: Vec<StoreError>,
}

/// The manifest of the newest finished run of a pipeline.
///
/// # Errors
///
/// When the store fails. A manifest that cannot be trusted is skipped and reported.
pub async fn latest_manifest(store: &Store, pipeline: &PipelineName) -> Result<Latest> {
    let mut latest = Latest::default();
    let runs = run_ids(store).await?;
    for runs in runs.chunks(MANIFESTS_PER_STEP) {
        let keys: Vec<Key> = runs.iter().map(manifest_key).collect();
        for (bytes, run) in store.get_all(&keys).await?.into_iter().zip(runs) {
            let Some(bytes) = bytes else { continue };
            match examine(run, &bytes) {
                Ok(manifest) if manifest.record.pipeline.name == *pipeline => {
                    latest.manifest = Some(manifest);
                    return Ok(latest);
                }
                Ok(_) => {}
                Err(error) => latest.unreadable.push(error),
            }
        }
    }
    Ok(latest)
}

/// The newest run that has a manifest, whatever state it is in.
///
/// # Errors
///
/// When the store fails.
pub async fn newest_published(store: &Store) -> Result<Option<RunId>> {
    let runs = run_ids(store).await?;
    for runs in runs.chunks(MANIFESTS_PER_STEP) {
        let keys: Vec<Key> = runs.iter().map(manifest_key).collect();
        let found = store.get_all(&keys).await?;
        if let Some((_, run)) = found.iter().zip(runs).find(|(bytes, _)| bytes.is_some()) {
            return Ok(Some(run.clone()));
        }
    }
    Ok(None)
}
