//! JSON values that borrow from the record they stand in.
//!
//! A reader of its own, because three things must hold that a general one does not give: a number
//! keeps its digits until its column's type is known, a key that occurs twice is seen, and text
//! that is not UTF-8 is a fault of the record and not of the file.

mod parse;

use std::borrow::Cow;

pub use parse::{JsonError, Parser, parse};

/// Digits that 64-bit floating point always keeps.
const FLOAT_DIGITS: usize = 15;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, as it is written.
    Number(&'a str),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>, &'a [u8]),
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

    /// The value, if it is a number that 64-bit floating point keeps.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Number(number) => float_of(number),
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

/// The number that a text spells as 64-bit floating point, if that keeps it: the digits before the point
/// must be its own. They may be the name of a thing, and two names must not become one. Beside a fraction
/// they may also be those that programs print, the fewest that tell a number from its neighbours. Digits
/// after the point, and all of a number with an exponent, are the nearest number.
pub fn float_of(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    let whole = value.abs().trunc();
    let kept = match whole_digits(text) {
        Some(digits) if digits.len() > FLOAT_DIGITS => {
            format!("{whole:.0}") == digits || text.contains('.') && whole.to_string() == digits
        }
        _ => true,
    };
    kept.then_some(value)
}

/// The digits before the point of a number without an exponent, if any stand there: without sign and
/// leading zeros.
fn whole_digits(text: &str) -> Option<&str> {
    let digits = text.trim_start_matches(['+', '-']).trim_start_matches('0');
    let (digits, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (plain(digits) && plain(rest.trim_start_matches('.'))).then_some(digits)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_point_keeps_a_number_or_has_none() {
        for text in [
            "0",
            "-0.5",
            "1e300",
            "0.1",
            "1.00000000000000000001",
            "9007199254740992",
            "+007",
            "-9007199254740992",
            "2251799813685249.5",
            "1700000000000000.25",
            "18446744073709551616",
            "1e23",
            "000000000000000000001",
            ".5",
        ] {
            assert_eq!(float_of(text), text.parse().ok(), "{text}");
        }
        for text in [
            "9007199254740993",
            "-9007199254740993",
            "+9007199254740993",
            "009007199254740993",
            "9007199254740993.0",
            "9007199254740993.",
            "18446744073709551615",
            "1e999",
            "nan",
            "x",
        ] {
            assert_eq!(float_of(text), None, "{text}");
        }
    }
}
