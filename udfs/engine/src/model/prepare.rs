//! Tokenizes requests: what each means to a model of this kind.

use std::sync::Arc;

use crate::checkpoint::{Codec, TextError};
use crate::decode::grammar::Grammar;
use crate::decode::stop::StopMatcher;
use crate::decode::trie::Trie;
use crate::request::{
    Classify, Embed, Generate, Hidden, HiddenRows, Keep, Message, Prompt, RequestError,
    ResponseFormat, Score, Strategy, Truncate,
};
use crate::schedule::{Choices, Detokenizer, GenerateWork, ScoreWork, VectorOutput, VectorWork};

/// The kind of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// Reads only.
    Encoder,
    /// Reads and writes from left to right.
    Decoder,
    /// An encoder reads, a decoder writes.
    EncoderDecoder,
}

/// Prepares a generation; `key` names the request for the random numbers of samples.
pub fn generate(
    kind: ModelKind,
    detokenizer: &Detokenizer,
    request: &Generate,
    key: [u8; 32],
) -> Result<GenerateWork, RequestError> {
    let codec = &detokenizer.codec;
    let plain = |text: &str| codec.encode(text, false).map_err(bad_text);
    check_generate(request)?;
    let mut prompt_truncated = false;
    let mut read = |text: &str| {
        let encoded = codec.encode_cut(text, request.truncate).map_err(bad_text)?;
        prompt_truncated |= encoded.truncated;
        Ok(encoded.ids)
    };
    let forced = plain(&request.prefix)?;
    if !codec.is_whole(&forced) {
        return Err(invalid(format!(
            "the tokenizer has no tokens for a part of the prefix {:?}; the answer cannot begin with it",
            request.prefix
        )));
    }
    let (passages, decoder_prompt, prefix) = match (kind, &request.prompt) {
        (ModelKind::Encoder, _) => return Err(invalid("an encoder writes no text")),
        (ModelKind::Decoder, Prompt::Passages(_)) => {
            return Err(invalid(
                "only an encoder-decoder model reads passages apart; give a decoder one prompt",
            ));
        }
        (ModelKind::Decoder, Prompt::Text(text)) => {
            let mut decoder_prompt = without_trailing(codec, read(text)?);
            decoder_prompt.extend(forced);
            (Vec::new(), or_begin(detokenizer, decoder_prompt)?, request.prefix.as_str())
        }
        (ModelKind::Decoder, Prompt::Messages(messages)) => {
            let mut decoder_prompt = chat(codec, messages, request.truncate)?;
            decoder_prompt.extend(forced);
            (Vec::new(), or_begin(detokenizer, decoder_prompt)?, request.prefix.as_str())
        }
        (ModelKind::EncoderDecoder, prompt) => {
            let passages: Vec<Vec<u32>> = match prompt {
                Prompt::Text(text) => vec![read(text)?],
                Prompt::Passages(passages) => {
                    passages.iter().map(|text| read(text)).collect::<Result<_, _>>()?
                }
                Prompt::Messages(messages) => vec![chat(codec, messages, request.truncate)?],
            };
            if passages.is_empty() || passages.iter().any(Vec::is_empty) {
                return Err(invalid("there is nothing to read: a passage has no tokens"));
            }
            // Tokenizers of words have no space at the end of a text: the next word brings its own.
            let read_back = codec.decode(&forced, false).map_err(bad_text)?;
            let prefix = if read_back.ends_with(char::is_whitespace) {
                request.prefix.as_str()
            } else {
                request.prefix.trim_end()
            };
            let mut decoder_prompt = decoder_start(detokenizer)?;
            decoder_prompt.extend(forced);
            (passages, decoder_prompt, prefix)
        }
    };
    let read: usize = passages.iter().map(Vec::len).sum();
    let prompt_tokens = if passages.is_empty() { decoder_prompt.len() } else { read };
    let stop = (!request.stop.is_empty()).then(|| StopMatcher::new(&request.stop));
    Ok(GenerateWork {
        prompt_tokens: prompt_tokens as u32,
        passages,
        decoder_prompt,
        prefix: prefix.to_owned(),
        strategy: request.strategy,
        max_tokens: request.max_tokens,
        min_tokens: request.min_tokens,
        stop: stop.transpose().map_err(|error| invalid(error.to_string()))?,
        choices: choices(detokenizer, &request.choices, request.max_tokens)?.map(Arc::new),
        grammar: form(detokenizer, request.response_format.as_ref(), &request.prefix)?,
        logprobs: request.logprobs,
        row: u64::from_be_bytes([key[0], key[1], key[2], key[3], key[4], key[5], key[6], key[7]]),
        prompt_truncated,
    })
}

