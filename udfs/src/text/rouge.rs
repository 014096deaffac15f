//! ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum as rouge_score 0.1.2 computes them (Lin 2004).
//!
//! The tokenizer keeps `[a-z0-9]` only: text in other scripts has no tokens and scores 0.

use super::ngrams::{Item, Vocabulary, Windows};
use super::overlap::Prf;
use super::porter::stem;
use super::words::lower;

/// The four scores of one pair of texts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rouge {
    pub rouge1: Prf,
    pub rouge2: Prf,
    /// Longest common subsequence of the whole texts.
    pub rouge_l: Prf,
    /// Union of the longest common subsequences line by line.
    pub rouge_lsum: Prf,
}

/// ROUGE of a prediction against a target. `stemmed` applies Porter's stemmer to words of more
/// than three letters. Lines are the sentences of ROUGE-Lsum.
pub fn rouge(prediction: &str, target: &str, stemmed: bool) -> Rouge {
    let mut tokenizer =
        Tokenizer { vocabulary: Vocabulary::default(), stemmed, word: String::new() };
    let prediction_lines = tokenizer.lines(prediction);
    let target_lines = tokenizer.lines(target);
    // A line break separates tokens, so the tokens of a text are those of its lines.
    let (prediction, target) = (prediction_lines.concat(), target_lines.concat());
    let windows = |tokens: &[u32]| Windows::new(tokens.iter().copied(), Item::Word, 2);
    let (hypothesis, reference) = (windows(&prediction), windows(&target));
    let ngrams = |n: usize| {
        let matched = hypothesis.matched(&[&reference], n);
        from_counts(matched as usize, hypothesis.total(n) as usize, reference.total(n) as usize)
    };
    Rouge {
        rouge1: ngrams(1),
        rouge2: ngrams(2),
        rouge_l: from_counts(lcs_length(&target, &prediction), prediction.len(), target.len()),
        rouge_lsum: if prediction_lines.len() == 1 && target_lines.len() == 1 {
            // The general form counts the same tokens of the same subsequence.
            from_counts(lcs_length(&target, &prediction), prediction.len(), target.len())
        } else {
            summary_level(&prediction_lines, &target_lines, tokenizer.vocabulary.len())
        },
    }
}

/// Several targets: for each of the four scores the target with the best F1, the first of equals.
pub fn rouge_multi(prediction: &str, targets: &[&str], stemmed: bool) -> Option<Rouge> {
    let better = |best: Prf, other: Prf| if other.f1 > best.f1 { other } else { best };
    targets.iter().map(|target| rouge(prediction, target, stemmed)).reduce(|best, other| Rouge {
        rouge1: better(best.rouge1, other.rouge1),
        rouge2: better(best.rouge2, other.rouge2),
        rouge_l: better(best.rouge_l, other.rouge_l),
        rouge_lsum: better(best.rouge_lsum, other.rouge_lsum),
    })
}

fn from_counts(common: usize, prediction: usize, target: usize) -> Prf {
    Prf::from_counts(common, prediction, target)
}

/// Text to numbered tokens; one vocabulary for both sides.
struct Tokenizer {
    vocabulary: Vocabulary,
    stemmed: bool,
    word: String,
}

impl Tokenizer {
    fn lines(&mut self, text: &str) -> Vec<Vec<u32>> {
        let lowered = lower(text);
        lowered.split('\n').filter(|line| !line.is_empty()).map(|line| self.tokens(line)).collect()
    }

    fn tokens(&mut self, line: &str) -> Vec<u32> {
        line.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit()))
            .filter(|word| !word.is_empty())
            .map(|word| {
                if self.stemmed && word.len() > 3 {
                    self.word.clear();
                    self.word.push_str(word);
                    stem(&mut self.word);
                    self.vocabulary.number(&self.word)
                } else {
                    self.vocabulary.number(word)
                }
            })
            .collect()
    }
}

