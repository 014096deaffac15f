//! The options of a call beside its texts: how its requests are to be answered, and what happens to
//! its rows.

use proofmill_engine::options::generate;
use proofmill_engine::request::{Generate, Prompt, ResponseFormat};
use proofmill_settings::options::{
    EmbedOptions, GenerateOptions, HiddenOptions, OptionError, ScoreOptions,
};

use super::error::OptionsError;
use super::settings::{OnError, Replay, Settings, keys_of};
use super::shape::Shape;
use super::suggest;

/// The options of a call. A function has only one of the last four; the others keep their defaults and
/// are not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// What a failed row does.
    pub on_error: OnError,
    /// Where answers may come from.
    pub replay: Replay,
    pub generate: GenerateOptions,
    /// The form of a generation.
    pub response_format: Option<ResponseFormat>,
    pub score: ScoreOptions,
    pub embed: EmbedOptions,
    pub hidden: HiddenOptions,
}

impl Options {
    /// The generation that these options make of a prompt.
    pub(super) fn generation(&self, prompt: Prompt) -> Generate {
        let response_format = self.response_format.clone();
        Generate { response_format, ..generate(&self.generate, prompt) }
    }

    /// What the keys that they have make of the result.
    pub(super) fn shape(&self) -> Shape {
        Shape {
            list: self.generate.is_counted(),
            logprobs: self.generate.logprobs.is_some() || self.score.logprobs.is_some(),
            prompt_logprobs: self.score.prompt_logprobs.is_some(),
            all_tokens: self.hidden.all_tokens.is_some(),
        }
    }
}

/// Keys that every function has beside its own.
const COMMON: [&str; 2] = ["on_error", "replay"];
/// The key of a generation's form, which is no plain value.
const RESPONSE_FORMAT: &str = "response_format";
/// The key that only means something where choices are compared.
const NORMALIZE: &str = "normalize";
/// Those that only mean something where there is one continuation.
const PER_TOKEN: [&str; 2] = ["logprobs", "prompt_logprobs"];

/// Which options a function has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Those of generations.
    Generate,
    /// Those of one continuation.
    Score,
    /// Those of several.
    ScoreChoices,
    /// Those of vectors, and of what else is made of a text that is only read.
    Embed,
    /// Those of hidden states.
    Hidden,
}

impl Takes {
    /// The names of all options.
    pub(super) fn keys(self) -> Vec<&'static str> {
        let own = match self {
            Self::Generate => keys_of::<GenerateOptions>(),
            Self::Score | Self::ScoreChoices => keys_of::<ScoreOptions>(),
            Self::Embed => keys_of::<EmbedOptions>(),
            Self::Hidden => keys_of::<HiddenOptions>(),
        };
        let means = |key: &&str| match self {
            Self::Score => *key != NORMALIZE,
            Self::ScoreChoices => !PER_TOKEN.contains(key),
            Self::Generate | Self::Embed | Self::Hidden => true,
        };
        let own = own.iter().copied().filter(means);
        let format = (self == Self::Generate).then_some(RESPONSE_FORMAT);
        own.chain(format).chain(COMMON).collect()
    }

    /// The options of a call, checked.
    pub(super) fn read(self, mut settings: Settings) -> Result<Options, OptionsError> {
        if let Some(key) = settings.keys().find(|key| !self.keys().contains(key)) {
            return Err(self.unknown(key));
        }
        let mut options = Options {
            on_error: settings.take("on_error")?.unwrap_or_default(),
            replay: settings.take("replay")?.unwrap_or_default(),
            ..Options::default()
        };
        match self {
            Self::Generate => {
                options.response_format = settings.take(RESPONSE_FORMAT)?;
                if let Some(problem) =
                    options.response_format.as_ref().and_then(ResponseFormat::problem)
                {
                    return Err(OptionError {
                        field: RESPONSE_FORMAT,
                        problem: format!("cannot be followed: {problem}"),
                        help: None,
                    }
                    .into());
                }
                options.generate = settings.read()?;
                options.generate.check()?;
            }
            Self::Score | Self::ScoreChoices => {
                options.score = settings.read()?;
                options.score.check()?;
            }
            Self::Embed => {
                options.embed = settings.read()?;
                options.embed.check()?;
            }
            Self::Hidden => {
                options.hidden = settings.read()?;
                options.hidden.check()?;
            }
        }
        Ok(options)
    }

    /// The error that there is no such option.
    pub(super) fn unknown(self, key: &str) -> OptionsError {
        let hint = suggest::instead_of(key, self.keys().into_iter());
        OptionsError::Unknown { key: key.to_owned(), hint }
    }
}

#[cfg(test)]
mod tests {
    use proofmill_engine::options::strategy;
    use proofmill_engine::request::Strategy;

