//! Accuracy, Matthews correlation, precision, recall and F1 of labels.

use std::collections::HashMap;
use std::hash::Hash;

use proofmill_base::natural::Natural;

/// Share of `true`; `None` without answers.
pub fn accuracy(right: &[bool]) -> Option<f64> {
    let hits = right.iter().filter(|right| **right).count();
    (!right.is_empty()).then(|| hits as f64 / right.len() as f64)
}

/// Matthews correlation of two columns of labels; `None` without rows.
///
/// Any number of classes; a constant column on either side gives 0 by convention.
pub fn mcc<L: Eq + Hash + Clone>(gold: &[L], predicted: &[L]) -> Option<f64> {
    let mut confusion = Confusion::default();
    for (gold, predicted) in gold.iter().zip(predicted) {
        confusion.add(gold.clone(), predicted.clone(), 1);
    }
    confusion.mcc()
}

/// Counts of (gold, predicted) label pairs; grows row by row and merges across partitions.
#[derive(Debug, Clone)]
pub struct Confusion<L> {
    counts: HashMap<(L, L), u64>,
}

impl<L> Default for Confusion<L> {
    fn default() -> Self {
        Self { counts: HashMap::new() }
    }
}

impl<L: Eq + Hash> Confusion<L> {
    /// Adds `n` rows with this pair of labels.
    pub fn add(&mut self, gold: L, predicted: L, n: u64) {
        *self.counts.entry((gold, predicted)).or_default() += n;
    }

    /// The pairs and how often each was seen, in no particular order.
    pub fn counts(&self) -> impl Iterator<Item = (&L, &L, u64)> {
        self.counts.iter().map(|((gold, predicted), n)| (gold, predicted, *n))
    }

    /// Matthews correlation (Gorodkin 2004 for more than two classes); `None` without rows.
    pub fn mcc(&self) -> Option<f64> {
        let mut gold_counts: HashMap<&L, u64> = HashMap::new();
        let mut predicted_counts: HashMap<&L, u64> = HashMap::new();
        let (mut n, mut right) = (0u64, 0u64);
        for ((gold, predicted), count) in &self.counts {
            *gold_counts.entry(gold).or_default() += count;
            *predicted_counts.entry(predicted).or_default() += count;
            n += count;
            right += if gold == predicted { *count } else { 0 };
        }
        if n == 0 {
            return None;
        }
        // Whole numbers keep the sums exact, so that their order does not matter.
        let square = |n: u64| i128::from(n) * i128::from(n);
        let chance: i128 = gold_counts
            .iter()
            .map(|(label, count)| {
                i128::from(*count) * i128::from(predicted_counts.get(label).copied().unwrap_or(0))
            })
            .sum();
        let covariance = i128::from(right) * i128::from(n) - chance;
        let gold_spread = square(n) - gold_counts.values().map(|n| square(*n)).sum::<i128>();
        let spread = square(n) - predicted_counts.values().map(|n| square(*n)).sum::<i128>();
        if gold_spread == 0 || spread == 0 {
            return Some(0.0);
        }
        Some(covariance as f64 / ((gold_spread as f64).sqrt() * (spread as f64).sqrt()))
    }
}

/// A [`Confusion`] with its classes in an order that only they decide: whatever is added up over them
/// depends on no partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfusionTable<'a> {
    /// All labels of either side, in natural order.
    pub classes: Vec<&'a str>,
    /// Positions of the gold and the predicted class, and how often they came together: those that did,
    /// ascending.
    pub cells: Vec<(usize, usize, u64)>,
    /// Rows by gold class.
    pub gold: Vec<u64>,
    /// Rows by predicted class.
    pub predicted: Vec<u64>,
    /// All rows.
    pub n: u64,
}

impl Confusion<String> {
    /// The counts in order.
    pub fn table(&self) -> ConfusionTable<'_> {
        let sides = self.counts.keys().flat_map(|(gold, predicted)| [gold.as_str(), predicted]);
        let mut classes: Vec<&str> = sides.collect();
        classes.sort_unstable_by_key(|label| Natural::of(label));
        classes.dedup();
        let places: HashMap<&str, usize> = classes.iter().copied().zip(0..).collect();
        let place = |label: &String| places[label.as_str()];
        let cells = self.counts().map(|(gold, predicted, n)| (place(gold), place(predicted), n));
        let mut cells: Vec<(usize, usize, u64)> = cells.collect();
        cells.sort_unstable();
        let (mut gold, mut predicted) = (vec![0; classes.len()], vec![0; classes.len()]);
        for (g, p, n) in &cells {
            gold[*g] += n;
            predicted[*p] += n;
        }
        let n = gold.iter().sum();
        ConfusionTable { classes, cells, gold, predicted, n }
    }
}

/// Precision, recall and F1 of one class, or averages of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ClassScore {
    /// Share of the predictions of the class that are right; 0 if it is never predicted.
    pub precision: f64,
    /// Share of the rows of the class that are found; 0 if there are none.
    pub recall: f64,
    /// Their harmonic mean; 0 if nothing is right.
    pub f1: f64,
}

