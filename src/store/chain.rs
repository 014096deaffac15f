//! The links between the entries of a log: what the next entry must be.

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::sealed::unseal;
use crate::{Body, Entry, Extensions, LOG_VERSION, LogFolder, Store, StoreError};
use proofmill_base::digest::Digest;
use proofmill_base::ids::RunId;
use proofmill_base::rng::random_name;

/// What the next entry must continue.
#[derive(Debug)]
pub(crate) struct Chain {
    pub run: RunId,
    /// Number of the next entry.
    pub next: u64,
    /// Digest of the entry before it; none at the start.
    pub head: Option<Digest>,
    /// Number of the owner; 0 at the start.
    pub epoch: u64,
    /// The owner; empty at the start.
    pub owner: String,
}

impl Chain {
    /// The start of a run's log.
    pub fn new(run: RunId) -> Self {
        Self { run, next: 0, head: None, epoch: 0, owner: String::new() }
    }

    /// The next entry, not yet stored.
    pub fn entry<E>(&self, store: &Store, owner: &str, epoch: u64, body: Body<E>) -> Entry<E> {
        Entry {
            v: LOG_VERSION,
            run: self.run.clone(),
            seq: self.next,
            prev: self.head,
            epoch,
            writer: owner.to_owned(),
            nonce: random_name(store.rng().as_ref(), 16),
            t_utc: store.clock().now(),
            body,
            extensions: Extensions::new(),
        }
    }

    /// The entry with which `owner` takes the run over.
    pub fn fence<E>(&self, store: &Store, owner: &str) -> Entry<E> {
        self.entry(store, owner, self.epoch + 1, Body::Fence)
    }

    /// Takes in an entry that was written by us.
    pub fn advance(&mut self, bytes: &Bytes) {
        self.head = Some(Digest::of(bytes));
        self.next += 1;
    }

    /// Checks that `bytes` continue the chain, and takes them in.
    pub fn admit<E: DeserializeOwned>(&mut self, bytes: &Bytes) -> Result<Entry<E>> {
        let (run, seq) = (self.run.clone(), self.next);
        let entry: Entry<E> = unseal(&LogFolder::of_run(&run).entry(seq), bytes)?;
        let wrong = |reason: String| StoreError::WrongEntry { run: run.clone(), seq, reason };
        if entry.run != run || entry.seq != seq {
            return Err(wrong(format!(
                "says that it is entry {} of run `{}`",
                entry.seq, entry.run
            )));
        }
        if entry.prev != self.head {
            return Err(StoreError::ChainBroken {
                run,
                seq,
                expected: self.head,
                found: entry.prev,
            });
        }
        let fits = match &entry.body {
            Body::Fence => seq > 0 && entry.epoch == self.epoch + 1,
            Body::Event(_) if seq == 0 => entry.epoch == 1,
            Body::Event(_) => entry.epoch == self.epoch && entry.writer == self.owner,
        };
        if !fits {
            let (epoch, by) = (entry.epoch, &entry.writer);
            return Err(wrong(format!("is by {by} of epoch {epoch}, which does not own the run")));
        }
        self.epoch = entry.epoch;
        self.owner.clone_from(&entry.writer);
        self.advance(bytes);
        Ok(entry)
    }

    /// Why our place in the log is taken.
    pub fn explain_loss(&self, bytes: &Bytes) -> StoreError {
        let (run, seq) = (self.run.clone(), self.next);
        match unseal::<Entry<serde_json::Value>>(&LogFolder::of_run(&run).entry(seq), bytes) {
            Err(error) => error,
            Ok(entry) if entry.run == run && entry.epoch > self.epoch => {
                StoreError::Fenced { run, epoch: entry.epoch, by: entry.writer }
            }
            Ok(entry) => StoreError::Foreign { run, seq, by: entry.writer },
        }
    }
}