/// Prepares continuations to be scored.
pub fn score(
    kind: ModelKind,
    detokenizer: &Detokenizer,
    request: &Score,
) -> Result<ScoreWork, RequestError> {
    let codec = &detokenizer.codec;
    let end = if request.include_eos { Some(end(detokenizer)?) } else { None };
    let (mut passage, mut prompt_truncated, mut prompt_tokens) = (Vec::new(), false, 0);
    let begin = match kind {
        ModelKind::Encoder => return Err(invalid("an encoder cannot tell how likely a text is")),
        ModelKind::Decoder => Vec::new(),
        ModelKind::EncoderDecoder if request.prompt_logprobs => {
            return Err(invalid(
                "an encoder reads the prompt, and cannot tell how likely it is; leave out \
                 `prompt_logprobs`",
            ));
        }
        ModelKind::EncoderDecoder => {
            (passage, prompt_truncated) = match &request.messages[..] {
                [] => {
                    let encoded = codec.encode_cut(&request.prompt, request.truncate);
                    let encoded = encoded.map_err(bad_text)?;
                    (encoded.ids, encoded.truncated)
                }
                messages => (chat(codec, messages, request.truncate)?, false),
            };
            if passage.is_empty() {
                return Err(invalid("there is nothing to read: the prompt has no tokens"));
            }
            prompt_tokens = passage.len();
            decoder_start(detokenizer)?
        }
    };
    let mut continuations = Vec::with_capacity(request.continuations.len());
    for text in &request.continuations {
        let (mut all, continuation) = if kind == ModelKind::Decoder && !request.messages.is_empty()
        {
            let text_before = codec.chat(&request.messages).map_err(bad_text)?;
            let context = chat(codec, &request.messages, request.truncate)?;
            let whole = codec.encode(&format!("{text_before}{text}"), false).map_err(bad_text)?;
            let continuation = whole.get(context.len()..).unwrap_or_default().to_vec();
            prompt_tokens = prompt_tokens.max(context.len());
            (or_begin(detokenizer, context)?, continuation)
        } else if kind == ModelKind::Decoder {
            let parts = codec.encode_continuation(&request.prompt, text).map_err(bad_text)?;
            let (context, cut) = cut(codec, parts.context, request.truncate)?;
            prompt_truncated |= cut;
            prompt_tokens = prompt_tokens.max(context.len());
            (or_begin(detokenizer, context)?, parts.continuation)
        } else {
            (begin.clone(), codec.encode(text, false).map_err(bad_text)?)
        };
        let before = all.len();
        all.extend(continuation);
        all.extend(end);
        continuations.push((all, before));
    }
    Ok(ScoreWork {
        passage,
        continuations,
        logprobs: request.logprobs,
        prompt_logprobs: request.prompt_logprobs,
        prompt_tokens: prompt_tokens as u32,
        prompt_truncated,
    })
}

/// Prepares a text whose vector is wanted; `limit` cuts it if it is longer, as
/// sentence-transformers does.
pub fn vector(
    detokenizer: &Detokenizer,
    request: &Embed,
    limit: Option<usize>,
) -> Result<VectorWork, RequestError> {
    let own = limit.map(|limit| Truncate {
        tokens: u32::try_from(limit).unwrap_or(u32::MAX),
        keep: Keep::Start,
    });
    read(detokenizer, &request.text, request.truncate.or(own), VectorOutput::Pooled)
}

/// Prepares a text whose hidden states are wanted, of a model of so many layers.
pub fn hidden(
    detokenizer: &Detokenizer,
    request: &Hidden,
    layers: usize,
) -> Result<VectorWork, RequestError> {
    let states = i32::try_from(layers).unwrap_or(i32::MAX).saturating_add(1);
    let layer = request.layer;
    let depth = if layer < 0 { layer.saturating_add(states) } else { layer };
    let depth = usize::try_from(depth).ok().filter(|depth| *depth <= layers).ok_or_else(|| {
        invalid(format!(
            "`layer` is {layer}, and the model has 0 (the embedding) to {layers}, or -{states} to -1 \
             from the end"
        ))
    })?;
    let output = match request.rows {
        HiddenRows::Last if depth == layers => VectorOutput::LastState,
        rows => VectorOutput::Hidden { depth, rows },
    };
    read(detokenizer, &request.text, request.truncate, output)
}

