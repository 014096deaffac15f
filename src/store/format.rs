//! The store's own record: which format it has and which store it is.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use proofmill_base::clock::Clock;
use proofmill_base::rng::Rng;
use crate::error::Result;
use crate::sealed::{Record, seal, unseal};
use crate::{Created, Store, format_key};

/// The layout that this program writes and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// `format.json`: written once, when a store is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Format {
    pub v: u32,
    /// Identity of the store, a random UUID.
    pub store: String,
    pub created_at: DateTime<Utc>,
    pub created_by: String,
}

impl Record for Format {
    const VERSION: u32 = FORMAT_VERSION;
}

impl Format {
    /// The record of a store made now.
    pub(crate) fn draft(clock: &dyn Clock, rng: &dyn Rng) -> Self {
        Self {
            v: FORMAT_VERSION,
            store: uuid(rng),
            created_at: clock.now(),
            created_by: concat!("proofmill ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    /// The record that `store` has, or `self` when the store is new.
    pub(crate) async fn settle(self, store: &Store) -> Result<Self> {
        let key = format_key();
        if let Some(bytes) = store.get_opt(&key).await? {
            return unseal(&key, &bytes);
        }
        match store.create(&key, seal(&key, &self)?).await? {
            Created::Won => Ok(self),
            Created::Lost(bytes) => unseal(&key, &bytes),
        }
    }
}

/// A random UUID (version 4).
fn uuid(rng: &dyn Rng) -> String {
    let bits = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
    let versioned = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{versioned:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proofmill_base::rng::SeededRng;

    #[test]
    fn uuids_have_their_version_and_variant() {
        let rng = SeededRng::new(3);
        for _ in 0..100 {
            let id = uuid(&rng);
            assert_eq!(id.len(), 36);
            assert_eq!(&id[14..15], "4");
            assert!("89ab".contains(&id[19..20]), "{id}");
        }
    }
}
