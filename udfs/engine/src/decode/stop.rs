//! Stop texts in a text that grows.
//!
//! What counts is the text, not how tokens cut it: the stop text that is complete first wins, and
//! of several that end together the longest.

/// Looks for stop texts.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Vec<String>,
    /// The end of the text: all that a stop text which is not complete yet can have begun in.
    tail: String,
    /// Bytes of text before `tail`.
    before: usize,
}

/// A stop text came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopHit {
    /// Bytes of the whole text before the stop text: where the answer ends.
    pub text_end: usize,
}

/// Why there can be no such matcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// An empty text is everywhere.
    #[error("stop text {index} is empty; remove it, or say where the answer ends")]
    Empty { index: usize },
}

impl StopMatcher {
    /// A matcher at the beginning of a text. Without stop texts it never finds one.
    ///
    /// # Errors
    /// [`StopError`]: a stop text is empty.
    pub fn new(stops: &[String]) -> Result<Self, StopError> {
        match stops.iter().position(String::is_empty) {
            Some(index) => Err(StopError::Empty { index }),
            None => Ok(Self { stops: stops.to_vec(), tail: String::new(), before: 0 }),
        }
    }

    /// Appends to the text. Once a stop text has come, the answer stays the same.
    pub fn push(&mut self, added: &str) -> Option<StopHit> {
        self.tail.push_str(added);
        let found = self.stops.iter().filter_map(|stop| {
            let start = self.tail.find(stop)?;
            Some((start + stop.len(), start))
        });
        if let Some((_, start)) = found.min() {
            return Some(StopHit { text_end: self.before + start });
        }
        self.forget();
        None
    }

    /// Drops what no stop text can begin in any more.
    fn forget(&mut self) {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let mut forgotten = self.tail.len().saturating_sub(longest.saturating_sub(1));
        while !self.tail.is_char_boundary(forgotten) {
            forgotten -= 1;
        }
        self.tail.drain(..forgotten);
        self.before += forgotten;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matcher(stops: &[&str]) -> StopMatcher {
        let stops: Vec<String> = stops.iter().map(|&stop| stop.to_owned()).collect();
        StopMatcher::new(&stops).unwrap()
    }

    #[test]
    fn a_stop_text_is_found_across_tokens_and_inside_them() {
        let mut across = matcher(&["\n\nQ:"]);
        assert_eq!(across.push("Ä answer\n"), None);
        assert_eq!(across.push("\n"), None);
        assert_eq!(across.push("Q: B"), Some(StopHit { text_end: 9 }));
        assert_eq!(across.push("\n\nQ:"), Some(StopHit { text_end: 9 }));
        assert_eq!(matcher(&["d", "b"]).push("abcd"), Some(StopHit { text_end: 1 }));
    }

    #[test]
    fn the_first_to_be_complete_wins_and_then_the_longest() {
        assert_eq!(matcher(&["abcd", "bc"]).push("abcd"), Some(StopHit { text_end: 1 }));
        assert_eq!(matcher(&["c", "bc"]).push("abcd"), Some(StopHit { text_end: 1 }));
    }

    #[test]
    fn without_stop_texts_nothing_is_found_or_kept() {
        let mut none = matcher(&[]);
        assert_eq!(none.push("text"), None);
        assert_eq!(none.tail, "");
    }

    #[test]
    fn an_empty_stop_text_is_refused() {
        let stops = ["a".to_owned(), String::new()];
        assert_eq!(StopMatcher::new(&stops).unwrap_err(), StopError::Empty { index: 1 });
    }

    /// Where the answer ends, by looking at every beginning of the text from the shortest.
    fn naive(stops: &[String], text: &str) -> Option<StopHit> {
        let ends = (0..=text.len()).filter(|&end| text.is_char_boundary(end));
        ends.flat_map(|end| {
            let complete = stops.iter().filter(move |stop| text[..end].ends_with(*stop));
            complete.map(|stop| stop.len()).max().map(|longest| StopHit { text_end: end - longest })
        })
        .next()
    }

    proptest! {
        #[test]
        fn the_hit_is_that_of_the_naive_search_however_the_text_is_cut(
            stops in prop::collection::vec("[abé€]{1,4}", 0..4),
            pieces in prop::collection::vec("[abcé€]{0,5}", 0..12),
        ) {
            let mut matcher = StopMatcher::new(&stops).unwrap();
            let mut text = String::new();
            for piece in &pieces {
                text.push_str(piece);
                prop_assert_eq!(matcher.push(piece), naive(&stops, &text));
            }
        }
    }
}
