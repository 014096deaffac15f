//! Inference: the narrowest type that holds all values of the sample.

use indexmap::IndexMap;

use crate::files::json::Json;
use crate::files::kind::Kind;
use crate::files::limits::{STRUCT_FIELDS_MAX, TYPE_DEPTH_MAX};

/// What is known of a type so far. It only ever gets wider.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Guess {
    /// Only `null` so far.
    #[default]
    Null,
    /// True or false.
    Bool,
    /// Whole numbers.
    Int,
    /// Numbers.
    Float,
    /// Texts, or values that have no other type in common.
    Text,
    /// Lists.
    List(Box<Guess>),
    /// Objects.
    Struct(IndexMap<String, Guess>),
}

impl Guess {
    /// Widens the type to hold `value`.
    pub fn add(&mut self, value: &Json<'_>) {
        self.add_at(value, 0);
    }

    /// The type of the column. What was always `null` or empty is text.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Null | Self::Text => Kind::Text,
            Self::Bool => Kind::Bool,
            Self::Int => Kind::Int,
            Self::Float => Kind::Float,
            Self::List(item) => Kind::List(Box::new(item.kind())),
            Self::Struct(fields) if fields.is_empty() => Kind::Text,
            Self::Struct(fields) => Kind::Struct(
                fields.iter().map(|(name, guess)| (name.clone(), guess.kind())).collect(),
            ),
        }
    }

    fn add_at(&mut self, value: &Json<'_>, depth: usize) {
        if *self == Self::Null {
            *self = Self::start(value, depth);
        }
        let fits = match (&mut *self, value) {
            (_, Json::Null) | (Self::Text, _) | (Self::Bool, Json::Bool(_)) => true,
            (Self::Int, value) if value.as_int().is_some() => true,
            (Self::Float, value) if value.as_float().is_some() => true,
            (guess @ Self::Int, value) if value.as_float().is_some() => {
                *guess = Self::Float;
                true
            }
            (Self::List(item), Json::List(items, _)) => {
                items.iter().for_each(|value| item.add_at(value, depth + 1));
                true
            }
            (Self::Struct(fields), Json::Object(object, _)) => {
                for (name, value) in object {
                    match fields.get_mut(name.as_ref()) {
                        Some(guess) => guess.add_at(value, depth + 1),
                        None => {
                            let mut guess = Self::Null;
                            guess.add_at(value, depth + 1);
                            fields.insert(name.as_ref().to_owned(), guess);
                        }
                    }
                }
                fields.len() <= STRUCT_FIELDS_MAX
            }
            _ => false,
        };
        if !fits {
            *self = Self::Text;
        }
    }

    fn start(value: &Json<'_>, depth: usize) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(_) => Self::Bool,
            Json::Number(_) => Self::Int,
            Json::List(..) if depth < TYPE_DEPTH_MAX => Self::List(Box::default()),
            Json::Object(..) if depth < TYPE_DEPTH_MAX => Self::Struct(IndexMap::new()),
            Json::Text(_) | Json::List(..) | Json::Object(..) => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::json::parse;

    fn kind(values: &[&str]) -> Kind {
        let mut guess = Guess::default();
        values.iter().for_each(|text| guess.add(&parse(text.as_bytes()).unwrap()));
        guess.kind()
    }

    #[test]
    fn types_widen_in_any_order() {
        assert_eq!(kind(&["null", "1", "null"]), Kind::Int);
        assert_eq!(kind(&["1", "1.5"]), Kind::Float);
        assert_eq!(kind(&["1.5", "1"]), Kind::Float);
        assert_eq!(kind(&["9223372036854775807"]), Kind::Int);
        assert_eq!(kind(&["9223372036854775808"]), Kind::Float);
        assert_eq!(kind(&["1", "true"]), Kind::Text);
        assert_eq!(kind(&["[1]", "1"]), Kind::Text);
        assert_eq!(kind(&["1e999"]), Kind::Text);
        assert_eq!(kind(&["null"]), Kind::Text);
        assert_eq!(kind(&["{}"]), Kind::Text);
    }

    #[test]
    fn nested_types_widen_inside() {
        let number = Kind::List(Box::new(Kind::Float));
        assert_eq!(kind(&["[]", "[1, null]", "[0.5]"]), number);
        let fields = vec![("a".to_owned(), number), ("b".to_owned(), Kind::Text)];
        assert_eq!(kind(&[r#"{"a": [1]}"#, r#"{"b": "x", "a": [1.5]}"#]), Kind::Struct(fields));
        assert_eq!(kind(&["[]"]), Kind::List(Box::new(Kind::Text)));
    }

    #[test]
    fn maps_and_deep_values_stay_text() {
        let fields: Vec<_> = (0..=STRUCT_FIELDS_MAX).map(|i| format!("\"k{i}\": 1")).collect();
        assert_eq!(kind(&[&format!("{{{}}}", fields.join(","))]), Kind::Text);
        let deep = "[".repeat(40) + &"]".repeat(40);
        let mut levels = 0;
        let mut kind = kind(&[&deep]);
        while let Kind::List(item) = kind {
            (levels, kind) = (levels + 1, *item);
        }
        assert_eq!((levels, kind), (TYPE_DEPTH_MAX, Kind::Text));
    }
}
