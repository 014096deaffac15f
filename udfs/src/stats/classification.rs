//! Accuracy and Matthews correlation.

use std::collections::HashMap;
use std::hash::Hash;

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

#[cfg(test)]
mod tests {
    use super::*;

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
