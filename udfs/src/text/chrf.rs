//! chrF and chrF++ as sacrebleu 2.6.0 computes them (Popović 2015, 2017): 0 to 100.

use super::ngrams::{Item, Vocabulary, Windows};
use super::words::{is_space, split};

/// Longest character n-gram.
pub const CHAR_ORDER: usize = 6;
/// Longest word n-gram that may be requested; chrF++ uses 2.
pub const WORD_ORDER_MAX: usize = 4;
/// Recall counts beta² times as much as precision.
const BETA: f64 = 2.0;

/// N-gram counts of one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct OrderStats {
    /// N-grams of the hypothesis; 0 if the reference has none.
    pub hypothesis: u64,
    pub reference: u64,
    pub matched: u64,
}

/// The counts from which chrF follows; those of a corpus are the sums over its segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChrfStats {
    /// Characters from 1 to [`CHAR_ORDER`], then words from 1 to the word order.
    pub orders: Vec<OrderStats>,
}

impl ChrfStats {
    /// No counts yet; `word_order` is cut to [`WORD_ORDER_MAX`].
    pub fn empty(word_order: usize) -> Self {
        Self { orders: vec![OrderStats::default(); CHAR_ORDER + word_order.min(WORD_ORDER_MAX)] }
    }

    /// Counts of one segment against the reference with the best score; `None` without references.
    pub fn of_segment(hypothesis: &str, references: &[&str], word_order: usize) -> Option<Self> {
        let mut vocabulary = Vocabulary::default();
        let hypothesis = Prepared::new(hypothesis, word_order, &mut vocabulary);
        let mut best: Option<(f64, Self)> = None;
        for reference in references {
            let reference = Prepared::new(reference, word_order, &mut vocabulary);
            let stats = hypothesis.against(&reference, word_order);
            let score = stats.score();
            if best.as_ref().is_none_or(|(best, _)| score > *best) {
                best = Some((score, stats));
            }
        }
        best.map(|(_, stats)| stats)
    }

    /// Adds the counts of another segment or corpus.
    pub fn add(&mut self, other: &Self) {
        for (sum, order) in self.orders.iter_mut().zip(&other.orders) {
            sum.hypothesis += order.hypothesis;
            sum.reference += order.reference;
            sum.matched += order.matched;
        }
    }

    /// The score, 0 to 100: F2 of the precision and recall averaged over the orders in use.
    pub fn score(&self) -> f64 {
        let (mut precision, mut recall, mut orders) = (0.0, 0.0, 0u32);
        for order in self.orders.iter().filter(|order| order.hypothesis > 0 && order.reference > 0)
        {
            precision += order.matched as f64 / order.hypothesis as f64;
            recall += order.matched as f64 / order.reference as f64;
            orders += 1;
        }
        if precision + recall == 0.0 {
            return 0.0;
        }
        precision /= f64::from(orders);
        recall /= f64::from(orders);
        let factor = BETA * BETA;
        100.0 * (1.0 + factor) * precision * recall / (factor * precision + recall)
    }
}

/// chrF (word order 0) or chrF++ (word order 2) of one segment; `None` without references.
pub fn sentence_chrf(hypothesis: &str, references: &[&str], word_order: usize) -> Option<f64> {
    ChrfStats::of_segment(hypothesis, references, word_order).map(|stats| stats.score())
}

/// The signature under which sacrebleu reports the same numbers; `references` is the number of
/// references of every segment, `None` if it varies.
pub fn chrf_signature(word_order: usize, references: Option<usize>) -> String {
    let references = references.map_or("var".to_owned(), |n| n.to_string());
    format!(
        "nrefs:{references}|case:mixed|eff:yes|nc:{CHAR_ORDER}|nw:{word_order}|space:no|version:2.6.0"
    )
}

/// The n-grams of one text.
struct Prepared {
    chars: Windows,
    words: Option<Windows>,
}

impl Prepared {
    fn new(text: &str, word_order: usize, vocabulary: &mut Vocabulary) -> Self {
        let chars = Windows::of_chars(text.chars().filter(|c| !is_space(*c)), CHAR_ORDER);
        let words = (word_order > 0).then(|| {
            let numbers: Vec<u32> = words(text).map(|word| vocabulary.number(word)).collect();
            Windows::new(numbers.into_iter(), Item::Word, word_order)
        });
        Self { chars, words }
    }

    fn against(&self, reference: &Self, word_order: usize) -> ChrfStats {
        let mut stats = ChrfStats { orders: Vec::with_capacity(CHAR_ORDER + word_order) };
        let mut count = |hypothesis: &Windows, reference: &Windows, orders: usize| {
            stats.orders.extend((1..=orders).map(|n| {
                let in_reference = reference.total(n);
                OrderStats {
                    hypothesis: if in_reference > 0 { hypothesis.total(n) } else { 0 },
                    reference: in_reference,
                    matched: hypothesis.matched(&[reference], n),
                }
            }));
        };
        count(&self.chars, &reference.chars, CHAR_ORDER);
        if let (Some(hypothesis), Some(reference)) = (&self.words, &reference.words) {
            count(hypothesis, reference, word_order.min(WORD_ORDER_MAX));
        }
        stats
    }
}

/// Words of chrF++: one ASCII punctuation character is cut off the end, else off the beginning.
fn words(text: &str) -> impl Iterator<Item = &str> {
    split(text).flat_map(|word| {
        let single = word.chars().nth(1).is_none();
        let (head, tail) = if single {
            (word, "")
        } else if word.ends_with(|c: char| c.is_ascii_punctuation()) {
            word.split_at(word.len() - 1)
        } else if word.starts_with(|c: char| c.is_ascii_punctuation()) {
            word.split_at(1)
        } else {
            (word, "")
        };
        [head, tail].into_iter().filter(|word| !word.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_and_foreign_texts() {
        assert_eq!(sentence_chrf("abc def", &["abc def"], 0), Some(100.0));
        assert_eq!(sentence_chrf("abc def", &["abcdef"], 0), Some(100.0));
        assert_eq!(sentence_chrf("abc", &["xyz"], 2), Some(0.0));
        assert_eq!(sentence_chrf("", &[""], 2), Some(0.0));
        assert_eq!(sentence_chrf("abc", &[], 0), None);
    }

    #[test]
    fn punctuation_is_cut_off_once() {
        assert_eq!(
            words("(hi) \"x y... é! -").collect::<Vec<_>>(),
            ["(hi", ")", "\"", "x", "y..", ".", "é", "!", "-"]
        );
    }

    #[test]
    fn the_best_reference_decides() {
        let best = sentence_chrf("the cat", &["a dog", "the cat"], 2).unwrap();
        assert!((best - 100.0).abs() < 1e-9);
    }

    #[test]
    fn signature_is_sacrebleus() {
        assert_eq!(
            chrf_signature(0, Some(1)),
            "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"
        );
    }
}
