//! Agreement of raters beyond chance: Cohen's kappa of two, Fleiss' kappa of several.

use std::collections::BTreeMap;

use proofmill_base::natural::Natural;

use super::StatsError;
use super::classification::ConfusionTable;

/// How much a disagreement counts, by the distance of the two classes in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KappaWeights {
    /// All the same: for classes without an order.
    Unweighted,
    Linear,
    Quadratic,
}

/// A name that is no weighting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("weights `{0}`; expected `none`, `linear` or `quadratic`")]
pub struct UnknownWeights(pub String);

impl std::str::FromStr for KappaWeights {
    type Err = UnknownWeights;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::Unweighted),
            "linear" => Ok(Self::Linear),
            "quadratic" => Ok(Self::Quadratic),
            _ => Err(UnknownWeights(text.to_owned())),
        }
    }
}

/// Cohen's kappa (Cohen 1960, weighted 1968) of two raters: 1 less the disagreement there is over the one
/// that their shares of the classes would give by chance. `None` where chance leaves none to disagree:
/// without rows, or if both give one and the same class to all.
pub fn cohen_kappa(table: &ConfusionTable<'_>, weights: KappaWeights) -> Option<f64> {
    // Whole numbers keep the sums exact, so that nothing depends on their order.
    let weight = |i: usize, j: usize| -> i128 {
        let distance = i.abs_diff(j) as i128;
        match weights {
            KappaWeights::Unweighted => i128::from(distance > 0),
            KappaWeights::Linear => distance,
            KappaWeights::Quadratic => distance * distance,
        }
    };
    let n = i128::from(table.n);
    let found: i128 = table.cells.iter().map(|(i, j, n)| weight(*i, *j) * i128::from(*n)).sum();
    let by_chance = by_chance(&table.gold, &table.predicted, weights);
    (by_chance > 0).then(|| (by_chance - n * found) as f64 / by_chance as f64)
}

/// The sum of `weight(i, j) first[i] second[j]` over all pairs of classes, without looking at each pair.
fn by_chance(first: &[u64], second: &[u64], weights: KappaWeights) -> i128 {
    let moment = |counts: &[u64], power: u32| -> i128 {
        let term = |(i, n): (usize, &u64)| (i as i128).pow(power) * i128::from(*n);
        counts.iter().enumerate().map(term).sum()
    };
    let all = [moment(first, 0), moment(second, 0)];
    match weights {
        KappaWeights::Unweighted => {
            let same = first.iter().zip(second).map(|(a, b)| i128::from(*a) * i128::from(*b));
            all[0] * all[1] - same.sum::<i128>()
        }
        // Each cut between two classes that lies between `i` and `j` adds 1.
        KappaWeights::Linear => {
            let mut below = [0; 2];
            let mut sum = 0;
            for (a, b) in first.iter().zip(second) {
                below = [below[0] + i128::from(*a), below[1] + i128::from(*b)];
                sum += below[0] * (all[1] - below[1]) + below[1] * (all[0] - below[0]);
            }
            sum
        }
        KappaWeights::Quadratic => {
            let [a1, b1] = [moment(first, 1), moment(second, 1)];
            moment(first, 2) * all[1] + all[0] * moment(second, 2) - 2 * a1 * b1
        }
    }
}

