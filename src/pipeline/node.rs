//! A YAML document as a tree in which every node knows its place.

use std::ops::Range;

use crate::source::{Sources, Span};

/// What a node holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`, and no other spelling.
    Bool(bool),
    /// A whole number in plain decimal notation.
    Int(i64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Any other scalar, and every quoted one.
    Str(String),
    /// A list.
    Seq(Vec<Node>),
    /// A mapping, in the order of the file. Keys are unique.
    Map(Vec<(Key, Node)>),
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it holds.
    pub value: Value,
    /// Where it stands.
    pub span: Span,
    /// For a string in which `${…}` was replaced: the text as written and what was replaced.
    pub written: Option<Box<Written>>,
}

/// A mapping key and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// The key's text.
    pub name: String,
    /// Where it stands.
    pub span: Span,
}

/// A string before interpolation.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The string as written.
    pub text: String,
    /// Each replacement: bytes of the result, and the bytes of `text` they replace.
    pub holes: Vec<(Range<usize>, Range<usize>)>,
    /// True if one of its `${…}` has no value: what the string holds is not known.
    pub unresolved: bool,
}

impl Node {
    /// A node at `span`.
    pub fn new(value: Value, span: Span) -> Self {
        Self { value, span, written: None }
    }

    /// The entries of a mapping; none for other nodes.
    pub fn entries(&self) -> &[(Key, Node)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The value under `key`, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(k, _)| k.name == key).map(|(_, node)| node)
    }

    /// The node at a path of keys and list positions, or the deepest one that exists.
    pub fn at(&self, path: &[&str]) -> &Node {
        path.iter().fold(self, |node, step| match &node.value {
            Value::Seq(items) => {
                step.parse().ok().and_then(|i: usize| items.get(i)).unwrap_or(node)
            }
            _ => node.get(step).unwrap_or(node),
        })
    }

    /// The text of a string node.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// True if the value of a `${…}` in it, or below it, is not known.
    pub fn is_unresolved(&self) -> bool {
        match &self.value {
            Value::Seq(items) => items.iter().any(Self::is_unresolved),
            Value::Map(entries) => entries.iter().any(|(_, node)| node.is_unresolved()),
            _ => self.written.as_ref().is_some_and(|written| written.unresolved),
        }
    }

    /// What the node is, for messages.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Int(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::Str(text) if text.chars().count() > 40 || text.contains('\n') => {
                "a string".to_owned()
            }
            Value::Str(text) => format!("the text `{text}`"),
            Value::Seq(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }

    /// The same value without places, for decoding into typed settings.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Float(value) => Json::from(*value),
            Value::Str(text) => Json::from(text.as_str()),
            Value::Seq(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => Json::Object(
                entries.iter().map(|(key, node)| (key.name.clone(), node.to_json())).collect(),
            ),
        }
    }

    /// The place in the file of bytes `range` of this string's value.
    ///
    /// Follows replaced `${…}` back to where they were written, then the scalar's own notation
    /// (block indentation, folding, quotes, escapes) back to the file.
    pub fn place_in_text(&self, sources: &Sources, range: Range<usize>) -> Span {
        let Some(text) = self.as_str() else { return self.span };
        let (text, range) = match &self.written {
            Some(written) => (written.text.as_str(), written.original(range)),
            None => (text, range),
        };
        let raw = sources.slice(self.span);
        let start = raw_offset(raw, text, range.start);
        let last = range.end.saturating_sub(1).max(range.start);
        let last = text.char_indices().rev().map(|(i, _)| i).find(|i| *i <= last).unwrap_or(last);
        let end = raw_offset(raw, text, last);
        let width = raw.get(end..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        Span {
            source: self.span.source,
            start: self.span.start + start as u32,
            end: self.span.start + (end + width) as u32,
        }
    }
}

impl Written {
    /// Bytes of the written text behind bytes `range` of the result.
    fn original(&self, range: Range<usize>) -> Range<usize> {
        let locate = |offset: usize, end: bool| {
            let mut shift = 0isize;
            for (result, original) in &self.holes {
                if offset < result.start || (end && offset == result.start) {
                    break;
                }
                if offset < result.end || (end && offset == result.end) {
                    return if end { original.end } else { original.start };
                }
                shift = original.end as isize - result.end as isize;
            }
            (offset as isize + shift).max(0) as usize
        };
        let start = locate(range.start, false);
        start..locate(range.end, true).max(start)
    }
}

