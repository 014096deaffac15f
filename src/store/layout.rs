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

/// Where processes that answer requests show that they are there.
pub fn workers_prefix() -> Path {
    Path::from("work/workers")
}

/// What one process holds at a time, by the folder of its signs of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    folder: String,
}

impl Claimed {
    /// A run.
    pub fn run(run: &RunId) -> Self {
        Self { folder: format!("runs/{run}") }
    }

    /// A process that answers requests, by its name.
    ///
    /// # Errors
    ///
    /// If the name could not be part of a key.
    pub fn worker(name: &str) -> Result<Self, StoreError> {
        let folder = format!("{}/{name}", workers_prefix());
        let key = Key::try_from(folder.clone())?;
        match key.as_str().matches('/').count() {
            2 => Ok(Self { folder }),
            _ => Err(StoreError::Damaged {
                key: folder,
                reason: "this is no name of a worker".into(),
            }),
        }
    }

    /// The file that the holder locks while it is alive.
    pub(crate) fn lock(&self) -> Key {
        Key::of_layout(format!("{}/lock", self.folder))
    }

    /// The object that the holder writes again and again while it is alive.
    pub(crate) fn beat(&self) -> Key {
        Key::of_layout(format!("{}/lease.json", self.folder))
    }

    /// The order to stop.
    pub(crate) fn stop(&self) -> Key {
        Key::of_layout(format!("{}/stop.json", self.folder))
    }
}

/// Requests to a model that other processes answer, and what else is about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayKey {
    /// The digest of the model's identity.
    pub model: Digest,
    pub object: RelayObject,
}

/// An object that is about a model or one of its segments of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayObject {
    /// Who the model is.
    Card,
    Requests(Digest),
    /// Who answers a segment, in an epoch.
    Claim(Digest, u32),
    Answers(Digest),
}

/// Where all of them lie.
pub fn relay_prefix() -> Path {
    Path::from("work/models")
}

impl RelayKey {
    pub fn key(self) -> Key {
        let name = match self.object {
            RelayObject::Card => "model.json".to_owned(),
            RelayObject::Requests(segment) => format!("{segment}.requests.json"),
            RelayObject::Claim(segment, epoch) => format!("{segment}.claim.{epoch:06}.json"),
            RelayObject::Answers(segment) => format!("{segment}.answers.json"),
        };
        Key::of_layout(format!("{}/{}/{name}", relay_prefix(), self.model))
    }

    /// What a key says; `None` if it is none of these.
    pub fn of(key: &Key) -> Option<Self> {
        let rest = key.as_str().strip_prefix(relay_prefix().as_ref())?.strip_prefix('/')?;
        let (model, name) = rest.split_once('/')?;
        let model = model.parse().ok()?;
        let parts: Vec<&str> = name.strip_suffix(".json")?.split('.').collect();
        let object = match parts.as_slice() {
            ["model"] => RelayObject::Card,
            [segment, "requests"] => RelayObject::Requests(segment.parse().ok()?),
            [segment, "answers"] => RelayObject::Answers(segment.parse().ok()?),
            [segment, "claim", epoch] => {
                RelayObject::Claim(segment.parse().ok()?, epoch.parse().ok()?)
            }
            _ => return None,
        };
        Some(Self { model, object })
    }
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
            RelayKey { model: Digest::of(b"m"), object: RelayObject::Card }.key(),
            RelayKey { model: Digest::of(b"m"), object: RelayObject::Claim(Digest::of(b"s"), 7) }
                .key(),
            Claimed::run(&run).lock(),
            Claimed::run(&run).beat(),
            Claimed::run(&run).stop(),
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
        let (model, segment) = (Digest::of(b"m"), Digest::of(b"s"));
        for object in [
            RelayObject::Card,
            RelayObject::Requests(segment),
            RelayObject::Claim(segment, 12),
            RelayObject::Answers(segment),
        ] {
            let key = RelayKey { model, object };
            assert_eq!(RelayKey::of(&key.key()), Some(key));
        }
        for name in ["", "../runs", "a/b", "A"] {
            assert!(Claimed::worker(name).is_err(), "{name}");
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
