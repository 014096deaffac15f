//! The one primitive every commit goes through: put-if-absent with a definite result.

use bytes::Bytes;
use object_store::PutMode;

use crate::error::{Result, is_refusal};
use crate::handle::read_whole;
use crate::{Key, Store, StoreError};

/// How a conditional put ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The stored bytes are ours.
    Won,
    /// Somebody else's bytes are stored: these.
    Lost(Bytes),
}

impl Store {
    /// Stores `body` under `key` unless something is stored there.
    ///
    /// Stores lie in both directions: "already exists" may mean that our own first request was applied
    /// or that nothing is stored, and a failure may hide a success. So every result except success
    /// is resolved by reading the key back; `body` must therefore be unique to this call or equal
    /// in meaning to any equal body.
    ///
    /// # Errors
    ///
    /// [`StoreError::Refused`] when the store does not allow it, [`StoreError::Gone`] when its bucket is not
    /// there, [`StoreError::CommitUnknown`] when the result could not be determined: then nothing
    /// may be deleted.
    pub async fn create(&self, key: &Key, body: Bytes) -> Result<Created> {
        let (objects, path) = (self.objects(), key.path());
        let mut delays = self.delays();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let put = objects.put_opts(path, body.clone().into(), PutMode::Create.into()).await;
            let failure = match put {
                Ok(_) => return Ok(Created::Won),
                Err(source) if is_refusal(&source) || is_missing(&source) => {
                    return Err(StoreError::writing("create", key, source));
                }
                Err(source) => source,
            };
            match read_whole(objects.as_ref(), path).await {
                Ok(stored) if stored == body => return Ok(Created::Won),
                Ok(stored) => return Ok(Created::Lost(stored)),
                Err(_) => match delays.next() {
                    Some(delay) => self.clock().sleep(delay).await,
                    None => {
                        let key = key.to_string();
                        return Err(StoreError::CommitUnknown { key, attempts, source: failure });
                    }
                },
            }
        }
    }
}

/// What a put cannot find is its bucket.
fn is_missing(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::NotFound { .. })
}
