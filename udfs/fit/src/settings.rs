//! How a model is trained. Every setting but the sizes of texts can change the bytes of the result.

use serde::{Deserialize, Serialize};

use crate::error::FitError;

/// Steps of a training, at most.
pub const STEPS_MAX: u32 = 10_000_000;

/// How a model is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// What is made small.
    pub objective: Objective,
    /// What cosines are divided by in the contrastive loss: above 0, at most 1.
    pub temperature: f64,
    /// What the entropy of a token's distribution counts with the objective `policy`: 0 to 1.
    pub entropy: f64,
    /// How slowly the baseline of rewards moves, likewise: 0 to below 1.
    pub baseline: f64,
    /// The largest importance weight, likewise: 1 to 1,000,000.
    pub ratio_max: f64,
    /// Steps of the optimiser, at most: 1 to [`STEPS_MAX`].
    pub steps: u32,
    /// Pairs of a step: 1 to 65,536.
    pub batch: u32,
    /// The highest learning rate: above 0, at most 1.
    pub learning_rate: f64,
    /// Steps over which the rate grows evenly from nothing: at most `steps`.
    pub warmup: u32,
    /// What the rate does after that.
    pub decay: Decay,
    /// Part of a matrix that is taken away at each step, times the rate: 0 to 1.
    pub weight_decay: f64,
    /// How slowly the mean of gradients moves: 0 to below 1.
    pub beta1: f64,
    /// How slowly the mean of their squares moves: 0 to below 1.
    pub beta2: f64,
    /// Added to the root of that mean: above 0, at most 1.
    pub epsilon: f64,
    /// The longest gradient, over all weights together; longer ones are shortened. Above 0, or none.
    pub clip: Option<f64>,
    /// Chance that a number is dropped while training: 0 to below 1.
    pub dropout: f64,
    /// Part of the target that is spread evenly over the vocabulary: 0 to below 1.
    pub label_smoothing: f64,
    /// Decides first weights, order and what is dropped.
    pub seed: u64,
    /// Steps between two evaluations on the dev pairs, and between two files of state: at least 1.
    pub evaluate_every: u32,
    /// Whether the weights that the fit begins with are evaluated too, and are the result if none are better.
    pub evaluate_start: bool,
    /// What says which weights are better on the dev pairs.
    pub judge: Judge,
    /// Evaluations that found nothing better after which to stop: at least 1, or none.
    pub patience: Option<u32>,
    /// Which weights are the result where there are dev pairs.
    pub keep: Keep,
    /// Most tokens of an input, its end included: 2 to 8,192. Longer ones are an error.
    pub input_tokens: u32,
    /// Most tokens of an output, its end included: 2 to 8,192. Longer ones are an error.
    pub output_tokens: u32,
    /// How the weights are stored.
    pub save: Save,
}

/// What is made small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// The cross entropy of the output's tokens, which an encoder-decoder or a decoder writes.
    Generation,
    /// `(cos(f(x), f(x')) - cos(u, u'))^2` over all two pairs `(x, u)` of a batch, where `f` is the encoder under
    /// training, and vectors of outputs are those of the encoder that the fit begins with.
    Similarity,
    /// The cross entropy of the right output's vector among those of a batch (multiple negatives ranking).
    Contrastive,
    /// The reward of logged outputs is made large: REINFORCE with truncated importance weights, a moving baseline and entropy.
    Policy,
}

impl Objective {
    /// Whether it is a model that writes which is trained.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Generation | Self::Policy)
    }

    /// Its name in settings.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Generation => "generation",
            Self::Similarity => "similarity",
            Self::Contrastive => "contrastive",
            Self::Policy => "policy",
        }
    }
}

/// The learning rate after its highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decay {
    /// Evenly down to 0 after the last step.
    Linear,
    /// Half a wave of the cosine down to 0 after the last step.
    Cosine,
    Constant,
}

