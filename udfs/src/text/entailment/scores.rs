//! How much of a gold proof is in a prediction: leaves, steps, intermediates.

use std::collections::BTreeSet;

use super::{Aligned, Premise, Proof};
use crate::text::overlap::Prf;

/// Least BLEURT (bleurt-large-512) at which the released scorer takes an intermediate for right.
pub const BLEURT_THRESHOLD: f64 = 0.28;

/// Leaves of the proofs as sets: one that two steps use is one leaf.
pub fn leaves(predicted: &Proof, gold: &Proof) -> Prf {
    let (predicted, gold) = (predicted.leaves(), gold.leaves());
    let common = predicted.intersection(&gold).count();
    if predicted.is_empty() && gold.is_empty() {
        return Prf::ONE;
    }
    Prf::from_counts(common, predicted.len(), gold.len())
}

/// Steps, where intermediates have the names of those that they stand for and the order of premises
/// does not count. A step that is written twice lowers the precision; one that uses or concludes
/// what stands for nothing is wrong.
pub fn steps(predicted: &Proof, gold: &Proof, aligned: &[Aligned]) -> Prf {
    let named = normalized(predicted, |place| aligned.get(place).and_then(|it| it.gold));
    let expected = normalized(gold, Some);
    let common = named.intersection(&expected).count();
    Prf::from_counts(common, predicted.steps.len(), gold.steps.len())
}

/// Conclusions whose text is as good as that of the gold conclusion they stand for: those whose
/// similarity is at least `threshold`. Precision is over the predicted conclusions, recall over
/// the gold ones. `None` if the similarity of a pair is not known.
pub fn intermediates(
    gold: &Proof,
    aligned: &[Aligned],
    similarities: &[Option<f64>],
    threshold: f64,
) -> Option<Prf> {
    let (mut right, mut covered) = (0, BTreeSet::new());
    for (place, aligned) in aligned.iter().enumerate() {
        let Some(step) = aligned.gold else { continue };
        if similarities.get(place).copied().flatten()? >= threshold {
            right += 1;
            covered.insert(step);
        }
    }
    if right == 0 {
        return Some(Prf::ZERO);
    }
    let precision = f64::from(right) / aligned.len() as f64;
    let recall = covered.len() as f64 / gold.steps.len() as f64;
    Some(Prf { precision, recall, f1: 2.0 * precision * recall / (precision + recall) })
}

/// A step in the names of the gold proof: sorted premises and the place of the conclusion.
type Normalized<'a> = (Vec<Premise<'a>>, usize);

