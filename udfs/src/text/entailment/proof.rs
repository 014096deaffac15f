//! A proof as text: `sent2 & sent3 -> int1: a text; int1 & sent1 -> hypothesis;`.

use std::collections::{BTreeSet, HashMap};

/// The name of the last conclusion.
const HYPOTHESIS: &str = "hypothesis";
/// What the names of all other conclusions begin with.
const INTERMEDIATE: &str = "int";

/// Why a text is no proof.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Nothing stands between the `;`.
    #[error("no step; expected steps like `sent1 & sent2 -> hypothesis;`")]
    Empty,
    /// A step without an arrow, or with several.
    #[error(
        "step {step} `{text}` has {arrows} arrows; expected one, `sent1 & sent2 -> int1: text`"
    )]
    Arrows {
        /// Its place, from 1.
        step: usize,
        /// What stands before the `:`.
        text: String,
        /// How often `->` stands in it.
        arrows: usize,
    },
    /// Something on the left that is no name.
    #[error(
        "step {step} has the premise `{name}`; expected names like `sent1`, with `&` between them"
    )]
    Premise {
        /// Its place, from 1.
        step: usize,
        name: String,
    },
    /// Something on the right that no step can conclude.
    #[error(
        "step {step} concludes `{name}`; expected `hypothesis`, or a name like `int1` and a `:` before its text"
    )]
    Conclusion {
        /// Its place, from 1.
        step: usize,
        name: String,
    },
}

/// A proof whose premises are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof<'a> {
    /// The steps in the order of the text; at least one.
    pub steps: Vec<Step<'a>>,
}

/// One step: some premises, and what is concluded from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<'a> {
    /// What stands left of the arrow, as often as it stands there.
    pub premises: Vec<Premise<'a>>,
    /// The name of the conclusion.
    pub conclusion: &'a str,
    /// What the conclusion says; `None` if the proof does not tell, as for `hypothesis`.
    pub text: Option<&'a str>,
    /// All leaves that the conclusion rests on, through other steps too.
    pub leaves: BTreeSet<&'a str>,
}

/// What a step rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Premise<'a> {
    Leaf(&'a str),
    /// The conclusion of an earlier step, by its place from 0.
    Step(usize),
    /// An intermediate that no earlier step concludes: it rests on no leaf and is like nothing else.
    Unknown,
}

impl<'a> Proof<'a> {
    /// Reads a proof. A name that begins with `int`, and `hypothesis`, is a conclusion; every other
    /// name is a leaf. Where a name is concluded twice, later steps mean the conclusion before them.
    pub fn parse(text: &'a str) -> Result<Self, Malformed> {
        let mut steps: Vec<Step> = Vec::new();
        let mut concluded: HashMap<&str, usize> = HashMap::new();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let place = steps.len() + 1;
            let (head, text) = match part.split_once(':') {
                Some((head, text)) => (head, Some(text.trim()).filter(|text| !text.is_empty())),
                None => (part, None),
            };
            let (left, conclusion) = sides(place, head)?;
            let premises = left
                .split('&')
                .map(|name| premise(place, name.trim(), &concluded))
                .collect::<Result<Vec<_>, _>>()?;
            let mut leaves = BTreeSet::new();
            for premise in &premises {
                match premise {
                    Premise::Leaf(name) => drop(leaves.insert(*name)),
                    Premise::Step(at) => leaves.extend(&steps[*at].leaves),
                    Premise::Unknown => {}
                }
            }
            concluded.insert(conclusion, steps.len());
            steps.push(Step { premises, conclusion, text, leaves });
        }
        if steps.is_empty() { Err(Malformed::Empty) } else { Ok(Self { steps }) }
    }

    /// The leaves of all steps.
    pub fn leaves(&self) -> BTreeSet<&'a str> {
        self.steps.iter().flat_map(|step| step.leaves.iter().copied()).collect()
    }
}

/// What stands left of the one arrow, and the conclusion on its right.
fn sides(step: usize, head: &str) -> Result<(&str, &str), Malformed> {
    let arrows = head.matches("->").count();
    let sides = head.split_once("->").filter(|_| arrows == 1);
    let Some((left, right)) = sides else {
        return Err(Malformed::Arrows { step, text: head.trim().to_owned(), arrows });
    };
    let name = right.trim();
    if is_name(name) && is_conclusion(name) {
        Ok((left, name))
    } else {
        Err(Malformed::Conclusion { step, name: name.to_owned() })
    }
}

fn premise<'a>(
    step: usize,
    name: &'a str,
    concluded: &HashMap<&str, usize>,
) -> Result<Premise<'a>, Malformed> {
    match (concluded.get(name), is_name(name)) {
        (Some(at), _) => Ok(Premise::Step(*at)),
        (None, true) if is_conclusion(name) => Ok(Premise::Unknown),
        (None, true) => Ok(Premise::Leaf(name)),
        (None, false) => Err(Malformed::Premise { step, name: name.to_owned() }),
    }
}

fn is_conclusion(name: &str) -> bool {
    name == HYPOTHESIS || name.starts_with(INTERMEDIATE)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn steps_know_all_their_leaves() {
        let text = " sent2 & sent3 -> int1: a: text ; int1&sent1 -> hypothesis ; ";
        let proof = Proof::parse(text).unwrap();
        let [first, last] = &proof.steps[..] else { panic!("{proof:?}") };
        assert_eq!((first.conclusion, first.text), ("int1", Some("a: text")));
        assert_eq!((last.conclusion, last.text), ("hypothesis", None));
        assert_eq!(last.premises, [Premise::Step(0), Premise::Leaf("sent1")]);
        assert_eq!(last.leaves, BTreeSet::from(["sent1", "sent2", "sent3"]));
    }

    #[test]
    fn a_name_means_the_conclusion_before_it() {
        let text = "int1 & a -> int1: x; b -> int1: y; int1 & int2 -> hypothesis";
        let proof = Proof::parse(text).unwrap();
        assert_eq!(proof.steps[0].premises, [Premise::Unknown, Premise::Leaf("a")]);
        assert_eq!(proof.steps[2].premises, [Premise::Step(1), Premise::Unknown]);
        assert_eq!(proof.leaves(), BTreeSet::from(["a", "b"]));
        assert_eq!(proof.steps[2].leaves, BTreeSet::from(["b"]));
    }

    #[test]
    fn what_is_no_proof_says_where() {
        for (text, expected) in [
            (" ; ;", "no step; expected steps like `sent1 & sent2 -> hypothesis;`"),
            ("a & b", "step 1 `a & b` has 0 arrows"),
            ("a -> int1: x; a -> b -> int2", "step 2 `a -> b -> int2` has 2 arrows"),
            ("a & -> int1: x", "step 1 has the premise ``; expected names"),
            ("a b -> int1: x", "step 1 has the premise `a b`"),
            ("a -> int1 x", "step 1 concludes `int1 x`; expected `hypothesis`, or a name like"),
            ("a -> sent2", "step 1 concludes `sent2`"),
        ] {
            let error = Proof::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_proof_or_says_why(text in "[a-z0-9 &;:>-]{0,40}|\\PC{0,40}") {
            let steps = Proof::parse(&text).map(|proof| proof.steps.len());
            prop_assert!(steps != Ok(0), "{steps:?}");
        }
    }
}
