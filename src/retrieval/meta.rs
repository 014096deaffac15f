//! What an index is: the settings it is built from and the meta file that names them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::SearchError;
use crate::layout::META_FILE;
use crate::variant::{Formula, stored};
use proofmill_settings::search::{Analyzer, Variant};

/// Version of the folder's layout. A change that old programs cannot read adds one.
pub const FORMAT: u32 = 1;

/// The settings of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexSpec {
    pub variant: Variant,
    /// Saturation; `None` takes that of the variant.
    pub k1: Option<f64>,
    /// Length normalisation; `None` takes that of the variant.
    pub b: Option<f64>,
    /// Lower bound of a matching term; `None` takes that of the variant.
    pub delta: Option<f64>,
    pub analyzer: Analyzer,
}

impl IndexSpec {
    /// Saturation in force.
    pub fn k1(&self) -> f64 {
        self.k1.unwrap_or(self.variant.default_k1())
    }

    /// Length normalisation in force.
    pub fn b(&self) -> f64 {
        self.b.unwrap_or(self.variant.default_b())
    }

    /// Lower bound in force; 0 for formulas without one.
    pub fn delta(&self) -> f64 {
        self.delta.or(self.variant.default_delta()).unwrap_or(0.0)
    }

    /// Refuses parameters outside their range.
    pub fn check(&self) -> Result<(), SearchError> {
        let refuse = |name, value: f64, expected| {
            Err(SearchError::Parameter { name, value: value.to_string(), expected })
        };
        let (k1, b, delta) = (self.k1(), self.b(), self.delta());
        if !(k1.is_finite() && k1 >= 0.0) {
            return refuse("k1", k1, "a finite number of at least 0");
        }
        if !(0.0..=1.0).contains(&b) {
            return refuse("b", b, "a number from 0 to 1");
        }
        if !(delta.is_finite() && delta >= 0.0) {
            return refuse("delta", delta, "a finite number of at least 0");
        }
        if self.delta.is_some() && self.variant.default_delta().is_none() {
            return refuse("delta", delta, "no delta: this variant has none");
        }
        Ok(())
    }
}

/// Contents of `bm25.json`: everything a reader of the artifact must know about its scores. The
/// parameters in force are those of the file; up to 15 digits are kept exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexMeta {
    /// [`FORMAT`] at the time of writing.
    pub format: u32,
    #[serde(with = "stored")]
    pub variant: Variant,
    pub k1: f64,
    /// Length normalisation in force.
    pub b: f64,
    /// Lower bound in force; absent for formulas without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta: Option<f64>,
    pub analyzer: Analyzer,
    /// Number of entries.
    pub documents: u32,
    /// Number of terms in all entries, with repetitions.
    pub tokens: u64,
    /// Number of different terms.
    pub terms: u64,
    /// `tokens / documents`, for people; scores divide the two integers.
    pub average_length: f64,
}

impl IndexMeta {
    /// The meta data of a finished index.
    pub(super) fn new(spec: &IndexSpec, documents: u32, tokens: u64, terms: u64) -> Self {
        Self {
            format: FORMAT,
            variant: spec.variant,
            k1: spec.k1(),
            b: spec.b(),
            delta: spec.variant.default_delta().map(|_| spec.delta()),
            analyzer: spec.analyzer,
            documents,
            tokens,
            terms,
            average_length: if documents == 0 { 0.0 } else { tokens as f64 / f64::from(documents) },
        }
    }

    /// The settings that gave this index.
    pub fn spec(&self) -> IndexSpec {
        IndexSpec {
            variant: self.variant,
            k1: Some(self.k1),
            b: Some(self.b),
            delta: self.delta,
            analyzer: self.analyzer,
        }
    }

    /// Writes the meta file: the last step of building.
    pub(super) fn write(&self, dir: &Path) -> Result<(), SearchError> {
        let path = dir.join(META_FILE);
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| SearchError::io("write", &path)(error.into()))?;
        text.push('\n');
        std::fs::write(&path, text).map_err(SearchError::io("write", &path))
    }

    /// Reads and checks the meta file.
    pub(super) fn read(dir: &Path) -> Result<Self, SearchError> {
        let path = dir.join(META_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(SearchError::NotAnIndex { dir: dir.to_owned(), file: META_FILE });
            }
            Err(error) => return Err(SearchError::io("read", &path)(error)),
        };
        let damaged = |error: serde_json::Error| SearchError::Damaged {
            dir: dir.to_owned(),
            what: format!("`{META_FILE}`: {error}"),
        };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(damaged)?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(found) if found != u64::from(FORMAT) => {
                Err(SearchError::Format { dir: dir.to_owned(), found, expected: FORMAT })
            }
            _ => {
                let meta: Self = serde_json::from_value(value).map_err(damaged)?;
                meta.spec().check()?;
                Ok(meta)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_projects_default() {
        let spec = IndexSpec::default();
        assert_eq!((spec.variant, spec.analyzer), (Variant::Lucene, Analyzer::Word));
        assert_eq!((spec.k1(), spec.b(), spec.delta()), (1.2, 0.75, 0.0));
        assert!(spec.check().is_ok());
    }

    #[test]
    fn parameters_outside_their_range_are_refused() {
        let default = IndexSpec::default();
        let wrong = [
            IndexSpec { k1: Some(-0.1), ..default },
            IndexSpec { k1: Some(f64::NAN), ..default },
            IndexSpec { b: Some(1.1), ..default },
            IndexSpec { b: Some(f64::NAN), ..default },
            IndexSpec { delta: Some(0.5), ..default },
            IndexSpec { variant: Variant::Bm25l, delta: Some(f64::INFINITY), ..default },
        ];
        for spec in wrong {
            assert!(matches!(spec.check(), Err(SearchError::Parameter { .. })), "{spec:?}");
        }
    }

    #[test]
    fn the_meta_file_survives_a_round_trip_and_its_text_is_fixed() {
        let dir = tempfile::tempdir().unwrap();
        let spec = IndexSpec { variant: Variant::Bm25Plus, ..IndexSpec::default() };
        let meta = IndexMeta::new(&spec, 6, 30, 19);
        meta.write(dir.path()).unwrap();
        assert_eq!(IndexMeta::read(dir.path()).unwrap(), meta);
        let text = std::fs::read_to_string(dir.path().join(META_FILE)).unwrap();
        assert_eq!(
            text.split_whitespace().collect::<String>(),
            r#"{"format":1,"variant":"bm25plus","k1":1.5,"b":0.75,"delta":0.5,"analyzer":"word","#
                .to_owned()
                + r#""documents":6,"tokens":30,"terms":19,"average_length":5.0}"#
        );
    }

    #[test]
    fn other_formats_and_broken_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(dir.path().join(META_FILE), text).unwrap();
            IndexMeta::read(dir.path()).unwrap_err()
        };
        assert!(matches!(read(r#"{"format":2,"new":[]}"#), SearchError::Format { found: 2, .. }));
        assert!(matches!(read("{"), SearchError::Damaged { .. }));
        assert!(matches!(read(r#"{"format":1}"#), SearchError::Damaged { .. }));
        std::fs::remove_file(dir.path().join(META_FILE)).unwrap();
        assert!(matches!(IndexMeta::read(dir.path()), Err(SearchError::NotAnIndex { .. })));
    }
}
