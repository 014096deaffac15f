//! Parameters: declared with a default, set from outside, typed by the default.

use crate::spec::code::Code;
use crate::spec::diagnostic::Diagnostic;
use crate::spec::node::{Node, Value};
use crate::spec::suggest;
use crate::spec::validate::join;

/// A value given from outside: `--param name=value`, or `with:` of a template.
#[derive(Clone, Debug)]
pub enum Given {
    /// A text from the command line, typed by the parameter's default.
    Text(String),
    /// A node of the file that uses the template.
    Node(Node),
}

/// The values that `${…}` may name, by namespace.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// Namespace, name, value.
    entries: Vec<(&'static str, String, Node)>,
}

impl Values {
    /// These values and one more; a later value hides an earlier one of the same name.
    pub fn with(mut self, namespace: &'static str, name: &str, value: Node) -> Self {
        self.entries.retain(|(n, k, _)| (*n, k.as_str()) != (namespace, name));
        self.entries.push((namespace, name.to_owned(), value));
        self
    }

    /// The value that `namespace.name` names.
    pub fn get(&self, reference: &str) -> Option<&Node> {
        let (namespace, name) = reference.split_once('.')?;
        let found = self.entries.iter().find(|(n, k, _)| *n == namespace && k == name);
        found.map(|(_, _, value)| value)
    }

    /// All references that would be found, for suggestions.
    pub fn references(&self) -> Vec<String> {
        self.entries.iter().map(|(namespace, name, _)| format!("{namespace}.{name}")).collect()
    }

    /// Only the values of the given namespace.
    pub fn only(mut self, namespace: &str) -> Self {
        self.entries.retain(|(n, _, _)| *n == namespace);
        self
    }
}

/// The values of the parameters that `declared` (the file's `params`) declares.
///
/// `place` is where a value that fits no parameter is reported, if it has no place of its own.
pub fn resolve(
    declared: Option<&Node>,
    given: &[(String, Given)],
    place: &Node,
    path: &str,
    out: &mut Vec<Diagnostic>,
) -> Values {
    let entries = declared.map(Node::entries).unwrap_or_default();
    for (name, value) in given {
        if entries.iter().all(|(key, _)| key.name != *name) {
            let span = match value {
                Given::Node(node) => node.span,
                Given::Text(_) => declared.unwrap_or(place).span,
            };
            let message = format!("there is no parameter `{name}` to set");
            let help = suggest::help(name, entries.iter().map(|(key, _)| key.name.as_str()));
            let path = join(path, "params");
            out.push(Diagnostic::error(Code::UnknownParameter, span, path, message).with_help(help));
        }
    }
    let mut values = Values::default();
    for (key, default) in entries {
        let path = join(&join(path, "params"), &key.name);
        let value = match given.iter().rev().find(|(name, _)| *name == key.name) {
            Some((_, Given::Node(node))) => node.clone(),
            Some((_, Given::Text(text))) => match typed(text, default) {
                Ok(value) => Node::new(value, default.span),
                Err(expected) => {
                    let message = format!(
                        "parameter `{}` is {expected}, and `{text}` is none",
                        key.name
                    );
                    out.push(Diagnostic::error(Code::WrongType, default.span, path, message));
                    continue;
                }
            },
            None if default.value == Value::Null => {
                let message = format!("parameter `{}` has no value", key.name);
                let help = format!("give it with `--param {}=…` or `with:`", key.name);
                let diagnostic = Diagnostic::error(Code::MissingParameter, key.span, path, message);
                out.push(diagnostic.with_help(help));
                // A stand-in keeps the rest of the file checkable.
                Node::new(Value::Str(String::new()), key.span)
            }
            None => default.clone(),
        };
        values = values.with("params", &key.name, value);
    }
    values
}

/// `text` as a value of the default's type; the name of the type if it is none.
fn typed(text: &str, default: &Node) -> Result<Value, &'static str> {
    match &default.value {
        Value::Bool(_) => text.parse().map(Value::Bool).map_err(|_| "`true` or `false`"),
        Value::Int(_) => text.parse().map(Value::Int).map_err(|_| "a whole number"),
        Value::Float(_) => text.parse().map(Value::Float).map_err(|_| "a number"),
        Value::Seq(_) => {
            let item = |part: &str| Node::new(Value::Str(part.trim().to_owned()), default.span);
            Ok(Value::Seq(text.split(',').map(item).collect()))
        }
        Value::Null | Value::Str(_) | Value::Map(_) => Ok(Value::Str(text.to_owned())),
    }
}
