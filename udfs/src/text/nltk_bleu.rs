//! BLEU as nltk 3.10 and ParlAI compute it: 0 to 1.
//!
//! nltk replaces an undefined precision by the smallest normal double, so that texts without a
//! common 4-gram score about 1e-155 rather than 0. Comparisons with published numbers need that.

use super::bleu::{BleuStats, ORDER};
use super::ngrams::Vocabulary;
use super::normalize::{Normalization, normalize};
use super::words::split;

/// `nltk.translate.bleu_score.sentence_bleu` over white-space tokens with uniform weights.
///
/// `epsilon` is that of nltk's smoothing method 1; `None` is no smoothing. `None` is returned
/// without references.
pub fn nltk_bleu(hypothesis: &str, references: &[&str], epsilon: Option<f64>) -> Option<f64> {
    let hypothesis: Vec<&str> = split(hypothesis).collect();
    let references: Vec<Vec<&str>> = references.iter().map(|text| split(text).collect()).collect();
    nltk_bleu_of_tokens(&hypothesis, &references, epsilon)
}

/// ParlAI's BLEU-4: nltk's over ParlAI-normalised words, smoothing method 1, epsilon 1e-12.
pub fn parlai_bleu(hypothesis: &str, references: &[&str]) -> Option<f64> {
    const EPSILON: f64 = 1e-12;
    let hypothesis = normalize(hypothesis, Normalization::Parlai);
    let references: Vec<String> =
        references.iter().map(|text| normalize(text, Normalization::Parlai)).collect();
    // As in ParlAI, the empty text is one empty word.
    let references: Vec<Vec<&str>> =
        references.iter().map(|text| text.split(' ').collect()).collect();
    nltk_bleu_of_tokens(&hypothesis.split(' ').collect::<Vec<_>>(), &references, Some(EPSILON))
}

/// nltk's sentence BLEU over given tokens.
pub fn nltk_bleu_of_tokens(
    hypothesis: &[&str],
    references: &[Vec<&str>],
    epsilon: Option<f64>,
) -> Option<f64> {
    let mut vocabulary = Vocabulary::default();
    let hypothesis = vocabulary.numbers(hypothesis.iter().copied());
    let references: Vec<Vec<u32>> =
        references.iter().map(|tokens| vocabulary.numbers(tokens.iter().copied())).collect();
    let stats = BleuStats::of_tokens(&hypothesis, &references)?;
    if stats.matched[0] == 0 {
        return Some(0.0);
    }
    let log_sum: f64 = (0..ORDER)
        .map(|order| {
            let (matched, total) = (stats.matched[order] as f64, stats.total[order].max(1) as f64);
            match epsilon {
                _ if matched > 0.0 => matched / total,
                Some(epsilon) => epsilon / total,
                None => f64::MIN_POSITIVE,
            }
        })
        .map(|precision| precision.ln() / ORDER as f64)
        .sum();
    let ratio = stats.reference_len as f64 / stats.hypothesis_len as f64;
    let penalty = if ratio < 1.0 { 1.0 } else { (1.0 - ratio).exp() };
    Some(penalty * log_sum.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_match_is_one_only_from_four_words_on() {
        let value = nltk_bleu("a b c d", &["a b c d"], None).unwrap();
        assert!((value - 1.0).abs() < 1e-12);
        // sentence_bleu([['a','b']], ['a','b']) = 1.4916681462400413e-154
        let value = nltk_bleu("a b", &["a b"], None).unwrap();
        assert!((value / 1.4916681462400413e-154 - 1.0).abs() < 1e-9, "{value:e}");
    }

    #[test]
    fn nothing_in_common_is_zero() {
        assert_eq!(nltk_bleu("a", &["b"], Some(0.1)), Some(0.0));
        assert_eq!(nltk_bleu("", &[""], None), Some(0.0));
        assert_eq!(nltk_bleu("a", &[], None), None);
        assert_eq!(parlai_bleu("x", &["y"]), Some(0.0));
        // Both sides are the one empty word.
        assert!(parlai_bleu("the", &["a"]).is_some_and(|value| value > 0.0));
    }
}
