//! JSON in texts: values by their steps, as they stand in the text, and the object in a model's prose.
//!
//! serde_json reads what is a value; here is only the way to one, which its types would have to hold as a whole.

use std::collections::HashSet;

use serde::de::IgnoredAny;

/// A step into a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonStep<'a> {
    /// The key of an object.
    Key(&'a str),
    /// The position in an array from 0; below 0, from its end.
    Position(i64),
}

/// The value at the end of the steps, as it stands in the text; `None` if there is none, or the text is not
/// JSON as a whole. Of a key that an object has twice, the last counts.
pub fn find<'t>(text: &'t str, steps: &[JsonStep<'_>]) -> Option<&'t str> {
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    steps.iter().try_fold(trimmed(text), |value, step| match *step {
        JsonStep::Key(name) if value.starts_with('{') => {
            let named = |(key, _): &(&str, &str)| is_key(key, name);
            entries(value).filter(named).last().map(|(_, value)| value)
        }
        JsonStep::Key(_) => None,
        JsonStep::Position(position) => item(value, position),
    })
}

/// The items of an array; `None` for another value. `value` is one that [`find`] gave.
pub fn items(value: &str) -> Option<impl Iterator<Item = &str>> {
    let mut rest = value.strip_prefix('[')?;
    Some(std::iter::from_fn(move || {
        rest = rest.trim_start_matches(is_between);
        let (item, after) = split_value(rest)?;
        rest = after;
        Some(item)
    }))
}

/// The keys of an object in their order, each once; `None` for another value. `value` is one that [`find`] gave.
pub fn keys(value: &str) -> Option<impl Iterator<Item = String>> {
    let mut seen = HashSet::new();
    let key = |(key, _): (&str, &str)| string(key);
    value
        .starts_with('{')
        .then(|| entries(value).filter_map(key).filter(move |key| seen.insert(key.clone())))
}

/// What a string says; `None` for another value.
pub fn string(value: &str) -> Option<String> {
    value.starts_with('"').then(|| serde_json::from_str(value).ok())?
}

/// A whole number, however it is written; `None` for another value, and for one of more than 64 bits.
pub fn whole(value: &str) -> Option<i64> {
    // 2^63: the first number of 64-bit floating point that is too large.
    const END: f64 = 9_223_372_036_854_775_808.0;
    value.parse().ok().or_else(|| {
        number(value).filter(|n| n.fract() == 0.0 && (-END..END).contains(n)).map(|n| n as i64)
    })
}

/// A number; `None` for another value, and for one that 64-bit floating point does not hold.
pub fn number(value: &str) -> Option<f64> {
    let is_number = value.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    is_number.then(|| value.parse().ok())?.filter(|n: &f64| n.is_finite())
}

/// The first JSON object of a text, whatever stands around it; `None` if it breaks off.
pub fn first_object(text: &str) -> Option<&str> {
    let mut start = 0;
    loop {
        start += text[start..].find('{')?;
        let rest = &text[start..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        match values.next()? {
            Ok(_) => return Some(&rest[..values.byte_offset()]),
            // It breaks off: what is inside is no answer.
            Err(error) if error.is_eof() => return None,
            // The search goes on where it is wrong, so that each character is read once.
            Err(error) => start += wrong_at(rest, &error).max(1),
        }
    }
}

/// The place of an error in the text, in bytes.
fn wrong_at(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let place = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    text.floor_char_boundary(place)
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

/// White space, and what parts the values of JSON that is known to be valid.
fn is_between(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | ',' | ':')
}

/// Splits the value off that a text begins with; `None` at the end of an array or object.
fn split_value(text: &str) -> Option<(&str, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    values.next()?.ok()?;
    Some(text.split_at(values.byte_offset()))
}

/// The keys of a valid object as they are written, with their values.
fn entries(value: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = value.strip_prefix('{').unwrap_or_default();
    std::iter::from_fn(move || {
        let (key, after) = split_value(rest.trim_start_matches(is_between))?;
        let (value, after) = split_value(after.trim_start_matches(is_between))?;
        rest = after;
        Some((key, value))
    })
}

fn is_key(written: &str, name: &str) -> bool {
    match written.contains('\\') {
        true => string(written).is_some_and(|key| key == name),
        false => written.get(1..written.len() - 1) == Some(name),
    }
}

fn item(value: &str, position: i64) -> Option<&str> {
    let mut items = items(value)?;
    match usize::try_from(position) {
        Ok(position) => items.nth(position),
        Err(_) => {
            let from_end = usize::try_from(position.unsigned_abs()).ok()?;
            let items: Vec<&str> = items.collect();
            items.len().checked_sub(from_end).map(|place| items[place])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#" {"s": "a \"b\" \u00e9", "i": 7, "o": {"k": [10, {"x": "y"}]}, "a": [1, "2,]}", [3]],
        "": null, "é\n": 1, "i": 8} "#;

    fn at(steps: &[JsonStep<'_>]) -> Option<&'static str> {
        find(TEXT, steps)
    }

    #[test]
    fn values_stand_as_they_are_written() {
        use JsonStep::{Key, Position};
        assert_eq!(at(&[]), Some(TEXT.trim()));
        assert_eq!(at(&[Key("s")]), Some(r#""a \"b\" \u00e9""#));
        assert_eq!(at(&[Key("i")]), Some("8"), "the last counts");
        assert_eq!(at(&[Key("o"), Key("k"), Position(1), Key("x")]), Some(r#""y""#));
        assert_eq!(at(&[Key("o"), Key("k"), Key("1")]), None, "a key opens no array");
        assert_eq!(at(&[Key("a"), Position(1)]), Some(r#""2,]}""#));
        assert_eq!(at(&[Key("a"), Position(-1)]), Some("[3]"));
        assert_eq!(at(&[Key("a"), Position(-3)]), Some("1"));
        for none in [&[Key("a"), Position(-4)], &[Key("a"), Position(3)], &[Key("a"), Key("x")]] {
            assert_eq!(at(none), None, "{none:?}");
        }
        assert_eq!(at(&[Key("")]), Some("null"));
        assert_eq!(at(&[Key("é\n")]), Some("1"));
        for none in
            [&[Key("none")][..], &[Key("i"), Key("x")], &[Key("s"), Position(0)], &[Position(0)]]
        {
            assert_eq!(at(none), None, "{none:?}");
        }
        assert_eq!(items("[]").unwrap().count(), 0);
        assert_eq!(
            items("[1 , [2,3],\"x\"]").unwrap().collect::<Vec<_>>(),
            ["1", "[2,3]", "\"x\""]
        );
        assert_eq!(
            keys(at(&[]).unwrap()).unwrap().collect::<Vec<_>>(),
            ["s", "i", "o", "a", "", "é\n"]
        );
        assert!(items("{}").is_none() && keys("[]").is_none());
    }

    #[test]
    fn only_whole_json_is_read() {
        let step = [JsonStep::Key("a")];
        for text in [
            "",
            " ",
            "no",
            "{\"a\": 1",
            "{\"a\": 1} x",
            "{\"a\": 1,}",
            "{'a': 1}",
            "{\"a\": 01}",
            "{\"a\": NaN}",
        ] {
            assert_eq!(find(text, &step), None, "{text}");
            assert_eq!(find(text, &[]), None, "{text}");
        }
        // Deeper than any parser with a frame for each level goes.
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(find(&deep, &step).map(str::len), Some(200_000));
    }

    #[test]
    fn numbers_are_what_they_say() {
        for (text, whole_number, any) in [
            ("7", Some(7), Some(7.0)),
            ("-0", Some(0), Some(0.0)),
            ("7.0", Some(7), Some(7.0)),
            ("2e3", Some(2000), Some(2000.0)),
            ("0.1", None, Some(0.1)),
            ("9007199254740993", Some(9_007_199_254_740_993), Some(9_007_199_254_740_992.0)),
            ("-9223372036854775808", Some(i64::MIN), Some(-9_223_372_036_854_775_808.0)),
            ("9223372036854775808", None, Some(9_223_372_036_854_775_808.0)),
            ("1e999", None, None),
            ("\"7\"", None, None),
            ("true", None, None),
            ("null", None, None),
        ] {
            assert_eq!((whole(text), number(text)), (whole_number, any), "{text}");
        }
        assert_eq!(string("\"\\ud800\""), None, "half a character");
    }

    #[test]
    fn the_first_whole_object_is_found() {
        for (text, found) in [
            (r#"{"a": 1}"#, Some(r#"{"a": 1}"#)),
            (
                "Sure!\n```json\n{\n  \"a\": [{\"b\": 2}]\n}\n```\nBye {\"c\": 3}",
                Some("{\n  \"a\": [{\"b\": 2}]\n}"),
            ),
            (r#"a set {1, 2}, then {"a": "}"}"#, Some(r#"{"a": "}"}"#)),
            (r#"{{"a": 1}}"#, Some(r#"{"a": 1}"#)),
            ("{\n{\n\"é\": 1}", Some("{\n\"é\": 1}")),
            (r#"{é {"a": 1}"#, Some(r#"{"a": 1}"#)),
            ("{}", Some("{}")),
            // Not in part: broken off, or wrong inside.
            (r#"{"score": 7, "why": {"a": 1}, "more": "#, None),
            (r#"{"score": {"a": 1}, 'b': 2}"#, None),
            (r#"{"score": NaN}"#, None),
            ("[1, 2]", None),
            ("no braces", None),
            ("", None),
        ] {
            assert_eq!(first_object(text), found, "{text}");
        }
    }

    #[test]
    fn a_hostile_text_is_read_once() {
        // Each brace begins an object that is wrong at its end, or is never closed.
        for text in ["{\"a\":".repeat(200_000), "{".repeat(1_000_000), "{\"a\" ".repeat(200_000)] {
            assert_eq!(first_object(&text), None);
        }
    }
}
