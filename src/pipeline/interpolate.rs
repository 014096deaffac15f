//! `${namespace.name}` in any scalar becomes the value it names; `$${` stays a literal `${`.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::node::{Node, Value, Written};
use crate::params::Values;
use crate::source::Sources;
use crate::validate::join;
use proofmill_base::suggest;

/// Replaces all references below `node`.
pub fn interpolate(
    node: &Node,
    values: &Values,
    sources: &Sources,
    path: &str,
    out: &mut Vec<Diagnostic>,
) -> Node {
    let value = match &node.value {
        Value::Str(text) if text.contains("${") => {
            return scalar(node, text, values, sources, path, out);
        }
        Value::Seq(items) => Value::Seq(
            items
                .iter()
                .enumerate()
                .map(|(i, item)| interpolate(item, values, sources, &format!("{path}[{i}]"), out))
                .collect(),
        ),
        Value::Map(entries) => Value::Map(
            entries
                .iter()
                .map(|(key, node)| {
                    let path = join(path, &key.name);
                    (key.clone(), interpolate(node, values, sources, &path, out))
                })
                .collect(),
        ),
        _ => return node.clone(),
    };
    Node { value, span: node.span, written: node.written.clone() }
}

fn scalar(
    node: &Node,
    text: &str,
    values: &Values,
    sources: &Sources,
    path: &str,
    out: &mut Vec<Diagnostic>,
) -> Node {
    let mut result = String::new();
    let mut holes = Vec::new();
    let mut unresolved = false;
    let mut rest = 0;
    while let Some(start) = text[rest..].find("${").map(|at| rest + at) {
        if text[..start].ends_with('$') {
            result.push_str(&text[rest..start]);
            result.push('{');
            rest = start + 2;
            holes.push((result.len() - 2..result.len(), start - 1..rest));
            continue;
        }
        let Some(end) = text[start..].find('}').map(|at| start + at + 1) else {
            let place = node.place_in_text(sources, start..start + 2);
            let message = "`${` without a closing `}`";
            let help = "write `$${` for a literal `${`".to_owned();
            let diagnostic = Diagnostic::error(Code::UnknownParameter, place, path, message);
            out.push(diagnostic.with_help(help));
            unresolved = true;
            break;
        };
        let reference = text[start + 2..end - 1].trim();
        let found = values.get(reference);
        let value = match found {
            Some(value) if start == 0 && end == text.len() => {
                return typed(node, text, value);
            }
            Some(value) => plain(value),
            None => None,
        };
        unresolved |= value.is_none() || found.is_some_and(Node::is_unresolved);
        result.push_str(&text[rest..start]);
        match value {
            Some(mut value) => {
                // Two minus signs begin a comment of SQL.
                let is_quoted = result.matches('\'').count() % 2 == 1;
                if result.ends_with('-') && !is_quoted && found.is_some_and(is_negative) {
                    value = format!("({value})");
                }
                holes.push((result.len()..result.len() + value.len(), start..end));
                result.push_str(&value);
            }
            None => {
                let place = node.place_in_text(sources, start..end);
                // A parameter without a value has been reported where it is declared.
                if found.is_none_or(|value| value.value != Value::Null) {
                    out.push(not_found(reference, values, place, path));
                }
                holes.push((result.len()..result.len(), start..end));
            }
        }
        rest = end;
    }
    result.push_str(&text[rest..]);
    Node {
        value: Value::Str(result),
        span: node.span,
        written: Some(Box::new(Written { text: text.to_owned(), holes, unresolved })),
    }
}

/// A scalar that is one reference and nothing else keeps the type of what it names.
fn typed(node: &Node, text: &str, value: &Node) -> Node {
    let length = value.as_str().map_or(0, str::len);
    let written = Written {
        text: text.to_owned(),
        holes: vec![(0..length, 0..text.len())],
        unresolved: value.value == Value::Null || value.is_unresolved(),
    };
    Node { value: value.value.clone(), span: node.span, written: Some(Box::new(written)) }
}

