//! Where requests and answers lie, and how they are read: nothing of it is trusted before it is checked.

use std::collections::BTreeMap;

use proofmill_base::digest::Digest;
use proofmill_store::{
    Created, Key, RelayKey, RelayObject, Store, StoreError, relay_prefix, seal, unseal,
};

use crate::relay::records::{AnswerRecord, ModelCard, RELAY_VERSION, RequestSegment, SegmentClaim};

/// The segments of a store.
#[derive(Clone, Debug)]
pub struct Board {
    store: Store,
}

/// How a segment stands, as one listing shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether its requests are there.
    pub is_open: bool,
    /// The last epoch in which it was claimed.
    pub epoch: Option<u32>,
    pub is_answered: bool,
}

/// The segments of a model.
pub type Segments = BTreeMap<Digest, Standing>;

/// Why a segment or its answers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It says something else than its name.
    #[error("`{key}`: {reason}")]
    Wrong { key: String, reason: String },
}

type Result<T> = std::result::Result<T, BoardError>;

impl Board {
    pub fn of(store: &Store) -> Self {
        Self { store: store.clone() }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Says who a model is.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn announce(&self, card: &ModelCard) -> Result<()> {
        let key = RelayKey { model: card.id(), object: RelayObject::Card }.key();
        self.store.create(&key, seal(&key, card)?).await?;
        Ok(())
    }

    /// Who a model has to be; `None` if there are no requests to it any more.
    ///
    /// # Errors
    ///
    /// If its card is damaged or of another model, or the store fails.
    pub async fn card(&self, model: Digest) -> Result<Option<ModelCard>> {
        let key = RelayKey { model, object: RelayObject::Card }.key();
        let Some(bytes) = self.store.get_opt(&key).await? else { return Ok(None) };
        let card: ModelCard = unseal(&key, &bytes)?;
        match card.id() == model {
            true => Ok(Some(card)),
            false => Err(wrong(&key, "it is the card of another model")),
        }
    }

    /// All models that requests go to, with their segments.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn look(&self) -> Result<BTreeMap<Digest, Segments>> {
        let mut found: BTreeMap<Digest, Segments> = BTreeMap::new();
        for key in self.store.list(&relay_prefix()).await? {
            let Some(RelayKey { model, object }) = RelayKey::of(&key) else { continue };
            let segments = found.entry(model).or_default();
            match object {
                RelayObject::Card => {}
                RelayObject::Requests(segment) => {
                    segments.entry(segment).or_default().is_open = true
                }
                RelayObject::Claim(segment, epoch) => {
                    let standing = segments.entry(segment).or_default();
                    standing.epoch = standing.epoch.max(Some(epoch));
                }
                RelayObject::Answers(segment) => {
                    segments.entry(segment).or_default().is_answered = true;
                }
            }
        }
        Ok(found)
    }

