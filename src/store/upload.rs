//! Uploads of objects too large for one put, to any store.

use bytes::Bytes;
use object_store::{MultipartUpload, ObjectStoreExt as _, Result as ObjectResult};
use tokio::task::JoinSet;

use crate::error::Result;
use crate::{Key, Store, StoreError};

/// Size of every piece but the last, in bytes; an object of less is one put.
pub(crate) const PIECE_BYTES: usize = 8 << 20;
/// Pieces under way at a time.
const PIECES_IN_FLIGHT_MAX: usize = 4;

/// An object that is stored piece by piece: invisible until it is whole.
#[derive(Debug)]
pub struct PieceUpload {
    store: Store,
    key: Key,
    /// None until the object turns out to be larger than one piece.
    multipart: Option<Box<dyn MultipartUpload>>,
    in_flight: JoinSet<ObjectResult<()>>,
}

impl PieceUpload {
    /// An upload to `key`. Nothing happens before the first piece.
    pub fn new(store: &Store, key: &Key) -> Self {
        let (store, key) = (store.clone(), key.clone());
        Self { store, key, multipart: None, in_flight: JoinSet::new() }
    }

    /// Sends a piece of exactly `PIECE_BYTES`; waits when too many are under way.
    pub async fn push(&mut self, piece: Bytes) -> Result<()> {
        let multipart = match &mut self.multipart {
            Some(multipart) => multipart,
            None => {
                let objects = self.store.objects();
                let begin = || objects.put_multipart(self.key.path());
                let begun = self.store.retry("begin writing", &self.key, begin).await?;
                self.multipart.insert(begun)
            }
        };
        self.in_flight.spawn(multipart.put_part(piece.into()));
        self.wait_for(PIECES_IN_FLIGHT_MAX).await
    }

    /// Sends the rest and makes the object visible.
    pub async fn finish(&mut self, rest: Bytes) -> Result<()> {
        if self.multipart.is_none() {
            return self.store.put(&self.key, rest.into()).await;
        }
        if !rest.is_empty() {
            self.push(rest).await?;
        }
        self.wait_for(0).await?;
        if let Some(mut multipart) = self.multipart.take() {
            let completed = multipart.complete().await;
            completed.map_err(|source| StoreError::object("finish writing", &self.key, source))?;
        }
        Ok(())
    }

    /// Gives up: nothing becomes visible, and the store is requested to discard the pieces.
    pub async fn abort(&mut self) {
        self.in_flight.shutdown().await;
        if let Some(mut multipart) = self.multipart.take() {
            // Pieces that stay are invisible; stores drop them by a lifecycle rule.
            let _ = multipart.abort().await;
        }
    }

    async fn wait_for(&mut self, in_flight_max: usize) -> Result<()> {
        while self.in_flight.len() > in_flight_max {
            if let Some(sent) = self.in_flight.join_next().await {
                sent?
                    .map_err(|source| StoreError::object("write a piece of", &self.key, source))?;
            }
        }
        Ok(())
    }
}
