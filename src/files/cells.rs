//! Cells of `csv` and `tsv`: texts that may stand for a value of another type.

use crate::infer::is_whole as is_written_whole;
use crate::json::{Json, float_of};
use crate::kind::Kind;

/// What the cells of a column have in common so far.
#[derive(Clone, Debug)]
pub struct CellGuess {
    seen: bool,
    bools: bool,
    ints: bool,
    numbers: bool,
    digits: bool,
}

impl Default for CellGuess {
    fn default() -> Self {
        Self { seen: false, bools: true, ints: true, numbers: true, digits: true }
    }
}

impl CellGuess {
    /// Takes the text of the next cell that is not empty.
    pub fn add(&mut self, text: &str) {
        self.seen = true;
        self.bools &= matches!(text, "true" | "false");
        self.ints &= is_whole(text);
        self.digits = self.digits && is_number(text);
        // Whole numbers that floating point does not keep, and all beyond 64 bits, are names of things.
        self.numbers = self.numbers
            && self.digits
            && float_of(text).is_some()
            && (!is_written_whole(text) || is_i64(text));
    }

    /// Whether these are numbers that are text because no number type keeps them.
    pub fn has_digits(&self) -> bool {
        self.seen && self.digits && self.kind() == Kind::Text
    }

    /// The type of the column.
    pub fn kind(&self) -> Kind {
        match self {
            Self { seen: false, .. } => Kind::Text,
            Self { bools: true, .. } => Kind::Bool,
            Self { ints: true, .. } => Kind::Int,
            Self { numbers: true, .. } => Kind::Float,
            _ => Kind::Text,
        }
    }
}

/// The value a cell stands for in a column of `kind`, if it stands for one. A declared type also
/// takes other ways to write a value: `+5`, `007`, `.5`, `True`.
pub fn cell_value<'a>(text: &'a str, kind: &Kind, declared: bool) -> Option<Json<'a>> {
    match kind {
        Kind::Bool if declared && text.eq_ignore_ascii_case("true") => Some(Json::Bool(true)),
        Kind::Bool if declared && text.eq_ignore_ascii_case("false") => Some(Json::Bool(false)),
        Kind::Bool if text == "true" => Some(Json::Bool(true)),
        Kind::Bool if text == "false" => Some(Json::Bool(false)),
        Kind::Int if declared && is_i64(text) || is_whole(text) => Some(Json::Number(text)),
        Kind::Float => Some(Json::Number(text))
            .filter(|number| (declared || is_number(text)) && number.as_float().is_some()),
        Kind::Text => Some(Json::Text(text.into())),
        _ => None,
    }
}

fn is_i64(text: &str) -> bool {
    text.parse::<i64>().is_ok()
}

/// Whether `text` is how a 64-bit whole number is usually written: `007`, `+5` and `-0` are not.
fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = text == "0" || digits.starts_with(|first| matches!(first, '1'..='9'));
    canonical && is_i64(text)
}

/// Whether `text` is a number by the grammar of JSON.
fn is_number(text: &str) -> bool {
    matches!(crate::json::parse(text.as_bytes()), Ok(Json::Number(number)) if number == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(cells: &[&str]) -> Kind {
        let mut guess = CellGuess::default();
        cells.iter().for_each(|cell| guess.add(cell));
        guess.kind()
    }

    #[test]
    fn only_canonical_cells_become_numbers() {
        assert_eq!(kind(&[]), Kind::Text);
        assert_eq!(kind(&["1", "-20", "0"]), Kind::Int);
        assert_eq!(kind(&["1", "007"]), Kind::Text);
        assert_eq!(kind(&["+1"]), Kind::Text);
        assert_eq!(kind(&["1", "0.5", "-1e3"]), Kind::Float);
        assert_eq!(kind(&["NaN"]), Kind::Text);
        assert_eq!(kind(&["inf"]), Kind::Text);
        assert_eq!(kind(&[" 1"]), Kind::Text);
        assert_eq!(kind(&["12345678901234567890"]), Kind::Text);
        assert_eq!(kind(&["9007199254740993", "1"]), Kind::Int);
        assert_eq!(kind(&["9007199254740993", "0.5"]), Kind::Text);
        assert_eq!(kind(&["0.5", "9007199254740992"]), Kind::Float);
        assert_eq!(kind(&["0.5", "9007199254740993.0"]), Kind::Text);
        assert_eq!(kind(&["true", "false"]), Kind::Bool);
        assert_eq!(kind(&["true", "True"]), Kind::Text);
        assert_eq!(kind(&["true", "1"]), Kind::Text);
    }

    #[test]
    fn declared_types_take_more_spellings() {
        for (text, kind) in
            [("007", Kind::Int), ("+5", Kind::Int), (".5", Kind::Float), ("FALSE", Kind::Bool)]
        {
            assert!(cell_value(text, &kind, true).is_some(), "{text}");
            assert!(cell_value(text, &kind, false).is_none(), "{text}");
        }
        for (text, kind) in [("1.5", Kind::Int), ("nan", Kind::Float), ("yes", Kind::Bool)] {
            assert!(cell_value(text, &kind, true).is_none(), "{text}");
        }
        assert_eq!(cell_value("-7", &Kind::Int, false).and_then(|cell| cell.as_int()), Some(-7));
    }
}
