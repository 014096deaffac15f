//! From text to token ids and back, as transformers does it with the same folder.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;
use tokenizers::{
    ModelWrapper, PostProcessor, Tokenizer, TruncationDirection, TruncationParams,
    truncate_encodings,
};

use super::chat::ChatTemplate;
use super::config::Config;
use super::error::NO_TOKENIZER;
use super::token_bytes::token_bytes;
use super::{Folder, LoadError};
use crate::request::{Keep, Message, Truncate};

/// A tokenizer with the special tokens that stand around every text. Shared by any number of threads.
#[derive(Debug)]
pub struct Codec {
    tokenizer: Tokenizer,
    leading: Vec<u32>,
    trailing: Vec<u32>,
    /// Tokens that are left out of texts.
    special: HashSet<u32>,
    /// The token of whatever the tokenizer has no tokens for, if it has one.
    unknown: Option<u32>,
    /// Whether spaces before punctuation are taken out of decoded text.
    tidy: bool,
    /// Whether the model is given the types of tokens.
    types: bool,
    /// How messages become a text, or why they do not.
    chat: Result<ChatTemplate, String>,
}

/// A text could not become tokens, or tokens text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The tokenizer gave up.
    #[error("the tokenizer failed: {0}")]
    Failed(String),
    /// Messages that are no text to this model.
    #[error("{0}")]
    Chat(String),
    /// Not even the special tokens fit.
    #[error("`truncate` leaves {tokens} tokens, and the special tokens alone are {special}")]
    NoRoom { tokens: u32, special: usize },
}

/// A text as the model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Special tokens included.
    pub ids: Vec<u32>,
    /// Whether a part of the text is missing.
    pub truncated: bool,
}

/// Two texts as the model reads them together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPair {
    /// Special tokens included.
    pub ids: Vec<u32>,
    /// The type of each token, by the tokenizer's template.
    pub types: Vec<u32>,
    /// Whether a part of either text is missing.
    pub truncated: bool,
}

/// A context and what may follow it, without special tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenizedContinuation {
    /// Tokens of the context.
    pub context: Vec<u32>,
    /// Tokens of the continuation; none if it vanishes in the context's last token.
    pub continuation: Vec<u32>,
}

