//! How a request is to be answered, as people write it: in a pipeline file, and in SQL as a JSON object or a
//! struct. One type for each kind of request. What is absent has its default.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most new tokens of a generation that says nothing about it.
pub const MAX_TOKENS: u32 = 128;

/// Why options cannot be followed, without the name of the function or the setting that has them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("option `{field}` {problem}")]
pub struct OptionError {
    /// The option to blame.
    pub field: &'static str,
    /// What is wrong with it, as the rest of a sentence that begins with the option.
    pub problem: String,
    /// What would be right.
    pub help: Option<String>,
}

impl OptionError {
    fn new(field: &'static str, problem: String, help: impl Into<String>) -> Self {
        Self { field, problem, help: Some(help.into()) }
    }

    /// An option that has no effect without another.
    fn needs(field: &'static str, what: &str) -> Self {
        Self::new(field, format!("without {what}"), format!("add it, or leave `{field}` out"))
    }

    fn value(field: &'static str, value: impl std::fmt::Display, expected: &str) -> Self {
        Self::new(field, format!("is {value}"), format!("expected {expected}"))
    }
}

/// How a model generates text; `docs/specs/functions-model.md` has the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GenerateOptions {
    /// Maximum number of new tokens; 128 when absent.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Minimum number of new tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_tokens: Option<u32>,
    /// Divides the logits; 0 takes the most likely token.
    #[schemars(range(min = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Samples only from this many most likely tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// Samples only from the most likely tokens whose probabilities reach this sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Seed of the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Number of answers for each row, each in its own row.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u32>,
    /// Beam search with this many beams.
    #[schemars(range(min = 2))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_beams: Option<u32>,
    /// Number of best sequences of a beam search to return, each in its own row.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_return_sequences: Option<u32>,
    /// Exponent of the length in the score of a beam search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_penalty: Option<f64>,
    /// Ends a beam search as soon as all hypotheses are complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_stopping: Option<bool>,
    /// The answer ends before the first of these texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Vec<String>>,
    /// Text that the answer is forced to begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The answer is one of these texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<Vec<String>>,
    /// Whether the answer includes the log-probability of each new token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    /// Maximum number of tokens of a prompt; a longer one is truncated instead of rejected.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate: Option<u32>,
    /// The side on which a long prompt is truncated; `right` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation_side: Option<TruncationSide>,
}

/// The side on which a text that is too long loses tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TruncationSide {
    /// The beginning is lost.
    Left,
    /// The end is lost.
    #[default]
    Right,
}

/// How texts are scored; `docs/specs/functions-model.md` has the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoreOptions {
    /// Whether the end of the text is part of each continuation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_eos: Option<bool>,
    /// Whether the answer includes the log-probability of each token of the continuation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    /// Whether it includes that of each token of the prompt; not available where an encoder reads the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_logprobs: Option<bool>,
    /// Divisor of the choices' log-probabilities before they are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalize: Option<Normalize>,
    /// Maximum number of tokens of a prompt; a longer one is truncated instead of rejected.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate: Option<u32>,
    /// The side on which a long prompt is truncated; `right` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation_side: Option<TruncationSide>,
}

/// Divisor of log-probabilities before they are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Normalize {
    /// Nothing.
    #[default]
    None,
    /// The number of tokens.
    Tokens,
    /// The number of bytes.
    Bytes,
}

/// How texts are read; `docs/specs/functions-model.md` has the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EmbedOptions {
    /// Maximum number of tokens of a text; a longer one is truncated instead of rejected.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate: Option<u32>,
    /// The side on which a long text is truncated; `right` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation_side: Option<TruncationSide>,
}

/// Which hidden states are given; `docs/specs/functions-model.md` has the rules.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HiddenOptions {
    /// The layer: 0 is the embedding, -1 the last; the last when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<i32>,
    /// Which tokens make the vector; the last when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<TokenPool>,
    /// A vector for each token instead of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_tokens: Option<bool>,
    /// Maximum number of tokens of a text; a longer one is truncated instead of rejected.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate: Option<u32>,
    /// The side on which a long text is truncated; `right` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncation_side: Option<TruncationSide>,
}

/// Which tokens make a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenPool {
    First,
    Last,
    /// The mean of all, special ones included.
    Mean,
}

impl GenerateOptions {
    /// Whether the options say how many answers there are, which makes the result a list.
    pub fn is_counted(&self) -> bool {
        self.samples.is_some() || self.num_return_sequences.is_some()
    }

    /// Whether all options have values that they may have, and go together.
    pub fn check(&self) -> Result<(), OptionError> {
        for (field, value) in [
            ("max_tokens", self.max_tokens),
            ("samples", self.samples),
            ("num_beams", self.num_beams),
            ("num_return_sequences", self.num_return_sequences),
        ] {
            at_least_one(field, value)?;
        }
        self.check_truncation()?;
        let (max, min) = (self.max_tokens.unwrap_or(MAX_TOKENS), self.min_tokens.unwrap_or(0));
        if min > max {
            let problem = format!("is {min} and `max_tokens` {max}");
            return Err(OptionError::new("min_tokens", problem, "expected at most as many"));
        }
        let number = |field, value: Option<f64>, expected, fits: fn(f32) -> bool| match value {
            Some(value) if !narrowed(value).is_some_and(fits) => {
                Err(OptionError::value(field, value, expected))
            }
            _ => Ok(()),
        };
        number("temperature", self.temperature, "a number of 0 or more", |t| t >= 0.0)?;
        number("length_penalty", self.length_penalty, "a number", |_| true)?;
        let share = "a number above 0 and at most 1";
        number("top_p", self.top_p, share, |p| p > 0.0 && p <= 1.0)?;
        for (field, texts) in [("stop", &self.stop), ("choices", &self.choices)] {
            if let Some(texts) = texts.as_ref().filter(|texts| texts.iter().any(String::is_empty)) {
                return Err(OptionError::value(field, format_args!("{texts:?}"), TEXTS));
            }
        }
        self.check_strategy()
    }

