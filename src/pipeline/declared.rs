//! What a file declares of a parameter: a default alone, or a mapping with `default`, `type`, `one_of`, `min` and `max`.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::checks::Scalar;
use crate::code::Code;
use crate::node::{Node, Value, Written};
use proofmill_base::suggest;

/// A parameter: its default, nothing if it must be given, or a declaration.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Parameter {
    /// A scalar or nothing.
    One(Option<Scalar>),
    /// A list, for a matrix.
    Many(Vec<Scalar>),
    /// Which values are valid.
    Declared(Declared),
}

/// A parameter and its valid values; of a list, those of each item.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct Declared {
    /// Its value if none is given; without it, a value is required.
    pub default: Option<ParameterValue>,
    /// What it is for.
    pub description: Option<String>,
    /// Its type; that of the default if there is one.
    #[serde(rename = "type")]
    pub kind: Option<ParameterType>,
    /// All valid values.
    #[schemars(length(min = 1))]
    pub one_of: Option<Vec<Scalar>>,
    /// The smallest valid number.
    pub min: Option<f64>,
    /// The largest valid number.
    pub max: Option<f64>,
}

/// A value of a parameter.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ParameterValue {
    /// A scalar or nothing.
    One(Option<Scalar>),
    /// A list, for a matrix.
    Many(Vec<Scalar>),
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ParameterType {
    /// Text.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
}

impl ParameterType {
    /// What a value of the type is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Boolean => "`true` or `false`",
            Self::Integer => "a whole number",
            Self::Number => "a number",
        }
    }

    /// The type of a scalar; `None` of other values.
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Str(_) => Some(Self::Text),
            Value::Bool(_) => Some(Self::Boolean),
            Value::Int(_) => Some(Self::Integer),
            Value::Float(_) => Some(Self::Number),
            Value::Null | Value::Seq(_) | Value::Map(_) => None,
        }
    }

    fn holds(self, value: &Value) -> bool {
        Self::of(value)
            .is_some_and(|own| own == self || (self, own) == (Self::Number, Self::Integer))
    }
}

/// A value that is not right: what the message says, and advice.
#[derive(Debug)]
pub struct Wrong {
    pub code: Code,
    pub expected: String,
    pub help: Option<String>,
}

/// A declaration as it stands in a file.
#[derive(Clone, Copy)]
pub struct Declaration<'a>(&'a Node);

impl<'a> Declaration<'a> {
    /// The declaration that stands behind the name of a parameter.
    pub fn of(node: &'a Node) -> Self {
        Self(node)
    }

    /// The default, nothing if there is none, and its place.
    pub fn default(self) -> Node {
        match self.0.value {
            Value::Map(_) => {
                let nothing = || Node::new(Value::Null, self.0.span);
                self.0.get("default").cloned().unwrap_or_else(nothing)
            }
            _ => self.0.clone(),
        }
    }

    /// What takes the place of a value that was refused, so that nothing else is found wrong for it: the default, else the first of
    /// the values that are right, else nothing that is known.
    pub fn stand_in(self) -> Node {
        let first = self.one_of().and_then(|all| all.first()).filter(|_| !self.is_list());
        let right = |node: &Node| node.value != Value::Null && self.refused(node).is_none();
        [Some(self.default()), first.cloned()].into_iter().flatten().find(right).unwrap_or_else(
            || {
                let written = Written { text: String::new(), holes: Vec::new(), unresolved: true };
                Node { written: Some(Box::new(written)), ..Node::new(Value::Null, self.0.span) }
            },
        )
    }

    /// Whether it is one: a mapping of other keys is a diagnostic about those keys.
    pub fn is_known(self) -> bool {
        let keys = ["default", "description", "type", "one_of", "min", "max"];
        let is_key = |name: &str| keys.contains(&name);
        !matches!(self.0.value, Value::Map(_))
            || self.0.entries().iter().any(|(key, _)| is_key(&key.name))
    }