/// What says which weights are better on the dev pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Judge {
    /// The lower loss.
    Loss,
    /// More inputs that are answered with just their output; of as many, the lower loss. Only where a model writes.
    ExactMatch,
}

/// Which weights are the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Those that are best on the dev pairs.
    Best,
    Last,
}

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Save {
    /// Four bytes each, as they were trained.
    F32,
    /// Two bytes each, rounded to the nearest.
    Bf16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            objective: Objective::Generation,
            temperature: 0.05,
            entropy: 0.01,
            baseline: 0.9,
            ratio_max: 10.0,
            steps: 1000,
            batch: 64,
            learning_rate: 2e-3,
            warmup: 100,
            decay: Decay::Linear,
            weight_decay: 0.01,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            clip: Some(1.0),
            dropout: 0.0,
            label_smoothing: 0.0,
            seed: 0,
            evaluate_every: 250,
            evaluate_start: false,
            judge: Judge::Loss,
            patience: None,
            keep: Keep::Best,
            input_tokens: 512,
            output_tokens: 256,
            save: Save::F32,
        }
    }
}

impl Settings {
    /// Refuses the first setting that is out of its range.
    pub fn check(&self) -> Result<(), FitError> {
        const TEMPERATURE: &str = "above 0, at most 1";
        const TEXT: std::ops::RangeInclusive<u32> = 2..=8192;
        real("temperature", self.temperature, |it| it > 0.0 && it <= 1.0, TEMPERATURE)?;
        real("entropy", self.entropy, |it| (0.0..=1.0).contains(&it), "from 0 to 1")?;
        part("baseline", self.baseline)?;
        real("ratio_max", self.ratio_max, |it| (1.0..=1e6).contains(&it), "from 1 to 1000000")?;
        let defaults = Self::default();
        for (name, found, default, objective) in [
            ("temperature", self.temperature, defaults.temperature, Objective::Contrastive),
            ("entropy", self.entropy, defaults.entropy, Objective::Policy),
            ("baseline", self.baseline, defaults.baseline, Objective::Policy),
            ("ratio_max", self.ratio_max, defaults.ratio_max, Objective::Policy),
        ] {
            if found != default && self.objective != objective {
                let expected = format!("absent: only the objective `{}` has one", objective.name());
                return Err(FitError::Setting { name, found: found.to_string(), expected });
            }
        }
        if self.label_smoothing != 0.0 && self.objective != Objective::Generation {
            let expected = "0: only the objective `generation` has labels".to_owned();
            let found = self.label_smoothing.to_string();
            return Err(FitError::Setting { name: "label_smoothing", found, expected });
        }
        if self.judge == Judge::ExactMatch && self.objective != Objective::Generation {
            let expected = "loss: only the objective `generation` has answers".to_owned();
            return Err(FitError::Setting {
                name: "judge",
                found: "exact_match".to_owned(),
                expected,
            });
        }
        whole("steps", self.steps, 1..=STEPS_MAX)?;
        whole("batch", self.batch, 1..=65_536)?;
        real(
            "learning_rate",
            self.learning_rate,
            |it| it > 0.0 && it <= 1.0,
            "above 0, at most 1",
        )?;
        whole("warmup", self.warmup, 0..=self.steps)?;
        real("weight_decay", self.weight_decay, |it| (0.0..=1.0).contains(&it), "from 0 to 1")?;
        part("beta1", self.beta1)?;
        part("beta2", self.beta2)?;
        real("epsilon", self.epsilon, |it| it > 0.0 && it <= 1.0, "above 0, at most 1")?;
        if let Some(clip) = self.clip {
            real("clip", clip, |it| it > 0.0 && it.is_finite(), "above 0, or none")?;
        }
        part("dropout", self.dropout)?;
        part("label_smoothing", self.label_smoothing)?;
        whole("evaluate_every", self.evaluate_every, 1..=u32::MAX)?;
        if let Some(patience) = self.patience {
            whole("patience", patience, 1..=u32::MAX)?;
        }
        whole("input_tokens", self.input_tokens, TEXT)?;
        whole("output_tokens", self.output_tokens, TEXT)
    }
}