impl Codec {
    /// Reads `tokenizer.json` and the settings beside it. Padding and truncation that the file asks
    /// for are switched off.
    pub fn read(folder: &Folder) -> Result<Self, LoadError> {
        let file = folder.file("tokenizer.json");
        let Some(held) = folder.tokenizer("tokenizer.json") else {
            return Err(LoadError::Absent { file, remedy: NO_TOKENIZER });
        };
        let refuse = |why: String| LoadError::Tokenizer { file: file.clone(), why };
        let bytes = held.read()?;
        let mut tokenizer =
            Tokenizer::from_bytes(&bytes).map_err(|error| refuse(error.to_string()))?;
        let unknown = unknown(&tokenizer, &bytes).map_err(refuse)?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| refuse(error.to_string()))?;
        let beside = |name| folder.tokenizer(name).cloned().map(Config::of).transpose();
        let settings = beside("tokenizer_config.json")?;
        let around = match &settings {
            Some(settings) => by_settings(&tokenizer, settings, || beside(TOKENS))?,
            None => None,
        };
        let (leading, trailing) = match around {
            Some(around) => around,
            None => by_template(&tokenizer).map_err(refuse)?,
        };
        let tidy = match &settings {
            Some(settings) => settings.flag_or("clean_up_tokenization_spaces", false)?,
            None => false,
        };
        let types = settings.as_ref().map_or(Ok(true), gives_types)?;
        // transformers ignores the setting for these: it would take out spaces that are in the text.
        let tidy = tidy && !matches!(tokenizer.get_model(), ModelWrapper::BPE(_));
        let map = beside(TOKENS).ok().flatten();
        let chat = ChatTemplate::read(folder.chat_template()?, settings.as_ref(), map.as_ref());
        let added = tokenizer.get_added_tokens_decoder();
        let special =
            added.into_iter().filter(|(_, token)| token.special).map(|(id, _)| id).collect();
        Ok(Self { tokenizer, leading, trailing, special, unknown, tidy, types, chat })
    }

    /// The special tokens before every text.
    pub fn leading(&self) -> &[u32] {
        &self.leading
    }

    /// The special tokens after every text.
    pub fn trailing(&self) -> &[u32] {
        &self.trailing
    }

    pub fn id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    /// Whether these tokens say all that their text says: none stands for what the tokenizer does not know.
    pub fn is_whole(&self, ids: &[u32]) -> bool {
        self.unknown.is_none_or(|unknown| !ids.contains(&unknown))
    }

    /// The text of messages, with all the special tokens that belong around it.
    pub fn chat(&self, messages: &[Message]) -> Result<String, TextError> {
        let template = self.chat.as_ref().map_err(Clone::clone);
        template.and_then(|template| template.render(messages)).map_err(TextError::Chat)
    }

    /// Number of tokens, added ones included. A model may have more rows than this.
    pub fn vocabulary(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    /// The tokens of a text, with the special tokens around it or without.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, TextError> {
        let body = body(&self.tokenizer, text).map_err(TextError::Failed)?;
        Ok(if special { self.surround(&body) } else { body })
    }

    /// The tokens of a text with the special tokens around it, cut if they are too many. The text
    /// loses tokens from one end; the special tokens all stay.
    pub fn encode_cut(&self, text: &str, truncate: Option<Truncate>) -> Result<Encoded, TextError> {
        let body = body(&self.tokenizer, text).map_err(TextError::Failed)?;
        let special = self.leading.len() + self.trailing.len();
        let Some(truncate) = truncate.filter(|it| body.len() + special > it.tokens as usize) else {
            return Ok(Encoded { ids: self.surround(&body), truncated: false });
        };
        let room = (truncate.tokens as usize)
            .checked_sub(special)
            .ok_or(TextError::NoRoom { tokens: truncate.tokens, special })?;
        let kept = match truncate.keep {
            Keep::Start => &body[..room],
            Keep::End => &body[body.len() - room..],
        };
        Ok(Encoded { ids: self.surround(kept), truncated: true })
    }

    /// The tokens of two texts that are read together, as the pair template of `tokenizer.json` puts them, cut as
    /// transformers' `longest_first` does if they are too many: the longer text loses tokens until both are as long,
    /// then both.
    pub fn encode_pair(
        &self,
        text: &str,
        pair: &str,
        truncate: Option<Truncate>,
    ) -> Result<EncodedPair, TextError> {
        let encode = |text: &str| self.tokenizer.encode_fast(text, false).map_err(failed);
        let (mut first, mut second) = (encode(text)?, encode(pair)?);
        let special =
            self.tokenizer.get_post_processor().map_or(0, |template| template.added_tokens(true));
        let (had, mut truncated) = (first.len() + second.len(), false);
        if let Some(Truncate { tokens, keep }) = truncate {
            let room = (tokens as usize)
                .checked_sub(special)
                .ok_or(TextError::NoRoom { tokens, special })?;
            let direction = match keep {
                Keep::Start => TruncationDirection::Right,
                Keep::End => TruncationDirection::Left,
            };
            let params = TruncationParams { max_length: room, direction, ..Default::default() };
            let cut = truncate_encodings(first, Some(second), &params);
            let (cut, cut_pair) = cut.map_err(|error| TextError::Failed(error.to_string()))?;
            (first, second) = (cut, cut_pair.unwrap_or_default());
            truncated = first.len() + second.len() < had;
        }
        let whole = self.tokenizer.post_process(first, Some(second), true).map_err(failed)?;
        let types = match self.types {
            true => whole.get_type_ids().to_vec(),
            false => vec![0; whole.len()],
        };
        Ok(EncodedPair { ids: whole.get_ids().to_vec(), types, truncated })
    }

    /// The tokens of a context and of what follows it, separated as lm-evaluation-harness does:
    /// white space at the end of the context belongs to the continuation, and the continuation is
    /// what the whole has after as many tokens as the context alone.
    pub fn encode_continuation(
        &self,
        context: &str,
        continuation: &str,
    ) -> Result<TokenizedContinuation, TextError> {
        let stem = context.trim_end_matches(is_python_space);
        let whole = self.encode(&format!("{context}{continuation}"), false)?;
        let context = self.encode(stem, false)?;
        let continuation = whole.get(context.len()..).unwrap_or_default().to_vec();
        Ok(TokenizedContinuation { context, continuation })
    }

    /// The text of some tokens, with special tokens or without. Ids that the tokenizer does not know
    /// have no text.
    pub fn decode(&self, ids: &[u32], special: bool) -> Result<String, TextError> {
        let text = self.decode_with(ids, special)?;
        Ok(self.tidied(&text).into_owned())
    }

    /// The text of some tokens without special ones, before any space is taken out: what tokens say piece by piece.
    pub fn decode_as_written(&self, ids: &[u32]) -> Result<String, TextError> {
        self.decode_with(ids, false)
    }

    /// A decoded text without the spaces that the folder has taken out.
    pub fn tidied<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.tidy { tidy(text).into() } else { text.into() }
    }

    /// The bytes that each token stands for, by its id: nothing for ids without a token, and what no text has for
    /// special tokens. An error where the tokenizer does not tell, or where texts are not what their tokens spell.
    pub fn token_bytes(&self) -> Result<Vec<Vec<u8>>, String> {
        token_bytes(&self.tokenizer)
    }

    /// Whether texts are changed behind their tokens: spaces are taken out of them.
    pub fn is_tidied(&self) -> bool {
        self.tidy
    }

    /// Whether a token is left out of texts.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.contains(&id)
    }

    fn decode_with(&self, ids: &[u32], special: bool) -> Result<String, TextError> {
        let text = self.tokenizer.decode(ids, !special);
        text.map_err(|error| TextError::Failed(error.to_string()))
    }

    fn surround(&self, body: &[u32]) -> Vec<u32> {
        [&self.leading, body, &self.trailing].concat()
    }
}