    /// Publishes requests. What lies in their place and cannot be read is of no use to any worker, and is replaced.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn publish(&self, segment: &RequestSegment) -> Result<Digest> {
        let (model, id) = (segment.model, segment.id());
        let key = RelayKey { model, object: RelayObject::Requests(id) }.key();
        let sealed = seal(&key, segment)?;
        if let Created::Lost(stored) = self.store.create(&key, sealed.clone()).await? {
            let is_broken = match unseal::<RequestSegment>(&key, &stored) {
                Ok(stored) => stored.id() != id,
                Err(error) => error.is_broken_record(),
            };
            if is_broken {
                self.store.delete(&key).await?;
                self.store.create(&key, sealed).await?;
            }
        }
        Ok(id)
    }

    /// The requests of a segment; `None` if it is gone.
    ///
    /// # Errors
    ///
    /// If they are damaged, or not what their name says; a failure of the store.
    pub async fn requests(&self, card: &ModelCard, id: Digest) -> Result<Option<RequestSegment>> {
        let key = RelayKey { model: card.id(), object: RelayObject::Requests(id) }.key();
        let Some(bytes) = self.store.get_opt(&key).await? else { return Ok(None) };
        let segment: RequestSegment = unseal(&key, &bytes)?;
        if segment.id() != id || segment.model != card.id() {
            return Err(wrong(&key, "its requests are not those of its name"));
        }
        if let Some(request) = segment.wrong(&card.identity) {
            let reason = format!("request {} is not the one of its key", request.key);
            return Err(wrong(&key, &reason));
        }
        Ok(Some(segment))
    }

    /// Claims a segment for a worker in an epoch; false if another has it.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn claim(&self, model: Digest, id: Digest, epoch: u32, worker: &str) -> Result<bool> {
        let key = RelayKey { model, object: RelayObject::Claim(id, epoch) }.key();
        let claim = SegmentClaim { v: RELAY_VERSION, worker: worker.to_owned() };
        Ok(self.store.create(&key, seal(&key, &claim)?).await? == Created::Won)
    }

    /// Who claimed a segment in an epoch; `None` if it was given back, or the claim cannot be read.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn holder(&self, model: Digest, id: Digest, epoch: u32) -> Result<Option<String>> {
        let key = RelayKey { model, object: RelayObject::Claim(id, epoch) }.key();
        let Some(bytes) = self.store.get_opt(&key).await? else { return Ok(None) };
        Ok(unseal::<SegmentClaim>(&key, &bytes).ok().map(|claim| claim.worker))
    }

    /// Gives a claim back.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn give_back(&self, model: Digest, id: Digest, epoch: u32) -> Result<()> {
        let key = RelayKey { model, object: RelayObject::Claim(id, epoch) }.key();
        Ok(self.store.delete(&key).await?)
    }

    /// Records the answers to a segment, unless there are some, or its requests are gone: others answered them meanwhile.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn answer(&self, model: Digest, record: &AnswerRecord) -> Result<()> {
        let requests = RelayKey { model, object: RelayObject::Requests(record.segment) }.key();
        if self.store.size(&requests).await?.is_none() {
            return Ok(());
        }
        let key = RelayKey { model, object: RelayObject::Answers(record.segment) }.key();
        self.store.create(&key, seal(&key, record)?).await?;
        Ok(())
    }

    /// The answers to a segment; `None` if there are none.
    ///
    /// # Errors
    ///
    /// If they are damaged or of other requests; a failure of the store.
    pub async fn answers(&self, segment: &RequestSegment) -> Result<Option<AnswerRecord>> {
        let (model, id) = (segment.model, segment.id());
        let key = RelayKey { model, object: RelayObject::Answers(id) }.key();
        let Some(bytes) = self.store.get_opt(&key).await? else { return Ok(None) };
        let record: AnswerRecord = unseal(&key, &bytes)?;
        match record.segment == id && record.answers.len() == segment.requests.len() {
            true => Ok(Some(record)),
            false => Err(wrong(&key, "it answers other requests")),
        }
    }

    /// Takes answers away that cannot be used, so that the segment is answered again.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn reject(&self, model: Digest, id: Digest) -> Result<()> {
        let key = RelayKey { model, object: RelayObject::Answers(id) }.key();
        Ok(self.store.delete(&key).await?)
    }

    /// Takes a segment away whose answers are recorded elsewhere.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn clear(&self, model: Digest, id: Digest, epoch: Option<u32>) -> Result<()> {
        // The requests first: without them no worker begins anew.
        let mut objects = vec![RelayObject::Requests(id), RelayObject::Answers(id)];
        objects.extend(epoch.iter().flat_map(|last| 0..=*last).map(|n| RelayObject::Claim(id, n)));
        for object in objects {
            self.store.delete(&RelayKey { model, object }.key()).await?;
        }
        Ok(())
    }
}

fn wrong(key: &Key, reason: &str) -> BoardError {
    BoardError::Wrong { key: key.to_string(), reason: reason.to_owned() }
}
