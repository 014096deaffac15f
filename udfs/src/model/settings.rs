//! The pairs of an options argument, taken out one by one with their types checked.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::options::OnError;
use super::suggest;

/// Why an options argument is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Not a JSON object.
    #[error("argument `options` is no JSON object: {0}")]
    Json(String),
    #[error("option `{0}` stands twice; keep one")]
    Repeated(String),
    /// A key that the function does not have.
    #[error("option `{key}` is unknown; {hint}")]
    Unknown { key: String, hint: String },
    /// A value that the key cannot have.
    #[error("option `{key}` is {value}; expected {expected}")]
    Value { key: &'static str, value: String, expected: String },
    /// Two options that contradict each other, or one that needs another.
    #[error("{0}")]
    Conflict(String),
    /// A call that returns one answer per row asks for several.
    #[error(
        "the options of a row ask for {0} answers, and the call returns one per row; write options \
         with `samples` or `answers` as a constant text or as a struct"
    )]
    Several(u32),
}

/// Key-value pairs not yet taken.
#[derive(Debug, Default)]
pub(super) struct Settings(BTreeMap<String, Value>);

impl Settings {
    /// The pairs of a JSON object. Keys with `null` are left out.
    pub(super) fn from_json(text: &str) -> Result<Self, OptionsError> {
        let json = |error: serde_json::Error| OptionsError::Json(error.to_string());
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let pairs = deserializer.deserialize_map(Pairs).map_err(json)?;
        deserializer.end().map_err(json)?;
        Self::from_pairs(pairs)
    }

    /// The pairs of a struct or an object. Keys with `null` are left out.
    pub(super) fn from_pairs(
        pairs: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, OptionsError> {
        let mut settings = Self::default();
        for (key, value) in pairs {
            if settings.0.contains_key(&key) {
                return Err(OptionsError::Repeated(key));
            }
            settings.0.insert(key, value);
        }
        settings.0.retain(|_, value| !value.is_null());
        Ok(settings)
    }

    /// Refuses keys that are not among `known`.
    pub(super) fn only(self, known: &[&str]) -> Result<Self, OptionsError> {
        match self.0.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(OptionsError::Unknown {
                key: key.clone(),
                hint: suggest::instead_of(key, known.iter().copied()),
            }),
            None => Ok(self),
        }
    }

    /// What `on_error` says, if the options are otherwise wrong.
    pub(super) fn on_error(&self) -> OnError {
        match self.0.get("on_error").and_then(Value::as_str) {
            Some("capture") => OnError::Capture,
            _ => OnError::Fail,
        }
    }

    /// Whether a key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// A whole number of at least `least`.
    pub(super) fn whole(
        &mut self,
        key: &'static str,
        least: u32,
    ) -> Result<Option<u32>, OptionsError> {
        let expected = || format!("a whole number from {least} to {}", u32::MAX);
        self.take(key, expected, |value| {
            let number = u32::try_from(value.as_u64()?).ok()?;
            (number >= least).then_some(number)
        })
    }

    /// A whole number of 64 bits.
    pub(super) fn seed(&mut self, key: &'static str) -> Result<Option<u64>, OptionsError> {
        self.take(key, || format!("a whole number from 0 to {}", u64::MAX), Value::as_u64)
    }

    /// A finite number that `fits`.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        expected: &str,
        fits: impl Fn(f32) -> bool,
    ) -> Result<Option<f32>, OptionsError> {
        self.take(
            key,
            || expected.to_owned(),
            |value| {
                let exact = value.as_f64()?;
                let number = exact as f32;
                // A number above 0 that is 0 in 32 bits would change its meaning.
                let vanished = number == 0.0 && exact != 0.0;
                (number.is_finite() && !vanished && fits(number)).then_some(number)
            },
        )
    }

    /// A truth value.
    pub(super) fn switch(&mut self, key: &'static str) -> Result<Option<bool>, OptionsError> {
        self.take(key, || "true or false".into(), Value::as_bool)
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, OptionsError> {
        self.take(key, || "a text".into(), |value| value.as_str().map(str::to_owned))
    }

    /// A list of texts, none of them empty.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>, OptionsError> {
        let text = |value: &Value| value.as_str().filter(|t| !t.is_empty()).map(str::to_owned);
        self.take(
            key,
            || "a list of texts that are not empty".into(),
            |value| value.as_array()?.iter().map(text).collect(),
        )
    }

    /// One of a few names.
    pub(super) fn name<T: Copy>(
        &mut self,
        key: &'static str,
        names: &[(&str, T)],
    ) -> Result<Option<T>, OptionsError> {
        let expected = || {
            let names: Vec<String> = names.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            names.join(" or ")
        };
        self.take(key, expected, |value| {
            let given = value.as_str()?;
            names.iter().find(|(name, _)| *name == given).map(|(_, named)| *named)
        })
    }

    fn take<T>(
        &mut self,
        key: &'static str,
        expected: impl Fn() -> String,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, OptionsError> {
        let Some(value) = self.0.remove(key) else {
            return Ok(None);
        };
        read(&value).map(Some).ok_or_else(|| OptionsError::Value {
            key,
            value: value.to_string(),
            expected: expected(),
        })
    }
}

/// Reads an object with every pair it has: a map would keep the last of two.
struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("an object like {\"max_tokens\": 64}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(pairs)
    }
}
