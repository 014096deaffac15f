//! Which of the echoed tokens are the continuation.

use std::ops::Range;

use crate::wire::completions::TokenLogprobs;

/// The tokens that spell `continuation` after `prompt`. None if no such tokens can be told for
/// certain: one of them lies across the boundary, or the lists do not fit the text.
///
/// `text_offset` says where tokens begin; where it is missing, the lengths of the tokens do. The
/// first token may have characters that the text lacks (a special token, SentencePiece's space),
/// and servers differ in whether offsets count them: a reading holds only if its tokens spell both
/// texts.
pub fn continuation(
    told: &TokenLogprobs,
    prompt: &str,
    continuation: &str,
) -> Option<Range<usize>> {
    let offsets = offsets(told)?;
    [0, surplus(told.tokens.first()?, prompt)].into_iter().find_map(|shift| {
        let begin = characters(prompt) + shift;
        let end = begin + characters(continuation);
        let first = offsets.iter().position(|offset| *offset == begin)?;
        let last = offsets.iter().position(|offset| *offset >= end).unwrap_or(offsets.len());
        let (before, said) = (told.tokens.get(..first)?, told.tokens.get(first..last)?);
        let spelled = |tokens: &[String], text: &str| {
            tokens.concat().ends_with(text) || tokens.iter().any(|token| partial(token))
        };
        let holds = spelled(before, prompt) && spelled(said, continuation) && !said.is_empty();
        holds.then_some(first..last)
    })
}

/// Characters of the first token that are not in the text.
fn surplus(token: &str, text: &str) -> u64 {
    if text.starts_with(token) {
        return 0;
    }
    match token.strip_prefix([' ', '\u{2581}']) {
        Some(rest) if text.starts_with(rest) => 1,
        _ => characters(token),
    }
}

/// Characters before each token. None if a list has another length.
fn offsets(told: &TokenLogprobs) -> Option<Vec<u64>> {
    match &told.text_offset {
        Some(offsets) => (offsets.len() == told.tokens.len()).then(|| offsets.clone()),
        None => Some(
            told.tokens
                .iter()
                .scan(0, |at, token| {
                    let begin = *at;
                    *at += characters(token);
                    Some(begin)
                })
                .collect(),
        ),
    }
}

fn characters(text: &str) -> u64 {
    text.chars().count() as u64
}

/// Whether a token is part of a character and so cannot be spelled.
fn partial(token: &str) -> bool {
    token.is_empty() || token.contains('\u{fffd}') || token.starts_with("bytes:")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(tokens: &[&str], text_offset: Option<&[u64]>) -> TokenLogprobs {
        TokenLogprobs {
            tokens: tokens.iter().map(|token| (*token).to_owned()).collect(),
            text_offset: text_offset.map(<[u64]>::to_vec),
            ..TokenLogprobs::default()
        }
    }

    #[test]
    fn by_offsets_and_by_lengths() {
        let tokens = ["The", " sky", " is", " bl", "ue", "!"];
        for offsets in [None, Some([0, 3, 7, 10, 13, 15].as_slice())] {
            assert_eq!(continuation(&told(&tokens, offsets), "The sky is", " blue"), Some(3..5));
        }
    }

    #[test]
    fn offsets_are_characters() {
        assert_eq!(continuation(&told(&["é", "ö", "x"], Some(&[0, 1, 2])), "éö", "x"), Some(2..3));
    }

    #[test]
    fn a_special_token_that_the_text_lacks() {
        let tokens = ["<s>", "The", " sky", " is"];
        assert_eq!(continuation(&told(&tokens, None), "The sky", " is"), Some(3..4));
        let counted = told(&tokens, Some(&[0, 3, 6, 10]));
        assert_eq!(continuation(&counted, "The sky", " is"), Some(3..4));
        let uncounted = told(&tokens, Some(&[0, 0, 3, 7]));
        assert_eq!(continuation(&uncounted, "The sky", " is"), Some(3..4));
    }

    #[test]
    fn a_space_that_the_text_lacks() {
        let tokens = [" a", "a", "a", "x"];
        assert_eq!(continuation(&told(&tokens, Some(&[0, 2, 3, 4])), "aa", "a"), Some(2..3));
        assert_eq!(continuation(&told(&tokens, Some(&[0, 1, 2, 3])), "aa", "a"), Some(2..3));
    }

    #[test]
    fn a_token_across_the_boundary() {
        assert_eq!(continuation(&told(&["The", " sky"], None), "The ", "sky"), None);
        assert_eq!(continuation(&told(&["The", " sky", "scraper"], None), "The", " skysc"), None);
    }

    #[test]
    fn parts_of_a_character_are_taken_on_trust() {
        let parts = told(&["a", "\u{fffd}", "\u{fffd}"], Some(&[0, 1, 1]));
        assert_eq!(continuation(&parts, "a", "é"), Some(1..3));
    }

    #[test]
    fn lists_that_do_not_fit() {
        assert_eq!(continuation(&told(&[], None), "a", "b"), None);
        assert_eq!(continuation(&told(&["a", "b"], Some(&[0])), "a", "b"), None);
        assert_eq!(continuation(&told(&["a", "b"], Some(&[0, 9])), "a", "b"), None);
    }

    proptest! {
        /// However texts are cut into tokens, those of the continuation are found.
        #[test]
        fn any_tokens(
            prompt in proptest::collection::vec("[a-zé ]{1,4}", 1..6),
            said in proptest::collection::vec("[a-zé ]{1,4}", 1..6),
            more in proptest::collection::vec("[a-zé ]{1,4}", 0..2),
            special: bool,
        ) {
            let head = special.then(|| "<s>".to_owned());
            let all = head.into_iter().chain(prompt.iter().chain(&said).chain(&more).cloned());
            let told = TokenLogprobs { tokens: all.collect(), ..TokenLogprobs::default() };
            let first = prompt.len() + usize::from(special);
            let found = continuation(&told, &prompt.concat(), &said.concat());
            prop_assert_eq!(found, Some(first..first + said.len()));
        }
    }
}
