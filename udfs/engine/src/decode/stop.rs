//! Stop texts in a text.
//!
//! What counts is the text, not how tokens cut it: the stop text that is complete first wins, and
//! of several that end together the longest.

/// Looks for stop texts.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Vec<String>,
}

/// Why there can be no such matcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// An empty text is everywhere.
    #[error("stop text {index} is empty; remove it, or say where the answer ends")]
    Empty { index: usize },
}

impl StopMatcher {
    /// A matcher for these. Without stop texts it never finds one.
    ///
    /// # Errors
    /// [`StopError`]: a stop text is empty.
    pub fn new(stops: &[String]) -> Result<Self, StopError> {
        match stops.iter().position(String::is_empty) {
            Some(index) => Err(StopError::Empty { index }),
            None => Ok(Self { stops: stops.to_vec() }),
        }
    }

    /// Bytes of the longest stop text.
    pub fn bytes_max(&self) -> usize {
        self.stops.iter().map(String::len).max().unwrap_or(0)
    }

    /// Where an answer ends: before the stop text that is complete first, in bytes. `None` if none is there.
    pub fn find(&self, text: &str) -> Option<usize> {
        let found = self.stops.iter().filter_map(|stop| {
            let start = text.find(stop)?;
            Some((start + stop.len(), start))
        });
        found.min().map(|(_, start)| start)
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
    fn the_first_to_be_complete_wins_and_then_the_longest() {
        assert_eq!(matcher(&["\n\nQ:"]).find("Ä answer\n\nQ: B"), Some(9));
        assert_eq!(matcher(&["d", "b"]).find("abcd"), Some(1));
        assert_eq!(matcher(&["abcd", "bc"]).find("abcd"), Some(1));
        assert_eq!(matcher(&["c", "bc"]).find("abcd"), Some(1));
        assert_eq!(matcher(&[]).find("text"), None);
    }

    #[test]
    fn an_empty_stop_text_is_refused() {
        let stops = ["a".to_owned(), String::new()];
        assert_eq!(StopMatcher::new(&stops).unwrap_err(), StopError::Empty { index: 1 });
    }

    /// Where the answer ends, by looking at every beginning of the text from the shortest.
    fn naive(stops: &[String], text: &str) -> Option<usize> {
        let ends = (0..=text.len()).filter(|&end| text.is_char_boundary(end));
        ends.flat_map(|end| {
            let complete = stops.iter().filter(move |stop| text[..end].ends_with(*stop));
            complete.map(|stop| stop.len()).max().map(|longest| end - longest)
        })
        .next()
    }

    proptest! {
        #[test]
        fn the_hit_is_that_of_the_naive_search(
            stops in prop::collection::vec("[abé€]{1,4}", 0..4), text in "[abcé€]{0,40}",
        ) {
            prop_assert_eq!(StopMatcher::new(&stops).unwrap().find(&text), naive(&stops, &text));
        }
    }
}