/// Length of the longest common subsequence, two rows at a time.
fn lcs_length(left: &[u32], right: &[u32]) -> usize {
    let mut row = vec![0u32; right.len() + 1];
    for a in left {
        let mut diagonal = 0;
        for (j, b) in right.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if a == b { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[right.len()] as usize
}

/// ROUGE-Lsum over lines: tokens of the union of subsequences, each token used once per occurrence.
fn summary_level(prediction: &[Vec<u32>], target: &[Vec<u32>], vocabulary: usize) -> Prf {
    let count = |lines: &[Vec<u32>]| {
        let mut counts = vec![0u32; vocabulary];
        lines.iter().flatten().for_each(|token| counts[*token as usize] += 1);
        counts
    };
    let (mut in_prediction, mut in_target) = (count(prediction), count(target));
    let mut hits = 0;
    for line in target {
        let mut in_union = vec![false; line.len()];
        for candidate in prediction {
            mark_lcs(line, candidate, &mut in_union);
        }
        for (token, _) in line.iter().zip(&in_union).filter(|(_, marked)| **marked) {
            let (left, right) =
                (&mut in_prediction[*token as usize], &mut in_target[*token as usize]);
            if *left > 0 && *right > 0 {
                *left -= 1;
                *right -= 1;
                hits += 1;
            }
        }
    }
    let size = |lines: &[Vec<u32>]| lines.iter().map(Vec::len).sum();
    from_counts(hits, size(prediction), size(target))
}

/// Marks the positions of `line` that belong to one longest common subsequence, the one that
/// rouge_score finds: from the end, preferring to move up the line on ties.
fn mark_lcs(line: &[u32], candidate: &[u32], marked: &mut [bool]) {
    let (rows, columns) = (line.len(), candidate.len());
    // One bit per cell: whether the length to the left is larger than the one above.
    let mut to_left = vec![0u64; (rows * columns).div_ceil(64)];
    let mut row = vec![0u32; columns + 1];
    for i in 0..rows {
        let mut diagonal = 0;
        for j in 0..columns {
            let above = row[j + 1];
            if row[j] > above {
                to_left[(i * columns + j) / 64] |= 1 << ((i * columns + j) % 64);
            }
            row[j + 1] = if line[i] == candidate[j] { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    let (mut i, mut j) = (rows, columns);
    while i > 0 && j > 0 {
        let cell = (i - 1) * columns + (j - 1);
        if line[i - 1] == candidate[j - 1] {
            marked[i - 1] = true;
            i -= 1;
            j -= 1;
        } else if to_left[cell / 64] >> (cell % 64) & 1 == 1 {
            j -= 1;
        } else {
            i -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_and_many_lines_agree_where_they_must() {
        let text = "the cat sat on the mat";
        let one = rouge("on the mat the cat sat", text, false);
        assert_eq!(one.rouge_l, one.rouge_lsum);
        let general = summary_level(&[vec![0, 1, 2]], &[vec![2, 0, 1, 3]], 4);
        assert_eq!(general, Prf::from_counts(2, 3, 4));
    }

    #[test]
    fn lines_are_matched_in_any_order() {
        let score = rouge("c d\na b", "a b\nc d\n\n", false);
        assert_eq!(score.rouge_lsum.f1, 1.0);
        assert!(score.rouge_l.f1 < 1.0);
    }

    #[test]
    fn only_latin_letters_and_digits_are_tokens() {
        assert_eq!(rouge("日本", "日本", false), Rouge::default());
        assert_eq!(rouge("", "a", true), Rouge::default());
        assert_eq!(rouge("na\u{ef}ve", "na ve", false).rouge1.f1, 1.0);
    }

    #[test]
    fn stemming_joins_forms_of_long_words_only() {
        assert_eq!(rouge("running cats", "runs cat", false).rouge1.f1, 0.0);
        assert_eq!(rouge("running cats", "runs cat", true).rouge1.f1, 1.0);
        // The stem of `was` is `wa`.
        assert_eq!(rouge("was", "wa", true).rouge1.f1, 0.0);
    }

    #[test]
    fn best_target_for_each_score() {
        let multi = rouge_multi("a b c", &["c b a", "a b x y"], false).unwrap();
        assert_eq!(multi.rouge1.f1, 1.0);
        assert!(multi.rouge2.f1 > 0.0);
        assert_eq!(rouge_multi("a", &[], false), None);
    }
}
