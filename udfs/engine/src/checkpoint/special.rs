//! Tokens that begin and end what a model writes.

use super::{Config, Family, Folder, LoadError};

/// Ids of special tokens, as generation needs them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Special {
    /// What a decoder that has an encoder begins with.
    pub start: Option<u32>,
    pub bos: Option<u32>,
    /// Any of these ends an answer.
    pub ends: Vec<u32>,
    /// The first new token, whatever the model says (some BART).
    pub forced_bos: Option<u32>,
    /// The last token of an answer that reaches its greatest length, whatever the model says (BART).
    pub forced_eos: Option<u32>,
    /// Fills what is empty.
    pub pad: Option<u32>,
}

impl Special {
    /// Reads `generation_config.json`; what it leaves open, `config.json`; what that does not even
    /// mention has the default of transformers' configuration class, which is not written to files.
    pub fn read(folder: &Folder) -> Result<Self, LoadError> {
        let config = folder.config();
        // What an encoder-decoder of two parts leaves open, its decoder says.
        let decoder = match folder.family() {
            Family::EncoderDecoder => config.section("decoder")?,
            _ => None,
        };
        let files: Vec<&Config> =
            folder.generation().into_iter().chain([config]).chain(&decoder).collect();
        let all = |key: &str, default: Option<u32>| -> Result<Vec<u32>, LoadError> {
            match files.iter().find(|file| file.has(key)) {
                Some(file) => file.tokens(key),
                None if config.mentions(key) => Ok(Vec::new()),
                None => Ok(default.into_iter().collect()),
            }
        };
        let one = |key: &str, default: Option<u32>| -> Result<Option<u32>, LoadError> {
            if let Some(file) = files.iter().find(|file| file.has(key)) {
                return file.token(key);
            }
            Ok(all(key, default)?.first().copied())
        };
        let defaults = Defaults::of(folder.family());
        // BART's class forces the end, but only where no file of generation settings has the say.
        let forced_eos = defaults.forced_eos.filter(|_| folder.generation().is_none());
        Ok(Self {
            start: one("decoder_start_token_id", defaults.start)?,
            bos: one("bos_token_id", defaults.bos)?,
            ends: all("eos_token_id", defaults.eos)?,
            forced_bos: one("forced_bos_token_id", None)?,
            forced_eos: one("forced_eos_token_id", forced_eos)?,
            pad: one("pad_token_id", defaults.pad)?,
        })
    }
}

/// What holds where no file says anything.
#[derive(Default)]
struct Defaults {
    start: Option<u32>,
    bos: Option<u32>,
    eos: Option<u32>,
    forced_eos: Option<u32>,
    pad: Option<u32>,
}

impl Defaults {
    fn of(family: Family) -> Self {
        match family {
            Family::T5 => Self { start: Some(0), eos: Some(1), pad: Some(0), ..Self::default() },
            Family::Bart => Self {
                start: Some(2),
                bos: Some(0),
                eos: Some(2),
                forced_eos: Some(2),
                pad: Some(1),
            },
            Family::Bert | Family::Dpr | Family::EncoderDecoder => {
                Self { pad: Some(0), ..Self::default() }
            }
            Family::Roberta | Family::XlmRoberta => {
                Self { bos: Some(0), eos: Some(2), pad: Some(1), ..Self::default() }
            }
            Family::Opt => Self { bos: Some(2), eos: Some(2), pad: Some(1), ..Self::default() },
            Family::Gpt2 => Self { bos: Some(50256), eos: Some(50256), ..Self::default() },
            Family::Llama | Family::Mistral => {
                Self { bos: Some(1), eos: Some(2), ..Self::default() }
            }
            Family::Qwen2 | Family::Qwen3 => Self::default(),
        }
    }
}
