//! The classes that a checkpoint's head tells apart, as `config.json` names them.

use super::{Config, LoadError};

/// The classes of a head, and what its outputs mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// In order of the outputs; never empty.
    pub names: Vec<String>,
    pub meaning: Meaning,
}

/// What the outputs of a head mean, as transformers' pipeline for text classification has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Logits of classes that exclude each other: probabilities by softmax.
    OneOf,
    /// A logit for each class alone, also where there is only one: probabilities by sigmoid.
    Each,
    /// Numbers that are no logits (regression).
    Values,
}

impl Labels {
    /// Reads `id2label`, or `num_labels` (else 2) for classes without names, which are called `LABEL_0` and so on; and
    /// `problem_type`.
    pub fn read(config: &Config) -> Result<Self, LoadError> {
        let count = config.size_if_there("num_labels")?;
        let names = match config.numbered("id2label")? {
            Some(names) if count.is_some_and(|count| count != names.len()) => {
                let expected = format!("{}, as many as `id2label` has", names.len());
                return Err(config.refuse("num_labels", expected));
            }
            Some(names) => names,
            None => (0..count.unwrap_or(2)).map(|id| format!("LABEL_{id}")).collect(),
        };
        let meaning = match config.text("problem_type")? {
            Some("regression") => Meaning::Values,
            Some("multi_label_classification") => Meaning::Each,
            Some("single_label_classification") | None if names.len() == 1 => Meaning::Each,
            Some("single_label_classification") | None => Meaning::OneOf,
            Some(_) => {
                let expected = "regression, single_label_classification or \
                                multi_label_classification";
                return Err(config.refuse("problem_type", expected));
            }
        };
        Ok(Self { names, meaning })
    }

    /// The probabilities that outputs of the head mean; `None` where they are no logits.
    pub fn probabilities(&self, logits: &[f32]) -> Option<Vec<f32>> {
        let wide = logits.iter().copied().map(f64::from);
        match self.meaning {
            Meaning::Values => None,
            Meaning::Each => {
                Some(wide.map(|logit| (1.0 / (1.0 + (-logit).exp())) as f32).collect())
            }
            Meaning::OneOf => {
                let largest = wide.clone().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = wide.map(|logit| (logit - largest).exp()).collect();
                let sum: f64 = weights.iter().sum();
                Some(weights.iter().map(|weight| (weight / sum) as f32).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::checkpoint::tests::made::Made;

    fn read(values: &Value) -> Result<Labels, String> {
        let made = Made::empty().json("config.json", values);
        let labels = Labels::read(&Config::read(&made.path().join("config.json")).unwrap());
        labels.map_err(|error| made.why::<()>(Err(error)))
    }

    #[test]
    fn names_and_meaning_follow_the_settings() {
        let named = read(&json!({"id2label": {"1": "yes", "0": "no"}})).unwrap();
        assert_eq!(
            named,
            Labels { names: vec!["no".into(), "yes".into()], meaning: Meaning::OneOf }
        );
        let one = read(&json!({"num_labels": 1})).unwrap();
        assert_eq!(one, Labels { names: vec!["LABEL_0".into()], meaning: Meaning::Each });
        assert_eq!(read(&json!({})).unwrap().names, ["LABEL_0", "LABEL_1"]);
        let meaning = |kind: &str| read(&json!({"problem_type": kind})).map(|it| it.meaning);
        assert_eq!(meaning("regression"), Ok(Meaning::Values));
        assert_eq!(meaning("single_label_classification"), Ok(Meaning::OneOf));
        assert_eq!(meaning("multi_label_classification"), Ok(Meaning::Each));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let why = |values: Value| read(&values).unwrap_err();
        assert_eq!(
            why(json!({"id2label": {"0": "no", "2": "yes"}})),
            "./config.json: `id2label` is {\"0\":\"no\",\"2\":\"yes\"}, expected a text for each of 0, 1, 2 and so on"
        );
        assert_eq!(
            why(json!({"id2label": {"0": "no"}, "num_labels": 2})),
            "./config.json: `num_labels` is 2, expected 1, as many as `id2label` has"
        );
        assert!(why(json!({"problem_type": "ranking"})).contains("expected regression, single"));
        assert!(why(json!({"id2label": {}})).contains("expected a text for each"));
    }

    #[test]
    fn probabilities_are_those_of_the_meaning() {
        let of = |meaning, logits: &[f32]| {
            Labels { names: vec![String::new(); logits.len()], meaning }.probabilities(logits)
        };
        assert_eq!(of(Meaning::OneOf, &[1000.0, 1000.0]), Some(vec![0.5, 0.5]));
        assert_eq!(of(Meaning::Each, &[0.0, 1000.0, -1000.0]), Some(vec![0.5, 1.0, 0.0]));
        assert_eq!(of(Meaning::Values, &[0.3]), None);
    }
}
