//! Exact match, token F1 and knowledge F1.

use std::collections::HashSet;
use std::str::FromStr;

use super::normalize::{Normalization, normalize};

/// Precision, recall and their harmonic mean.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Prf {
    /// Share of the prediction found in the reference.
    pub precision: f64,
    /// Share of the reference found in the prediction.
    pub recall: f64,
    /// Harmonic mean of the two; 0 if either is.
    pub f1: f64,
}

impl Prf {
    /// Nothing in common.
    pub const ZERO: Self = Self { precision: 0.0, recall: 0.0, f1: 0.0 };
    /// Everything in common.
    pub const ONE: Self = Self { precision: 1.0, recall: 1.0, f1: 1.0 };

    /// Scores from the number of common items and the sizes of both sides.
    pub fn from_counts(common: usize, prediction: usize, reference: usize) -> Self {
        if common == 0 {
            return Self::ZERO;
        }
        let precision = common as f64 / prediction as f64;
        let recall = common as f64 / reference as f64;
        Self { precision, recall, f1: 2.0 * precision * recall / (precision + recall) }
    }
}

/// A text prepared for overlap scores: its normalised words, sorted.
#[derive(Debug, Clone)]
pub struct Bag {
    normalized: String,
    normalization: Normalization,
    /// Byte ranges of the words in `normalized`, sorted by the words.
    words: Vec<(u32, u32)>,
}

impl Bag {
    /// Normalises and sorts the words of a text.
    pub fn new(text: &str, normalization: Normalization) -> Self {
        let normalized = normalize(text, normalization);
        let mut words: Vec<(u32, u32)> = Vec::new();
        let mut start = 0;
        for word in normalized.split(' ').filter(|word| !word.is_empty()) {
            words.push((start as u32, (start + word.len()) as u32));
            start += word.len() + 1;
        }
        let text = normalized.as_str();
        words.sort_unstable_by_key(|(start, end)| &text[*start as usize..*end as usize]);
        Self { normalized, normalization, words }
    }

    /// The normalised text.
    pub fn normalized(&self) -> &str {
        &self.normalized
    }

    fn word(&self, index: usize) -> Option<&str> {
        let (start, end) = self.words.get(index)?;
        self.normalized.get(*start as usize..*end as usize)
    }

    /// Size of the multiset intersection.
    fn common(&self, other: &Self) -> usize {
        let (mut left, mut right, mut common) = (0, 0, 0);
        while let (Some(a), Some(b)) = (self.word(left), other.word(right)) {
            match a.cmp(b) {
                std::cmp::Ordering::Less => left += 1,
                std::cmp::Ordering::Greater => right += 1,
                std::cmp::Ordering::Equal => {
                    common += 1;
                    left += 1;
                    right += 1;
                }
            }
        }
        common
    }

    /// Token F1 against one gold answer.
    ///
    /// With nothing left of either text, SQuAD 2.0 counts two empty answers as equal (1) while
    /// ParlAI and the plain form find nothing in common (0).
    pub fn f1(&self, gold: &Self) -> Prf {
        let squad = self.normalization == Normalization::Squad;
        if squad && self.words.is_empty() && gold.words.is_empty() {
            return Prf::ONE;
        }
        Prf::from_counts(self.common(gold), self.words.len(), gold.words.len())
    }
}

/// Exact match after normalisation (SQuAD; over several golds: any of them, as in FiD).
pub fn exact_match(prediction: &str, gold: &str, normalization: Normalization) -> bool {
    normalize(prediction, normalization) == normalize(gold, normalization)
}

/// Token F1 after normalisation (Rajpurkar et al. 2016; ParlAI `F1Metric`).
pub fn token_f1(prediction: &str, gold: &str, normalization: Normalization) -> Prf {
    Bag::new(prediction, normalization).f1(&Bag::new(gold, normalization))
}

/// Knowledge F1 over sets of words (Lian et al. 2019): the different words of a response and of its evidence, both without
/// `stop_words`; ParlAI normalisation, as the definition leaves it open.
pub fn kf1_sets<'a>(
    response: &str,
    snippets: impl IntoIterator<Item = &'a str>,
    stop_words: &[&str],
) -> Prf {
    let stops: HashSet<String> = words(stop_words.iter().copied()).collect();
    let set = |texts: &mut dyn Iterator<Item = &'a str>| -> HashSet<String> {
        words(texts).filter(|word| !stops.contains(word)).collect()
    };
    let own: HashSet<String> = words([response]).filter(|word| !stops.contains(word)).collect();
    let known = set(&mut snippets.into_iter());
    Prf::from_counts(own.intersection(&known).count(), own.len(), known.len())
}

