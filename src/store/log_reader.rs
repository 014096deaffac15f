//! Reading the log of a run to its head, checking every link.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::chain::Chain;
use crate::error::Result;
use crate::numbered::read_following;
use crate::{Entry, Head, LogFolder, Store, StoreError};
use proofmill_base::ids::RunId;

/// All entries of a run, in order, after checking the chain. Empty when the run has no log.
///
/// # Errors
///
/// What breaks the chain, naming the entry; a failure to read.
pub async fn read_log<E: DeserializeOwned + Send>(
    store: &Store,
    run: &RunId,
) -> Result<Vec<Entry<E>>> {
    Ok(read_log_to_head(store, run).await?.0)
}

/// The same, with the place of the last entry; `None` when the run has no log.
///
/// # Errors
///
/// As [`read_log`].
pub async fn read_log_to_head<E: DeserializeOwned + Send>(
    store: &Store,
    run: &RunId,
) -> Result<(Vec<Entry<E>>, Option<Head>)> {
    let (mut chain, mut entries) = (Chain::new(run.clone()), Vec::new());
    read_on(store, &mut chain, &mut entries).await?;
    let head = chain.head.map(|sha256| Head { seq: chain.next - 1, sha256 });
    Ok((entries, head))
}

/// Reads from where `chain` stands to the head.
pub(crate) async fn read_on<E: DeserializeOwned + Send>(
    store: &Store,
    chain: &mut Chain,
    entries: &mut Vec<Entry<E>>,
) -> Result<()> {
    let (run, from) = (chain.run.clone(), chain.next);
    let folder = LogFolder::of_run(&run);
    let take = |bytes: &Bytes| {
        entries.push(chain.admit(bytes)?);
        Ok(())
    };
    let gap = |seq| StoreError::LogGap { run: run.clone(), seq };
    read_following(store, &folder, from, take, gap).await
}
