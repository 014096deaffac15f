//! How a trace says things: numbers short, ids as far as a person needs them, nothing that could
//! control the terminal.

use serde_json::{Map, Value as Json};

use crate::draw::cells::format_float;
use proofmill_base::styled::printable;
use proofmill_base::styled::{Ink, Styled};

/// Hex digits of an id or a digest that a person needs to tell two apart.
const DIGITS: usize = 12;
/// Columns of a row that are shown; the JSON has all.
const COLUMNS_MAX: usize = 6;

/// How a trace is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub width: usize,
    /// Whether words have colours.
    pub colour: bool,
    /// Whether all stages that answer the question are listed, where there are several.
    pub listed: bool,
}

impl Style {
    /// A word that says that all is well.
    pub fn good(self, word: &str) -> Styled {
        self.paint(Ink::Good, word)
    }

    /// A word that says that it is not.
    pub fn bad(self, word: &str) -> Styled {
        self.paint(Ink::Bad, word)
    }

    /// A word that leaves it open.
    pub fn doubtful(self, word: &str) -> Styled {
        self.paint(Ink::Doubtful, word)
    }

    fn paint(self, ink: Ink, word: &str) -> Styled {
        if self.colour { Styled::inked(ink, word) } else { word.into() }
    }
}

/// The lines that are there, one below the other.
pub fn lines<const N: usize>(all: [Option<Styled>; N]) -> Styled {
    joined(all, "\n")
}

/// The parts that are there, with commas; nothing if none is.
pub fn commas(parts: impl IntoIterator<Item = Option<Styled>>) -> Option<Styled> {
    let all = joined(parts, ", ");
    (all != Styled::default()).then_some(all)
}

fn joined(parts: impl IntoIterator<Item = Option<Styled>>, between: &str) -> Styled {
    let there = parts.into_iter().flatten();
    there.reduce(|all, part| all + between + part).unwrap_or_default()
}

pub fn number(name: &str, value: Option<f64>) -> Option<Styled> {
    value.map(|value| format!("{name} {}", format_float(value)).into())
}

/// A label and an answer, as far as they are there.
pub fn named(label: Option<&str>, answer: Option<&str>) -> Option<String> {
    match (label, answer) {
        (Some(label), Some(answer)) if label != answer => Some(clean(&format!("{label} {answer}"))),
        (label, answer) => answer.or(label).map(clean),
    }
}

/// Some columns of a row, on one line.
pub fn columns(all: &Map<String, Json>) -> Option<Styled> {
    let cell = |(name, value): (&String, &Json)| {
        let value = match value {
            Json::String(text) => printable(text, false),
            other => printable(&other.to_string(), false),
        };
        Some(format!("{} = {value}", clean(name)).into())
    };
    let more = (all.len() > COLUMNS_MAX).then(|| "…".into());
    commas(all.iter().take(COLUMNS_MAX).map(cell).chain([more]))
}

/// A text that cannot control the terminal, on one line.
pub fn clean(text: &str) -> String {
    printable(text, true)
}

/// An id or a digest, cut.
pub fn short(id: &str) -> String {
    clean(&id.chars().take(DIGITS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_there_leaves_no_gap() {
        assert_eq!(lines([None, Some("a".into()), None, Some("b".into())]), "a\nb".into());
        assert_eq!(commas([None, None]), None);
        assert_eq!(number("score", Some(0.5)), Some("score 0.5000".into()));
        assert_eq!(named(Some("A"), Some("yes")).as_deref(), Some("A yes"));
        assert_eq!(named(Some("true"), Some("true")).as_deref(), Some("true"));
        assert_eq!(named(Some("A"), None).as_deref(), Some("A"));
        assert_eq!(named(None, None), None);
    }

    #[test]
    fn a_row_of_many_columns_is_cut() {
        let all: Map<String, Json> = (0..9).map(|n| (format!("c{n}"), json!(n))).collect();
        let shown = columns(&all).unwrap();
        let shown = shown.as_str();
        assert!(shown.starts_with("c0 = 0, ") && shown.ends_with("c5 = 5, …"), "{shown}");
        assert_eq!(columns(&Map::new()), None);
    }
}
