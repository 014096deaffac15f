//! JSON values that borrow from the record they stand in.
//!
//! A reader of its own, because three things must hold that a general one does not give: a number
//! keeps its digits until its column's type is known, a key that occurs twice is seen, and text
//! that is not UTF-8 is a fault of the record and not of the file.

mod parse;

use std::borrow::Cow;

pub use parse::{Mistake, Parser, parse};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it is written.
    Number(&'a str),
    /// Text.
    Text(Cow<'a, str>),
    /// A list, and its text.
    List(Vec<Json<'a>>, &'a [u8]),
    /// An object, and its text.
    Object(Object<'a>, &'a [u8]),
}

/// The fields of an object, in order.
pub type Object<'a> = Vec<(Cow<'a, str>, Json<'a>)>;

impl<'a> Json<'a> {
    /// The value as text: texts as they are, everything else as its JSON. `None` for `null`.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Null => None,
            Self::Bool(true) => Some("true".into()),
            Self::Bool(false) => Some("false".into()),
            Self::Number(number) => Some((*number).into()),
            Self::Text(text) => Some(text.as_ref().into()),
            Self::List(_, raw) | Self::Object(_, raw) => Some(String::from_utf8_lossy(raw)),
        }
    }

    /// The value, if it is a whole number that fits 64 bits.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Number(number) => number.parse().ok(),
            _ => None,
        }
    }

    /// The value, if it is a number that fits 64-bit floating point.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Number(number) => number.parse().ok().filter(|value: &f64| value.is_finite()),
            _ => None,
        }
    }

    /// What the value is, for messages.
    pub fn describe(&self) -> String {
        const SHOWN_CHARS_MAX: usize = 40;
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => format!("`{value}`"),
            Self::Number(number) => format!("the number `{}`", cut(number, SHOWN_CHARS_MAX)),
            Self::Text(text) => format!("the text `{}`", cut(text, SHOWN_CHARS_MAX)),
            Self::List(..) => "a list".to_owned(),
            Self::Object(..) => "an object".to_owned(),
        }
    }
}

/// Finds a field, starting where it is expected.
pub fn get<'o, 'a>(object: &'o Object<'a>, name: &str, expected_at: usize) -> Option<&'o Json<'a>> {
    match object.get(expected_at) {
        Some((key, value)) if key == name => Some(value),
        _ => object.iter().find(|(key, _)| key == name).map(|(_, value)| value),
    }
}

fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
