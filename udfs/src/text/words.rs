//! Python's view of text: white space, word characters and lower case.
//!
//! The reference packages are Python; where Rust's notion of a character class differs from
//! Python's, the scores would differ. This file holds the differences.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// Whether Python's `str.isspace` holds: Unicode white space and the four ASCII separators.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Whether Python's `\w` matches: a letter, a number or the underscore. Combining marks do not
/// count, unlike in most other definitions of a word character.
pub fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    // Letters and numbers are a subset of the standard library's class; the table decides the rest.
    c.is_alphanumeric()
        && LETTERS_AND_NUMBERS
            .binary_search_by(|(start, end)| {
                if *end < c {
                    std::cmp::Ordering::Less
                } else if *start > c {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Equal
                }
            })
            .is_ok()
}

/// The Unicode general categories L and N as sorted ranges.
static LETTERS_AND_NUMBERS: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let parsed = regex_syntax::parse(r"[\p{L}\p{N}]").map(|hir| hir.into_kind());
    match parsed {
        Ok(HirKind::Class(Class::Unicode(class))) => {
            class.ranges().iter().map(|range| (range.start(), range.end())).collect()
        }
        _ => Vec::new(),
    }
});

/// Python's `str.split()`: the pieces between runs of white space.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|piece| !piece.is_empty())
}

/// Python's `str.lower()`; borrows if nothing changes.
pub fn lower(text: &str) -> Cow<'_, str> {
    if !text.is_ascii() {
        Cow::Owned(text.to_lowercase())
    } else if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        Cow::Borrowed(text)
    }
}

/// `re.findall(r'\w+|[^\w\s]', text)`: runs of word characters, every other visible character alone.
pub fn words_and_marks(text: &str) -> Vec<&str> {
    let mut tokens = Vec::with_capacity(text.len() / 4);
    let mut word_start = None;
    for (at, c) in text.char_indices() {
        if is_word(c) {
            word_start.get_or_insert(at);
            continue;
        }
        if let Some(start) = word_start.take() {
            tokens.push(&text[start..at]);
        }
        if !is_space(c) {
            tokens.push(&text[at..at + c.len_utf8()]);
        }
    }
    if let Some(start) = word_start {
        tokens.push(&text[start..]);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_characters_are_pythons() {
        for c in ['a', 'Z', '7', '_', 'é', 'ß', '中', '٣', '½', 'Ⅷ', 'ª', 'ꟈ'] {
            assert!(is_word(c), "{c}");
        }
        // A combining accent, an Indic vowel sign, a circled letter, a joiner, a dash.
        for c in ['\u{301}', '\u{93e}', 'Ⓐ', '\u{200d}', '—', '-', ' ', '’'] {
            assert!(!is_word(c), "{c}");
        }
    }

    #[test]
    fn splits_at_every_white_space_of_python() {
        let text = "\u{1c}a\u{a0}b\u{3000}\t\nc\u{200b}d\u{85}";
        assert_eq!(split(text).collect::<Vec<_>>(), ["a", "b", "c\u{200b}d"]);
        assert_eq!(split("").count(), 0);
    }

    #[test]
    fn lower_case_is_pythons() {
        assert_eq!(lower("ΟΔΟΣ İ ABC"), "οδος i\u{307} abc");
        assert!(matches!(lower("abc"), Cow::Borrowed("abc")));
    }

    #[test]
    fn words_and_marks_of_a_mixed_text() {
        assert_eq!(
            words_and_marks("Don't, e\u{301}! x_1"),
            ["Don", "'", "t", ",", "e", "\u{301}", "!", "x_1"]
        );
        assert!(words_and_marks(" \n").is_empty());
    }
}
