//! Where everything lies in a store: with `numbered` for logs, the only place that builds keys.

use std::fmt;

use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use proofmill_base::digest::Digest;
use proofmill_base::ids::{Fingerprint, RunId, StageName};
use proofmill_base::rng::{Rng, random_name};

/// The key of an object: lower-case letters, digits and `._-` in segments separated by `/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(Path);

impl Key {
    /// The key as `object_store` takes it.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The text of the key.
    pub fn as_str(&self) -> &str {
        self.0.as_ref()
    }

    pub(crate) fn of_layout(text: String) -> Self {
        Self(Path::from(text))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0.into()
    }
}

impl TryFrom<String> for Key {
    type Error = StoreError;

    /// A key read from a record: it cannot leave the store, whatever the record says.
    fn try_from(text: String) -> Result<Self, StoreError> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-/".contains(&b);
        let segment = |s: &str| !s.is_empty() && s != "." && s != "..";
        if text.bytes().all(allowed) && text.split('/').all(segment) {
            Ok(Self(Path::from(text)))
        } else {
            Err(StoreError::Damaged { key: text, reason: "this is not a key of a store".into() })
        }
    }
}

/// One attempt at computing a stage: makes its keys unique, so that nothing is ever overwritten.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt(String);

impl Attempt {
    /// A new attempt.
    pub fn new(rng: &dyn Rng) -> Self {
        Self(random_name(rng, 10))
    }

    /// The text of the attempt.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The store's own record.
pub fn format_key() -> Key {
    Key::of_layout("format.json".into())
}

/// The file that the process of a run locks while it is alive.
pub(crate) fn lock_key(run: &RunId) -> Key {
    Key::of_layout(format!("runs/{run}/lock"))
}

/// The object that the process of a run writes again and again while it is alive.
pub(crate) fn lease_key(run: &RunId) -> Key {
    Key::of_layout(format!("runs/{run}/lease.json"))
}

/// The order to stop a run.
pub(crate) fn stop_key(run: &RunId) -> Key {
    Key::of_layout(format!("runs/{run}/stop.json"))
}

/// The record that publishes a run.
pub fn manifest_key(run: &RunId) -> Key {
    Key::of_layout(format!("runs/{run}/manifest.json"))
}

/// Part `n` of a stage's rows.
pub fn part_key(run: &RunId, stage: &StageName, attempt: &Attempt, n: u32) -> Key {
    Key::of_layout(format!("runs/{run}/data/{stage}.{attempt}.{n}.parquet"))
}

/// Part `n` of a stage's error rows.
pub fn error_part_key(run: &RunId, stage: &StageName, attempt: &Attempt, n: u32) -> Key {
    Key::of_layout(format!("runs/{run}/data/{stage}.{attempt}.errors.{n}.parquet"))
}

/// File `n` of a stage that makes files; their names are in its record only.
pub fn file_key(run: &RunId, stage: &StageName, attempt: &Attempt, n: u32) -> Key {
    Key::of_layout(format!("runs/{run}/data/{stage}.{attempt}.{n}.bin"))
}

/// The record of the artifact with this fingerprint.
pub fn artifact_key(fingerprint: &Fingerprint) -> Key {
    let digest = fingerprint.to_string();
    Key::of_layout(format!("artifacts/{}/{digest}.json", &digest[..2]))
}

/// Where the record of an artifact lies under its own digest, once another took its place.
pub(crate) fn replaced_artifact_key(fingerprint: &Fingerprint, sha256: Digest) -> Key {
    let digest = fingerprint.to_string();
    Key::of_layout(format!("artifacts/{}/{digest}.{sha256}.json", &digest[..2]))
}

/// A segment of the ledger.
pub fn ledger_segment_key(attempt: &Attempt) -> Key {
    Key::of_layout(format!("ledger/segments/{attempt}.parquet"))
}

/// A text that a run was made of, by the digest of its bytes.
pub(crate) fn source_key(sha256: Digest) -> Key {
    let digest = sha256.to_string();
    Key::of_layout(format!("sources/{}/{digest}", &digest[..2]))
}

/// A signed checkpoint of the audit log when it had `size` entries.
pub fn checkpoint_note_key(size: u64) -> Key {
    Key::of_layout(format!("audit/checkpoints/{size:020}.txt"))
}

/// The folder of the ledger.
pub fn ledger_prefix() -> Path {
    Path::from("ledger")
}

/// The folder of these checkpoints.
pub fn checkpoint_notes_prefix() -> Path {
    Path::from("audit/checkpoints")
}

/// The folder of all schedules.
pub fn schedules_prefix() -> Path {
    Path::from("schedules")
}

/// The folder of all memories.
pub fn memories_prefix() -> Path {
    Path::from("memories")
}

/// The folder of the records of all tables.
pub fn artifacts_prefix() -> Path {
    Path::from("artifacts")
}

/// The folder of all runs.
pub fn runs_prefix() -> Path {
    Path::from("runs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogFolder;
    use proofmill_base::rng::SeededRng;

    #[test]
    fn keys_of_the_layout_read_back_as_keys() {
        let rng = SeededRng::new(1);
        let run = RunId::new("2026-11-21T02:15:00.123Z".parse().unwrap(), &rng);
        let stage: StageName = "before.answers".parse().unwrap();
        let attempt = Attempt::new(&rng);
        let keys = [
            format_key(),
            LogFolder::of_run(&run).entry(u64::MAX),
            LogFolder::of_audit().entry(0),
            source_key(Digest::of(b"a")),
            checkpoint_note_key(7),
            manifest_key(&run),
            lock_key(&run),
            lease_key(&run),
            part_key(&run, &stage, &attempt, 0),
            error_part_key(&run, &stage, &attempt, 7),
            file_key(&run, &stage, &attempt, 12),
            artifact_key(&Fingerprint(Digest::of(b"a"))),
            replaced_artifact_key(&Fingerprint(Digest::of(b"a")), Digest::of(b"b")),
            LogFolder::of_memory(&"science".parse().unwrap()).entry(1),
            LogFolder::of_ledger().entry(0),
            LogFolder::of_ledger().checkpoint(u64::MAX),
            ledger_segment_key(&attempt),
        ];
        for key in keys {
            assert_eq!(Key::try_from(key.to_string()).unwrap(), key);
        }
    }

    #[test]
    fn texts_that_could_leave_the_store_are_not_keys() {
        for text in
            ["", "/", "/etc", "a//b", "../a", "a/../b", "a/.", "a#1", "A", "a b", "ä", "a%2f"]
        {
            assert!(Key::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
