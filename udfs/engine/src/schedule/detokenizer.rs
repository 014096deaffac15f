//! From tokens to the text of an answer, and the stop texts in it.

use crate::checkpoint::{Codec, Special, TextStream};
use crate::decode::grammar::Grammars;
use crate::decode::stop::StopMatcher;
use crate::request::{RequestError, TokenLogprob};

/// So many tokens before an answer decide how its first ones are spelled (a space, half a
/// character).
const CONTEXT_TOKENS: usize = 8;
/// Bytes in which spaces are taken out because of what stands beside them.
const TIDY_BYTES: usize = 16;

/// The tokenizer of a model and its special tokens.
#[derive(Debug)]
pub struct Detokenizer {
    pub codec: Codec,
    pub special: Special,
    /// The forms that were requested of answers.
    pub grammars: Grammars,
}

impl Detokenizer {
    /// The text that `new` tokens add to a decoder prompt.
    pub fn added(&self, prompt: &[u32], new: &[u32]) -> Result<String, RequestError> {
        let context = context(prompt);
        let plain = new.iter().copied().filter(|token| !self.special.ends.contains(token));
        let all: Vec<u32> = context.iter().copied().chain(plain).collect();
        let decode = |ids: &[u32]| {
            self.codec.decode(ids, false).map_err(|error| RequestError::Failed(error.to_string()))
        };
        let before = decode(context)?;
        let whole = decode(&all)?;
        match whole.strip_prefix(&before) {
            Some(added) => Ok(added.to_owned()),
            // What was half a character before is a whole one now.
            None => decode(&all[context.len()..]),
        }
    }
}

impl Detokenizer {
    /// `new` tokens behind a prompt with what each adds to `text`, which is all that they say or, where a stop text
    /// came, the beginning of it. Texts of single tokens, one after the other, are always `text`.
    pub fn token_logprobs(
        &self,
        prompt: &[u32],
        new: &[u32],
        text: &str,
        logprobs: impl Iterator<Item = f32>,
    ) -> Vec<TokenLogprob> {
        let streamed = self.streamed_ends(prompt, new, text);
        let ends = streamed.unwrap_or_else(|| self.whole_ends(prompt, new, text));
        let mut begin = 0;
        let tokens = new.iter().zip(ends).zip(logprobs).map(|((&id, end), logprob)| {
            let text = text[begin..end].to_owned();
            begin = end;
            TokenLogprob { id, text, logprob: Some(logprob) }
        });
        tokens.collect()
    }

    /// Where in `text` what each token adds ends, token by token; `None` if they do not tell.
    fn streamed_ends(&self, prompt: &[u32], new: &[u32], text: &str) -> Option<Vec<usize>> {
        let decode = |ids: &[u32]| self.codec.decode_as_written(ids);
        let mut stream = TextStream::new(&plain_context(prompt, &self.codec), decode).ok()?;
        let (mut at, mut ends) = (0, Vec::with_capacity(new.len()));
        for &token in new {
            if !self.is_silent(token) {
                let added = stream.push(token, decode).ok()??;
                let rest = &text[at..];
                // A stop text cuts what is said.
                at += if rest.starts_with(&added) {
                    added.len()
                } else if added.starts_with(rest) {
                    rest.len()
                } else {
                    return None;
                };
            }
            ends.push(at);
        }
        self.close(new, ends, text)
    }

    /// The same by decoding all tokens so far after each.
    fn whole_ends(&self, prompt: &[u32], new: &[u32], text: &str) -> Vec<usize> {
        let mut at = 0;
        let ends = (1..=new.len()).map(|count| {
            let said = self.added(prompt, &new[..count]).unwrap_or_default();
            let same = said.chars().zip(text.chars()).take_while(|(a, b)| a == b);
            at = same.map(|(a, _)| a.len_utf8()).sum::<usize>().max(at);
            at
        });
        let ends = ends.collect();
        self.close(new, ends, text).unwrap_or_default()
    }

