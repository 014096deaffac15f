//! Scores by `POST /completions` that echoes the prompt with its log-probabilities, and which of
//! the echoed tokens are the continuation. No I/O.

use std::ops::Range;

use proofmill_engine::request::{Answer, Body, RequestError, Score, Scored};

use crate::call::{Call, TRUNCATE, failed, invalid};
use crate::settings::Settings;
use crate::wire::{CompletionsRequest, CompletionsResponse, Sampling, TokenLogprobs};
use proofmill_settings::endpoint::Api;

/// Refuses what no endpoint does, or not this one.
pub fn check(score: &Score, settings: &Settings) -> Result<(), RequestError> {
    if !settings.capabilities.scores {
        return invalid(
            "this endpoint does not offer scores; they need completions that know `echo` with \
             `logprobs`",
        );
    }
    if settings.api != Api::Completions {
        return invalid("a chat endpoint cannot score; set `api` to completions");
    }
    if !score.messages.is_empty() {
        return invalid("an endpoint cannot score what follows messages; give a prompt");
    }
    if score.truncate.is_some() {
        return invalid(TRUNCATE);
    }
    if score.include_eos {
        return invalid("an endpoint cannot score the end of the text; leave `include_eos` out");
    }
    if score.logprobs || score.prompt_logprobs {
        return invalid(
            "an endpoint's tokens are not told one by one; leave out `logprobs` and `prompt_logprobs`, or use \
             a model on this machine",
        );
    }
    if score.prompt.is_empty() {
        return invalid("an endpoint cannot score without a prompt; give one");
    }
    if score.continuations.is_empty() || score.continuations.iter().any(String::is_empty) {
        return invalid("a continuation is missing or empty; give texts");
    }
    Ok(())
}

/// What is sent for one continuation. One token is generated and dropped: to some servers 0 means
/// "no limit".
pub fn score_call(
    prompt: &str,
    continuation: &str,
    settings: &Settings,
) -> Result<Call, RequestError> {
    let text = format!("{prompt}{continuation}");
    let sampling = Sampling { temperature: 0.0, top_p: None, top_k: None, seed: None, n: None };
    let body = CompletionsRequest {
        model: &settings.model,
        prompt: &text,
        max_tokens: 1,
        sampling: &sampling,
        stop: &[],
        logprobs: Some(1),
        echo: Some(true),
    };
    Call::new("completions", &body, text.len(), 1)
}

/// The score of one continuation, and how many tokens come before it.
pub fn scored(
    prompt: &str,
    continuation: &str,
    response: CompletionsResponse,
) -> Result<(Scored, u32), RequestError> {
    let Some(choice) = response.choices.into_iter().next() else {
        return failed("the endpoint gave no answer (`choices` is empty)");
    };
    let logprobs = match choice.logprobs {
        Some(logprobs) if !logprobs.tokens.is_empty() => logprobs,
        _ => return failed(NO_PROMPT_LOGPROBS),
    };
    let length = logprobs.tokens.len();
    let tops = logprobs.top_logprobs.as_deref().unwrap_or_default();
    if logprobs.token_logprobs.len() != length || tops.len() != length {
        return failed(NO_PROMPT_LOGPROBS);
    }
    // Without the echo, the tokens are those that were generated.
    if !choice.text.starts_with(prompt) {
        return failed(NO_PROMPT_LOGPROBS);
    }
    let Some(range) = continuation_tokens(&logprobs, prompt, continuation) else {
        return failed(
            "the continuation does not begin and end between two of the model's tokens; a space \
             between prompt and continuation belongs to the continuation",
        );
    };
    let mut scored =
        Scored { logprob: 0.0, tokens: 0, is_greedy: true, logprobs: None, prompt_logprobs: None };
    for place in range.clone() {
        let (Some(logprob), Some(top)) = (logprobs.token_logprobs[place], &tops[place]) else {
            return failed("a token of the continuation has no log-probability");
        };
        scored.logprob += logprob;
        scored.tokens += 1;
        scored.is_greedy &= top.values().all(|other| *other <= logprob);
    }
    Ok((scored, u32::try_from(range.start).unwrap_or(u32::MAX)))
}

/// The answer of all continuations.
pub fn score_answer(scores: Vec<(Scored, u32)>) -> Answer {
    Answer {
        prompt_tokens: scores.first().map_or(0, |(_, before)| *before),
        prompt_truncated: false,
        body: Body::Scores(scores.into_iter().map(|(scored, _)| scored).collect()),
    }
}

