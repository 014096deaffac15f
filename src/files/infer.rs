//! Inference: the narrowest type that holds all values of the sample.

use indexmap::IndexMap;

use crate::json::Json;
use crate::kind::Kind;
use crate::limits::{STRUCT_FIELDS_MAX, TYPE_DEPTH_MAX};

/// What is known of a type so far. It only ever gets wider.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Guess {
    /// Only `null` so far.
    #[default]
    Null,
    Bool,
    /// Whole numbers that floating point would keep, too.
    Int,
    Long,
    Float,
    /// Numbers that no number type keeps, so that they are text.
    Digits,
    /// Texts, or values that have no other type in common.
    Text,
    List(Box<Guess>),
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
            Self::Null | Self::Digits | Self::Text => Kind::Text,
            Self::Bool => Kind::Bool,
            Self::Int | Self::Long => Kind::Int,
            Self::Float => Kind::Float,
            Self::List(item) => Kind::List(Box::new(item.kind())),
            Self::Struct(fields) if fields.is_empty() => Kind::Text,
            Self::Struct(fields) => Kind::Struct(
                fields.iter().map(|(name, guess)| (name.clone(), guess.kind())).collect(),
            ),
        }
    }

    /// Whether there are numbers in it that became text because no number type keeps them.
    pub fn has_digits(&self) -> bool {
        match self {
            Self::Digits => true,
            Self::List(item) => item.has_digits(),
            Self::Struct(fields) => fields.values().any(Self::has_digits),
            Self::Null | Self::Bool | Self::Int | Self::Long | Self::Float | Self::Text => false,
        }
    }

    fn add_at(&mut self, value: &Json<'_>, depth: usize) {
        if *self == Self::Null {
            *self = Self::start(value, depth);
        }
        let fits = match (&mut *self, value) {
            (_, Json::Null) | (Self::Text, _) | (Self::Bool, Json::Bool(_)) => true,
            (
                guess @ (Self::Int | Self::Long | Self::Float | Self::Digits),
                value @ Json::Number(_),
            ) => {
                *guess = guess.with(Self::of_number(value));
                *guess != Self::Text
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

    /// The type of one number.
    fn of_number(value: &Json<'_>) -> Self {
        match (value, value.as_int(), value.as_float()) {
            (_, Some(_), Some(_)) => Self::Int,
            (_, Some(_), None) => Self::Long,
            (Json::Number(text), None, Some(_)) if !is_whole(text) => Self::Float,
            (Json::Number(text), ..) if is_whole(text) || is_finite(text) => Self::Digits,
            _ => Self::Text,
        }
    }

    /// The type of numbers of this type and of `other`.
    fn with(&self, other: Self) -> Self {
        match (self, other) {
            (Self::Int, other @ (Self::Long | Self::Float)) => other,
            (Self::Long, Self::Int) => Self::Long,
            (Self::Float, Self::Int) => Self::Float,
            (known, other) if *known == other => other,
            (_, Self::Text) => Self::Text,
            // Fractions need floating point, which does not keep the whole numbers beside them.
            _ => Self::Digits,
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

/// Whether a number is written without a fraction and an exponent.
pub fn is_whole(number: &str) -> bool {
    !number.contains(['.', 'e', 'E'])
}

fn is_finite(number: &str) -> bool {
    number.parse().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    fn guess(values: &[&str]) -> Guess {
        let mut guess = Guess::default();
        values.iter().for_each(|text| guess.add(&parse(text.as_bytes()).unwrap()));
        guess
    }

    fn kind(values: &[&str]) -> Kind {
        guess(values).kind()
    }

    #[test]
    fn types_widen_in_any_order() {
        assert_eq!(kind(&["null", "1", "null"]), Kind::Int);
        assert_eq!(kind(&["1", "1.5"]), Kind::Float);
        assert_eq!(kind(&["1.5", "1"]), Kind::Float);
        assert_eq!(kind(&["9223372036854775807"]), Kind::Int);
        assert_eq!(kind(&["9223372036854775808"]), Kind::Text);
        assert_eq!(kind(&["1", "true"]), Kind::Text);
        assert_eq!(kind(&["[1]", "1"]), Kind::Text);
        assert_eq!(kind(&["1e999"]), Kind::Text);
        assert_eq!(kind(&["null"]), Kind::Text);
        assert_eq!(kind(&["{}"]), Kind::Text);
    }

    #[test]
    fn no_number_is_rounded_to_widen_a_type() {
        let endless = "9".repeat(400);
        let (id, long, huge) = ("7", "9007199254740993", "18446744073709551615");
        for (values, expected, digits) in [
            (vec![id, long], Kind::Int, false),
            (vec![long, "0.5"], Kind::Text, true),
            (vec!["9007199254740992", "0.5"], Kind::Float, false),
            (vec![huge], Kind::Text, true),
            (vec![huge, id, "1e3"], Kind::Text, true),
            (vec![endless.as_str()], Kind::Text, true),
            (vec!["9007199254740993.0"], Kind::Text, true),
            (vec![huge, "true"], Kind::Text, false),
            (vec![huge, "1e999"], Kind::Text, false),
        ] {
            for values in [values.clone(), values.into_iter().rev().collect()] {
                let guess = guess(&values);
                assert_eq!(
                    (guess.kind(), guess.has_digits()),
                    (expected.clone(), digits),
                    "{values:?}"
                );
            }
        }
        let nested = guess(&["{\"a\": [9007199254740993]}", "{\"a\": [0.5]}"]);
        assert!(nested.has_digits());
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
