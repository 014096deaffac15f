//! Parameters: set from outside, or as declared.

use crate::code::Code;
use crate::declared::{Declaration, ParameterType, Wrong};
use crate::diagnostic::Diagnostic;
use crate::node::{Key, Node, Value};
use crate::source::Span;
use crate::validate::join;
use proofmill_base::suggest;

/// A value given from outside: `--param name=value`, or `with:` of a template.
#[derive(Clone, Debug)]
pub enum Given {
    /// A text from the command line, typed by the parameter's default.
    Text(String),
    /// A key and value of the file that uses the template.
    Node(Key, Node),
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

/// Who sets the parameters of a file.
#[derive(Clone, Copy, Debug)]
pub enum Setter<'a> {
    /// The command line.
    CommandLine,
    /// A group that uses the file as a template: its `use`, and the YAML path of the group.
    Group(&'a Node, &'a str),
}

/// The values of the parameters that `declared` (the `params` of the file `tree`) declares.
/// A parameter without a value is reported and stands for nothing.
pub fn resolve(
    tree: &Node,
    given: &[(String, Given)],
    setter: Setter<'_>,
    out: &mut Vec<Diagnostic>,
) -> Values {
    let declared = tree.get("params");
    let entries = declared.map(Node::entries).unwrap_or_default();
    for (name, value) in given {
        if entries.iter().all(|(key, _)| key.name != *name) {
            let (span, path) = match (value, setter) {
                (Given::Node(key, _), Setter::Group(_, path)) => {
                    (key.span, join(&join(path, "with"), name))
                }
                _ => {
                    let place = declared.unwrap_or(tree);
                    let first = place.entries().first().map_or(place.span, |(key, _)| key.span);
                    (first, "params".to_owned())
                }
            };
            let message = format!("there is no parameter `{name}` to set");
            let names = entries.iter().map(|(key, _)| key.name.as_str());
            let help = suggest::help(name, names);
            out.push(
                Diagnostic::error(Code::UnknownParameter, span, path, message).with_help(help),
            );
        }
    }
    let mut values = Values::default();
    for (key, declared) in entries {
        let declaration = Declaration::of(declared);
        let given = given.iter().rev().find(|(name, _)| *name == key.name).map(|(_, given)| given);
        let value = match given {
            Some(Given::Node(_, node)) => node.clone(),
            Some(Given::Text(text)) => match typed(text, declaration, declared.span) {
                Ok(value) => Node::new(value, declared.span),
                Err(expected) => {
                    let many =
                        if declaration.is_list() { "a list of items, each of them " } else { "" };
                    let wrong = Wrong {
                        code: Code::WrongType,
                        expected: format!("{many}{expected}"),
                        help: None,
                    };
                    let place = (declared.span, join("params", &key.name));
                    out.push(refused(&key.name, wrong, &format!("`{text}`"), place));
                    declaration.stand_in()
                }
            },
            None => declaration.default(),
        };
        // What has no value because something else is wrong is reported there.
        let is_open = value.value == Value::Null && !value.is_unresolved();
        if is_open && !matches!(given, Some(Given::Text(_))) && declaration.is_known() {
            out.push(missing(key, given, setter));
        }
        let value = match declaration.refused(&value) {
            None => value,
            Some((wrong, part)) => {
                let path = match (given, setter) {
                    (Some(Given::Node(..)), Setter::Group(_, path)) => join(path, "with"),
                    _ => "params".to_owned(),
                };
                let place = (part.span, join(&path, &key.name));
                out.push(refused(&key.name, wrong, &part.describe(), place));
                declaration.stand_in()
            }
        };
        values = values.with("params", &key.name, value);
    }
    values
}

/// The diagnostic that parameter `name` has a value that its declaration does not allow.
fn refused(name: &str, wrong: Wrong, found: &str, (span, path): (Span, String)) -> Diagnostic {
    let Wrong { code, expected, help } = wrong;
    let message = format!("parameter `{name}` must be {expected}, found {found}");
    Diagnostic::error(code, span, path, message).with_help(help)
}

