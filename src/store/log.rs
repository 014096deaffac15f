//! The log of a run: numbered entries, each created once, each naming the digest of the one before.
//!
//! Order in the log decides who owns a run; no clock does. A process takes a run over by appending a
//! fence with the next epoch; the former owner's next append then finds its place taken.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::chain::Chain;
use crate::error::Result;
use crate::log_reader::read_on;
use crate::sealed::seal;
use crate::{Body, Created, Entry, Head, LogFolder, Store, StoreError};
use proofmill_base::digest::Digest;
use proofmill_base::ids::RunId;
use proofmill_base::rng::random_name;

/// Times that a take-over reads on because another writer was faster.
const TAKE_OVER_ATTEMPTS_MAX: u32 = 32;

/// The log of a run that this process owns.
#[derive(Debug)]
pub struct RunLog<E> {
    store: Store,
    chain: Chain,
    /// Set while an append is under way and for good when one failed: the head is unknown then.
    stopped: bool,
    event: PhantomData<fn(E) -> E>,
}

impl<E: Serialize + DeserializeOwned + Send + Sync> RunLog<E> {
    /// Starts the log of a new run with its first event.
    ///
    /// # Errors
    ///
    /// [`StoreError::LogExists`] when the run has a log already.
    pub async fn create(store: &Store, run: &RunId, first: &E) -> Result<Self> {
        let chain = Chain { epoch: 1, owner: writer_name(store), ..Chain::new(run.clone()) };
        let mut log = Self { store: store.clone(), chain, stopped: false, event: PhantomData };
        match log.write(Body::Event(first)).await? {
            Created::Won => Ok(log),
            Created::Lost(_) => Err(StoreError::LogExists { run: run.clone() }),
        }
    }

    /// Appends an event and returns its number. When this returns, the event is durable.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] when another process took the run over. After any error the log takes no
    /// more entries: whether the event was stored is for the next owner to find out.
    pub async fn append(&mut self, event: &E) -> Result<u64> {
        if self.stopped {
            return Err(StoreError::LogStopped { run: self.chain.run.clone() });
        }
        self.stopped = true;
        match self.write(Body::Event(event)).await? {
            Created::Won => {
                self.stopped = false;
                Ok(self.chain.next - 1)
            }
            Created::Lost(bytes) => Err(self.chain.explain_loss(&bytes)),
        }
    }

    /// Becomes the owner of a run: returns its log and all entries, the new fence last.
    ///
    /// # Errors
    ///
    /// [`StoreError::LogMissing`] when the run has no log; what breaks the chain, when it is broken.
    pub async fn take_over(store: &Store, run: &RunId) -> Result<(Self, Vec<Entry<E>>)> {
        let mut chain = Chain::new(run.clone());
        let mut entries = Vec::new();
        let owner = writer_name(store);
        for _ in 0..TAKE_OVER_ATTEMPTS_MAX {
            read_on(store, &mut chain, &mut entries).await?;
            if entries.is_empty() {
                return Err(StoreError::LogMissing { run: run.clone() });
            }
            let fence: Entry<E> = chain.fence(store, &owner);
            let key = LogFolder::of_run(run).entry(fence.seq);
            let bytes = seal(&key, &fence)?;
            if store.create(&key, bytes.clone()).await? == Created::Won {
                entries.push(chain.admit(&bytes)?);
                let log = Self { store: store.clone(), chain, stopped: false, event: PhantomData };
                return Ok((log, entries));
            }
        }
        let by = chain.owner.clone();
        Err(StoreError::Fenced { run: run.clone(), epoch: chain.epoch, by })
    }

    /// The last entry.
    pub fn head(&self) -> Head {
        // A log has at least one entry from the moment it exists.
        let sha256 = self.chain.head.unwrap_or_else(|| Digest::of(b""));
        Head { seq: self.chain.next.saturating_sub(1), sha256 }
    }

    pub fn run(&self) -> &RunId {
        &self.chain.run
    }

    /// Number of this owner, from 1.
    pub fn epoch(&self) -> u64 {
        self.chain.epoch
    }

    async fn write(&mut self, body: Body<&E>) -> Result<Created> {
        let owner = self.chain.owner.clone();
        let entry = self.chain.entry(&self.store, &owner, self.chain.epoch, body);
        let key = LogFolder::of_run(&self.chain.run).entry(entry.seq);
        let bytes = seal(&key, &entry)?;
        let created = self.store.create(&key, bytes.clone()).await?;
        if created == Created::Won {
            self.chain.advance(&bytes);
        }
        Ok(created)
    }
}

/// A name for this process among the writers of a store, which no other has.
pub fn writer_name(store: &Store) -> String {
    format!("{}-{}", std::process::id(), random_name(store.rng().as_ref(), 10))
}