/// Prepares a text, or a pair of texts, whose class is wanted. `type_offsets` is what is added to the positions of
/// tokens of each type; a model without a head that tells classes has none.
pub fn classify(
    detokenizer: &Detokenizer,
    request: &Classify,
    type_offsets: Option<&[u32]>,
) -> Result<VectorWork, RequestError> {
    let type_offsets = type_offsets.ok_or_else(|| {
        invalid(
            "the model has no head that tells classes; that is what checkpoints of \
             BertForSequenceClassification, RobertaForSequenceClassification and \
             XLMRobertaForSequenceClassification have",
        )
    })?;
    let Some(pair) = &request.pair else {
        return read(detokenizer, &request.text, request.truncate, VectorOutput::Classes);
    };
    let encoded = detokenizer.codec.encode_pair(&request.text, pair, request.truncate);
    let encoded = encoded.map_err(bad_text)?;
    let offset = |kind: &u32| match type_offsets {
        // Without types all are alike.
        [only] => Ok(*only),
        all => all.get(*kind as usize).copied().ok_or_else(|| {
            let types = all.len();
            invalid(format!("the tokenizer gives token type {kind}, and the model has {types}"))
        }),
    };
    let type_offsets = encoded.types.iter().map(offset).collect::<Result<_, _>>()?;
    Ok(VectorWork {
        tokens: encoded.ids,
        type_offsets,
        output: VectorOutput::Classes,
        prompt_truncated: encoded.truncated,
    })
}

/// Prepares one text that is read for `output`.
fn read(
    detokenizer: &Detokenizer,
    text: &str,
    truncate: Option<Truncate>,
    output: VectorOutput,
) -> Result<VectorWork, RequestError> {
    let encoded = detokenizer.codec.encode_cut(text, truncate).map_err(bad_text)?;
    if encoded.ids.is_empty() {
        return Err(invalid("there is nothing to read: the text has no tokens"));
    }
    Ok(VectorWork {
        tokens: encoded.ids,
        type_offsets: Vec::new(),
        output,
        prompt_truncated: encoded.truncated,
    })
}

/// The tokens of messages. The template puts the special tokens where they belong.
fn chat(
    codec: &Codec,
    messages: &[Message],
    truncate: Option<Truncate>,
) -> Result<Vec<u32>, RequestError> {
    if truncate.is_some() {
        return Err(invalid(
            "`truncate` would cut through turns; shorten the messages, and leave it out",
        ));
    }
    let text = codec.chat(messages).map_err(bad_text)?;
    codec.encode(&text, false).map_err(bad_text)
}

/// Contradictions that no model can follow.
fn check_generate(request: &Generate) -> Result<(), RequestError> {
    if request.max_tokens == 0 {
        return Err(invalid("`max_tokens` is 0; at least 1 is needed"));
    }
    if request.response_format.is_some() {
        check_form(request)?;
    }
    if request.min_tokens > request.max_tokens {
        return Err(invalid("`min_tokens` is above `max_tokens`"));
    }
    if !request.choices.is_empty() && !request.stop.is_empty() {
        return Err(invalid("`choices` says where an answer ends; leave out the stop texts"));
    }
    match request.strategy {
        Strategy::Greedy => Ok(()),
        Strategy::Sample { temperature, top_p, samples, top_k, .. } => {
            if !(temperature.is_finite() && temperature > 0.0) {
                return Err(invalid(format!(
                    "`temperature` is {temperature}; expected a number above 0"
                )));
            }
            if !(top_p > 0.0 && top_p <= 1.0) {
                return Err(invalid(format!(
                    "`top_p` is {top_p}; expected a number above 0, at most 1"
                )));
            }
            if samples == 0 {
                return Err(invalid("`samples` is 0; at least 1 is needed"));
            }
            if !request.choices.is_empty() && (top_k != 0 || top_p < 1.0) {
                return Err(invalid(
                    "`choices` already says what may be chosen; leave out the cuts",
                ));
            }
            Ok(())
        }
        Strategy::Beam { beams, answers, length_penalty, .. } => {
            if beams < 2 || answers == 0 || answers > beams {
                return Err(invalid(format!(
                    "{answers} answers of {beams} beams; at least 2 beams, and as many answers at most"
                )));
            }
            if !length_penalty.is_finite() {
                return Err(invalid("`length_penalty` is not finite"));
            }
            if !request.stop.is_empty() {
                return Err(invalid(
                    "stop texts cut single answers; leave them out of a beam search",
                ));
            }
            Ok(())
        }
    }
}

/// Contradictions between a form and the rest of a request.
fn check_form(request: &Generate) -> Result<(), RequestError> {
    let (option, why) = if !request.choices.is_empty() {
        ("choices", "says already what the answer is")
    } else if !request.stop.is_empty() {
        ("stop", "would cut the answer before it has its form")
    } else if request.min_tokens > 0 {
        ("min_tokens", "would forbid the end where the form allows nothing else")
    } else if matches!(request.strategy, Strategy::Beam { .. }) {
        ("num_beams", "is not followed beside it")
    } else {
        return Ok(());
    };
    Err(invalid(format!("`{option}` {why}: leave it or `response_format` out")))
}