    /// What is left of `text` (half a character that no token completed) is of the last token that says anything.
    fn close(&self, new: &[u32], mut ends: Vec<usize>, text: &str) -> Option<Vec<usize>> {
        let last = new.iter().rposition(|token| !self.is_silent(*token)).unwrap_or(0);
        ends.iter_mut().skip(last).for_each(|end| *end = text.len());
        Some(ends)
    }

    /// Whether a token says nothing.
    fn is_silent(&self, token: u32) -> bool {
        self.special.ends.contains(&token) || self.codec.is_special(token)
    }
}

/// What decides how the tokens after a prompt are spelled, without special tokens.
fn plain_context(prompt: &[u32], codec: &Codec) -> Vec<u32> {
    context(prompt).iter().copied().filter(|id| !codec.is_special(*id)).collect()
}

/// What decides how the tokens after a prompt are spelled.
fn context(prompt: &[u32]) -> &[u32] {
    &prompt[prompt.len().saturating_sub(CONTEXT_TOKENS)..]
}

/// Looks for stop texts in the new text of a sequence, token by token.
#[derive(Clone)]
pub struct StopChecker {
    matcher: StopMatcher,
    text: GrowingText,
}

/// What a sequence has said, as far as stop texts need it.
#[derive(Clone)]
enum GrowingText {
    /// Nothing yet.
    New,
    /// The text of its tokens as they come; of what came before, so much as a stop text may begin in.
    Streamed { stream: TextStream, tail: String },
    /// Its tokens tell nothing one by one: it is decoded as a whole after each.
    Whole,
}

impl StopChecker {
    /// Nothing was looked at yet.
    pub fn new(matcher: StopMatcher) -> Self {
        Self { matcher, text: GrowingText::New }
    }

    /// Looks at the text that the last of the `new` tokens behind `prompt` adds; called for each of them. If a stop
    /// text came, where the answer ends.
    pub fn check(
        &mut self,
        prompt: &[u32],
        new: &[u32],
        detokenizer: &Detokenizer,
    ) -> Option<usize> {
        if !self.may_have_come(prompt, *new.last()?, &detokenizer.codec) {
            return None;
        }
        // What the answer will be decides. A text that cannot be decoded yet has no stop text yet either.
        let text = detokenizer.added(prompt, new).ok()?;
        // Half a character may still become another one.
        self.matcher.find(text.trim_end_matches(char::REPLACEMENT_CHARACTER))
    }

