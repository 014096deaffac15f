//! Trees of claims: which are worth a proof, what each is worth in the end, and which proofs stay.
//! Pure.
//!
//! Source: Entailer, section 4.3: a proof replaces the direct belief in what it proves only where it
//! is stronger than that belief, be it in favour or against.

use std::ops::Range;

use proofmill_base::sentence::without_stop;

/// Hypotheses with the premises below them, those below always behind those above.
#[derive(Debug, Default)]
pub struct Forest {
    claims: Vec<Claim>,
}

/// A sentence at one place of one tree.
#[derive(Clone, Debug)]
pub struct Claim {
    pub text: String,
    /// The direct belief in it, s_d.
    pub direct: f64,
    /// The claim whose proof has it as a premise; `None` for a hypothesis.
    pub above: Option<usize>,
    /// Its place among the premises, from 1.
    pub place: usize,
    /// Its best one-step proof; a claim without one is a leaf.
    pub proof: Option<ClaimProof>,
}

/// A one-step proof.
#[derive(Clone, Debug)]
pub struct ClaimProof {
    /// Whether the premises entail the claim, s_e.
    pub entailment: f64,
    /// The claims that are its premises.
    pub premises: Range<usize>,
}

/// What a claim is worth when all below it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worth {
    /// s: that of its proof if the proof is stronger than the direct belief, else the direct belief.
    pub value: f64,
    /// s_r, if it has a proof: s_e times the product of what the premises are worth.
    pub searched: Option<f64>,
    /// Whether the proof is stronger: s_r > max(s_d, 1 - s_d).
    pub stronger: bool,
    /// Whether the proof is part of the final tree: it is stronger, and so are all above it.
    pub kept: bool,
}

impl Claim {
    /// How sure the direct belief is, be it in favour or against: c_d.
    pub fn confidence(&self) -> f64 {
        self.direct.max(1.0 - self.direct)
    }
}

impl Forest {
    pub fn claim(&self, number: usize) -> &Claim {
        &self.claims[number]
    }

    /// Adds a hypothesis, whose belief comes with its proof; its number.
    pub fn plant(&mut self, text: String) -> usize {
        self.claims.push(Claim { text, direct: 0.0, above: None, place: 0, proof: None });
        self.claims.len() - 1
    }

    /// Notes the direct belief in a claim.
    pub fn believe(&mut self, number: usize, direct: f64) {
        self.claims[number].direct = direct;
    }

    /// Gives a claim its best proof, with the premises and the beliefs in them; their numbers.
    pub fn prove(
        &mut self,
        number: usize,
        entailment: f64,
        premises: impl IntoIterator<Item = (String, f64)>,
    ) -> Range<usize> {
        let first = self.claims.len();
        for (place, (text, direct)) in (1..).zip(premises) {
            self.claims.push(Claim { text, direct, above: Some(number), place, proof: None });
        }
        let premises = first..self.claims.len();
        self.claims[number].proof = Some(ClaimProof { entailment, premises: premises.clone() });
        premises
    }

    /// Whether a proof of a premise could change anything: not if it is believed with certainty, and
    /// not if it is one of the claims that it is to support.
    pub fn is_open(&self, number: usize) -> bool {
        let claim = &self.claims[number];
        let sentence = without_stop(&claim.text);
        let mut above = claim.above;
        while let Some(number) = above {
            if without_stop(&self.claims[number].text) == sentence {
                return false;
            }
            above = self.claims[number].above;
        }
        claim.confidence() < 1.0
    }