/// The form of an answer that begins with `prefix`.
fn form(
    detokenizer: &Detokenizer,
    format: Option<&ResponseFormat>,
    prefix: &str,
) -> Result<Option<Grammar>, RequestError> {
    let Some(format) = format else { return Ok(None) };
    let refused = |why: String| invalid(format!("`response_format` cannot be followed: {why}"));
    if let Some(problem) = format.problem() {
        return Err(refused(problem));
    }
    let Detokenizer { codec, special, grammars } = detokenizer;
    let mut grammar = grammars.compile(format, codec, special).map_err(refused)?;
    let forced = codec.encode(prefix, false).map_err(bad_text)?;
    if !grammar.push(&forced) {
        return Err(refused(format!("no answer of this form begins with the prefix {prefix:?}")));
    }
    Ok(Some(grammar))
}

/// The trie of a guided choice, each text with its end token; only that may be cut.
fn choices(
    detokenizer: &Detokenizer,
    texts: &[String],
    max_tokens: u32,
) -> Result<Option<Choices>, RequestError> {
    if texts.is_empty() {
        return Ok(None);
    }
    let end = end(detokenizer)?;
    let sequences: Vec<Vec<u32>> = texts
        .iter()
        .map(|text| {
            let mut tokens = detokenizer.codec.encode(text, false).map_err(bad_text)?;
            if tokens.len() > max_tokens as usize {
                return Err(invalid(format!(
                    "{text:?} of `choices` has {} tokens, and `max_tokens` is {max_tokens}; raise it",
                    tokens.len()
                )));
            }
            tokens.push(end);
            Ok(tokens)
        })
        .collect::<Result<_, RequestError>>()?;
    let trie = Trie::new(&sequences).map_err(|error| invalid(error.to_string()))?;
    Ok(Some(Choices { trie, texts: texts.to_vec(), end }))
}

/// Cuts a context and puts the special tokens before it.
fn cut(
    codec: &Codec,
    context: Vec<u32>,
    truncate: Option<Truncate>,
) -> Result<(Vec<u32>, bool), RequestError> {
    let special = codec.leading().len();
    let most = truncate.map_or(usize::MAX, |truncate| truncate.tokens as usize);
    if context.len() + special <= most {
        return Ok(([codec.leading(), &context].concat(), false));
    }
    let workspace = most.checked_sub(special).ok_or_else(|| {
        bad_text(TextError::NoRoom { tokens: u32::try_from(most).unwrap_or(u32::MAX), special })
    })?;
    let kept = match truncate.map(|truncate| truncate.keep) {
        Some(Keep::Start) | None => &context[..workspace],
        Some(Keep::End) => &context[context.len() - workspace..],
    };
    Ok(([codec.leading(), kept].concat(), true))
}

/// A decoder goes on after a prompt: what its tokenizer puts at the end of a text is not there yet.
fn without_trailing(codec: &Codec, mut tokens: Vec<u32>) -> Vec<u32> {
    if tokens.ends_with(codec.trailing()) {
        tokens.truncate(tokens.len() - codec.trailing().len());
    }
    tokens
}

/// `tokens`, or what begins a text if there are none.
fn or_begin(detokenizer: &Detokenizer, tokens: Vec<u32>) -> Result<Vec<u32>, RequestError> {
    if !tokens.is_empty() {
        return Ok(tokens);
    }
    let begin = detokenizer.special.bos.or(detokenizer.special.ends.first().copied());
    begin.map(|token| vec![token]).ok_or_else(|| {
        invalid("the prompt is empty, and the model has no token that begins a text")
    })
}

fn decoder_start(detokenizer: &Detokenizer) -> Result<Vec<u32>, RequestError> {
    let start = detokenizer
        .special
        .start
        .or(detokenizer.special.bos)
        .ok_or_else(|| invalid("the model's folder names no `decoder_start_token_id`"))?;
    Ok(vec![start])
}

fn end(detokenizer: &Detokenizer) -> Result<u32, RequestError> {
    let end = detokenizer.special.ends.first().copied();
    end.ok_or_else(|| invalid("the model's folder names no `eos_token_id`"))
}

fn invalid(message: impl Into<String>) -> RequestError {
    RequestError::Invalid(message.into())
}

fn bad_text(error: TextError) -> RequestError {
    match error {
        TextError::Failed(_) => RequestError::Failed(error.to_string()),
        TextError::NoRoom { .. } | TextError::Chat(_) => RequestError::Invalid(error.to_string()),
    }
}
