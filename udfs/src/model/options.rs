//! The options of a call: parsed once into what a request is made of.

use proofmill_engine::request::{Generate, Keep, Prompt, Strategy, Truncate};

use super::settings::{OptionsError, Settings};

/// What a failed row does to the query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    #[default]
    Fail,
    /// The row keeps the error.
    Capture,
}

/// Where answers may come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replay {
    /// The ledger if it has one, else the model.
    #[default]
    First,
    /// The ledger alone: a row without a recorded answer fails.
    Only,
}

/// What choices of different length are compared by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalize {
    #[default]
    None,
    /// The log-probability per token.
    Tokens,
    /// The log-probability per byte of the choice.
    Bytes,
}

/// Most new tokens of a generation that says nothing about it.
const MAX_TOKENS: u32 = 128;

/// The options of a call, defaults filled in. A function has only some of them; the others keep
/// their defaults and are not read.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What happens to a text that is too long.
    pub truncate: Option<Truncate>,
    /// What a failed row does.
    pub on_error: OnError,
    /// Where answers may come from.
    pub replay: Replay,
    /// Most new tokens.
    pub max_tokens: u32,
    /// No end before so many.
    pub min_tokens: u32,
    /// How tokens are chosen.
    pub strategy: Strategy,
    pub stop: Vec<String>,
    /// Text that the answer begins with.
    pub prefix: String,
    /// Texts of which the answer is one.
    pub among: Vec<String>,
    /// Whether the end of the text is scored too.
    pub with_end: bool,
    /// What choices are compared by.
    pub normalize: Normalize,
    /// Whether the number of answers was written down, which makes the result a list.
    pub counted: bool,
}

/// Keys that every function has.
const COMMON: [&str; 4] = ["on_error", "replay", "truncate", "truncate_keep"];

/// Keys that say how many answers there are: whoever writes one gets a list.
pub(super) const COUNTING: [&str; 2] = ["samples", "answers"];

/// All keys of a function that has `own` beside those that every function has.
pub(super) fn keys(own: &'static [&'static str]) -> Vec<&'static str> {
    own.iter().copied().chain(COMMON).collect()
}

/// Keys of generations.
pub(super) const GENERATE: &[&str] = &[
    "max_tokens",
    "min_tokens",
    "temperature",
    "top_k",
    "top_p",
    "seed",
    "samples",
    "beams",
    "answers",
    "length_penalty",
    "early_stopping",
    "stop",
    "prefix",
    "among",
];
/// Keys of a score.
pub(super) const SCORE: &[&str] = &["with_end"];
/// Keys of scores of choices.
pub(super) const SCORE_CHOICES: &[&str] = &["with_end", "normalize"];
/// Keys of vectors.
pub(super) const VECTOR: &[&str] = &[];

impl Options {
    /// Parses the options of a function that has the keys `own` beside those that all have.
    pub(super) fn parse(
        settings: Settings,
        own: &'static [&'static str],
    ) -> Result<Self, OptionsError> {
        let mut settings = settings.only(&keys(own))?;
        let counted = COUNTING.iter().any(|key| settings.has(key));
        let max_tokens = settings.whole("max_tokens", 1)?.unwrap_or(MAX_TOKENS);
        let min_tokens = settings.whole("min_tokens", 0)?.unwrap_or(0);
        if min_tokens > max_tokens {
            return conflict(format!(
                "option `min_tokens` is {min_tokens} and `max_tokens` {max_tokens}; expected at \
                 most as many"
            ));
        }
        Ok(Self {
            truncate: truncate(&mut settings)?,
            on_error: settings
                .name("on_error", &[("fail", OnError::Fail), ("capture", OnError::Capture)])?
                .unwrap_or_default(),
            replay: settings
                .name("replay", &[("first", Replay::First), ("only", Replay::Only)])?
                .unwrap_or_default(),
            max_tokens,
            min_tokens,
            strategy: strategy(&mut settings)?,
            stop: settings.texts("stop")?.unwrap_or_default(),
            prefix: settings.text("prefix")?.unwrap_or_default(),
            among: settings.texts("among")?.unwrap_or_default(),
            with_end: settings.switch("with_end")?.unwrap_or(false),
            normalize: settings
                .name(
                    "normalize",
                    &[
                        ("none", Normalize::None),
                        ("tokens", Normalize::Tokens),
                        ("bytes", Normalize::Bytes),
                    ],
                )?
                .unwrap_or_default(),
            counted,
        })
    }

    /// The generation that these options make of a prompt.
    pub(super) fn generate(&self, prompt: Prompt) -> Generate {
        Generate {
            prompt,
            truncate: self.truncate,
            prefix: self.prefix.clone(),
            strategy: self.strategy,
            max_tokens: self.max_tokens,
            min_tokens: self.min_tokens,
            stop: self.stop.clone(),
            among: self.among.clone(),
        }
    }
}

