//! Paths of fields: names joined by `.`, list positions in `[…]`.

use crate::error_rows::{ErrorClass, Fault};
use crate::json::{Json, Object, get};

/// One step from a value into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Name(String),
    /// The item of a list, from 0.
    Index(usize),
}

/// A path into a record: the top-level field, and steps from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    pub head: String,
    /// Steps from its value.
    pub steps: Vec<Step>,
}

impl FieldPath {
    /// The field of this very name, whatever characters the name has.
    pub fn literal(name: &str) -> Self {
        Self { head: name.to_owned(), steps: Vec::new() }
    }

    /// Parses `choices[0].text`. The error says what was expected.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const NAME: &str = "names stand between dots, as in `question.stem`";
        const INDEX: &str = "list positions are whole numbers, as in `choices[0]`";
        let mut steps = Vec::new();
        for part in text.split('.') {
            let (name, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
            if name.is_empty() || name.contains(']') {
                return Err(NAME);
            }
            steps.push(Step::Name(name.to_owned()));
            while !rest.is_empty() {
                let (index, after) =
                    rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or(INDEX)?;
                if !index.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(INDEX);
                }
                steps.push(Step::Index(index.parse().map_err(|_| INDEX)?));
                rest = after;
            }
        }
        match steps.remove(0) {
            Step::Name(head) => Ok(Self { head, steps }),
            Step::Index(_) => Err(NAME),
        }
    }

    /// The value at the path, if the record has one.
    pub fn find<'o, 'a>(&self, record: &'o Object<'a>) -> Result<Option<&'o Json<'a>>, Fault> {
        match get(record, &self.head, 0) {
            Some(value) => self.follow(value),
            None => Ok(None),
        }
    }

    /// The value at the end of the steps from the head's value. What is missing, or inside a
    /// `null`, is `None`.
    pub fn follow<'o, 'a>(&self, head: &'o Json<'a>) -> Result<Option<&'o Json<'a>>, Fault> {
        let mut value = head;
        for (i, step) in self.steps.iter().enumerate() {
            let next = match (step, value) {
                (_, Json::Null) => None,
                (Step::Name(name), Json::Object(fields, _)) => get(fields, name, 0),
                (Step::Index(index), Json::List(items, _)) => items.get(*index),
                (step, found) => return Err(self.wrong(i, step, found)),
            };
            match next {
                Some(next) => value = next,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    fn wrong(&self, steps: usize, step: &Step, found: &Json<'_>) -> Fault {
        let expected = match step {
            Step::Name(_) => "an object",
            Step::Index(_) => "a list",
        };
        let at = Self { head: self.head.clone(), steps: self.steps[..steps].to_vec() }.to_string();
        let message = format!("field `{at}`: expected {expected}, found {}", found.describe());
        Fault { class: ErrorClass::Type, column: Some(at), message }
    }
}

impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.head)?;
        self.steps.iter().try_for_each(|step| match step {
            Step::Name(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_parse_and_print_alike() {
        for text in ["a", "question.stem", "choices[0].text", "m[1][2]", "two words.x-y"] {
            assert_eq!(FieldPath::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", ".", "a.", ".a", "[0]", "a[", "a[]", "a[x]", "a[0]b", "a]", "a[-1]", "a[*]"]
        {
            assert!(FieldPath::parse(text).is_err(), "{text}");
        }
    }
}