const NO_PROMPT_LOGPROBS: &str = "the response has no log-probabilities of the prompt; the \
                                  endpoint does not know `echo` with `logprobs`, so set `scores` \
                                  to false and use another one";

/// The tokens that spell `continuation` after `prompt`. None if no such tokens can be determined
/// with certainty: one of them lies across the boundary, or the lists do not fit the text.
///
/// `text_offset` says where tokens begin; where it is missing, the lengths of the tokens do. The
/// first token may have characters that the text lacks (a special token, SentencePiece's space),
/// and servers differ in whether offsets count them: a reading holds only if its tokens spell both
/// texts.
fn continuation_tokens(
    logprobs: &TokenLogprobs,
    prompt: &str,
    continuation: &str,
) -> Option<Range<usize>> {
    let offsets = offsets(logprobs)?;
    [0, surplus(logprobs.tokens.first()?, prompt)].into_iter().find_map(|shift| {
        let begin = characters(prompt) + shift;
        let end = begin + characters(continuation);
        let first = offsets.iter().position(|offset| *offset == begin)?;
        let last = offsets.iter().position(|offset| *offset >= end).unwrap_or(offsets.len());
        let (before, said) = (logprobs.tokens.get(..first)?, logprobs.tokens.get(first..last)?);
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
fn offsets(logprobs: &TokenLogprobs) -> Option<Vec<u64>> {
    match &logprobs.text_offset {
        Some(offsets) => (offsets.len() == logprobs.tokens.len()).then(|| offsets.clone()),
        None => Some(
            logprobs
                .tokens
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

    fn logprobs(tokens: &[&str], text_offset: Option<&[u64]>) -> TokenLogprobs {
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
            assert_eq!(
                continuation_tokens(&logprobs(&tokens, offsets), "The sky is", " blue"),
                Some(3..5)
            );
        }
    }

    #[test]
    fn offsets_are_characters() {
        assert_eq!(
            continuation_tokens(&logprobs(&["é", "ö", "x"], Some(&[0, 1, 2])), "éö", "x"),
            Some(2..3)
        );
    }

    #[test]
    fn a_special_token_that_the_text_lacks() {
        let tokens = ["<s>", "The", " sky", " is"];
        assert_eq!(continuation_tokens(&logprobs(&tokens, None), "The sky", " is"), Some(3..4));
        let counted = logprobs(&tokens, Some(&[0, 3, 6, 10]));
        assert_eq!(continuation_tokens(&counted, "The sky", " is"), Some(3..4));
        let uncounted = logprobs(&tokens, Some(&[0, 0, 3, 7]));
        assert_eq!(continuation_tokens(&uncounted, "The sky", " is"), Some(3..4));
    }

    #[test]
    fn a_space_that_the_text_lacks() {
        let tokens = [" a", "a", "a", "x"];
        assert_eq!(
            continuation_tokens(&logprobs(&tokens, Some(&[0, 2, 3, 4])), "aa", "a"),
            Some(2..3)
        );
        assert_eq!(
            continuation_tokens(&logprobs(&tokens, Some(&[0, 1, 2, 3])), "aa", "a"),
            Some(2..3)
        );
    }

    #[test]
    fn a_token_across_the_boundary() {
        assert_eq!(continuation_tokens(&logprobs(&["The", " sky"], None), "The ", "sky"), None);
        assert_eq!(
            continuation_tokens(&logprobs(&["The", " sky", "scraper"], None), "The", " skysc"),
            None
        );
    }

    #[test]
    fn parts_of_a_character_are_taken_on_trust() {
        let parts = logprobs(&["a", "\u{fffd}", "\u{fffd}"], Some(&[0, 1, 1]));
        assert_eq!(continuation_tokens(&parts, "a", "é"), Some(1..3));
    }

    #[test]
    fn lists_that_do_not_fit() {
        assert_eq!(continuation_tokens(&logprobs(&[], None), "a", "b"), None);
        assert_eq!(continuation_tokens(&logprobs(&["a", "b"], Some(&[0])), "a", "b"), None);
        assert_eq!(continuation_tokens(&logprobs(&["a", "b"], Some(&[0, 9])), "a", "b"), None);
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
            let logprobs = TokenLogprobs { tokens: all.collect(), ..TokenLogprobs::default() };
            let first = prompt.len() + usize::from(special);
            let found = continuation_tokens(&logprobs, &prompt.concat(), &said.concat());
            prop_assert_eq!(found, Some(first..first + said.len()));
        }
    }
}