/// Most answers that a generation gives.
pub(super) fn answers(strategy: Strategy) -> u32 {
    match strategy {
        Strategy::Greedy => 1,
        Strategy::Sample { samples, .. } => samples,
        Strategy::Beam { answers, .. } => answers,
    }
}

fn truncate(settings: &mut Settings) -> Result<Option<Truncate>, OptionsError> {
    let tokens = settings.whole("truncate", 1)?;
    let keep = settings.name("truncate_keep", &[("start", Keep::Start), ("end", Keep::End)])?;
    match (tokens, keep) {
        (None, Some(_)) => conflict(needs("truncate_keep", "`truncate`")),
        (None, None) => Ok(None),
        (Some(tokens), keep) => Ok(Some(Truncate { tokens, keep: keep.unwrap_or(Keep::Start) })),
    }
}

fn strategy(settings: &mut Settings) -> Result<Strategy, OptionsError> {
    const NOT_NEGATIVE: &str = "a number of 0 or more";
    let temperature = settings.number("temperature", NOT_NEGATIVE, |t| t >= 0.0)?.unwrap_or(0.0);
    let beams = settings.whole("beams", 1)?.unwrap_or(1);
    if temperature > 0.0 && beams > 1 {
        return conflict(format!(
            "option `beams` is {beams} and `temperature` {temperature}; a beam search does not \
             sample: leave one out"
        ));
    }
    if temperature == 0.0 {
        for key in ["top_k", "top_p"] {
            if settings.has(key) {
                return conflict(needs(key, "a `temperature` above 0"));
            }
        }
    }
    if beams == 1 {
        for key in ["length_penalty", "early_stopping"] {
            if settings.has(key) {
                return conflict(needs(key, "`beams` of 2 or more"));
            }
        }
    }
    let top_k = settings.whole("top_k", 0)?.unwrap_or(0);
    let top_p = settings
        .number("top_p", "a number above 0 and at most 1", |p| p > 0.0 && p <= 1.0)?
        .unwrap_or(1.0);
    // A seed is allowed everywhere: a file may set one for all its calls.
    let seed = settings.seed("seed")?.unwrap_or(0);
    let samples = settings.whole("samples", 1)?.unwrap_or(1);
    let answers = settings.whole("answers", 1)?.unwrap_or(1);
    let length_penalty = settings.number("length_penalty", "a number", |_| true)?.unwrap_or(1.0);
    let early_stopping = settings.switch("early_stopping")?.unwrap_or(false);
    if temperature == 0.0 && samples > 1 {
        return conflict(format!(
            "option `samples` is {samples} without a `temperature` above 0; all of them would be \
             the same"
        ));
    }
    if answers > beams {
        return conflict(format!(
            "option `answers` is {answers} and `beams` {beams}; expected at most as many"
        ));
    }
    Ok(if temperature > 0.0 {
        Strategy::Sample { temperature, top_k, top_p, seed, samples }
    } else if beams > 1 {
        Strategy::Beam { beams, answers, length_penalty, early_stopping }
    } else {
        Strategy::Greedy
    })
}

fn needs(key: &str, what: &str) -> String {
    format!("option `{key}` without {what}; add it, or leave `{key}` out")
}