/// The text of a scalar; `None` for lists and mappings, which have no place inside a text.
fn plain(node: &Node) -> Option<String> {
    match &node.value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Int(value) => Some(value.to_string()),
        Value::Float(value) => Some(value.to_string()),
        Value::Str(text) => Some(text.clone()),
        Value::Null | Value::Seq(_) | Value::Map(_) => None,
    }
}

fn is_negative(node: &Node) -> bool {
    match node.value {
        Value::Int(value) => value < 0,
        Value::Float(value) => value.is_sign_negative(),
        _ => false,
    }
}

fn not_found(
    reference: &str,
    values: &Values,
    place: crate::source::Span,
    path: &str,
) -> Diagnostic {
    if values.get(reference).is_some() {
        let message = format!("`{reference}` is a list and cannot be used inside a string");
        let help = "a list must be the whole value".to_owned();
        return Diagnostic::error(Code::WrongType, place, path, message).with_help(help);
    }
    let known = values.references();
    let help = suggest::help(reference, known.iter().map(String::as_str))
        .unwrap_or_else(|| "declare it under `params:` and write `${params.name}`".to_owned());
    let message = format!("`${{{reference}}}` is not defined");
    Diagnostic::error(Code::UnknownParameter, place, path, message).with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn run(text: &str) -> (Node, Vec<Diagnostic>, Sources) {
        let mut sources = Sources::default();
        let source = sources.add("t.yaml", text);
        let tree = yaml::parse(&sources, source, &mut Vec::new()).unwrap();
        let k = Node::new(Value::Int(5), tree.span);
        let table = Node::new(Value::Str("answers".to_owned()), tree.span);
        let n = Node::new(Value::Int(-1), tree.span);
        let values = Values::default().with("params", "k", k).with("params", "table", table);
        let values = values.with("params", "n", n);
        let mut out = Vec::new();
        let node = interpolate(&tree, &values, &sources, "", &mut out);
        (node, out, sources)
    }

    #[test]
    fn types_survive_whole_references_and_texts_are_joined() {
        let (node, out, _) = run("a: ${params.k}\nb: top ${params.k}\nc: $${params.k}\n");
        assert!(out.is_empty());
        assert_eq!(node.get("a").unwrap().value, Value::Int(5));
        assert_eq!(node.get("b").unwrap().as_str(), Some("top 5"));
        assert_eq!(node.get("c").unwrap().as_str(), Some("${params.k}"));
    }

    #[test]
    fn places_behind_a_replacement_point_at_the_file() {
        let (node, _, sources) =
            run("a: |\n  SELECT x\n  FROM ${params.table} WHERE y = ${params.k}\n");
        let a = node.get("a").unwrap();
        let text = a.as_str().unwrap();
        for (needle, expected) in
            [("WHERE", "WHERE"), ("answers", "${params.table}"), ("SELECT", "SELECT")]
        {
            let at = text.find(needle).unwrap();
            assert_eq!(sources.slice(a.place_in_text(&sources, at..at + needle.len())), expected);
        }
    }

    #[test]
    fn unknown_references_are_reported_where_they_stand() {
        let (_, out, sources) = run("a: 'x ${params.kk} y'\n");
        assert_eq!(sources.slice(out[0].span), "${params.kk}");
        assert_eq!(out[0].help.as_deref(), Some("did you mean `params.k`?"));
    }

    #[test]
    fn a_negative_number_behind_a_minus_begins_no_comment() {
        let of = |text: &str| {
            let (node, ..) = run(&format!("a: \"{text}\"\n"));
            node.get("a").unwrap().as_str().unwrap().to_owned()
        };
        assert_eq!(of("5 -${params.n}"), "5 -(-1)");
        assert_eq!(of("5 - ${params.n}"), "5 - -1");
        assert_eq!(of("concat('run-${params.n}', 2-${params.n})"), "concat('run--1', 2-(-1))");
    }
}
