//! Which conclusion of the gold proof a predicted conclusion stands for.

use std::collections::BTreeSet;
use std::str::FromStr;

use super::Proof;

/// Which of several equally similar conclusions of the gold proof is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// The first, as in the released scorer. Where two steps of a gold proof rest on the same
    /// leaves, that proof is not aligned with itself.
    #[default]
    First,
    /// The first that no earlier conclusion stands for, or else the first.
    Unused,
}

impl Ties {
    /// The names in SQL.
    pub const NAMES: &'static [&'static str] = &["first", "unused"];
}

impl FromStr for Ties {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "first" => Ok(Self::First),
            "unused" => Ok(Self::Unused),
            _ => Err(format!("ties `{name}`; expected `first` or `unused`")),
        }
    }
}

/// What one predicted conclusion stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aligned {
    /// Place of the gold step from 0; `None` if no gold conclusion shares a leaf.
    pub gold: Option<usize>,
    /// How much of the leaves of both is common: 0 to 1; 0 without a gold step.
    pub jaccard: f64,
}

/// For each predicted step the gold step whose conclusion rests on the most similar set of leaves.
/// The hypothesis is a conclusion like others, on both sides.
pub fn align(predicted: &Proof, gold: &Proof, ties: Ties) -> Vec<Aligned> {
    let mut used = vec![false; gold.steps.len()];
    let mut aligned = Vec::with_capacity(predicted.steps.len());
    for step in &predicted.steps {
        let mut best = Aligned { gold: None, jaccard: 0.0 };
        for (place, candidate) in gold.steps.iter().enumerate() {
            let jaccard = jaccard(&step.leaves, &candidate.leaves);
            let free = match (ties, best.gold) {
                (Ties::Unused, Some(held)) => used[held] && !used[place],
                _ => false,
            };
            if jaccard > best.jaccard || (jaccard == best.jaccard && jaccard > 0.0 && free) {
                best = Aligned { gold: Some(place), jaccard };
            }
        }
        if let Some(place) = best.gold {
            used[place] = true;
        }
        aligned.push(best);
    }
    aligned
}

/// Size of the intersection over size of the union; 0 for two empty sets.
fn jaccard(left: &BTreeSet<&str>, right: &BTreeSet<&str>) -> f64 {
    let common = left.intersection(right).count();
    let union = left.len() + right.len() - common;
    if union == 0 { 0.0 } else { common as f64 / union as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(predicted: &str, gold: &str, ties: Ties) -> Vec<(Option<usize>, f64)> {
        let (predicted, gold) = (Proof::parse(predicted).unwrap(), Proof::parse(gold).unwrap());
        align(&predicted, &gold, ties).iter().map(|it| (it.gold, it.jaccard)).collect()
    }

    #[test]
    fn the_most_similar_leaves_win_and_none_is_no_match() {
        let gold = "a & b -> int1: x; int1 & c -> int2: y; int2 & d -> hypothesis";
        let predicted = "a & b & c -> int7: x; e & f -> int8: y; int7 & int8 -> hypothesis";
        let expected = [(Some(1), 1.0), (None, 0.0), (Some(1), 0.6)];
        // {a, b, c, e, f} shares 3 of 5 leaves with int2, 3 of 6 with the hypothesis.
        assert_eq!(aligned(predicted, gold, Ties::First), expected);
    }

    #[test]
    fn equal_leaves_are_a_tie() {
        let gold = "a & b -> int1: x; int1 & b -> hypothesis";
        assert_eq!(aligned(gold, gold, Ties::First), [(Some(0), 1.0), (Some(0), 1.0)]);
        assert_eq!(aligned(gold, gold, Ties::Unused), [(Some(0), 1.0), (Some(1), 1.0)]);
    }

    #[test]
    fn where_all_are_used_the_first_is_taken() {
        let twice = "a & b -> int1: x; a & b -> int2: x; int2 & c -> hypothesis";
        let gold = "a & b -> int1: x; int1 & c -> hypothesis";
        let places: Vec<_> = aligned(twice, gold, Ties::Unused).iter().map(|it| it.0).collect();
        assert_eq!(places, [Some(0), Some(0), Some(1)]);
    }
}
