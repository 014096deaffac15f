//! YAML text to a tree of nodes. The only place that names the YAML library.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::{Location, Spanned};

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::{Key, Node, Value};
use crate::refusal::refusal;
use crate::source::{Sources, Span};
use crate::tag;
use crate::text::FILE_BYTES_MAX;
use crate::validate::join;

/// Deepest accepted nesting.
const DEPTH_MAX: usize = 32;
/// Most accepted nodes: a pipeline of ten thousand stages has some hundred thousand.
const NODES_MAX: usize = 2_000_000;

/// Parses one text of `sources`; a key that stands twice is reported and its first value kept.
pub fn parse(
    sources: &Sources,
    source: u32,
    out: &mut Vec<Diagnostic>,
) -> Result<Node, Box<Diagnostic>> {
    let text = &sources.get(source).text;
    if let Some(tag) = tag::first(text) {
        let place = Span { source, start: tag.start as u32, end: tag.end as u32 };
        let message = format!("the tag `{}` is not accepted", cut(&text[tag]));
        let help = "remove it; put quotes around a value that is a string, or that starts with `!`";
        let diagnostic = Diagnostic::error(Code::Syntax, place, "", message);
        return Err(Box::new(diagnostic.with_help(help.to_owned())));
    }
    let options = serde_yaml::options! {
        strict_booleans: true,
        with_snippet: false,
        emit_comments: false,
        // All entries reach the visitor, so that the tree can report every repetition.
        duplicate_keys: serde_yaml::DuplicateKeyPolicy::LastWins,
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
        let found = error.location();
        let start = found.map_or(0, |at| match at.span().byte_offset() {
            Some(offset) => offset as usize,
            None => offset(text, at.line(), at.column()),
        });
        let start = start.min(text.trim_end().len());
        let refusal = refusal(&error.without_snippet().to_string(), text, start);
        let width = text[refusal.start..].chars().next().map_or(0, char::len_utf8);
        let place =
            Span { source, start: refusal.start as u32, end: (refusal.start + width) as u32 };
        let diagnostic = Diagnostic::error(Code::Syntax, place, "", refusal.message);
        Box::new(diagnostic.with_help(refusal.help.map(str::to_owned)))
    })?;
    Ok(Reader { source, text, out }.node(tree, ""))
}

/// The byte of a line and column, both counted from 1, columns in characters.
fn offset(text: &str, line: u64, column: u64) -> usize {
    let skipped = line.saturating_sub(1) as usize;
    let start: usize = text.split_inclusive('\n').take(skipped).map(str::len).sum();
    let column = column.saturating_sub(1) as usize;
    text[start..].char_indices().nth(column).map_or(text.len(), |(i, _)| start + i)
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

fn span(location: &Location, source: u32) -> Span {
    let at = location.span();
    let start = at.byte_offset().unwrap_or(0) as u32;
    Span { source, start, end: start + at.byte_len().unwrap_or(0) as u32 }
}

/// Turns the library's tree into ours.
struct Reader<'a> {
    source: u32,
    text: &'a str,
    out: &'a mut Vec<Diagnostic>,
}

