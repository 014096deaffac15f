//! The pairs of an options argument, read into the types that they are for: a deserializer whose errors are
//! a key, a value, and what was expected, instead of one text.

use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess,
    SeqAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::Value;

use proofmill_settings::options::TEXTS;

use super::error::OptionsError;

/// What a failed row does to the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnError {
    #[default]
    Fail,
    /// The row keeps the error.
    Capture,
}

/// Where answers may come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replay {
    /// The ledger if it has one, else the model.
    #[default]
    First,
    /// The ledger alone: a row without a recorded answer fails.
    Only,
}

/// Key-value pairs, each key once, none NULL.
#[derive(Debug, Default)]
pub(super) struct Settings(Vec<(String, Value)>);

impl Settings {
    /// The pairs of a JSON object.
    pub(super) fn from_json(text: &str) -> Result<Self, OptionsError> {
        let json = |error: serde_json::Error| OptionsError::Json(error.to_string());
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let pairs = deserializer.deserialize_map(Pairs).map_err(json)?;
        deserializer.end().map_err(json)?;
        Self::from_pairs(pairs)
    }

    /// The pairs of a struct or an object.
    pub(super) fn from_pairs(
        pairs: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Self, OptionsError> {
        let mut settings = Self::default();
        for (key, value) in pairs {
            if settings.keys().any(|known| known == key) {
                return Err(OptionsError::Repeated(key));
            }
            settings.0.push((key, value));
        }
        settings.0.retain(|(_, value)| !value.is_null());
        Ok(settings)
    }

    /// What `on_error` says, if the options are otherwise wrong.
    pub(super) fn on_error(&self) -> OnError {
        let captures = |(key, value): &(String, Value)| key == "on_error" && value == "capture";
        if self.0.iter().any(captures) { OnError::Capture } else { OnError::Fail }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| key.as_str())
    }

    /// The value of one key, taken out.
    pub(super) fn take<T: DeserializeOwned>(
        &mut self,
        key: &str,
    ) -> Result<Option<T>, OptionsError> {
        let Some(at) = self.keys().position(|known| known == key) else { return Ok(None) };
        let (key, value) = self.0.remove(at);
        T::deserialize(Typed(&value)).map(Some).map_err(|fault| fault.at(&key, &value))
    }

    /// All pairs as one value, which has these keys.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, OptionsError> {
        let mut reader = Reader { pairs: &self.0, next: 0 };
        T::deserialize(&mut reader).map_err(|fault| {
            let (key, value) = &self.0[reader.next.saturating_sub(1)];
            fault.at(key, value)
        })
    }
}

/// The names of the fields of a struct, in order.
pub(super) fn keys_of<T: DeserializeOwned>() -> &'static [&'static str] {
    let no_field = [(String::new(), Value::Null)];
    match T::deserialize(&mut Reader { pairs: &no_field, next: 0 }) {
        Err(Fault::Unknown(names)) => names,
        Ok(_) | Err(Fault::Expected(_)) => &[],
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

/// What was expected instead of a value, or of a key.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("{0}")]
    Expected(String),
    #[error("one of {0:?}")]
    Unknown(&'static [&'static str]),
}

impl Fault {
    fn at(self, key: &str, value: &Value) -> OptionsError {
        let (key, value) = (key.to_owned(), value.to_string());
        OptionsError::Value { key, value, expected: self.to_string() }
    }
}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(expected: T) -> Self {
        Self::Expected(expected.to_string())
    }

    fn unknown_field(_field: &str, expected: &'static [&'static str]) -> Self {
        Self::Unknown(expected)
    }
}

/// The fault that something else than `what` stands there.
fn expected(what: impl fmt::Display) -> Fault {
    Fault::Expected(what.to_string())
}

/// The pairs as a struct.
struct Reader<'a> {
    pairs: &'a [(String, Value)],
    next: usize,
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Reader<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((key, _)) = self.pairs.get(self.next) else { return Ok(None) };
        self.next += 1;
        seed.deserialize(BorrowedStrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        seed.deserialize(Typed(&self.pairs[self.next - 1].1))
    }
}

/// A value, read as the type that is wanted, of those that options have.
struct Typed<'a>(&'a Value);

impl<'de> Deserializer<'de> for Typed<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        Err(expected(&visitor as &dyn de::Expected))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.0.as_bool().ok_or_else(|| expected("true or false"))?;
        visitor.visit_bool(value)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.0.as_u64().and_then(|value| u32::try_from(value).ok());
        let fault = || expected(format_args!("a whole number from 0 to {}", u32::MAX));
        visitor.visit_u32(value.ok_or_else(fault)?)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.0.as_i64().and_then(|value| i32::try_from(value).ok());
        let fault = || expected(format_args!("a whole number from {} to {}", i32::MIN, i32::MAX));
        visitor.visit_i32(value.ok_or_else(fault)?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let fault = || expected(format_args!("a whole number from 0 to {}", u64::MAX));
        visitor.visit_u64(self.0.as_u64().ok_or_else(fault)?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.0.as_f64().ok_or_else(|| expected("a number"))?;
        visitor.visit_f64(value)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = self.0.as_str().ok_or_else(|| expected("a text"))?;
        visitor.visit_borrowed_str(value)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let values = self.0.as_array().ok_or_else(|| expected(TEXTS))?;
        visitor.visit_seq(Elements(values.iter()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        if !self.0.is_object() {
            return Err(expected("an object such as {\"type\": \"json_object\"}"));
        }
        let read = self.0.deserialize_struct(name, fields, visitor);
        read.map_err(|error| expected(format_args!("another form: {error}")))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0.as_str().filter(|name| variants.contains(name)) {
            Some(name) => {
                let name: StrDeserializer<'_, Fault> = name.into_deserializer();
                visitor.visit_enum(name)
            }
            None => {
                let names: Vec<String> =
                    variants.iter().map(|name| format!("\"{name}\"")).collect();
                Err(expected(names.join(" or ")))
            }
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i64 i128 u8 u16 u128 f32 char str bytes byte_buf unit unit_struct newtype_struct tuple
        tuple_struct map identifier ignored_any
    }
}

/// The texts of a list.
struct Elements<'a>(std::slice::Iter<'a, Value>);

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        let Some(value) = self.0.next() else { return Ok(None) };
        seed.deserialize(Typed(value)).map(Some).map_err(|_| expected(TEXTS))
    }
}
