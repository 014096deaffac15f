//! Types of columns: what they are in Arrow, which values fit them, and the text of a mismatch.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};

use crate::error_rows::{ErrorClass, Fault};
use crate::ignored::Ignored;
use crate::json::{Json, get};
use proofmill_pipeline::kinds::read::ColumnType;

/// The type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    /// 64-bit whole number.
    Int,
    /// 64-bit floating-point number.
    Float,
    /// Text; values of other types are kept as their JSON.
    Text,
    List(Box<Kind>),
    /// Fields by name; never empty.
    Struct(Vec<(String, Kind)>),
}

impl From<ColumnType> for Kind {
    fn from(declared: ColumnType) -> Self {
        match declared {
            ColumnType::String => Self::Text,
            ColumnType::Integer => Self::Int,
            ColumnType::Number => Self::Float,
            ColumnType::Boolean => Self::Bool,
        }
    }
}

impl Kind {
    /// The type in Arrow.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::List(item) => DataType::List(Arc::new(item.field("item"))),
            Self::Struct(_) => DataType::Struct(self.fields()),
        }
    }

    /// A field of this type.
    pub fn field(&self, name: &str) -> Field {
        Field::new(name, self.data_type(), true)
    }

    /// The fields of a struct.
    pub fn fields(&self) -> Fields {
        match self {
            Self::Struct(fields) => fields.iter().map(|(name, kind)| kind.field(name)).collect(),
            _ => Fields::empty(),
        }
    }

    /// Checks that `value` can be stored, and counts fields that have no place.
    pub fn check(&self, value: &Json<'_>, ignored: &mut Ignored) -> Result<(), TypeMismatch> {
        match (self, value) {
            (_, Json::Null) | (Self::Text, _) | (Self::Bool, Json::Bool(_)) => Ok(()),
            (Self::Int, value) if value.as_int().is_some() => Ok(()),
            (Self::Float, value) if value.as_float().is_some() => Ok(()),
            (Self::List(kind), Json::List(items, _)) => {
                items.iter().enumerate().try_for_each(|(i, item)| {
                    kind.check(item, ignored).map_err(|mismatch| mismatch.inside(&format!("[{i}]")))
                })
            }
            (Self::Struct(fields), Json::Object(object, _)) => {
                let mut found = 0;
                for (i, (name, kind)) in fields.iter().enumerate() {
                    if let Some(value) = get(object, name, i) {
                        found += 1;
                        kind.check(value, ignored)
                            .map_err(|mismatch| mismatch.inside(&format!(".{name}")))?;
                    }
                }
                if found < object.len() {
                    let known = |key: &str| fields.iter().any(|(name, _)| name == key);
                    object
                        .iter()
                        .filter(|(key, _)| !known(key))
                        .for_each(|(key, _)| ignored.add(key));
                }
                Ok(())
            }
            (kind, value) => Err(TypeMismatch::new(kind, value)),
        }
    }

    fn expected(&self) -> &'static str {
        match self {
            Self::Bool => "`true` or `false`",
            Self::Int => "a whole number",
            Self::Float => "a number",
            Self::Text => "a text",
            Self::List(_) => "a list",
            Self::Struct(_) => "an object",
        }
    }
}

/// A value that is not of the type of its column.
#[derive(Debug)]
pub struct TypeMismatch {
    /// Where inside the column's value it stands.
    inside: String,
    what: String,
}

impl TypeMismatch {
    /// Says what was expected and found.
    pub fn new(kind: &Kind, found: &Json<'_>) -> Self {
        let range = match kind {
            Kind::Int if !is_fraction(found) => " of 64 bits",
            Kind::Float if is_number(found) => " that 64-bit floating point keeps",
            _ => "",
        };
        let what = format!("expected {}{range}, found {}", kind.expected(), found.describe());
        Self { inside: String::new(), what }
    }

    fn inside(mut self, step: &str) -> Self {
        self.inside.insert_str(0, step);
        self
    }

    /// The fault of a record whose `column`, read from the field at `path`, holds the value.
    pub fn fault(self, column: &str, path: &str) -> Fault {
        let Self { inside, what } = self;
        Fault {
            class: ErrorClass::Type,
            column: Some(format!("{path}{inside}")),
            message: format!("column `{column}{inside}`: {what}"),
        }
    }
}

/// Whether a value is a number, or a text that spells one.
fn is_number(value: &Json<'_>) -> bool {
    match value {
        Json::Number(_) => true,
        Json::Text(text) => text.parse().is_ok_and(|value: f64| !value.is_nan()),
        _ => false,
    }
}

/// Whether a value is anything but a whole number.
fn is_fraction(value: &Json<'_>) -> bool {
    match value {
        Json::Number(number) => number.contains(['.', 'e', 'E']),
        _ => true,
    }
}
