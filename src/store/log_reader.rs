//! Reading the log of a run to its head, checking every link.

use futures::TryStreamExt as _;
use object_store::ObjectStore as _;
use serde::de::DeserializeOwned;

use crate::chain::Chain;
use crate::error::Result;
use crate::layout::log_prefix;
use crate::{Entry, Key, Store, StoreError, log_key};
use proofmill_base::ids::RunId;

/// Entries that a reader asks for at a time: first, and at most.
const WINDOW_MIN: u64 = 8;
const WINDOW_MAX: u64 = 128;
/// All entries of a run, in order, after checking the chain. Empty when the run has no log.
///
/// # Errors
///
/// What breaks the chain, naming the entry; a failure to read.
pub async fn read_log<E: DeserializeOwned + Send>(
    store: &Store,
    run: &RunId,
) -> Result<Vec<Entry<E>>> {
    let mut entries = Vec::new();
    read_on(store, &mut Chain::new(run.clone()), &mut entries).await?;
    Ok(entries)
}

/// Reads from where `chain` stands to the head.
pub(crate) async fn read_on<E: DeserializeOwned>(
    store: &Store,
    chain: &mut Chain,
    entries: &mut Vec<Entry<E>>,
) -> Result<()> {
    let mut window = WINDOW_MIN;
    loop {
        let keys: Vec<Key> =
            (chain.next..chain.next + window).map(|seq| log_key(&chain.run, seq)).collect();
        let found = store.get_all(&keys).await?;
        for bytes in found.iter().map_while(Option::as_ref) {
            entries.push(chain.admit(bytes)?);
        }
        if found.iter().any(Option::is_none) && !grew(store, chain).await? {
            return Ok(());
        }
        window = (window * 2).min(WINDOW_MAX);
    }
}

/// True when the next entry exists after all, because an owner is appending right now.
///
/// Without a next entry there must be no later one either: then somebody removed an entry.
async fn grew(store: &Store, chain: &Chain) -> Result<bool> {
    let (run, seq) = (chain.run.clone(), chain.next);
    if !exists_after(store, &run, seq).await? {
        return Ok(false);
    }
    match store.get_opt(&log_key(&run, seq)).await? {
        Some(_) => Ok(true),
        None => Err(StoreError::LogGap { run, seq }),
    }
}

/// True when the log has an entry later than `seq`.
async fn exists_after(store: &Store, run: &RunId, seq: u64) -> Result<bool> {
    let (prefix, from) = (log_prefix(run), log_key(run, seq));
    let key = Key::try_from(prefix.to_string())?;
    let is_entry = |name: &str| name.len() == 20 && name.bytes().all(|b| b.is_ascii_digit());
    let look = || async {
        let mut listed = store.objects().list_with_offset(Some(&prefix), from.path());
        while let Some(meta) = listed.try_next().await? {
            let name = meta.location.filename().and_then(|name| name.strip_suffix(".json"));
            if meta.location.prefix_matches(&prefix) && name.is_some_and(is_entry) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    store.retry("list", &key, look).await
}
