//! Settings read from JSON files by key and type. A value of another type, or outside what is
//! supported, is an error that names file and key. `null` counts as absent, as transformers writes it.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{LoadError, OpenFile};

/// The largest size that any setting may name; products of two stay far inside 64 bits.
const MOST: usize = 1 << 24;

/// An object of settings.
#[derive(Clone, Debug)]
pub struct Config {
    held: Arc<OpenFile>,
    /// Where in the file the object lies: empty, or a path that ends with a dot.
    at: String,
    values: Map<String, Value>,
}

/// Reads a file as JSON; it stays open.
pub(super) fn read_json(file: &Path) -> Result<(Value, Arc<OpenFile>), LoadError> {
    let held = Arc::new(OpenFile::open(file)?);
    Ok((parse(&held)?, held))
}

fn parse(held: &OpenFile) -> Result<Value, LoadError> {
    let why = |error: serde_json::Error| LoadError::Json {
        file: held.path().to_owned(),
        why: error.to_string(),
    };
    serde_json::from_slice(&held.read()?).map_err(why)
}

impl Config {
    /// Reads a file that holds an object.
    pub fn read(file: &Path) -> Result<Self, LoadError> {
        Self::of(Arc::new(OpenFile::open(file)?))
    }

    /// Reads an open file that holds an object.
    pub(super) fn of(held: Arc<OpenFile>) -> Result<Self, LoadError> {
        match parse(&held)? {
            Value::Object(values) => Ok(Self { held, at: String::new(), values }),
            _ => Err(LoadError::Json {
                file: held.path().to_owned(),
                why: "expected an object of settings".to_owned(),
            }),
        }
    }

    /// Reads a file if there is one.
    pub fn read_if_there(file: &Path) -> Result<Option<Self>, LoadError> {
        if file.exists() { Self::read(file).map(Some) } else { Ok(None) }
    }

    /// The file it came from.
    pub fn file(&self) -> &Path {
        self.held.path()
    }

    /// The same, open.
    pub(super) fn held(&self) -> &Arc<OpenFile> {
        &self.held
    }

    /// Whether there is a value.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Whether the key is there, with a value or with `null`.
    pub fn mentions(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// The error that `key` has not the value it should have.
    pub fn refuse(&self, key: &str, expected: impl Into<String>) -> LoadError {
        LoadError::Value {
            file: self.file().to_owned(),
            key: format!("{}{key}", self.at),
            found: self.value(key).map_or_else(|| "absent".to_owned(), Value::to_string),
            expected: expected.into(),
        }
    }

    /// A size: a whole number from 1 to 2^24.
    pub fn size(&self, key: &str) -> Result<usize, LoadError> {
        self.value(key)
            .and_then(Value::as_u64)
            .and_then(|value| usize::try_from(value).ok())
            .filter(|size| (1..=MOST).contains(size))
            .ok_or_else(|| self.refuse(key, "a whole number from 1 to 2^24"))
    }

    /// A size that may be absent.
    pub fn size_if_there(&self, key: &str) -> Result<Option<usize>, LoadError> {
        self.has(key).then(|| self.size(key)).transpose()
    }

    /// A size, or what holds where it is absent.
    pub fn size_or(&self, key: &str, default: usize) -> Result<usize, LoadError> {
        Ok(self.size_if_there(key)?.unwrap_or(default))
    }

    /// A number above 0.
    pub fn positive(&self, key: &str) -> Result<f64, LoadError> {
        self.value(key)
            .and_then(Value::as_f64)
            .filter(|number| *number > 0.0)
            .ok_or_else(|| self.refuse(key, "a number above 0"))
    }

    /// A number above 0, or what holds where it is absent.
    pub fn positive_or(&self, key: &str, default: f64) -> Result<f64, LoadError> {
        if self.has(key) { self.positive(key) } else { Ok(default) }
    }

    /// Yes or no, or what holds where it is absent.
    pub fn flag_or(&self, key: &str, default: bool) -> Result<bool, LoadError> {
        match self.value(key) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.refuse(key, "true or false")),
        }
    }

    /// Refuses any value but `only`, which also holds where it is absent.
    pub fn only(&self, key: &str, only: bool) -> Result<(), LoadError> {
        if self.flag_or(key, only)? == only {
            Ok(())
        } else {
            Err(self.refuse(key, format!("{only}: the other is not supported")))
        }
    }

    /// A text that may be absent.
    pub fn text(&self, key: &str) -> Result<Option<&str>, LoadError> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| self.refuse(key, "a text")),
        }
    }

    /// A text, or of a list of texts with names the one that is called `default`: how chat templates stand.
    pub fn named_text(&self, key: &str) -> Option<&str> {
        match self.value(key)? {
            Value::Array(named) => {
                let default = named.iter().find(|one| one["name"] == "default")?;
                default["template"].as_str()
            }
            value => value.as_str(),
        }
    }

    /// Texts, none where they are absent.
    pub fn texts(&self, key: &str) -> Result<Vec<&str>, LoadError> {
        match self.value(key) {
            None => Ok(Vec::new()),
            Some(value) => value
                .as_array()
                .and_then(|list| list.iter().map(Value::as_str).collect())
                .ok_or_else(|| self.refuse(key, "a list of texts")),
        }
    }

    /// Texts by their numbers from 0 on, which an object has as keys; at least one if it is there.
    pub fn numbered(&self, key: &str) -> Result<Option<Vec<String>>, LoadError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let named = |map: &Map<String, Value>| -> Option<Vec<String>> {
            let text = |id: usize| Some(map.get(&id.to_string())?.as_str()?.to_owned());
            (0..map.len()).map(text).collect()
        };
        let names = value.as_object().and_then(named).filter(|names| !names.is_empty());
        let expected = "a text for each of 0, 1, 2 and so on";
        names.map(Some).ok_or_else(|| self.refuse(key, expected))
    }

    /// Whether a number is there and 0.
    pub fn is_zero(&self, key: &str) -> bool {
        self.value(key).and_then(Value::as_u64) == Some(0)
    }

    /// Token ids: one, several, or none where they are absent.
    pub fn tokens(&self, key: &str) -> Result<Vec<u32>, LoadError> {
        let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
        match self.value(key) {
            None => Some(Vec::new()),
            Some(Value::Array(list)) => list.iter().map(id).collect(),
            Some(value) => id(value).map(|id| vec![id]),
        }
        .ok_or_else(|| self.refuse(key, "a token id or a list of token ids"))
    }

    /// At most one token id.
    pub fn token(&self, key: &str) -> Result<Option<u32>, LoadError> {
        match self.tokens(key)?[..] {
            [] => Ok(None),
            [id] => Ok(Some(id)),
            _ => Err(self.refuse(key, "one token id")),
        }
    }

    /// A token's text, which stands alone or as `content` of an object; may be absent.
    pub fn token_text(&self, key: &str) -> Result<Option<&str>, LoadError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        value
            .as_str()
            .or_else(|| value.get("content")?.as_str())
            .map(Some)
            .ok_or_else(|| self.refuse(key, "a token's text"))
    }

    /// An object inside this one; may be absent.
    pub fn section(&self, key: &str) -> Result<Option<Self>, LoadError> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Object(values)) => Ok(Some(Self {
                held: Arc::clone(&self.held),
                at: format!("{}{key}.", self.at),
                values: values.clone(),
            })),
            Some(_) => Err(self.refuse(key, "an object")),
        }
    }
}
