//! YAML text to a tree of nodes. The only place that names the YAML library.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;

use crate::spec::code::Code;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::node::{Key, Node, Value};
use crate::spec::source::{Sources, Span};

/// Largest accepted file, in bytes.
pub const FILE_BYTES_MAX: usize = 4 << 20;
/// Deepest accepted nesting.
const DEPTH_MAX: usize = 32;
/// Most accepted nodes: a pipeline of ten thousand stages has some hundred thousand.
const NODES_MAX: usize = 2_000_000;

/// Parses one text of `sources`.
pub fn parse(sources: &Sources, source: u32) -> Result<Node, Box<Diagnostic>> {
    let text = &sources.get(source).text;
    let whole = |message: String| {
        let span = Span { source, start: 0, end: 0 };
        Box::new(Diagnostic::error(Code::Syntax, span, "", message))
    };
    if text.len() > FILE_BYTES_MAX {
        return Err(whole(format!(
            "the file has {} bytes, more than the {FILE_BYTES_MAX} that are accepted",
            text.len()
        )));
    }
    let options = serde_yaml::options! {
        strict_booleans: true,
        with_snippet: false,
        emit_comments: false,
        merge_keys: serde_yaml::MergeKeyPolicy::Error,
        budget: serde_yaml::budget! {
            max_depth: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: 4 * NODES_MAX,
            max_total_scalar_bytes: 2 * FILE_BYTES_MAX,
            max_anchors: 50,
            max_aliases: 100,
        },
    };
    let tree: Spanned<Raw> = serde_yaml::from_str_with_options(text, options).map_err(|error| {
        let span = error.location().and_then(|at| at.span().byte_offset()).map_or(0, |b| b as u32);
        let message = first_sentence(&error.without_snippet().to_string());
        let place = Span { source, start: span, end: (span + 1).min(text.len() as u32) };
        Box::new(Diagnostic::error(Code::Syntax, place, "", message))
    })?;
    Ok(node(tree, source, text))
}

/// The library's message without its own position, which ours repeats exactly.
fn first_sentence(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    message.split(", set DuplicateKeyPolicy").next().unwrap_or(message).trim().to_owned()
}

/// A tree as the YAML library gives it.
enum Raw {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Seq(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

fn span<T>(spanned: &Spanned<T>, source: u32) -> Span {
    let at = spanned.referenced.span();
    let start = at.byte_offset().unwrap_or(0) as u32;
    Span { source, start, end: start + at.byte_len().unwrap_or(0) as u32 }
}

fn node(raw: Spanned<Raw>, source: u32, text: &str) -> Node {
    let mut place = span(&raw, source);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(value) => Value::Bool(value),
        Raw::Int(_) | Raw::Float(_) if !is_plain_number(slice(text, place)) => {
            Value::Str(slice(text, place).to_owned())
        }
        Raw::Int(value) => Value::Int(value),
        Raw::Float(value) => Value::Float(value),
        Raw::Str(value) => Value::Str(value),
        Raw::Seq(items) => {
            Value::Seq(items.into_iter().map(|item| node(item, source, text)).collect())
        }
        Raw::Map(entries) => {
            let entry = |(key, value): (Spanned<String>, _)| {
                (Key { span: span(&key, source), name: key.value }, node(value, source, text))
            };
            Value::Map(entries.into_iter().map(entry).collect())
        }
    };
    if let Value::Map(entries) = &value
        && let (Some((first, _)), Some((_, last))) = (entries.first(), entries.last())
    {
        place = Span { source, start: first.span.start, end: last.span.end };
    }
    Node::new(value, place)
}

fn slice(text: &str, span: Span) -> &str {
    text.get(span.start as usize..span.end as usize).unwrap_or("")
}

/// True for JSON's notation of numbers. `010`, `1_000` and `0x1F` stay the labels they look like.
fn is_plain_number(text: &str) -> bool {
    matches!(text.strip_prefix('+').unwrap_or(text), ".inf" | "-.inf" | ".nan")
        || serde_json::from_str::<serde_json::Number>(text).is_ok()
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(i64::try_from(value).map_or(Raw::Float(value as f64), Raw::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Str(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(Raw::Seq(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut all = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            all.push(entry);
        }
        Ok(Raw::Map(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Result<Node, Box<Diagnostic>> {
        let mut sources = Sources::default();
        let source = sources.add("t.yaml", text);
        parse(&sources, source)
    }

    #[test]
    fn labels_that_look_like_numbers_or_booleans_stay_texts() {
        for label in ["yes", "no", "on", "off", "y", "010", "1_000", "0x1F", "\"1\"", "1:30"] {
            let node = tree(&format!("a: {label}")).unwrap();
            assert_eq!(node.get("a").unwrap().as_str(), Some(label.trim_matches('"')));
        }
        assert_eq!(tree("a: 10").unwrap().get("a").unwrap().value, Value::Int(10));
        assert_eq!(tree("a: 1e3").unwrap().get("a").unwrap().value, Value::Float(1000.0));
    }

    #[test]
    fn what_is_refused_has_a_place() {
        for (text, start) in [("a: 1\na: 2", 5), ("a: 'x", 3), ("a: *b", 3), ("<<: {a: 1}\nb: 1", 0)] {
            assert_eq!(tree(text).unwrap_err().span.start, start, "{text}");
        }
    }

    #[test]
    fn alias_bombs_are_refused() {
        let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for i in 1..12 {
            let line = vec![format!("*a{}", i - 1); 9].join(",");
            text.push_str(&format!("a{i}: &a{i} [{line}]\n"));
        }
        assert!(tree(&text).is_err());
    }
}
