//! The order of labels that people expect: numbers by value, other texts with the numbers inside them by
//! value, so that 5 is before 15 and `layer_2` before `layer_10`.

use std::cmp::Ordering;

/// A label, ready to be compared often.
#[derive(Clone, Debug)]
pub struct Natural<'a> {
    /// The number that the whole label is.
    number: Option<f64>,
    text: &'a str,
}

impl<'a> Natural<'a> {
    /// The label itself.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Of `text`. `inf`, `nan` and numbers that are too large are texts.
    pub fn of(text: &'a str) -> Self {
        Self { number: text.parse().ok().filter(|number: &f64| number.is_finite()), text }
    }
}

impl Ord for Natural<'_> {
    /// Empty labels first, then numbers, then other texts; what is equal so far, by its bytes.
    fn cmp(&self, other: &Self) -> Ordering {
        let class = |it: &Self| (!it.text.is_empty(), it.number.is_none());
        class(self).cmp(&class(other)).then_with(|| {
            let order = match (self.number, other.number) {
                // `-0` is `0`.
                (Some(a), Some(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
                _ => pieces(self.text).cmp(pieces(other.text)),
            };
            order.then_with(|| self.text.cmp(other.text))
        })
    }
}

impl PartialOrd for Natural<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Natural<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Natural<'_> {}

/// A run of digits or a single other character. Digits without their leading zeros: the longer run is the
/// larger number, however long.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece<'a> {
    Digits(usize, &'a str),
    Other(char),
}

fn pieces(mut text: &str) -> impl Iterator<Item = Piece<'_>> {
    std::iter::from_fn(move || {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 {
            let (run, rest) = text.split_at(digits);
            let run = run.trim_start_matches('0');
            text = rest;
            return Some(Piece::Digits(run.len(), run));
        }
        let mut rest = text.chars();
        let other = rest.next()?;
        text = rest.as_str();
        Some(Piece::Other(other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_the_order_of_their_values() {
        let sorted = [
            "",
            "-2",
            "-0.5",
            "-0",
            "0",
            "0.0",
            "1e-3",
            "0.25",
            "0.5",
            "1",
            "1.0",
            "5",
            "15",
            "1e3",
            "2024-01-05",
            "2024-01-15",
            "B",
            "Nan",
            "a",
            "a2b1",
            "a10",
            "a 02",
            "a 2",
            "a 10",
            "inf",
            "k=5",
            "k=15",
            "k=99999999999999999999",
            "k=100000000000000000000",
            "é",
        ];
        let mut shuffled = sorted;
        shuffled.sort_unstable();
        assert_ne!(shuffled, sorted);
        shuffled.sort_by_key(|text| Natural::of(text));
        let order = |a: &str, b: &str| Natural::of(a).cmp(&Natural::of(b));
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(order(a, b), i.cmp(&j), "{a} and {b}");
            }
        }
        assert_eq!(shuffled, sorted);
    }
}