/// How the scores of classes become one (scikit-learn's `average`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Average {
    /// The mean over the classes that occur on either side.
    Macro,
    /// Over the decisions: with one label a row, all three are the accuracy.
    Micro,
    /// The mean over the rows of the classes.
    Weighted,
}

/// A name that is no average.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("average `{0}`; expected `macro`, `micro` or `weighted`")]
pub struct UnknownAverage(pub String);

impl std::str::FromStr for Average {
    type Err = UnknownAverage;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "macro" => Ok(Self::Macro),
            "micro" => Ok(Self::Micro),
            "weighted" => Ok(Self::Weighted),
            _ => Err(UnknownAverage(text.to_owned())),
        }
    }
}

impl ConfusionTable<'_> {
    /// Scores of each class, in their order.
    pub fn scores(&self) -> Vec<ClassScore> {
        let mut right = vec![0; self.classes.len()];
        let diagonal = self.cells.iter().filter(|(gold, predicted, _)| gold == predicted);
        diagonal.for_each(|(class, _, n)| right[*class] = *n);
        let share =
            |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let score = |(class, right): (usize, u64)| ClassScore {
            precision: share(right, self.predicted[class]),
            recall: share(right, self.gold[class]),
            f1: share(2 * right, self.predicted[class] + self.gold[class]),
        };
        right.into_iter().enumerate().map(score).collect()
    }

    /// The average of the scores; `None` without rows.
    pub fn average(&self, average: Average) -> Option<ClassScore> {
        if self.n == 0 {
            return None;
        }
        let weights: Vec<u64> = match average {
            Average::Macro => vec![1; self.classes.len()],
            Average::Weighted => self.gold.clone(),
            Average::Micro => {
                let diagonal = self.cells.iter().filter(|(gold, predicted, _)| gold == predicted);
                let share = diagonal.map(|(.., n)| n).sum::<u64>() as f64 / self.n as f64;
                return Some(ClassScore { precision: share, recall: share, f1: share });
            }
        };
        let (scores, all) = (self.scores(), weights.iter().sum::<u64>() as f64);
        let mean = |of: fn(&ClassScore) -> f64| {
            scores.iter().zip(&weights).map(|(score, n)| of(score) * *n as f64).sum::<f64>() / all
        };
        Some(ClassScore {
            precision: mean(|score| score.precision),
            recall: mean(|score| score.recall),
            f1: mean(|score| score.f1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confusion(rows: &[(&str, &str)]) -> Confusion<String> {
        let mut confusion = Confusion::default();
        rows.iter()
            .for_each(|(gold, predicted)| confusion.add((*gold).into(), (*predicted).into(), 1));
        confusion
    }

    /// By hand: `2` is predicted 3 times and right twice; `10` once, and right; `x` is never gold.
    #[test]
    fn scores_are_those_of_the_arithmetic() {
        let rows = [("2", "2"), ("2", "2"), ("10", "10"), ("10", "2"), ("10", "x")];
        let confusion = confusion(&rows);
        let table = confusion.table();
        assert_eq!(table.classes, ["2", "10", "x"]);
        assert_eq!(table.cells, [(0, 0, 2), (1, 0, 1), (1, 1, 1), (1, 2, 1)]);
        assert_eq!(
            (&table.gold[..], &table.predicted[..], table.n),
            (&[2, 3, 0][..], &[3, 1, 1][..], 5)
        );
        let scores = table.scores();
        assert_eq!(scores[0], ClassScore { precision: 2.0 / 3.0, recall: 1.0, f1: 4.0 / 5.0 });
        assert_eq!(scores[1], ClassScore { precision: 1.0, recall: 1.0 / 3.0, f1: 2.0 / 4.0 });
        assert_eq!(scores[2], ClassScore::default());
        let f1 = |average| table.average(average).unwrap().f1;
        assert!((f1(Average::Macro) - (0.8 + 0.5 + 0.0) / 3.0).abs() < 1e-15);
        assert!((f1(Average::Weighted) - (2.0 * 0.8 + 3.0 * 0.5) / 5.0).abs() < 1e-15);
        assert_eq!(f1(Average::Micro), 3.0 / 5.0);
        assert_eq!(Confusion::default().table().average(Average::Macro), None);
    }

    #[test]
    fn extremes() {
        assert!((mcc(&[1, 0, 1, 0], &[1, 0, 1, 0]).unwrap() - 1.0).abs() < 1e-12);
        assert!((mcc(&[1, 0, 1, 0], &[0, 1, 0, 1]).unwrap() + 1.0).abs() < 1e-12);
        assert_eq!(mcc(&["a", "b"], &["a", "a"]), Some(0.0));
        assert_eq!(mcc::<u8>(&[], &[]), None);
        assert_eq!(accuracy(&[]), None);
        assert_eq!(accuracy(&[true, false, true, true]), Some(0.75));
    }

    #[test]
    fn a_label_seen_on_one_side_only_counts_as_wrong() {
        // sklearn.metrics.matthews_corrcoef(['x','y','y'], ['x','z','y']) = 0.612372436
        let value = mcc(&["x", "y", "y"], &["x", "z", "y"]).unwrap();
        assert!((value - 0.612_372_436).abs() < 1e-9, "{value}");
    }
}