/// The byte of `raw`, a scalar as it stands in the file, behind byte `offset` of its value.
///
/// Both are walked together: what only the file has (indentation, line breaks that fold) is
/// passed over.
fn raw_offset(raw: &str, value: &str, offset: usize) -> usize {
    let letters = letters(raw);
    let mut rest = letters.iter().peekable();
    for (at, wanted) in value.char_indices() {
        let found = if wanted.is_whitespace() {
            rest.next_if(|(_, c)| c.is_whitespace()).map(|(i, _)| *i)
        } else {
            rest.by_ref().find(|(_, c)| *c == wanted).map(|(i, _)| *i)
        };
        if at >= offset {
            return found.or_else(|| rest.peek().map(|(i, _)| *i)).unwrap_or(raw.len());
        }
    }
    rest.peek().map_or(raw.len(), |(i, _)| *i)
}

/// The letters of a scalar as it stands in the file, each with its byte: without the quote that
/// opens it, the header of a block, and with escapes as what they mean.
fn letters(raw: &str) -> Vec<(usize, char)> {
    let first = raw.chars().next();
    let header = raw.lines().next().unwrap_or_default().split('#').next().unwrap_or_default();
    let is_block = matches!(first, Some('|' | '>'))
        && header[1..].trim().chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-'));
    let start = match first {
        Some('"' | '\'') => 1,
        _ if is_block => raw.find('\n').unwrap_or(raw.len()),
        _ => 0,
    };
    let mut letters = Vec::with_capacity(raw.len() - start);
    let mut rest = raw[start..].char_indices().map(|(i, c)| (start + i, c)).peekable();
    while let Some((at, c)) = rest.next() {
        match (first, c) {
            (Some('\''), '\'') => {
                rest.next_if(|(_, c)| *c == '\'');
                letters.push((at, '\''));
            }
            (Some('"'), '\\') => {
                let Some((_, escape)) = rest.next() else { break };
                let digits = match escape {
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    _ => 0,
                };
                let code: String = rest.by_ref().take(digits).map(|(_, c)| c).collect();
                letters.push((at, escaped(escape, &code)));
            }
            _ => letters.push((at, c)),
        }
    }
    letters
}

/// What an escape of a double-quoted scalar means; `code` are its hexadecimal digits.
fn escaped(escape: char, code: &str) -> char {
    match escape {
        'x' | 'u' | 'U' => u32::from_str_radix(code, 16)
            .ok()
            .and_then(char::from_u32)
            .unwrap_or(char::REPLACEMENT_CHARACTER),
        'n' | 'r' | 't' | 'v' | 'f' | 'N' | 'L' | 'P' | '_' => '\n',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    /// Checks that `needle`, found in the value at `a`, is placed on its own bytes in the file.
    fn check(yaml_text: &str, needle: &str) {
        let mut sources = Sources::default();
        let source = sources.add("t.yaml", yaml_text);
        let tree = yaml::parse(&sources, source, &mut Vec::new()).unwrap();
        let node = tree.get("a").unwrap();
        let start = node.as_str().unwrap().find(needle).unwrap();
        let span = node.place_in_text(&sources, start..start + needle.len());
        assert_eq!(sources.slice(span), needle, "{yaml_text}");
    }

    #[test]
    fn places_follow_every_scalar_style() {
        check("a: SELECT x FROM t\n", "FROM");
        check("a: 'it''s FROM t'\n", "FROM");
        check("a: \"say \\\"hi\\\" FROM t\"\n", "FROM");
        check("a: |\n  SELECT x,\n    y\n  FROM t\n", "FROM t");
        check("b: 1\na: >\n  SELECT x\n  FROM tönt\n\nc: 2\n", "tönt");
        check("a: |-\n    SELECT  é\n      FROM t\n", "FROM");
        check("a: x\n", "x");
        check("a: \"SELECT\\nname\\tn \\u0046ROM t\"\n", "name");
        check("a: \"'SELECT' \\\"n\\\"\\nFROM t\"\n", "FROM");
        check("a: |2-  # select from\n  -- select\n  select x from t\n", "-- select");
        check("a: |  # select from\n  select x from t\n", "from t");
    }
}
