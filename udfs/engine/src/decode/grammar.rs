//! Answers of a form: JSON, JSON of a schema, or what a regular expression describes. The library `llguidance`
//! tells which tokens may follow; what may not gets no probability, whatever the strategy.
//!
//! From the outside in: [`Grammars`] compiles the forms that requests ask for, each once, and [`Grammar`] is one of
//! them at some place of an answer. Nothing is shared between answers but what was compiled, so an answer depends
//! on no other.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{JsonCompileOptions, Matcher, ParserFactory};
use serde_json::{Value, json};

use crate::checkpoint::{Codec, Special};
use crate::request::{NamedSchema, ResponseFormat};

/// Compiled forms that are kept: jobs have one, or a few.
const KEPT: usize = 32;
/// Lexer states of one form, of 1 to 2 KiB each.
const STATES_MAX: usize = 250_000;

/// The forms of a model's answers.
#[derive(Default)]
pub struct Grammars {
    /// Made with the first form, since most models never need one.
    factory: OnceLock<Result<ParserFactory, String>>,
    /// The last ones that were requested, the newest last, by what they are: with the order of the
    /// keys of a schema, in which answers are written.
    compiled: Mutex<VecDeque<(String, Grammar)>>,
}

impl fmt::Debug for Grammars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grammars")
    }
}

impl Grammars {
    /// The form `format` at the beginning of an answer, or why a model with this tokenizer cannot be held to it.
    pub fn compile(
        &self,
        format: &ResponseFormat,
        codec: &Codec,
        special: &Special,
    ) -> Result<Grammar, String> {
        let factory = self.factory.get_or_init(|| factory(codec, special));
        let factory = factory.as_ref().map_err(Clone::clone)?;
        let name = serde_json::to_string(format).map_err(|error| error.to_string())?;
        let lock = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = lock().iter().find(|(known, _)| *known == name) {
            return Ok(known.clone());
        }
        let grammar = Grammar(Matcher::new(factory.create_parser(source(format))));
        if let Some(why) = grammar.error() {
            return Err(why);
        }
        let mut compiled = lock();
        if compiled.len() >= KEPT {
            compiled.pop_front();
        }
        compiled.push_back((name, grammar.clone()));
        Ok(grammar)
    }
}

/// What the library compiles.
fn source(format: &ResponseFormat) -> TopLevelGrammar {
    match format {
        ResponseFormat::JsonObject => {
            TopLevelGrammar::from_json_schema(written(json!({"type": "object"})))
        }
        ResponseFormat::JsonSchema(NamedSchema { schema, .. }) => {
            TopLevelGrammar::from_json_schema(written(schema.clone()))
        }
        ResponseFormat::Regex(regex) => TopLevelGrammar::from_regex(regex),
    }
}

/// The schema with how JSON of it is written: as Python's `json.dumps` does, which is how most JSON on one line
/// looks. Free white space would let a model write nothing else.
fn written(mut schema: Value) -> Value {
    let style = JsonCompileOptions {
        item_separator: ", ".to_owned(),
        key_separator: ": ".to_owned(),
        whitespace_flexible: false,
        ..JsonCompileOptions::default()
    };
    if let Value::Object(keys) = &mut schema {
        keys.insert("x-guidance".to_owned(), json!(style));
    }
    schema
}

fn factory(codec: &Codec, special: &Special) -> Result<ParserFactory, String> {
    if codec.is_tidied() {
        let why =
            "`clean_up_tokenization_spaces` of tokenizer_config.json takes spaces out of answers";
        return Err(why.to_owned());
    }
    let words = codec.token_bytes()?;
    let (Some(&end), Ok(count)) = (special.ends.first(), u32::try_from(words.len())) else {
        return Err("the model's folder names no `eos_token_id`".to_owned());
    };
    let ends: Vec<u32> = special.ends.iter().copied().filter(|id| *id < count).collect();
    if ends.is_empty() {
        return Err(format!("the tokenizer has no token {end}, which ends answers"));
    }
    let trie = TokTrie::from(&TokRxInfo::new(count, ends[0]), &words).with_eos_tokens(&ends);
    let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let capabilities = InferenceCapabilities::default();
    let mut factory = ParserFactory::new(&env, capabilities, &[]).map_err(|it| it.to_string())?;
    factory.quiet();
    let limits = factory.limits_mut();
    limits.verbose_errors = false;
    limits.max_lexer_states = STATES_MAX;
    Ok(factory)
}

/// A form, and how much of an answer of it there is.
pub struct Grammar(Matcher);

impl Clone for Grammar {
    /// Shares nothing with the original: what one answer computes must not count for the limits of another.
    fn clone(&self) -> Self {
        Self(self.0.deep_clone())
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grammar")
    }
}

impl Grammar {
    /// Goes on with `tokens`, none of which ends the answer; whether they fit.
    pub fn push(&mut self, tokens: &[u32]) -> bool {
        self.0.try_consume_tokens(tokens).is_ok_and(|taken| taken == tokens.len())
    }

    /// Which tokens may follow: bit `id % 32` of word `id / 32`; a token behind the words may not. Replaces what
    /// `mask` held. Where nothing may follow, the tokens that end an answer may.
    pub fn mask(&mut self, mask: &mut Vec<u32>) {
        mask.clear();
        // An error is kept, and returned by `error`.
        if let Ok(allowed) = self.0.compute_mask_or_eos() {
            mask.extend_from_slice(allowed.as_slice());
        }
    }

    /// Why the form cannot be followed, if it cannot.
    pub fn error(&self) -> Option<String> {
        self.0.get_error()
    }
}
