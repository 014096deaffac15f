//! Names and identifiers: parsing and display only. Whatever reaches a store key passes here first.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use chrono::{DateTime, Datelike as _, NaiveDateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::rng::{Rng, random_name};

/// Longest part of a name, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Why a text is not an identifier.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not a {what}: {expected}")]
pub struct InvalidId {
    text: String,
    what: &'static str,
    expected: &'static str,
}

/// True for `[a-z][a-z0-9_]{0,63}`: a name that is at once a SQL table, a YAML key and a file name.
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $expected:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The text of the identifier.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(InvalidId { text: text.to_owned(), what: $what, expected: $expected })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

text_id!(
    /// Name of a pipeline: `[a-z][a-z0-9_]{0,63}`.
    PipelineName,
    "pipeline name",
    "use a lower-case letter, then up to 63 lower-case letters, digits or `_`",
    is_name
);

text_id!(
    /// Name for a run of a pipeline that moves from run to run: `[a-z][a-z0-9_]{0,63}`.
    ChannelName,
    "name of a channel",
    "use a lower-case letter, then up to 63 lower-case letters, digits or `_`",
    is_name
);

text_id!(
    /// Name of a memory that users teach: `[a-z][a-z0-9_]{0,63}`.
    MemoryName,
    "name of a memory",
    "use a lower-case letter, then up to 63 lower-case letters, digits or `_`",
    is_name
);

text_id!(
    /// Name of a stage, which is also its table in SQL: `name`, or `group.name` inside a group.
    StageName,
    "stage name",
    "use a lower-case letter, then up to 63 lower-case letters, digits or `_`, \
     with one `.` after a group's name",
    |text| match text.split_once('.') {
        Some((group, stage)) => is_name(group) && is_name(stage),
        None => is_name(text),
    }
);

text_id!(
    /// Identity of a run: UTC time to the millisecond and a random tail, so that names sort by time.
    RunId,
    "run id",
    "it looks like `20261121-021500123-k3f9qa`; `proofmill runs` lists them",
    |text| text.len() == RUN_ID_BYTES
        && text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase() || b == b'-')
);

text_id!(
    /// Place of a file in a folder, such as one of an index or of a model: its name, `[A-Za-z0-9._-]{1,128}` but not
    /// `.` and `..`, perhaps behind that of a folder inside and `/` (`1_Pooling/config.json` of a sentence
    /// encoder). Joined to a folder it stays there, whatever wrote the record that has it.
    FilePath,
    "place of a file",
    "use the name of a file, or `folder/name`: each up to 128 letters, digits, `.`, `_` or `-`",
    |text| match text.split_once('/') {
        Some((folder, name)) => is_file_name(folder) && is_file_name(name),
        None => is_file_name(text),
    }
);

fn is_file_name(text: &str) -> bool {
    (1..=FILE_NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && text != "."
        && text != ".."
}

/// Longest name of a file, in bytes.
const FILE_NAME_BYTES_MAX: usize = 128;

impl AsRef<Path> for FilePath {
    fn as_ref(&self) -> &Path {
        Path::new(&self.0)
    }
}

/// Length of a run id, in bytes.
const RUN_ID_BYTES: usize = 25;
/// How a run id begins, as `chrono` writes it.
const RUN_ID_TIME: &str = "%Y%m%d-%H%M%S%3f";
/// The last year that a run id has room for.
const YEAR_MAX: i32 = 9999;

impl RunId {
    /// A new identity for a run that starts at `now`.
    pub fn new(now: DateTime<Utc>, rng: &dyn Rng) -> Self {
        Self(format!("{}-{}", now.format(RUN_ID_TIME), random_name(rng, 6)))
    }

    /// An identity that sorts behind `newest`, for a run that starts at `now` by a clock that may be behind.
    pub fn after(newest: &Self, now: DateTime<Utc>, rng: &dyn Rng) -> Self {
        let next = newest.began().map(|began| began + TimeDelta::milliseconds(1));
        let fits = |next: &DateTime<Utc>| *next > now && next.year() <= YEAR_MAX;
        Self::new(next.filter(fits).unwrap_or(now), rng)
    }

    /// When it began, by the clock of its machine; `None` if no moment is written there.
    pub fn began(&self) -> Option<DateTime<Utc>> {
        let (time, _) = self.0.rsplit_once('-')?;
        Some(NaiveDateTime::parse_from_str(time, RUN_ID_TIME).ok()?.and_utc())
    }
}

/// Digest over everything that can change an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub Digest);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SeededRng;

    #[test]
    fn run_ids_parse_and_sort_by_time() {
        let rng = SeededRng::new(1);
        let earlier = RunId::new("2026-11-20T23:59:59.999Z".parse().unwrap(), &rng);
        let later = RunId::new("2026-11-21T00:00:00Z".parse().unwrap(), &rng);
        assert!(earlier < later);
        assert_eq!(earlier.as_str().parse::<RunId>().unwrap(), earlier);
    }

    #[test]
    fn run_ids_go_on_behind_the_newest_whatever_the_clock_says() {
        let rng = SeededRng::new(1);
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let newest = RunId::new(at("2026-11-20T23:59:59.999Z"), &rng);
        assert_eq!(newest.began(), Some(at("2026-11-20T23:59:59.999Z")));
        for now in ["1969-12-31T00:00:00Z", "2026-11-20T23:59:59.999Z", "2027-01-01T00:00:00Z"] {
            let next = RunId::after(&newest, at(now), &rng);
            assert!(next > newest, "{now}");
            assert_eq!(next.as_str().parse::<RunId>().unwrap(), next);
            let began = at("2026-11-21T00:00:00Z").max(at(now));
            assert_eq!(next.began(), Some(began));
        }
        // Behind these there is no room, and no moment.
        for newest in ["99991231-235959999-aaaaaa", "99999999-999999999-aaaaaa"] {
            let next = RunId::after(&newest.parse().unwrap(), at("2027-01-01T00:00:00Z"), &rng);
            assert_eq!(next.began(), Some(at("2027-01-01T00:00:00Z")), "{newest}");
        }
    }

    #[test]
    fn names_that_could_leave_their_folder_are_refused() {
        for text in ["", "..", "a/b", "A", "1a", "a.b.c", "a.", ".a", "a b", "ä", &"a".repeat(65)]
        {
            assert!(text.parse::<StageName>().is_err(), "{text}");
        }
        assert!("before.answers".parse::<StageName>().is_ok());
        assert!("before.answers".parse::<PipelineName>().is_err());
        assert!("science".parse::<MemoryName>().is_ok());
        assert!("../science".parse::<MemoryName>().is_err());
    }

    #[test]
    fn names_of_files_stay_in_their_folder() {
        let long = "a".repeat(129);
        for text in [
            "",
            ".",
            "..",
            "/etc/passwd",
            "../a",
            "a/..",
            "./a",
            "/a",
            "a/",
            "a//b",
            "a/b/c",
            "a\\b",
            "a\0",
            "a b",
            "ä",
            &long,
        ] {
            assert!(text.parse::<FilePath>().is_err(), "{text}");
            let json = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<FilePath>(&json).is_err(), "{text}");
        }
        let found =
            ["meta.json", ".managed.json", "4bf8f1c9-A.idx", "...", &long[..128], "1_P/c.json"];
        for text in found {
            assert!(text.parse::<FilePath>().is_ok(), "{text}");
        }
    }
}
