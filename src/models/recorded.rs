//! The store's ledger as the functions want it.

use async_trait::async_trait;
use proofmill_udfs::model::{Key, Ledger as Answers, LedgerError, New};
use tokio::sync::OnceCell;

use proofmill_base::digest::Digest;
use proofmill_base::ids::RunId;
use proofmill_ledger::{Ledger, NewEntry, Origin};
use proofmill_store::Store;

/// The ledger of a store, opened when it is first needed.
#[derive(Debug)]
pub struct Recorded {
    store: Store,
    run: RunId,
    ledger: OnceCell<Ledger>,
}

impl Recorded {
    /// The ledger of `store`; `run` is what its new answers come from.
    pub fn new(store: Store, run: RunId) -> Self {
        Self { store, run, ledger: OnceCell::new() }
    }

    async fn ledger(&self) -> Result<&Ledger, LedgerError> {
        self.ledger.get_or_try_init(|| Ledger::open(&self.store)).await.map_err(LedgerError::new)
    }
}

#[async_trait]
impl Answers for Recorded {
    async fn look_up(&self, keys: &[Key]) -> Result<Vec<Option<String>>, LedgerError> {
        let keys: Vec<Digest> = keys.iter().copied().map(Digest::from).collect();
        let found = self.ledger().await?.look_up(&keys).await.map_err(LedgerError::new)?;
        Ok(found.into_iter().map(|answer| answer.map(|it| it.answer.to_string())).collect())
    }

    async fn record(&self, new: Vec<New>) -> Result<Vec<String>, LedgerError> {
        let entry = |new: New| {
            let origin =
                Origin { model: new.model.into(), kind: new.kind.into(), run: self.run.clone() };
            NewEntry::new(Digest::from(new.key), origin, &new.request, &new.answer)
        };
        let entries = new.into_iter().map(entry).collect::<Result<_, _>>();
        let ledger = self.ledger().await?;
        // An answer that a row shows must survive a crash, and be the one that everybody gets.
        let counts = ledger.record_durably(entries.map_err(LedgerError::new)?).await;
        let counts = counts.map_err(LedgerError::new)?;
        ledger.compact_if_fragmented().await.map_err(LedgerError::new)?;
        Ok(counts.into_iter().map(|answer| answer.answer.to_string()).collect())
    }
}