fn whole(
    name: &'static str,
    found: u32,
    range: std::ops::RangeInclusive<u32>,
) -> Result<(), FitError> {
    if range.contains(&found) {
        return Ok(());
    }
    let expected = format!("a whole number from {} to {}", range.start(), range.end());
    Err(FitError::Setting { name, found: found.to_string(), expected })
}

fn real(
    name: &'static str,
    found: f64,
    fits: impl FnOnce(f64) -> bool,
    expected: &str,
) -> Result<(), FitError> {
    if fits(found) {
        return Ok(());
    }
    let expected = format!("a number {expected}");
    Err(FitError::Setting { name, found: found.to_string(), expected })
}

fn part(name: &'static str, found: f64) -> Result<(), FitError> {
    real(name, found, |it| (0.0..1.0).contains(&it), "from 0 to below 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_and_unknown_keys_do_not() {
        Settings::default().check().unwrap();
        let read = |text: &str| serde_json::from_str::<Settings>(text);
        assert_eq!(read("{}").unwrap(), Settings::default());
        assert_eq!(read(r#"{"clip": null}"#).unwrap().clip, None);
        assert!(read(r#"{"step": 3}"#).unwrap_err().to_string().contains("unknown field `step`"));
    }

    #[test]
    fn what_is_out_of_range_is_named_with_its_value() {
        let base = Settings::default;
        let wrong = [
            (Settings { steps: 0, ..base() }, "`steps` is 0, expected"),
            (Settings { temperature: 0.0, ..base() }, "`temperature` is 0, expected a number"),
            (
                Settings { temperature: 0.1, objective: Objective::Similarity, ..base() },
                "`temperature` is 0.1, expected absent",
            ),
            (Settings { entropy: 0.1, ..base() }, "`entropy` is 0.1, expected absent"),
            (
                Settings { ratio_max: 0.5, objective: Objective::Policy, ..base() },
                "`ratio_max` is 0.5, expected a number from 1",
            ),
            (
                Settings { judge: Judge::ExactMatch, objective: Objective::Similarity, ..base() },
                "`judge` is exact_match, expected loss",
            ),
            (
                Settings { label_smoothing: 0.1, objective: Objective::Contrastive, ..base() },
                "`label_smoothing` is 0.1, expected 0",
            ),
            (Settings { batch: 0, ..base() }, "`batch` is 0"),
            (Settings { learning_rate: -1.0, ..base() }, "`learning_rate` is -1"),
            (Settings { learning_rate: f64::NAN, ..base() }, "`learning_rate` is NaN"),
            (
                Settings { warmup: 1001, ..base() },
                "`warmup` is 1001, expected a whole number from 0 to 1000",
            ),
            (Settings { weight_decay: 2.0, ..base() }, "`weight_decay` is 2"),
            (Settings { beta1: 1.0, ..base() }, "`beta1` is 1"),
            (Settings { beta2: -0.1, ..base() }, "`beta2` is -0.1"),
            (Settings { epsilon: 0.0, ..base() }, "`epsilon` is 0"),
            (Settings { clip: Some(0.0), ..base() }, "`clip` is 0"),
            (Settings { dropout: 1.0, ..base() }, "`dropout` is 1"),
            (Settings { label_smoothing: 1.0, ..base() }, "`label_smoothing` is 1"),
            (Settings { evaluate_every: 0, ..base() }, "`evaluate_every` is 0"),
            (Settings { patience: Some(0), ..base() }, "`patience` is 0"),
            (Settings { input_tokens: 1, ..base() }, "`input_tokens` is 1"),
            (Settings { output_tokens: 9000, ..base() }, "`output_tokens` is 9000"),
        ];
        for (settings, expected) in wrong {
            let message = settings.check().unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