    fn check_truncation(&self) -> Result<(), OptionError> {
        check_truncation(self.truncate, self.truncation_side)
    }

    fn check_strategy(&self) -> Result<(), OptionError> {
        let (temperature, beams) = (self.temperature.unwrap_or(0.0), self.num_beams.unwrap_or(1));
        let (samples, answers) =
            (self.samples.unwrap_or(1), self.num_return_sequences.unwrap_or(1));
        if temperature > 0.0 && beams > 1 {
            let problem = format!("is {beams} and `temperature` {temperature}");
            let help = "a beam search does not sample: leave one out";
            return Err(OptionError::new("num_beams", problem, help));
        }
        if temperature == 0.0 {
            for (field, given) in [("top_k", self.top_k.is_some()), ("top_p", self.top_p.is_some())]
            {
                if given {
                    return Err(OptionError::needs(field, "a `temperature` above 0"));
                }
            }
            if samples > 1 {
                let problem = format!("is {samples} without a `temperature` above 0");
                return Err(OptionError::new("samples", problem, "all of them would be the same"));
            }
        }
        if beams == 1 {
            for (field, given) in [
                ("length_penalty", self.length_penalty.is_some()),
                ("early_stopping", self.early_stopping.is_some()),
            ] {
                if given {
                    return Err(OptionError::needs(field, "`num_beams` of 2 or more"));
                }
            }
        }
        if answers > beams {
            let problem = format!("is {answers} and `num_beams` {beams}");
            return Err(OptionError::new(
                "num_return_sequences",
                problem,
                "expected at most as many",
            ));
        }
        Ok(())
    }
}

impl ScoreOptions {
    /// Whether all options have values that they may have, and go together.
    pub fn check(&self) -> Result<(), OptionError> {
        check_truncation(self.truncate, self.truncation_side)
    }
}

impl EmbedOptions {
    /// Whether all options have values that they may have, and go together.
    pub fn check(&self) -> Result<(), OptionError> {
        check_truncation(self.truncate, self.truncation_side)
    }
}

impl HiddenOptions {
    /// Whether all options have values that they may have, and go together.
    pub fn check(&self) -> Result<(), OptionError> {
        if let (Some(true), Some(rows)) = (self.all_tokens, self.pool) {
            let problem = format!("is {rows:?}").to_lowercase() + " beside `all_tokens`";
            let help = "a vector for each token is no pool of them: leave one out";
            return Err(OptionError::new("pool", problem, help));
        }
        check_truncation(self.truncate, self.truncation_side)
    }
}

/// What lists of texts hold, in words.
pub const TEXTS: &str = "a list of texts that are not empty";

fn at_least_one(field: &'static str, value: Option<u32>) -> Result<(), OptionError> {
    match value {
        Some(0) => {
            let expected = format!("a whole number from 1 to {}", u32::MAX);
            Err(OptionError::value(field, 0, &expected))
        }
        _ => Ok(()),
    }
}

fn check_truncation(
    truncate: Option<u32>,
    side: Option<TruncationSide>,
) -> Result<(), OptionError> {
    at_least_one("truncate", truncate)?;
    if side.is_some() && truncate.is_none() {
        return Err(OptionError::needs("truncation_side", "`truncate`"));
    }
    Ok(())
}

/// A number in 32 bits; `None` where it would become infinite, or 0 although it is not, which would
/// change its meaning.
pub fn narrowed(value: f64) -> Option<f32> {
    let narrow = value as f32;
    (narrow.is_finite() && (narrow != 0.0 || value == 0.0)).then_some(narrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> GenerateOptions {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_cannot_be_followed_is_named_with_what_to_do() {
        for (text, expected) in [
            (
                r#"{"max_tokens": 0}"#,
                "option `max_tokens` is 0; expected a whole number from 1 to 4294967295",
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
                r#"{"num_beams": 2, "temperature": 0.5}"#,
                "option `num_beams` is 2 and `temperature` 0.5; a beam search does not sample: leave one out",
            ),
            (
                r#"{"num_return_sequences": 2}"#,
                "option `num_return_sequences` is 2 and `num_beams` 1; expected at most as many",
            ),
            (
                r#"{"length_penalty": 2}"#,
                "option `length_penalty` without `num_beams` of 2 or more; add it, or leave `length_penalty` out",
            ),
            (
                r#"{"choices": [""]}"#,
                "option `choices` is [\"\"]; expected a list of texts that are not empty",
            ),
            (
                r#"{"truncation_side": "left"}"#,
                "option `truncation_side` without `truncate`; add it, or leave `truncation_side` out",
            ),
            (
                r#"{"truncate": 0}"#,
                "option `truncate` is 0; expected a whole number from 1 to 4294967295",
            ),
        ] {
            let error = options(text).check().unwrap_err();
            let help = error.help.as_deref().unwrap();
            assert_eq!(format!("{error}; {help}"), expected, "{text}");
        }
        // Neither may become 0 or infinite in 32 bits.
        assert!(options(r#"{"temperature": 1e-60}"#).check().is_err());
        assert!(options(r#"{"temperature": 1e60}"#).check().is_err());
    }
}