/// Fleiss' kappa (Fleiss 1971) from how often each item got each label. `None` where it is not defined:
/// without items, with one rating an item, or if all ratings are the same label.
///
/// # Errors
///
/// If items have different numbers of ratings.
pub fn fleiss_kappa<'a>(
    ratings: impl IntoIterator<Item = (&'a str, &'a str, u64)>,
) -> Result<Option<f64>, StatsError> {
    let mut items: BTreeMap<Natural<'a>, u64> = BTreeMap::new();
    let mut labels: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut squares, mut total) = (0u128, 0u64);
    for (item, label, n) in ratings {
        *items.entry(Natural::of(item)).or_default() += n;
        *labels.entry(label).or_default() += n;
        squares += u128::from(n) * u128::from(n);
        total += n;
    }
    let Some((first, raters)) = items.first_key_value() else { return Ok(None) };
    if let Some((other, found)) = items.iter().find(|(_, n)| *n != raters) {
        return Err(StatsError::Raters {
            first: first.text().to_owned(),
            raters: *raters,
            other: other.text().to_owned(),
            found: *found,
        });
    }
    if *raters < 2 || labels.len() < 2 {
        return Ok(None);
    }
    let total = total as f64;
    let agreed = (squares as f64 - total) / (total * (*raters - 1) as f64);
    let chance: u128 = labels.values().map(|n| u128::from(*n) * u128::from(*n)).sum();
    let chance = chance as f64 / (total * total);
    Ok(Some((agreed - chance) / (1.0 - chance)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Confusion;

    fn kappa(cells: &[(&str, &str, u64)], weights: KappaWeights) -> Option<f64> {
        let mut confusion = Confusion::default();
        cells.iter().for_each(|(a, b, n)| confusion.add((*a).into(), (*b).into(), *n));
        cohen_kappa(&confusion.table(), weights)
    }

    /// Cohen's example as everywhere: of 50, both say yes 20 and no 15 times. Observed 0.7, by chance
    /// 0.5 · 0.6 + 0.5 · 0.4 = 0.5, so 0.2 / 0.5.
    #[test]
    fn kappa_is_what_is_left_beyond_chance() {
        let cells = [("yes", "yes", 20), ("yes", "no", 5), ("no", "yes", 10), ("no", "no", 15)];
        let value = kappa(&cells, KappaWeights::Unweighted).unwrap();
        assert!((value - 0.4).abs() < 1e-15, "{value}");
        assert_eq!(
            kappa(&[("a", "a", 7)], KappaWeights::Unweighted),
            None,
            "nothing to disagree on"
        );
        assert_eq!(kappa(&[], KappaWeights::Linear), None);
        assert_eq!(kappa(&[("a", "b", 7)], KappaWeights::Quadratic), Some(0.0));
    }

    #[test]
    fn sums_by_chance_are_those_of_all_pairs() {
        let (first, second) = ([3, 0, 7, 2, 5], [1, 4, 0, 9, 3]);
        for (weights, of) in [
            (KappaWeights::Unweighted, (|d| i128::from(d > 0)) as fn(i128) -> i128),
            (KappaWeights::Linear, |d| d),
            (KappaWeights::Quadratic, |d| d * d),
        ] {
            let mut sum = 0;
            for (i, a) in first.iter().enumerate() {
                for (j, b) in second.iter().enumerate() {
                    sum += of(i.abs_diff(j) as i128) * i128::from(*a) * i128::from(*b);
                }
            }
            assert_eq!(by_chance(&first, &second, weights), sum, "{weights:?}");
        }
    }

    /// Two items, three raters: `aab` and `bbb`. Agreement (2 · 1 / 6 + 1) / 2 = 2/3, by chance
    /// (2² + 4²) / 6² = 5/9, so (2/3 - 5/9) / (4/9) = 1/4.
    #[test]
    fn fleiss_is_what_is_left_beyond_chance() {
        let ratings = [("1", "a", 2), ("1", "b", 1), ("2", "b", 3)];
        let value = fleiss_kappa(ratings).unwrap().unwrap();
        assert!((value - 0.25).abs() < 1e-15, "{value}");
        assert_eq!(fleiss_kappa([]), Ok(None));
        assert_eq!(fleiss_kappa([("1", "a", 2), ("2", "a", 2)]), Ok(None), "one label");
        assert_eq!(fleiss_kappa([("1", "a", 1), ("2", "b", 1)]), Ok(None), "one rater");
        let error = fleiss_kappa([("10", "a", 2), ("9", "b", 3)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "item `10` has 2 ratings and item `9` has 3; expected equally many for all"
        );
    }
}