impl Reader<'_> {
    fn node(&mut self, raw: Spanned<Raw>, path: &str) -> Node {
        let mut place = span(&raw.referenced, self.source);
        // An alias stands for what was written at its anchor.
        let written = slice(self.text, span(&raw.defined, self.source));
        let value = match raw.value {
            Raw::Null => Value::Null,
            Raw::Bool(value) => Value::Bool(value),
            Raw::Int(_) | Raw::Float(_) if !is_plain_number(written) => {
                Value::Str(written.to_owned())
            }
            // A whole number beyond 64 bits would lose digits.
            Raw::Float(_) if is_whole(written) => Value::Str(written.to_owned()),
            Raw::Int(value) => Value::Int(value),
            Raw::Float(value) => Value::Float(value),
            Raw::Str(value) => Value::Str(value),
            Raw::Seq(items) => {
                let items = items.into_iter().enumerate();
                Value::Seq(
                    items.map(|(i, item)| self.node(item, &format!("{path}[{i}]"))).collect(),
                )
            }
            Raw::Map(entries) => Value::Map(self.entries(entries, path)),
        };
        let is_flow = self.text[place.start as usize..].starts_with('{');
        if let Value::Map(entries) = &value
            && let (Some((first, _)), Some((_, last))) = (entries.first(), entries.last())
            && !is_flow
        {
            place = Span { source: self.source, start: first.span.start, end: last.span.end };
        }
        Node::new(value, place)
    }

    fn entries(
        &mut self,
        entries: Vec<(Spanned<String>, Spanned<Raw>)>,
        path: &str,
    ) -> Vec<(Key, Node)> {
        let mut seen = HashSet::with_capacity(entries.len());
        let mut kept = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            let key = Key { span: span(&name.referenced, self.source), name: name.value };
            let path = join(path, &key.name);
            let mut node = self.node(value, &path);
            if node.value == Value::Null && slice(self.text, node.span).is_empty() {
                // Nothing has no place of its own.
                node.span = key.span;
            }
            if seen.insert(key.name.clone()) {
                kept.push((key, node));
                continue;
            }
            let message = format!("duplicate key `{}`", key.name);
            let help = "keep one of the two".to_owned();
            self.out
                .push(Diagnostic::error(Code::Duplicate, key.span, path, message).with_help(help));
        }
        kept
    }
}

fn slice(text: &str, span: Span) -> &str {
    text.get(span.start as usize..span.end as usize).unwrap_or("")
}

/// Digits and nothing else, but for a sign.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A text of a file for a message.
fn cut(text: &str) -> &str {
    const SHOWN_CHARS_MAX: usize = 60;
    text.char_indices().nth(SHOWN_CHARS_MAX).map_or(text, |(end, _)| &text[..end])
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
        parse(&sources, source, &mut Vec::new())
    }

    #[test]
    fn labels_that_look_like_numbers_or_booleans_stay_texts() {
        for label in ["yes", "no", "on", "off", "y", "010", "1_000", "0x1F", "\"1\"", "1:30"] {
            let node = tree(&format!("a: {label}")).unwrap();
            assert_eq!(node.get("a").unwrap().as_str(), Some(label.trim_matches('"')));
        }
        for digits in ["9223372036854775808", "-9223372036854775809", "18446744073709551616"] {
            let node = tree(&format!("b: &b {digits}\na: *b\nc: {digits}")).unwrap();
            assert_eq!(node.get("c").unwrap().as_str(), Some(digits));
            assert_eq!(node.get("b").unwrap().as_str(), Some(digits));
        }
        assert_eq!(tree("a: 10").unwrap().get("a").unwrap().value, Value::Int(10));
        assert_eq!(tree("b: &b 10\na: *b").unwrap().get("a").unwrap().value, Value::Int(10));
        assert_eq!(tree("a: 1e3").unwrap().get("a").unwrap().value, Value::Float(1000.0));
    }

    #[test]
    fn what_is_refused_has_a_place() {
        for (text, start) in
            [("a: 'x", 3), ("b: 1\na: *b", 8), ("<<: {a: 1}\nb: 1", 0), ("a: 1\nb: !!str x", 8)]
        {
            assert_eq!(tree(text).unwrap_err().span.start, start, "{text}");
        }
    }

    #[test]
    fn every_repeated_key_is_reported_and_its_first_value_kept() {
        let mut sources = Sources::default();
        let source = sources.add("t.yaml", "a: 1\nb: {c: 1, c: 2}\na: 2\n");
        let mut out = Vec::new();
        let node = parse(&sources, source, &mut out).unwrap();
        let places: Vec<_> = out.iter().map(|d| (d.span.start, d.path.as_str())).collect();
        assert_eq!(places, [(15, "b.c"), (21, "a")]);
        assert_eq!(node.get("a").unwrap().value, Value::Int(1));
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
