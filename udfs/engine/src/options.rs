//! What options make of requests. They are checked before: a number that has no place in 32 bits counts as absent.

use proofmill_settings::options::{
    GenerateOptions, HiddenOptions, MAX_TOKENS, TokenPool, TruncationSide, narrowed,
};

use crate::request::{Generate, Hidden, HiddenRows, Keep, Prompt, Strategy, Truncate};

impl From<TruncationSide> for Keep {
    fn from(side: TruncationSide) -> Self {
        match side {
            TruncationSide::Left => Self::End,
            TruncationSide::Right => Self::Start,
        }
    }
}

/// How many tokens of a text are read, and which.
pub fn truncation(truncate: Option<u32>, side: Option<TruncationSide>) -> Option<Truncate> {
    truncate.map(|tokens| Truncate { tokens, keep: side.unwrap_or_default().into() })
}

/// How tokens are chosen.
pub fn strategy(options: &GenerateOptions) -> Strategy {
    let narrow = |value: Option<f64>, default: f32| value.and_then(narrowed).unwrap_or(default);
    let (temperature, beams) = (narrow(options.temperature, 0.0), options.num_beams.unwrap_or(1));
    if temperature > 0.0 {
        Strategy::Sample {
            temperature,
            top_k: options.top_k.unwrap_or(0),
            top_p: narrow(options.top_p, 1.0),
            // A seed is allowed everywhere: a file may set one for all its calls.
            seed: options.seed.unwrap_or(0),
            samples: options.samples.unwrap_or(1),
        }
    } else if beams > 1 {
        Strategy::Beam {
            beams,
            answers: options.num_return_sequences.unwrap_or(1),
            length_penalty: narrow(options.length_penalty, 1.0),
            early_stopping: options.early_stopping.unwrap_or(false),
        }
    } else {
        Strategy::Greedy
    }
}

/// The generation that options make of a prompt.
pub fn generate(options: &GenerateOptions, prompt: Prompt) -> Generate {
    Generate {
        prompt,
        truncate: truncation(options.truncate, options.truncation_side),
        prefix: options.prefix.clone().unwrap_or_default(),
        strategy: strategy(options),
        max_tokens: options.max_tokens.unwrap_or(MAX_TOKENS),
        min_tokens: options.min_tokens.unwrap_or(0),
        stop: options.stop.clone().unwrap_or_default(),
        choices: options.choices.clone().unwrap_or_default(),
        response_format: None,
        logprobs: options.logprobs.unwrap_or(false),
    }
}

/// The hidden states of a text that options ask for.
pub fn hidden(options: &HiddenOptions, text: String) -> Hidden {
    let rows = match (options.all_tokens, options.pool) {
        (Some(true), _) => HiddenRows::All,
        (_, Some(TokenPool::First)) => HiddenRows::First,
        (_, Some(TokenPool::Mean)) => HiddenRows::Mean,
        (_, Some(TokenPool::Last) | None) => HiddenRows::Last,
    };
    let truncate = truncation(options.truncate, options.truncation_side);
    Hidden { text, truncate, layer: options.layer.unwrap_or(-1), rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> GenerateOptions {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn defaults_are_those_of_the_specification() {
        let request = generate(&options("{}"), Prompt::Text("x".into()));
        assert_eq!((request.max_tokens, request.min_tokens), (128, 0));
        assert_eq!(request.strategy, Strategy::Greedy);
        assert!(request.truncate.is_none() && !options("{}").is_counted());
        assert_eq!(options(r#"{"max_tokens": null}"#), options("{}"));
        let seeded = options(r#"{"seed": 7, "num_beams": 1, "temperature": 0}"#);
        assert_eq!(generate(&seeded, Prompt::Text("x".into())), request);
    }

    #[test]
    fn a_strategy_follows_from_temperature_and_beams() {
        let sample = options(r#"{"temperature": 0.7, "samples": 1, "seed": 3}"#);
        let expected =
            Strategy::Sample { temperature: 0.7, top_k: 0, top_p: 1.0, seed: 3, samples: 1 };
        assert_eq!((strategy(&sample), sample.is_counted()), (expected, true));
        let beam = options(r#"{"num_beams": 4, "num_return_sequences": 2}"#);
        let expected =
            Strategy::Beam { beams: 4, answers: 2, length_penalty: 1.0, early_stopping: false };
        assert_eq!((strategy(&beam), beam.is_counted()), (expected, true));
        let cut = options(r#"{"truncate": 9, "truncation_side": "left"}"#);
        let cut = generate(&cut, Prompt::Text("x".into()));
        assert_eq!(cut.truncate, Some(Truncate { tokens: 9, keep: Keep::End }));
    }
}