fn words<'a>(texts: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = String> {
    texts.into_iter().flat_map(|text| {
        let normalized = normalize(text, Normalization::Parlai);
        normalized.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    })
}

/// How several evidence snippets become one knowledge F1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// Join the snippets with single spaces, then compare once.
    Concat,
    /// Compare with every snippet; precision, recall and F1 are maximised separately.
    Max,
}

impl Aggregate {
    /// The names of the variants.
    pub const NAMES: &'static [&'static str] = &["concat", "max"];
}

/// A name that is no way to aggregate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("aggregate `{0}`; expected `concat` or `max`")]
pub struct UnknownAggregate(pub String);

impl FromStr for Aggregate {
    type Err = UnknownAggregate;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "concat" => Ok(Self::Concat),
            "max" => Ok(Self::Max),
            _ => Err(UnknownAggregate(name.to_owned())),
        }
    }
}

/// Knowledge F1 (Shuster et al. 2021, ParlAI): overlap of a response with its evidence, ParlAI
/// normalisation. Precision is the share of the response that the evidence supports.
pub fn kf1<'a>(
    response: &str,
    snippets: impl IntoIterator<Item = &'a str>,
    aggregate: Aggregate,
) -> Prf {
    let response = Bag::new(response, Normalization::Parlai);
    let score = |snippet: &str| response.f1(&Bag::new(snippet, Normalization::Parlai));
    match aggregate {
        Aggregate::Concat => {
            let joined: Vec<&str> = snippets.into_iter().collect();
            score(&joined.join(" "))
        }
        Aggregate::Max => snippets.into_iter().map(score).fold(Prf::ZERO, maximum),
    }
}

/// Component-wise maximum.
pub fn maximum(left: Prf, right: Prf) -> Prf {
    Prf {
        precision: left.precision.max(right.precision),
        recall: left.recall.max(right.recall),
        f1: left.f1.max(right.f1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn repeated_words_count_as_often_as_they_occur_on_both_sides() {
        let score = token_f1("x x x y", "x x z", Normalization::Plain);
        assert_eq!((score.precision, score.recall), (0.5, 2.0 / 3.0));
    }

    #[test]
    fn empty_texts_depend_on_the_normalisation() {
        assert_eq!(token_f1("", "the", Normalization::Squad), Prf::ONE);
        assert_eq!(token_f1("", "x", Normalization::Squad), Prf::ZERO);
        assert_eq!(token_f1("", "", Normalization::Parlai), Prf::ZERO);
        assert!(exact_match("The  cat!", "cat", Normalization::Squad));
        assert!(!exact_match("The cat", "cat", Normalization::Plain));
    }

    #[test]
    fn kf1_of_no_snippets_is_zero() {
        for aggregate in [Aggregate::Concat, Aggregate::Max] {
            assert_eq!(kf1("x", [], aggregate), Prf::ZERO);
        }
        assert_eq!(kf1("x y", ["x", "y"], Aggregate::Concat).f1, 1.0);
        assert_eq!(kf1("x y", ["x", "y"], Aggregate::Max).precision, 0.5);
    }

    proptest! {
        #[test]
        fn f1_is_symmetric_and_bounded(a in "[a-c ,.é]{0,20}", b in "[a-c ,.é]{0,20}") {
            for name in Normalization::NAMES {
                let normalization = name.parse().unwrap();
                let (ab, ba) = (token_f1(&a, &b, normalization), token_f1(&b, &a, normalization));
                prop_assert_eq!(ab.f1, ba.f1);
                prop_assert_eq!(ab.precision, ba.recall);
                prop_assert!((0.0..=1.0).contains(&ab.f1));
                if exact_match(&a, &b, normalization) && !Bag::new(&a, normalization).words.is_empty() {
                    prop_assert_eq!(ab, Prf::ONE);
                }
            }
        }
    }
}