/// The steps that can be said in the names of the gold proof.
fn normalized<'a>(
    proof: &Proof<'a>,
    name: impl Fn(usize) -> Option<usize>,
) -> BTreeSet<Normalized<'a>> {
    let steps = proof.steps.iter().enumerate().filter_map(|(place, step)| {
        let premises = step.premises.iter().map(|premise| match premise {
            Premise::Leaf(leaf) => Some(Premise::Leaf(leaf)),
            Premise::Step(at) => name(*at).map(Premise::Step),
            Premise::Unknown => None,
        });
        let mut premises = premises.collect::<Option<Vec<_>>>()?;
        premises.sort_unstable();
        Some((premises, name(place)?))
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Ties, align};
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Scores {
        leaves: Prf,
        steps: Prf,
        intermediates: Prf,
    }

    /// Scores where every text is right.
    fn scores(predicted: &str, gold: &str, ties: Ties) -> Scores {
        let (predicted, gold) = (Proof::parse(predicted).unwrap(), Proof::parse(gold).unwrap());
        let aligned = align(&predicted, &gold, ties);
        let similar = vec![Some(1.0); aligned.len()];
        Scores {
            leaves: leaves(&predicted, &gold),
            steps: steps(&predicted, &gold, &aligned),
            intermediates: intermediates(&gold, &aligned, &similar, BLEURT_THRESHOLD).unwrap(),
        }
    }

    const ALL: Scores = Scores { leaves: Prf::ONE, steps: Prf::ONE, intermediates: Prf::ONE };

    #[test]
    fn one_wrong_leaf_costs_a_step() {
        let gold = "sent1 & sent2 -> int1: a; int1 & sent3 -> hypothesis;";
        let predicted = "sent1 & sent2 -> int1: b; int1 & sent4 -> hypothesis;";
        let scores = scores(predicted, gold, Ties::First);
        assert_eq!(scores.leaves, Prf::from_counts(2, 3, 3));
        assert_eq!(scores.steps, Prf::from_counts(1, 2, 2));
    }

    #[test]
    fn the_order_of_premises_does_not_count_but_their_number_does() {
        let gold = "a & b -> int1: x; int1 & c -> hypothesis";
        assert_eq!(scores("b & a -> int1: x; c & int1 -> hypothesis", gold, Ties::First), ALL);
        let twice = scores("a & a & b -> int1: x; int1 & c -> hypothesis", gold, Ties::First);
        assert_eq!((twice.leaves, twice.steps), (Prf::ONE, Prf::from_counts(1, 2, 2)));
    }

    #[test]
    fn an_intermediate_that_is_not_known_matches_nothing_by_its_name() {
        let gold = "a & b -> int1: x; int1 & c -> hypothesis";
        let scores = scores("int1 & c -> hypothesis", gold, Ties::First);
        assert_eq!(scores.steps, Prf::ZERO);
        assert_eq!(scores.leaves, Prf::from_counts(1, 1, 3));
    }

    #[test]
    fn similarities_decide_what_is_right() {
        let gold = "a & b -> int1: x; int1 & c -> hypothesis";
        let predicted = "a & b -> int1: x; d -> int2: z; int1 & int2 & c -> hypothesis";
        let (predicted, gold) = (Proof::parse(predicted).unwrap(), Proof::parse(gold).unwrap());
        let aligned = align(&predicted, &gold, Ties::First);
        let of = |similarities: [Option<f64>; 3]| {
            intermediates(&gold, &aligned, &similarities, BLEURT_THRESHOLD)
        };
        // The second stands for nothing: whatever is said of it, it is wrong.
        let all = of([Some(0.28), Some(1.0), Some(0.9)]).unwrap();
        assert_eq!((all.precision, all.recall), (2.0 / 3.0, 1.0));
        let one = of([Some(0.27), None, Some(0.9)]).unwrap();
        assert_eq!((one.precision, one.recall), (1.0 / 3.0, 0.5));
        assert_eq!(of([Some(0.9), Some(0.9), None]), None);
        assert_eq!(of([Some(0.0); 3]), Some(Prf::ZERO));
    }

    #[test]
    fn two_intermediates_of_one_text_are_two() {
        let gold = "a & b -> int1: same; c & d -> int2: same; int1 & int2 -> hypothesis";
        assert_eq!(scores(gold, gold, Ties::First), ALL);
    }

    /// A tree over leaves `l0`, `l1` …: each choice joins some of what is left, and the last step
    /// joins the rest. `name` names the intermediates.
    fn tree(choices: &[(usize, usize)], name: impl Fn(usize) -> String) -> Vec<String> {
        let mut open: Vec<String> = (0..choices.len() + 2).map(|leaf| format!("l{leaf}")).collect();
        let mut steps = Vec::new();
        for (number, (at, width)) in choices.iter().enumerate() {
            if open.len() < 3 {
                break;
            }
            let at = at % (open.len() - 1);
            // Something is left for the last step, so that no two steps rest on the same leaves.
            let width = (2 + width % 2).min(open.len() - 1);
            let end = (at + width).min(open.len());
            let premises: Vec<String> = open.splice(at..end, [name(number)]).collect();
            steps.push(format!("{} -> {}: text {number}", premises.join(" & "), name(number)));
        }
        steps.push(format!("{} -> hypothesis", open.join(" & ")));
        steps
    }

    fn choices() -> impl Strategy<Value = Vec<(usize, usize)>> {
        prop::collection::vec((0usize..20, 0usize..2), 0..7)
    }

    proptest! {
        #[test]
        fn a_proof_is_itself_whatever_its_intermediates_are_called(
            choices in choices(),
            key in 0usize..50,
        ) {
            let gold = tree(&choices, |number| format!("int{number}")).join("; ");
            let renamed = tree(&choices, |number| format!("int{}", number ^ key)).join(";");
            prop_assert_eq!(scores(&renamed, &gold, Ties::First), ALL);
            prop_assert_eq!(scores(&renamed, &gold, Ties::Unused), ALL);
        }

        #[test]
        fn names_do_not_count_for_wrong_proofs_either(
            gold in choices(),
            predicted in choices(),
            key in 0usize..50,
        ) {
            let gold = tree(&gold, |number| format!("int{number}")).join(";");
            let plain = tree(&predicted, |number| format!("int{number}")).join(";");
            let renamed = tree(&predicted, |number| format!("int{}", number ^ key)).join(";");
            for ties in [Ties::First, Ties::Unused] {
                prop_assert_eq!(scores(&plain, &gold, ties), scores(&renamed, &gold, ties));
            }
        }

        #[test]
        fn a_step_written_twice_lowers_precision_alone(choices in choices(), at in 0usize..9) {
            let mut steps = tree(&choices, |number| format!("int{number}"));
            let gold = steps.join(";");
            let at = at % steps.len();
            steps.insert(at, steps[at].clone());
            let twice = scores(&steps.join(";"), &gold, Ties::First);
            prop_assert_eq!(twice.leaves, Prf::ONE);
            prop_assert_eq!(twice.steps.recall, 1.0);
            let share = (steps.len() - 1) as f64 / steps.len() as f64;
            prop_assert_eq!(twice.steps.precision, share);
        }

        #[test]
        fn other_leaves_are_no_match(gold in choices(), predicted in choices()) {
            let gold = tree(&gold, |number| format!("int{number}")).join(";");
            let predicted = tree(&predicted, |number| format!("int{number}")).join(";");
            let predicted = predicted.replace('l', "m");
            let (first, second) = (Proof::parse(&predicted).unwrap(), Proof::parse(&gold).unwrap());
            let aligned = align(&first, &second, Ties::First);
            prop_assert!(aligned.iter().all(|it| it.gold.is_none() && it.jaccard == 0.0));
            prop_assert_eq!(
                scores(&predicted, &gold, Ties::First),
                Scores { leaves: Prf::ZERO, steps: Prf::ZERO, intermediates: Prf::ZERO }
            );
        }

        #[test]
        fn scores_stay_between_nothing_and_all(gold in choices(), predicted in choices()) {
            let gold = tree(&gold, |number| format!("int{number}")).join(";");
            let predicted = tree(&predicted, |number| format!("int{number}")).join(";");
            let scores = scores(&predicted, &gold, Ties::Unused);
            for score in [scores.leaves, scores.steps, scores.intermediates] {
                for part in [score.precision, score.recall, score.f1] {
                    prop_assert!((0.0..=1.0).contains(&part), "{score:?}");
                }
            }
        }
    }
}
