//! Records: one JSON object per file whose last field is the SHA-256 of everything before it.
//!
//! The seal finds damage, not forgery: forgery is what the chain of the log and its anchored head are
//! for. `head -c -78 record.json | sha256sum` computes the digest by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::{Key, StoreError};
use proofmill_base::digest::Digest;

const BEFORE_DIGEST: &[u8] = b",\"sha256\":\"";
const AFTER_DIGEST: &[u8] = b"\"}\n";
const DIGEST_BYTES: usize = 64;
const SEAL_BYTES: usize = BEFORE_DIGEST.len() + DIGEST_BYTES + AFTER_DIGEST.len();

/// Facts about a record that later programs add without a new version of it, each under a name of its own.
pub type Extensions = BTreeMap<String, serde_json::Value>;

/// A record as it lies in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<T> {
    pub record: Arc<T>,
    pub key: Key,
    /// Digest of the stored bytes.
    pub sha256: Digest,
}

/// A type of record: its first field is `v`, its version.
pub trait Record: DeserializeOwned {
    /// The version that this program writes and the newest that it reads.
    const VERSION: u32;
    /// The oldest version that it reads: fields that came later have defaults.
    const OLDEST: u32 = Self::VERSION;
}

/// The stored form of `record`.
pub fn seal<T: Serialize>(key: &Key, record: &T) -> Result<Bytes> {
    let damaged = |reason: String| StoreError::Damaged { key: key.to_string(), reason };
    let mut bytes = serde_json::to_vec(record).map_err(|e| damaged(e.to_string()))?;
    if bytes.pop() != Some(b'}') {
        return Err(damaged("a record is an object".into()));
    }
    let digest = Digest::of(&bytes);
    bytes.extend_from_slice(BEFORE_DIGEST);
    bytes.extend_from_slice(digest.to_string().as_bytes());
    bytes.extend_from_slice(AFTER_DIGEST);
    Ok(bytes.into())
}

/// The record in `bytes`, if the seal holds and the version is known.
pub fn unseal<T: Record>(key: &Key, bytes: &[u8]) -> Result<T> {
    let damaged = |reason: String| StoreError::Damaged { key: key.to_string(), reason };
    let body = check_seal(bytes).map_err(|reason| damaged(reason.into()))?;
    let found = version(body).ok_or_else(|| damaged("its first field is not a version".into()))?;
    if found > T::VERSION {
        return Err(StoreError::Newer { key: key.to_string(), found, known: T::VERSION });
    }
    if found < T::OLDEST {
        return Err(damaged(format!("version {found} is not known")));
    }
    let mut json = Vec::with_capacity(body.len() + 1);
    json.extend_from_slice(body);
    json.push(b'}');
    serde_json::from_slice(&json).map_err(|e| damaged(e.to_string()))
}

/// Reads `bytes` as the record of `key`.
pub(crate) fn stored<T: Record>(key: Key, bytes: &[u8]) -> Result<Stored<T>> {
    let record = Arc::new(unseal(&key, bytes)?);
    Ok(Stored { record, key, sha256: Digest::of(bytes) })
}

fn check_seal(bytes: &[u8]) -> Result<&[u8], &'static str> {
    let at = bytes.len().checked_sub(SEAL_BYTES).ok_or("it is too short")?;
    let (body, tail) = bytes.split_at(at);
    let sealed = tail
        .strip_prefix(BEFORE_DIGEST)
        .and_then(|tail| tail.strip_suffix(AFTER_DIGEST))
        .ok_or("it does not end with its checksum")?;
    if sealed == Digest::of(body).to_string().as_bytes() {
        Ok(body)
    } else {
        Err("its content does not match its checksum")
    }
}

fn version(body: &[u8]) -> Option<u32> {
    let tail = body.strip_prefix(b"{\"v\":")?;
    let digits = tail.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&tail[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;
    use crate::format_key;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Note {
        v: u32,
        text: String,
    }

    impl Record for Note {
        const VERSION: u32 = 1;
    }

    fn sealed(v: u32) -> Bytes {
        seal(&format_key(), &Note { v, text: "a proof for every number".into() }).unwrap()
    }

    #[test]
    fn a_sealed_record_is_json_and_reads_back() {
        let bytes = sealed(1);
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let digest = Digest::of(&bytes[..bytes.len() - 78]).to_string();
        assert_eq!(json["sha256"], digest.as_str());
        let note: Note = unseal(&format_key(), &bytes).unwrap();
        assert_eq!(note.text, "a proof for every number");
    }

    #[test]
    fn a_newer_record_is_refused_by_version() {
        let error = unseal::<Note>(&format_key(), &sealed(2)).unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 2, known: 1, .. }), "{error}");
        let error = unseal::<Note>(&format_key(), &sealed(0)).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_found(at in 0usize..140, bit in 0u8..8) {
            let mut bytes = sealed(1).to_vec();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(unseal::<Note>(&format_key(), &bytes).is_err());
        }

        #[test]
        fn any_shortened_record_is_found(keep in 0usize..140) {
            let bytes = sealed(1);
            let keep = keep % bytes.len();
            prop_assert!(unseal::<Note>(&format_key(), &bytes[..keep]).is_err());
        }
    }
}