    /// False if `token` completes no stop text.
    fn may_have_come(&mut self, prompt: &[u32], token: u32, codec: &Codec) -> bool {
        let decode = |ids: &[u32]| codec.decode_as_written(ids);
        if matches!(self.text, GrowingText::New) {
            self.text = match TextStream::new(&plain_context(prompt, codec), decode) {
                Ok(stream) => GrowingText::Streamed { stream, tail: String::new() },
                Err(_) => GrowingText::Whole,
            };
        }
        let GrowingText::Streamed { stream, tail } = &mut self.text else { return true };
        if codec.is_special(token) {
            return false;
        }
        let Ok(Some(added)) = stream.push(token, decode) else {
            self.text = GrowingText::Whole;
            return true;
        };
        tail.push_str(&added);
        // Where taking out spaces changes the prompt, an answer is spelled as if nothing stood before it.
        let has_come = [tail.as_str(), tail.trim_start()]
            .iter()
            .any(|text| self.matcher.find(&codec.tidied(text)).is_some());
        // Spaces that are taken out, at most one for each byte that stays, lie in it as well.
        let mut begin = tail.len().saturating_sub(2 * self.matcher.bytes_max() + TIDY_BYTES);
        while !tail.is_char_boundary(begin) {
            begin -= 1;
        }
        tail.drain(..begin);
        has_come
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;
    use crate::checkpoint::tests::texts::{CODECS, codec_named};

    /// Where the answer ends after each token, by decoding all of it each time.
    fn naive(prompt: &[u32], new: &[u32], stop: &StopMatcher, all: &Detokenizer) -> Option<usize> {
        let text = all.added(prompt, new).unwrap();
        stop.find(text.trim_end_matches(char::REPLACEMENT_CHARACTER))
    }

    fn detokenizer(name: &str) -> Detokenizer {
        let grammars = Grammars::default();
        Detokenizer { codec: codec_named(name), special: Special::default(), grammars }
    }

    proptest! {
        #![proptest_config(ProptestConfig { max_global_rejects: 10_000, ..ProptestConfig::with_cases(400) })]
        /// A stop text is seen with the token that completes it, whatever the tokenizer.
        #[test]
        fn stop_texts_are_seen_as_if_all_was_decoded_after_each_token(
            which in 0..CODECS.len(),
            ids in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
            behind in 0_usize..5,
            cut in (any::<prop::sample::Index>(), 1_usize..6),
        ) {
            let detokenizer = detokenizer(CODECS[which]);
            let size = detokenizer.codec.vocabulary();
            let ids: Vec<u32> = ids.iter().map(|id| id.index(size) as u32).collect();
            let (prompt, new) = ids.split_at(behind.min(ids.len() - 1));
            // A part of what will be said.
            let said: Vec<char> = detokenizer.added(prompt, new).unwrap().chars().collect();
            let begin = cut.0.index(said.len().max(1));
            let stop: String = said.iter().skip(begin).take(cut.1).collect();
            prop_assume!(!stop.is_empty() && !stop.contains(char::REPLACEMENT_CHARACTER));
            let stop = StopMatcher::new(&[stop]).unwrap();
            let mut checker = StopChecker::new(stop.clone());
            for length in 1..=new.len() {
                let expected = naive(prompt, &new[..length], &stop, &detokenizer);
                let found = checker.check(prompt, &new[..length], &detokenizer);
                let text = detokenizer.added(prompt, &new[..length]);
                prop_assert_eq!(found, expected, "{} {:?} {:?} {:?}", CODECS[which], ids, stop, text);
                if expected.is_some() {
                    break;
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        /// Whatever the tokens, their texts are the text, and each is where decoding as a whole puts it.
        #[test]
        fn texts_of_tokens_are_the_text(
            which in 0..CODECS.len(),
            ids in prop::collection::vec(any::<prop::sample::Index>(), 1..30),
            behind in 0_usize..5,
            cut in any::<prop::sample::Index>(),
        ) {
            let detokenizer = detokenizer(CODECS[which]);
            let size = detokenizer.codec.vocabulary();
            let ids: Vec<u32> = ids.iter().map(|id| id.index(size) as u32).collect();
            let (prompt, new) = ids.split_at(behind.min(ids.len() - 1));
            let whole = detokenizer.added(prompt, new).unwrap();
            let ends: Vec<usize> =
                whole.char_indices().map(|(at, _)| at).chain([whole.len()]).collect();
            for text in [&whole[..], &whole[..ends[cut.index(ends.len())]]] {
                let logprobs = new.iter().map(|_| -1.0);
                let tokens = detokenizer.token_logprobs(prompt, new, text, logprobs);
                let texts: Vec<&str> = tokens.iter().map(|one| one.text.as_str()).collect();
                prop_assert_eq!(texts.concat(), text, "{} {:?}", CODECS[which], texts);
                prop_assert!(tokens.iter().map(|one| one.id).eq(new.iter().copied()));
            }
            let streamed = detokenizer.streamed_ends(prompt, new, &whole);
            if let Some(streamed) = streamed.filter(|_| !whole.contains(char::REPLACEMENT_CHARACTER)) {
                prop_assert_eq!(streamed, detokenizer.whole_ends(prompt, new, &whole));
            }
        }
    }

    #[test]
    fn a_token_costs_as_much_late_as_early() {
        for name in CODECS {
            let codec = codec_named(name);
            let decoded = Cell::new(0);
            let decode = |ids: &[u32]| {
                decoded.set(decoded.get() + ids.len());
                codec.decode_as_written(ids)
            };
            let ids = codec.encode("so it is, the path. ", false).unwrap();
            let mut stream = TextStream::new(&ids[..1], decode).unwrap();
            let plain = ids.iter().copied().filter(|id| !codec.is_special(*id));
            for token in plain.cycle().take(512) {
                decoded.set(0);
                assert!(stream.push(token, decode).unwrap().is_some(), "{name}");
                assert!(decoded.get() <= 12, "{name}: {}", decoded.get());
            }
        }
    }
}
