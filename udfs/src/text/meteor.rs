//! METEOR as nltk 3.10 computes it without WordNet: exact words, then Porter stems.
//!
//! Lavie and Agarwal 2007 with alpha 0.9, beta 3, gamma 0.5. Synonyms need WordNet, which is data
//! of its own; the numbers are therefore lower than those of the Java release, by up to 10 points.

use std::collections::HashMap;

use super::porter::stem;
use super::words::{lower, words_and_marks};

const ALPHA: f64 = 0.9;
const BETA: i32 = 3;
const GAMMA: f64 = 0.5;

/// METEOR of a hypothesis against its best reference; tokens are words and single marks.
/// `None` without references.
pub fn meteor(hypothesis: &str, references: &[&str]) -> Option<f64> {
    let hypothesis = words_and_marks(hypothesis);
    references
        .iter()
        .map(|reference| meteor_of_tokens(&hypothesis, &words_and_marks(reference)))
        .reduce(f64::max)
}

/// METEOR over given tokens.
pub fn meteor_of_tokens(hypothesis: &[&str], reference: &[&str]) -> f64 {
    let matches = align(hypothesis, reference);
    if matches.is_empty() {
        return 0.0;
    }
    let count = matches.len() as f64;
    let precision = count / hypothesis.len() as f64;
    let recall = count / reference.len() as f64;
    let mean = precision * recall / (ALPHA * precision + (1.0 - ALPHA) * recall);
    let breaks =
        matches.windows(2).filter(|pair| pair[1].0 != pair[0].0 + 1 || pair[1].1 != pair[0].1 + 1);
    let fragmentation = (1 + breaks.count()) as f64 / count;
    (1.0 - GAMMA * fragmentation.powi(BETA)) * mean
}

/// Pairs of matching positions, in the order of the hypothesis.
fn align(hypothesis: &[&str], reference: &[&str]) -> Vec<(usize, usize)> {
    let words = |tokens: &[&str]| -> Vec<(usize, String)> {
        tokens.iter().map(|token| lower(token).into_owned()).enumerate().collect()
    };
    let (mut left, mut right) = (words(hypothesis), words(reference));
    let mut matches = Vec::with_capacity(left.len().min(right.len()));
    match_words(&mut left, &mut right, &mut matches);
    left.iter_mut().chain(&mut right).for_each(|(_, word)| stem(word));
    match_words(&mut left, &mut right, &mut matches);
    matches.sort_unstable();
    matches
}

/// Moves equal words into `matches`: from the end of the hypothesis, each to the last free
/// position of the reference.
fn match_words(
    left: &mut Vec<(usize, String)>,
    right: &mut Vec<(usize, String)>,
    matches: &mut Vec<(usize, usize)>,
) {
    let mut positions: HashMap<&str, Vec<usize>> = HashMap::with_capacity(right.len());
    for (at, (_, word)) in right.iter().enumerate() {
        positions.entry(word).or_default().push(at);
    }
    let mut free_left = vec![true; left.len()];
    let mut free_right = vec![true; right.len()];
    for (at, (position, word)) in left.iter().enumerate().rev() {
        if let Some(other) = positions.get_mut(word.as_str()).and_then(Vec::pop) {
            matches.push((*position, right[other].0));
            free_left[at] = false;
            free_right[other] = false;
        }
    }
    let mut keep = free_left.into_iter();
    left.retain(|_| keep.next().unwrap_or(true));
    let mut keep = free_right.into_iter();
    right.retain(|_| keep.next().unwrap_or(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_texts_keep_the_penalty_of_one_chunk() {
        let score = meteor("the cat sat", &["The cat sat"]).unwrap();
        assert!((score - (1.0 - 0.5 / 27.0)).abs() < 1e-12, "{score}");
    }

    #[test]
    fn stems_match_after_words() {
        // nltk: meteor_score([['dogs','run']], ['dog','running'], wordnet=stub) = 0.9375
        let score = meteor("dog running", &["dogs run"]).unwrap();
        assert!((score - 0.9375).abs() < 1e-12, "{score}");
    }

    #[test]
    fn nothing_in_common() {
        assert_eq!(meteor("a", &["b"]), Some(0.0));
        assert_eq!(meteor("", &[""]), Some(0.0));
        assert_eq!(meteor("a", &[]), None);
    }
}