/// The diagnostic that parameter `key` has no value.
fn missing(key: &Key, given: Option<&Given>, setter: Setter<'_>) -> Diagnostic {
    let name = &key.name;
    let message = format!("parameter `{name}` has no value");
    let (span, path, help) = match (given, setter) {
        (Some(Given::Node(_, node)), Setter::Group(_, path)) => {
            (node.span, join(&join(path, "with"), name), "write it here".to_owned())
        }
        (_, Setter::Group(place, path)) => {
            (place.span, join(path, "use"), format!("write `with: {{ {name}: … }}` beside `use`"))
        }
        (_, Setter::CommandLine) => {
            let help = format!("write a default here, or run with `--param {name}=…`");
            (key.span, join("params", name), help)
        }
    };
    Diagnostic::error(Code::MissingParameter, span, path, message).with_help(help)
}

/// `text` as a value of the parameter's type; the name of the type if it is none.
fn typed(text: &str, declaration: Declaration<'_>, place: Span) -> Result<Value, &'static str> {
    let kind = declaration.kind().unwrap_or(ParameterType::Text);
    let one = |text: &str| match kind {
        ParameterType::Text => Ok(Value::Str(text.to_owned())),
        ParameterType::Boolean => text.parse().map(Value::Bool).map_err(|_| kind.name()),
        ParameterType::Integer => text.parse().map(Value::Int).map_err(|_| kind.name()),
        ParameterType::Number => float(text).map(Value::Float),
    };
    if !declaration.is_list() {
        return one(text);
    }
    // Brackets as in YAML may stand around the items.
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let item = |part: &str| Ok(Node::new(one(part.trim())?, place));
    inner.unwrap_or(text).split(',').map(item).collect::<Result<_, _>>().map(Value::Seq)
}

/// The number that a text spells. A whole number may be the name of a thing, and is not rounded.
fn float(text: &str) -> Result<f64, &'static str> {
    let value: f64 = text.parse().map_err(|_| "a number")?;
    // `inf` is written so, and no number of digits is.
    if value.is_infinite() && text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Err("a number that is exact as a 64-bit float");
    }
    match text.parse::<i128>() {
        Ok(whole) if value as i128 != whole => Err("a number that is exact as a 64-bit float"),
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(value: Value) -> Node {
        Node::new(value, Span { source: 0, start: 0, end: 0 })
    }

    fn items(text: &str, default: Vec<Value>) -> Result<Vec<Value>, &'static str> {
        let default = node(Value::Seq(default.into_iter().map(node).collect()));
        match typed(text, Declaration::of(&default), default.span)? {
            Value::Seq(items) => Ok(items.into_iter().map(|item| item.value).collect()),
            other => panic!("{other:?} is no list"),
        }
    }

    #[test]
    fn items_of_a_list_are_of_the_type_of_the_defaults() {
        let numbers = || vec![Value::Int(0), Value::Int(1)];
        let expected = [Value::Int(3), Value::Int(10)];
        assert_eq!(items("3,10", numbers()).unwrap(), expected);
        assert_eq!(items("[3, 10]", numbers()).unwrap(), expected);
        assert_eq!(items("3,x", numbers()), Err("a whole number"));
        let texts = [Value::Str("3".to_owned()), Value::Str("b".to_owned())];
        assert_eq!(items("3, b", vec![Value::Str("a".to_owned())]).unwrap(), texts);
        assert_eq!(items("3,b", Vec::new()).unwrap(), texts);
        let fractions = || vec![Value::Float(0.5)];
        assert_eq!(items("2,1e9", fractions()).unwrap(), [Value::Float(2.0), Value::Float(1e9)]);
        assert_eq!(items("1e400", fractions()), Err("a number that is exact as a 64-bit float"));
        assert!(items("9007199254740993", fractions()).is_err());
    }
}