    /// What each claim is worth, by number.
    pub fn worth(&self) -> Vec<Worth> {
        let leaf = |claim: &Claim| Worth {
            value: claim.direct,
            searched: None,
            stronger: false,
            kept: false,
        };
        let mut worth: Vec<Worth> = self.claims.iter().map(leaf).collect();
        // Premises stand behind what they prove: from the last to the first, they are settled before.
        for (number, claim) in self.claims.iter().enumerate().rev() {
            let Some(proof) = &claim.proof else { continue };
            let product: f64 = worth[proof.premises.clone()].iter().map(|it| it.value).product();
            let searched = proof.entailment * product;
            let stronger = searched > claim.confidence();
            let value = if stronger { searched } else { claim.direct };
            worth[number] = Worth { value, searched: Some(searched), stronger, kept: false };
        }
        for (number, claim) in self.claims.iter().enumerate() {
            let reached = claim.above.is_none_or(|above| worth[above].kept);
            worth[number].kept = reached && worth[number].stronger;
        }
        worth
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A tree as the paper's rules speak of it.
    #[derive(Clone, Debug)]
    struct Tree {
        direct: f64,
        proof: Option<(f64, Vec<Tree>)>,
    }

    impl Tree {
        /// TREE(H, depth), word by word: s(H), and the proofs that are kept.
        fn search(&self) -> (f64, usize) {
            let c_d = self.direct.max(1.0 - self.direct);
            let Some((s_e, premises)) = &self.proof else { return (self.direct, 0) };
            let below: Vec<(f64, usize)> = premises.iter().map(Tree::search).collect();
            let s_r = s_e * below.iter().map(|(s, _)| s).product::<f64>();
            if s_r > c_d {
                (s_r, 1 + below.iter().map(|(_, kept)| kept).sum::<usize>())
            } else {
                (self.direct, 0)
            }
        }

        fn plant(&self, forest: &mut Forest) -> usize {
            let root = forest.plant("h".to_owned());
            forest.believe(root, self.direct);
            let mut open = vec![(root, self)];
            // Level by level, as a search adds them.
            while let Some((number, tree)) = open.first().copied() {
                open.remove(0);
                let Some((entailment, premises)) = &tree.proof else { continue };
                let claims = premises.iter().map(|tree| ("p".to_owned(), tree.direct));
                let numbers = forest.prove(number, *entailment, claims);
                open.extend(numbers.zip(premises));
            }
            root
        }
    }

    fn tree() -> impl Strategy<Value = Tree> {
        // Mostly sure, so that proofs are worth something.
        let belief = || prop_oneof![0.0..=1.0f64, 0.9..=1.0f64, Just(0.5), Just(1.0)];
        let leaf = belief().prop_map(|direct| Tree { direct, proof: None });
        leaf.prop_recursive(4, 40, 3, move |inner| {
            let proof = (belief(), proptest::collection::vec(inner, 1..4));
            (belief(), proof).prop_map(|(direct, proof)| Tree { direct, proof: Some(proof) })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_forest_is_worth_what_the_papers_rules_say(trees in proptest::collection::vec(tree(), 1..4)) {
            let mut forest = Forest::default();
            let roots: Vec<usize> = trees.iter().map(|tree| tree.plant(&mut forest)).collect();
            let worth = forest.worth();
            let mut kept = 0;
            for (tree, root) in trees.iter().zip(roots) {
                let (value, proofs) = tree.search();
                prop_assert_eq!(worth[root].value.to_bits(), value.to_bits());
                kept += proofs;
            }
            prop_assert_eq!(worth.iter().filter(|it| it.kept).count(), kept);
            for (claim, worth) in forest.claims.iter().zip(&worth) {
                prop_assert!((0.0..=1.0).contains(&worth.value));
                // A proof never makes a belief less sure than it was, and is never used where it would.
                let sure = if worth.stronger { worth.value } else { claim.confidence() };
                prop_assert!(sure >= claim.confidence());
                prop_assert!(worth.searched.is_some() == claim.proof.is_some());
            }
        }
    }

    #[test]
    fn the_published_proof_overturns_the_belief_against_it() {
        let mut forest = Forest::default();
        let root = forest.plant("a magnet will not attract a penny".to_owned());
        forest.believe(root, 0.02883);
        let premises = [("copper".to_owned(), 0.9990471), ("magnets".to_owned(), 0.9997676)];
        forest.prove(root, 0.9999832, premises);
        let worth = forest.worth()[root];
        assert!((worth.value - 0.9987981).abs() < 5e-8 && worth.kept, "{worth:?}");
        // The same proof is too weak against what is known better.
        forest.believe(root, 0.001);
        let worth = forest.worth()[root];
        assert_eq!((worth.value, worth.stronger, worth.kept), (0.001, false, false));
        assert!(worth.searched.is_some_and(|it| it > 0.998));
    }

    #[test]
    fn no_proof_is_kept_below_one_that_is_not() {
        let mut forest = Forest::default();
        let root = forest.plant("h".to_owned());
        forest.believe(root, 0.9);
        let below = forest.prove(root, 0.5, [("p".to_owned(), 0.6)]).start;
        forest.prove(below, 0.99, [("q".to_owned(), 0.99)]);
        let worth = forest.worth();
        assert!(worth[below].stronger && !worth[below].kept && !worth[root].stronger, "{worth:?}");
    }

    #[test]
    fn what_is_claimed_above_or_certain_is_not_proved_again() {
        let mut forest = Forest::default();
        let root = forest.plant("A penny is made of copper".to_owned());
        let premises = [
            ("a  penny is made of Copper.", 0.9),
            ("Copper is a metal.", 0.9),
            ("Copper shines.", 1.0),
            ("Copper is a gas.", 0.0),
        ];
        let first =
            forest.prove(root, 1.0, premises.map(|(text, direct)| (text.to_owned(), direct)));
        let open: Vec<bool> = first.clone().map(|number| forest.is_open(number)).collect();
        assert_eq!(open, [false, true, false, false]);
        // Two levels below as well, but not beside.
        let premises = ["a penny is made of copper", "copper shines"];
        let second =
            forest.prove(first.start + 1, 1.0, premises.map(|text| (text.to_owned(), 0.9)));
        let open: Vec<bool> = second.map(|number| forest.is_open(number)).collect();
        assert_eq!(open, [false, true]);
    }
}
