//! What the ledger holds, model by model, and how answers are made to count no more.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use chrono::{DateTime, Utc};

use crate::error::Result;
use crate::handle::LOOK_UPS_MAX;
use crate::record::{Forget, Forgotten, Scope};
use crate::rows::{keys_of, model_column, text_column, time_column};
use crate::segment_reader::Columns;
use crate::state::State;
use crate::walk::Walk;
use crate::{Ledger, LedgerError};
use proofmill_base::digest::Digest;
use proofmill_base::rng::random_name;
use proofmill_store::Key;

/// The answers of one model that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelAnswers {
    pub model: String,
    /// How many of each kind, such as `generate`.
    pub kinds: BTreeMap<String, u64>,
    /// When the first was recorded.
    pub first: DateTime<Utc>,
    pub last: DateTime<Utc>,
}

impl ModelAnswers {
    /// How many there are.
    pub fn answers(&self) -> u64 {
        self.kinds.values().sum()
    }
}

/// An answer that counts, without its text.
struct Row<'a> {
    key: Digest,
    model: &'a str,
    kind: &'a str,
    created_at: DateTime<Utc>,
}

impl Ledger {
    /// The answers that count by model, as this process knows the log. Reads the whole ledger.
    ///
    /// # Errors
    ///
    /// When the store fails, or a segment is missing or damaged: the error names it.
    pub async fn models(&self) -> Result<Vec<ModelAnswers>> {
        let models = |models: &mut BTreeMap<String, ModelAnswers>, row: Row<'_>| {
            let Row { model, kind, created_at, .. } = row;
            if !models.contains_key(model) {
                let (kinds, first, last) = (BTreeMap::new(), created_at, created_at);
                let new = ModelAnswers { model: model.to_owned(), kinds, first, last };
                models.insert(model.to_owned(), new);
            }
            let Some(known) = models.get_mut(model) else { return };
            *known.kinds.entry(kind.to_owned()).or_default() += 1;
            known.first = known.first.min(created_at);
            known.last = known.last.max(created_at);
        };
        Ok(self.fold(models).await?.into_values().collect())
    }

    /// Makes answers count no more: those that the ledger holds now, not those to come. What was
    /// forgotten stays on record. Gives the number of answers that counted; where there is none, nothing
    /// is recorded.
    ///
    /// # Errors
    ///
    /// As [`Ledger::models`], and when the log cannot be written.
    pub async fn forget(&self, what: Scope, author: &str, reason: &str) -> Result<u64> {
        self.refresh().await?;
        let count = |answers: &mut u64, row: Row<'_>| {
            *answers += u64::from(what.covers(&row.key, row.model));
        };
        let answers = self.fold(count).await?;
        if answers == 0 {
            return Ok(0);
        }
        let id = random_name(self.store().rng().as_ref(), 10);
        let (author, reason) = (author.to_owned(), reason.to_owned());
        self.commit_forget(Forget { id, what, author, reason, answers }).await?;
        Ok(answers)
    }

    /// The segments that count, earliest first: key, digest of the stored bytes, and size in bytes.
    pub fn segments(&self) -> Vec<(Key, Digest, u64)> {
        let state = self.state();
        let live = state.live.iter();
        live.map(|segment| (segment.key.clone(), segment.sha256, segment.bytes)).collect()
    }

    /// All that was ever forgotten, earliest first.
    pub fn forgotten(&self) -> Vec<Forgotten> {
        self.state().forgotten.as_ref().clone()
    }

    /// What `add` makes of all answers that count. Begins anew when a segment was merged and removed
    /// meanwhile.
    async fn fold<T: Default>(&self, add: impl Fn(&mut T, Row<'_>)) -> Result<T> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let state = self.state();
            match self.fold_state(&state, &add).await {
                Err(error) if error.is_missing() && attempts < LOOK_UPS_MAX => {
                    self.refresh_after(&state, error).await?;
                }
                folded => return folded,
            }
        }
    }

    async fn fold_state<T: Default>(
        &self,
        state: &State,
        add: &impl Fn(&mut T, Row<'_>),
    ) -> Result<T> {
        let mut folded = T::default();
        let (store, columns) = (self.store(), Columns::Answers);
        let mut walk = Walk::open(store, &state.live, &state.forgotten, columns).await?;
        while let Some((number, place)) = walk.next(store).await? {
            let malformed = |reason: String| {
                let key = state.live[number].key.to_string();
                LedgerError::Segment { key, reason }
            };
            add(&mut folded, row(place.batch, place.row).map_err(malformed)?);
        }
        Ok(folded)
    }
}

fn row(batch: &RecordBatch, row: usize) -> Result<Row<'_>, String> {
    let key = keys_of(&batch.slice(row, 1))?.first().copied().ok_or("it ends too early")?;
    let micros = time_column(batch)?.value(row);
    let created_at = DateTime::from_timestamp_micros(micros);
    Ok(Row {
        key,
        model: model_column(batch)?.value(row),
        kind: text_column(batch, 2)?.value(row),
        created_at: created_at.ok_or("one of its times is out of range")?,
    })
}