    /// Whether values are lists.
    pub fn is_list(self) -> bool {
        matches!(self.default().value, Value::Seq(_))
    }

    /// The type of a value, or of the items of a list; `None` where nothing says it.
    pub fn kind(self) -> Option<ParameterType> {
        let said = self.0.get("type").and_then(|kind| serde_json::from_value(kind.to_json()).ok());
        let bounds = ["min", "max"].into_iter().any(|bound| self.0.get(bound).is_some());
        said.or_else(|| {
            let default = self.default();
            let first = match &default.value {
                Value::Seq(items) => items.first().cloned(),
                _ => Some(default),
            };
            let first = first.filter(|first| first.value != Value::Null);
            let own = first.and_then(|first| ParameterType::of(&first.value));
            own.or_else(|| bounds.then_some(ParameterType::Number)).or_else(|| {
                let kinds = self.one_of()?.iter().map(|node| ParameterType::of(&node.value));
                kinds.reduce(|one, other| if one == other { one } else { None }).flatten()
            })
        })
    }

    fn one_of(self) -> Option<&'a [Node]> {
        match &self.0.get("one_of")?.value {
            Value::Seq(items) => Some(items),
            _ => None,
        }
    }

    /// What is wrong with a value, and with which part of it. A default alone says nothing of the values that a template is given.
    pub fn refused<'v>(self, value: &'v Node) -> Option<(Wrong, &'v Node)> {
        if !matches!(self.0.value, Value::Map(_)) || value.is_unresolved() {
            return None;
        }
        let one = |value: &'v Node| Some((self.refused_one(value)?, value));
        match &value.value {
            Value::Null => None,
            Value::Seq(items) if self.is_list() => items.iter().find_map(one),
            _ if self.is_list() => Some((self.of_type("a list"), value)),
            _ => one(value),
        }
    }

    fn refused_one(self, value: &Node) -> Option<Wrong> {
        if let Some(kind) = self.kind().filter(|kind| !kind.holds(&value.value)) {
            return Some(self.of_type(kind.name()));
        }
        if let Some(all) = self.one_of().filter(|all| all.iter().all(|one| !is_same(one, value))) {
            let names: Vec<String> = all.iter().map(text).collect();
            let listed = names.iter().map(|name| match name.as_str() {
                "" => "an empty text".to_owned(),
                name => format!("`{name}`"),
            });
            let listed: Vec<String> = listed.collect();
            let expected = match listed.as_slice() {
                [one] => one.clone(),
                [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
                [] => return None,
            };
            let near = |text| suggest::renamed_or_near(text, names.iter().map(String::as_str));
            let help = value.as_str().and_then(near);
            return Some(Wrong { code: Code::WrongValue, expected, help });
        }
        let number = number(value)?;
        let bound = |name: &str| self.0.get(name).and_then(self::number);
        let (min, max) = (bound("min"), bound("max"));
        let fits = min.is_none_or(|min| min <= number) && max.is_none_or(|max| number <= max);
        let expected = match (min, max) {
            (Some(min), Some(max)) => format!("from {min} to {max}"),
            (Some(min), None) => format!("at least {min}"),
            (None, Some(max)) => format!("at most {max}"),
            (None, None) => return None,
        };
        (!fits).then_some(Wrong { code: Code::WrongValue, expected, help: None })
    }

    fn of_type(self, expected: &str) -> Wrong {
        Wrong { code: Code::WrongType, expected: expected.to_owned(), help: None }
    }
}

fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Int(number) => Some(number as f64),
        Value::Float(number) => Some(number),
        _ => None,
    }
}

fn is_same(one: &Node, other: &Node) -> bool {
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.value == other.value,
    }
}

fn text(node: &Node) -> String {
    match &node.value {
        Value::Str(text) => text.clone(),
        _ => node.to_json().to_string(),
    }
}