    use super::*;

    fn parse(text: &str) -> Result<Options, OptionsError> {
        Takes::Generate.read(Settings::from_json(text)?)
    }

    #[test]
    fn what_is_absent_or_null_has_its_default() {
        let options = parse("{}").unwrap();
        assert_eq!(options, Options::default());
        assert_eq!(parse(r#"{"max_tokens": null, "on_error": null}"#).unwrap(), options);
        let other = parse(r#"{"on_error": "capture", "replay": "only", "num_beams": 3}"#).unwrap();
        assert_eq!((other.on_error, other.replay), (OnError::Capture, Replay::Only));
        assert!(matches!(strategy(&other.generate), Strategy::Beam { beams: 3, .. }));
    }

    #[test]
    fn errors_are_named_with_what_to_do() {
        for (text, expected) in [
            (
                "[1]",
                "argument `options` is no JSON object: invalid type: sequence, expected an object like {\"max_tokens\": 64} at line 1 column 0",
            ),
            (
                "{} x",
                "argument `options` is no JSON object: trailing characters at line 1 column 4",
            ),
            (r#"{"seed": 1, "seed": 1}"#, "option `seed` stands twice; keep one"),
            (r#"{"max_token": 1}"#, "option `max_token` is unknown; did you mean `max_tokens`?"),
            (
                r#"{"include_eos": true}"#,
                "option `include_eos` is unknown; expected one of `max_tokens`, `min_tokens`, `temperature`, `top_k`, `top_p`, `seed`, `samples`, `num_beams`, `num_return_sequences`, `length_penalty`, `early_stopping`, `stop`, `prefix`, `choices`, `logprobs`, `truncate`, `truncation_side`, `response_format`, `on_error`, `replay`",
            ),
            (
                r#"{"max_tokens": 0}"#,
                "option `max_tokens` is 0; expected a whole number from 1 to 4294967295",
            ),
            (
                r#"{"max_tokens": 1.0}"#,
                "option `max_tokens` is 1.0; expected a whole number from 0 to 4294967295",
            ),
            (
                r#"{"max_tokens": "9"}"#,
                "option `max_tokens` is \"9\"; expected a whole number from 0 to 4294967295",
            ),
            (
                r#"{"seed": -1}"#,
                "option `seed` is -1; expected a whole number from 0 to 18446744073709551615",
            ),
            (r#"{"temperature": "1"}"#, "option `temperature` is \"1\"; expected a number"),
            (
                r#"{"samples": 2}"#,
                "option `samples` is 2 without a `temperature` above 0; all of them would be the same",
            ),
            (
                r#"{"early_stopping": 1, "num_beams": 2}"#,
                "option `early_stopping` is 1; expected true or false",
            ),
            (
                r#"{"stop": "x"}"#,
                "option `stop` is \"x\"; expected a list of texts that are not empty",
            ),
            (
                r#"{"stop": ["x", 1]}"#,
                "option `stop` is [\"x\",1]; expected a list of texts that are not empty",
            ),
            (r#"{"prefix": 1}"#, "option `prefix` is 1; expected a text"),
            (
                r#"{"truncate": 9, "truncation_side": "middle"}"#,
                "option `truncation_side` is \"middle\"; expected \"left\" or \"right\"",
            ),
            (
                r#"{"on_error": "ignore"}"#,
                "option `on_error` is \"ignore\"; expected \"fail\" or \"capture\"",
            ),
            (
                r#"{"response_format": "json"}"#,
                "option `response_format` is \"json\"; expected an object such as {\"type\": \"json_object\"}",
            ),
            (
                r#"{"response_format": {"type": "json"}}"#,
                "option `response_format` is {\"type\":\"json\"}; expected another form: unknown variant `json`, expected one of `json_object`, `json_schema`, `regex`",
            ),
            (
                r#"{"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}}"#,
                "option `response_format` cannot be followed: its name needs 1 to 64 letters, digits, `_` or `-`",
            ),
            (r#"{"replay": 1}"#, "option `replay` is 1; expected \"first\" or \"only\""),
        ] {
            assert_eq!(parse(text).unwrap_err().in_one_line(), expected, "{text}");
        }
    }

    #[test]
    fn one_continuation_is_compared_with_nothing() {
        let normalize = || Settings::from_json(r#"{"normalize": "bytes"}"#).unwrap();
        assert!(Takes::ScoreChoices.read(normalize()).is_ok());
        assert_eq!(
            Takes::Score.read(normalize()).unwrap_err().in_one_line(),
            "option `normalize` is unknown; expected one of `include_eos`, `logprobs`, `prompt_logprobs`, \
             `truncate`, `truncation_side`, `on_error`, `replay`"
        );
    }
}
