//! The ranges of the settings of a training.

use proofmill_settings::fit::{Judge, Objective, Training};

use crate::error::FitError;

/// Steps of a training, at most.
pub const STEPS_MAX: u32 = 10_000_000;

/// Training that have ranges.
pub trait Checked {
    /// Refuses the first one that is out of its range.
    fn check(&self) -> Result<(), FitError>;
}

impl Checked for Training {
    fn check(&self) -> Result<(), FitError> {
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
    use proofmill_settings::fit::FitSettings;

    use super::*;

    #[test]
    fn the_defaults_pass_and_unknown_keys_do_not() {
        Training::default().check().unwrap();
        let read = |text: &str| {
            let settings = serde_json::from_str::<FitSettings>(text)?;
            Ok::<_, serde_json::Error>(settings.with_defaults(Objective::Generation))
        };
        assert_eq!(read("{}").unwrap(), Training::default());
        assert_eq!(read(r#"{"clip": null}"#).unwrap().clip, None);
        assert_eq!(read(r#"{"patience": 3}"#).unwrap().patience, Some(3));
        assert!(read(r#"{"step": 3}"#).unwrap_err().to_string().contains("unknown field `step`"));
    }

    #[test]
    fn what_is_out_of_range_is_named_with_its_value() {
        let base = Training::default;
        let wrong = [
            (Training { steps: 0, ..base() }, "`steps` is 0, expected"),
            (Training { temperature: 0.0, ..base() }, "`temperature` is 0, expected a number"),
            (
                Training { temperature: 0.1, objective: Objective::Similarity, ..base() },
                "`temperature` is 0.1, expected absent",
            ),
            (Training { entropy: 0.1, ..base() }, "`entropy` is 0.1, expected absent"),
            (
                Training { ratio_max: 0.5, objective: Objective::Policy, ..base() },
                "`ratio_max` is 0.5, expected a number from 1",
            ),
            (
                Training { judge: Judge::ExactMatch, objective: Objective::Similarity, ..base() },
                "`judge` is exact_match, expected loss",
            ),
            (
                Training { label_smoothing: 0.1, objective: Objective::Contrastive, ..base() },
                "`label_smoothing` is 0.1, expected 0",
            ),
            (Training { batch: 0, ..base() }, "`batch` is 0"),
            (Training { learning_rate: -1.0, ..base() }, "`learning_rate` is -1"),
            (Training { learning_rate: f64::NAN, ..base() }, "`learning_rate` is NaN"),
            (
                Training { warmup: 1001, ..base() },
                "`warmup` is 1001, expected a whole number from 0 to 1000",
            ),
            (Training { weight_decay: 2.0, ..base() }, "`weight_decay` is 2"),
            (Training { beta1: 1.0, ..base() }, "`beta1` is 1"),
            (Training { beta2: -0.1, ..base() }, "`beta2` is -0.1"),
            (Training { epsilon: 0.0, ..base() }, "`epsilon` is 0"),
            (Training { clip: Some(0.0), ..base() }, "`clip` is 0"),
            (Training { dropout: 1.0, ..base() }, "`dropout` is 1"),
            (Training { label_smoothing: 1.0, ..base() }, "`label_smoothing` is 1"),
            (Training { evaluate_every: 0, ..base() }, "`evaluate_every` is 0"),
            (Training { patience: Some(0), ..base() }, "`patience` is 0"),
            (Training { input_tokens: 1, ..base() }, "`input_tokens` is 1"),
            (Training { output_tokens: 9000, ..base() }, "`output_tokens` is 9000"),
        ];
        for (settings, expected) in wrong {
            let message = settings.check().unwrap_err().to_string();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