fn conflict<T>(message: String) -> Result<T, OptionsError> {
    Err(OptionsError::Conflict(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, OptionsError> {
        Options::parse(Settings::from_json(text)?, GENERATE)
    }

    #[test]
    fn defaults_are_those_of_the_specification() {
        let options = parse("{}").unwrap();
        assert_eq!((options.max_tokens, options.min_tokens), (128, 0));
        assert_eq!(options.strategy, Strategy::Greedy);
        assert_eq!((options.on_error, options.replay), (OnError::Fail, Replay::First));
        assert!(options.truncate.is_none() && !options.counted && !options.with_end);
        assert_eq!(parse(r#"{"max_tokens": null}"#).unwrap(), options);
        assert_eq!(parse(r#"{"seed": 7, "beams": 1, "temperature": 0}"#).unwrap(), options);
    }

    #[test]
    fn a_strategy_follows_from_temperature_and_beams() {
        let sample = parse(r#"{"temperature": 0.7, "samples": 1, "seed": 3}"#).unwrap();
        let expected =
            Strategy::Sample { temperature: 0.7, top_k: 0, top_p: 1.0, seed: 3, samples: 1 };
        assert_eq!((sample.strategy, sample.counted), (expected, true));
        let beam = parse(r#"{"beams": 4, "answers": 2}"#).unwrap();
        let expected =
            Strategy::Beam { beams: 4, answers: 2, length_penalty: 1.0, early_stopping: false };
        assert_eq!((beam.strategy, beam.counted), (expected, true));
        let cut = parse(r#"{"truncate": 9, "truncate_keep": "end"}"#).unwrap();
        assert_eq!(cut.truncate, Some(Truncate { tokens: 9, keep: Keep::End }));
    }

    #[test]
    fn mistakes_are_named_with_what_to_do() {
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
                r#"{"with_end": true}"#,
                "option `with_end` is unknown; expected one of `max_tokens`, `min_tokens`, `temperature`, `top_k`, `top_p`, `seed`, `samples`, `beams`, `answers`, `length_penalty`, `early_stopping`, `stop`, `prefix`, `among`, `on_error`, `replay`, `truncate`, `truncate_keep`",
            ),
            (
                r#"{"max_tokens": 0}"#,
                "option `max_tokens` is 0; expected a whole number from 1 to 4294967295",
            ),
            (
                r#"{"max_tokens": 1.0}"#,
                "option `max_tokens` is 1.0; expected a whole number from 1 to 4294967295",
            ),
            (
                r#"{"max_tokens": "9"}"#,
                "option `max_tokens` is \"9\"; expected a whole number from 1 to 4294967295",
            ),
            (
                r#"{"seed": -1}"#,
                "option `seed` is -1; expected a whole number from 0 to 18446744073709551615",
            ),
            (
                r#"{"min_tokens": 9, "max_tokens": 8}"#,
                "option `min_tokens` is 9 and `max_tokens` 8; expected at most as many",
            ),
            (
                r#"{"temperature": -1}"#,
                "option `temperature` is -1; expected a number of 0 or more",
            ),
            (
                r#"{"temperature": 1, "top_p": 0}"#,
                "option `top_p` is 0; expected a number above 0 and at most 1",
            ),
            (
                r#"{"top_p": 0.9}"#,
                "option `top_p` without a `temperature` above 0; add it, or leave `top_p` out",
            ),
            (
                r#"{"temperature": 0, "top_k": 5}"#,
                "option `top_k` without a `temperature` above 0; add it, or leave `top_k` out",
            ),
            (
                r#"{"samples": 2}"#,
                "option `samples` is 2 without a `temperature` above 0; all of them would be the same",
            ),
            (
                r#"{"beams": 2, "temperature": 0.5}"#,
                "option `beams` is 2 and `temperature` 0.5; a beam search does not sample: leave one out",
            ),
            (r#"{"answers": 2}"#, "option `answers` is 2 and `beams` 1; expected at most as many"),
            (
                r#"{"length_penalty": 2}"#,
                "option `length_penalty` without `beams` of 2 or more; add it, or leave `length_penalty` out",
            ),
            (
                r#"{"early_stopping": 1, "beams": 2}"#,
                "option `early_stopping` is 1; expected true or false",
            ),
            (
                r#"{"stop": "x"}"#,
                "option `stop` is \"x\"; expected a list of texts that are not empty",
            ),
            (
                r#"{"among": [""]}"#,
                "option `among` is [\"\"]; expected a list of texts that are not empty",
            ),
            (r#"{"prefix": 1}"#, "option `prefix` is 1; expected a text"),
            (
                r#"{"truncate_keep": "end"}"#,
                "option `truncate_keep` without `truncate`; add it, or leave `truncate_keep` out",
            ),
            (
                r#"{"on_error": "ignore"}"#,
                "option `on_error` is \"ignore\"; expected \"fail\" or \"capture\"",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        }
        // Neither may become 0 or infinite in 32 bits.
        assert!(parse(r#"{"temperature": 1e-60}"#).is_err());
        assert!(parse(r#"{"temperature": 1e60}"#).is_err());
    }
}