/// Where older folders keep the texts of special tokens.
const TOKENS: &str = "special_tokens_map.json";

/// Special tokens before and after a text.
type Around = (Vec<u32>, Vec<u32>);

/// As `add_bos_token` and `add_eos_token` say, which go before the file's own template if either is
/// there.
fn by_settings(
    tokenizer: &Tokenizer,
    settings: &Config,
    map: impl Fn() -> Result<Option<Config>, LoadError>,
) -> Result<Option<Around>, LoadError> {
    if !settings.has("add_bos_token") && !settings.has("add_eos_token") {
        return Ok(None);
    }
    let map = map()?;
    let wanted = |add: &str, key: &str| -> Result<Vec<u32>, LoadError> {
        if !settings.flag_or(add, false)? {
            return Ok(Vec::new());
        }
        let file = [Some(settings), map.as_ref()].into_iter().flatten().find(|file| file.has(key));
        let Some(file) = file else { return Ok(Vec::new()) };
        let token = file.token_text(key)?.unwrap_or_default();
        let id = tokenizer.token_to_id(token);
        id.map(|id| vec![id]).ok_or_else(|| file.refuse(key, "a token of tokenizer.json"))
    };
    let around = (wanted("add_bos_token", "bos_token")?, wanted("add_eos_token", "eos_token")?);
    Ok(Some(around))
}

/// As the file's template does, seen by its effect on a text.
fn by_template(tokenizer: &Tokenizer) -> Result<Around, String> {
    const PROBE: &str = "a";
    let body = body(tokenizer, PROBE)?;
    let whole = tokenizer.encode_fast(PROBE, true).map_err(|error| error.to_string())?;
    let mask = whole.get_special_tokens_mask();
    let special = |mark: &&u32| **mark == 1;
    let first = mask.iter().take_while(special).count();
    let last = mask[first..].iter().rev().take_while(special).count();
    let ids = whole.get_ids();
    if ids.get(first..ids.len() - last) != Some(&body) {
        return Err("`post_processor` does more than put tokens around a text".to_owned());
    }
    Ok((ids[..first].to_vec(), ids[ids.len() - last..].to_vec()))
}

/// The token of whatever a tokenizer does not know, by its own settings: a name, or a place.
fn unknown(tokenizer: &Tokenizer, file: &[u8]) -> Result<Option<u32>, String> {
    #[derive(Deserialize)]
    struct File {
        model: Unknown,
    }
    #[derive(Deserialize)]
    struct Unknown {
        unk_token: Option<String>,
        unk_id: Option<u32>,
    }
    let File { model } = serde_json::from_slice(file).map_err(|error| error.to_string())?;
    let named = model.unk_token.and_then(|token| tokenizer.token_to_id(&token));
    Ok(named.or(model.unk_id))
}

fn body(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, String> {
    let encoding = tokenizer.encode_fast(text, false).map_err(|error| error.to_string())?;
    Ok(encoding.get_ids().to_vec())
}

/// Whether models are given the types of tokens: as the folder lists it, or else as the tokenizer's class in
/// transformers has it. The classes of no family of models give none.
fn gives_types(settings: &Config) -> Result<bool, LoadError> {
    const GENERIC: [&str; 2] = ["TokenizersBackend", "PreTrainedTokenizerFast"];
    let listed = settings.texts("model_input_names")?;
    if listed.is_empty() {
        return Ok(!settings.text("tokenizer_class")?.is_some_and(|it| GENERIC.contains(&it)));
    }
    Ok(listed.contains(&"token_type_ids"))
}

fn failed(error: tokenizers::Error) -> TextError {
    TextError::Failed(error.to_string())
}

/// What Python's `str.rstrip` takes away: besides white space, four separators.
fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// transformers' `clean_up_tokenization`.
fn tidy(text: &str) -> String {
    const PAIRS: [(&str, &str); 10] = [
        (" .", "."),
        (" ?", "?"),
        (" !", "!"),
        (" ,", ","),
        (" ' ", "'"),
        (" n't", "n't"),
        (" 'm", "'m"),
        (" 's", "'s"),
        (" 've", "'ve"),
        (" 're", "'re"),
    ];
    PAIRS.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
