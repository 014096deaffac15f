//! One label of many: the most frequent, the one of more than half, the heaviest.

use std::collections::HashMap;

use proofmill_base::natural::Natural;

use super::{StatsError, check_values, sorted};

/// The label that most rows have; of several, the first in natural order. `None` without rows.
pub fn mode<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> Option<&'a str> {
    first_of_most(counts, u64::cmp)
}

/// The label that more than half of the rows have, if there is one.
pub fn majority<'a>(counts: impl IntoIterator<Item = (&'a str, u64)>) -> Option<&'a str> {
    let (mut all, mut most) = (0, None);
    for (label, n) in counts {
        all += n;
        if most.is_none_or(|(_, most)| n > most) {
            most = Some((label, n));
        }
    }
    most.filter(|(_, n)| 2 * n > all).map(|(label, _)| label)
}

/// The label whose weights sum to the most; of several, the first in natural order.
///
/// # Errors
///
/// Without votes, and for a weight that is no finite number.
pub fn weighted_vote<'a>(
    votes: impl IntoIterator<Item = (&'a str, f64)>,
) -> Result<&'a str, StatsError> {
    let mut weights: HashMap<&str, Vec<f64>> = HashMap::new();
    for (label, weight) in votes {
        check_values(&[weight])?;
        weights.entry(label).or_default().push(weight);
    }
    // In one order: a sum depends on the order of its terms, and a tie on the last bit of a sum.
    let sums = weights.into_iter().map(|(label, all)| (label, sorted(&all).iter().sum::<f64>()));
    first_of_most(sums, f64::total_cmp).ok_or(StatsError::Empty)
}

fn first_of_most<'a, T>(
    found: impl IntoIterator<Item = (&'a str, T)>,
    order: fn(&T, &T) -> std::cmp::Ordering,
) -> Option<&'a str> {
    let better = |(a, n): &(&'a str, T), (b, m): &(&'a str, T)| {
        order(n, m).then_with(|| Natural::of(b).cmp(&Natural::of(a)))
    };
    found.into_iter().max_by(better).map(|(label, _)| label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_first_label_in_natural_order() {
        assert_eq!(mode([("15", 2), ("5", 2), ("a", 1)]), Some("5"));
        assert_eq!(mode([("b", 3), ("a", 3), ("c", 4)]), Some("c"));
        assert_eq!(mode([]), None);
        assert_eq!(weighted_vote([("b", 0.5), ("a", 0.25), ("a", 0.25)]), Ok("a"));
        assert_eq!(weighted_vote([("15", -1.0), ("5", -1.0)]), Ok("5"));
    }

    #[test]
    fn more_than_half_is_a_majority_and_half_is_none() {
        assert_eq!(majority([("a", 2), ("b", 1)]), Some("a"));
        assert_eq!(majority([("a", 2), ("b", 2)]), None);
        assert_eq!(majority([("a", 2), ("b", 1), ("c", 1)]), None);
        assert_eq!(majority([]), None);
    }

    #[test]
    fn weights_sum_to_the_same_in_any_order() {
        // 1e16 - 1e16 + 1 is 1 and 1e16 + 1 - 1e16 is 0: more and less than the vote for `b`.
        let [large, minus, one, b] = [("a", 1e16), ("a", -1e16), ("a", 1.0), ("b", 0.5)];
        let one_order = weighted_vote([large, minus, one, b]);
        assert_eq!(one_order, weighted_vote([large, one, minus, b]));
        assert_eq!(one_order, weighted_vote([b, one, minus, large]));
        assert_eq!(weighted_vote([]), Err(StatsError::Empty));
        assert!(matches!(weighted_vote([("a", f64::NAN)]), Err(StatsError::NotFinite(_))));
    }
}
