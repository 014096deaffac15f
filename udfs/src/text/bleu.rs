//! BLEU as sacrebleu 2.6.0 computes it (Papineni et al. 2002; Post 2018): 0 to 100.

use std::str::FromStr;

use super::ngrams::{Item, Vocabulary, Windows};
use super::tokenize_13a::tokenize_13a;
use super::words::{is_space, lower};

/// Longest n-gram that BLEU counts.
pub const ORDER: usize = 4;

/// What replaces a precision of zero (Chen and Cherry 2014).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Smoothing {
    /// Nothing: one missing order gives a score of 0.
    None,
    /// A fixed number of matches; sacrebleu's default is 0.1.
    Floor(f64),
    /// Adds k to matches and totals of orders above 1; sacrebleu's default is 1.
    AddK(f64),
    /// Halves a pseudo-match with every missing order, as mteval-v13a does. The default.
    Exp,
}

impl Smoothing {
    /// The names of the methods.
    pub const NAMES: &'static [&'static str] = &["exp", "floor", "add-k", "none"];

    /// A method by its name; `value` replaces the default of `floor` and `add-k`.
    pub fn new(name: &str, value: Option<f64>) -> Result<Self, SmoothingError> {
        let method: Self = name.parse()?;
        let Some(value) = value else {
            return Ok(method);
        };
        if !(value.is_finite() && value > 0.0) {
            return Err(SmoothingError::Value(value));
        }
        match method {
            Self::Floor(_) => Ok(Self::Floor(value)),
            Self::AddK(_) => Ok(Self::AddK(value)),
            Self::None | Self::Exp => Err(SmoothingError::NoValue(name.to_owned())),
        }
    }

    fn signature(self) -> String {
        match self {
            Self::None => "none".into(),
            Self::Floor(value) => format!("floor[{value:.2}]"),
            Self::AddK(value) => format!("add-k[{value:.2}]"),
            Self::Exp => "exp".into(),
        }
    }
}

/// A smoothing method that does not exist or does not fit its value.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SmoothingError {
    /// No such method.
    #[error("smoothing `{0}`; expected `exp`, `floor`, `add-k` or `none`")]
    Method(String),
    /// A value where the method has none.
    #[error("a smoothing value with `{0}`; expected one with `floor` or `add-k` only")]
    NoValue(String),
    /// A value that is no positive number.
    #[error("smoothing value `{0}`; expected a positive number")]
    Value(f64),
}

impl FromStr for Smoothing {
    type Err = SmoothingError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "exp" => Ok(Self::Exp),
            "floor" => Ok(Self::Floor(0.1)),
            "add-k" => Ok(Self::AddK(1.0)),
            "none" => Ok(Self::None),
            _ => Err(SmoothingError::Method(name.to_owned())),
        }
    }
}

/// How BLEU is computed from its counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BleuOptions {
    /// What replaces a precision of zero.
    pub smoothing: Smoothing,
    /// Whether orders longer than the hypothesis are left out: true for sentences.
    pub effective_order: bool,
    pub lowercase: bool,
}

impl BleuOptions {
    /// sacrebleu's `sentence_bleu`.
    pub const SENTENCE: Self =
        Self { smoothing: Smoothing::Exp, effective_order: true, lowercase: false };
    /// sacrebleu's `corpus_bleu`.
    pub const CORPUS: Self =
        Self { smoothing: Smoothing::Exp, effective_order: false, lowercase: false };

    /// The signature under which sacrebleu reports the same numbers; `references` is the number
    /// of references of every segment, `None` if it varies.
    pub fn signature(&self, references: Option<usize>) -> String {
        let references = references.map_or("var".to_owned(), |n| n.to_string());
        let case = if self.lowercase { "lc" } else { "mixed" };
        let effective = if self.effective_order { "yes" } else { "no" };
        let smooth = self.smoothing.signature();
        format!(
            "nrefs:{references}|case:{case}|eff:{effective}|tok:13a|smooth:{smooth}|version:2.6.0"
        )
    }
}

/// The counts from which BLEU follows; those of a corpus are the sums over its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct BleuStats {
    /// Tokens of the hypothesis.
    pub hypothesis_len: u64,
    /// Tokens of the reference closest in length.
    pub reference_len: u64,
    /// N-grams found in a reference, by order.
    pub matched: [u64; ORDER],
    /// N-grams of the hypothesis, by order.
    pub total: [u64; ORDER],
}

impl BleuStats {
    /// Counts of one segment; `None` without references.
    pub fn of_segment(hypothesis: &str, references: &[&str], lowercase: bool) -> Option<Self> {
        let mut vocabulary = Vocabulary::default();
        let mut prepare = |text: &str| {
            let text = text.trim_end_matches(is_space);
            let tokens = if lowercase { tokenize_13a(&lower(text)) } else { tokenize_13a(text) };
            vocabulary.numbers(tokens.iter().map(|token| &**token))
        };
        let hypothesis = prepare(hypothesis);
        let references: Vec<Vec<u32>> = references.iter().map(|text| prepare(text)).collect();
        Self::of_tokens(&hypothesis, &references)
    }

    /// Counts of one segment of numbered tokens; `None` without references.
    pub fn of_tokens(hypothesis: &[u32], references: &[Vec<u32>]) -> Option<Self> {
        let windows = |tokens: &[u32]| Windows::new(tokens.iter().copied(), Item::Word, ORDER);
        // Ties between reference lengths go to the shorter one.
        let reference_len = references
            .iter()
            .map(Vec::len)
            .min_by_key(|length| (length.abs_diff(hypothesis.len()), *length))?;
        let counted = windows(hypothesis);
        let references: Vec<Windows> = references.iter().map(|tokens| windows(tokens)).collect();
        let references: Vec<&Windows> = references.iter().collect();
        Some(Self {
            hypothesis_len: hypothesis.len() as u64,
            reference_len: reference_len as u64,
            matched: std::array::from_fn(|order| counted.matched(&references, order + 1)),
            total: std::array::from_fn(|order| counted.total(order + 1)),
        })
    }

    /// Adds the counts of another segment or corpus.
    pub fn add(&mut self, other: &Self) {
        self.hypothesis_len += other.hypothesis_len;
        self.reference_len += other.reference_len;
        for order in 0..ORDER {
            self.matched[order] += other.matched[order];
            self.total[order] += other.total[order];
        }
    }

    /// The score, 0 to 100.
    pub fn score(&self, options: &BleuOptions) -> f64 {
        if self.matched.iter().all(|matched| *matched == 0) {
            return 0.0;
        }
        let (mut log_sum, mut orders, mut pseudo_match) = (0.0, ORDER, 1.0);
        for order in 0..ORDER {
            let (mut matched, mut total) = (self.matched[order] as f64, self.total[order] as f64);
            if let (Smoothing::AddK(k), 1..) = (options.smoothing, order) {
                matched += k;
                total += k;
            }
            if total == 0.0 {
                // Orders beyond the hypothesis have precision zero unless they are left out.
                if !options.effective_order {
                    return 0.0;
                }
                break;
            }
            if options.effective_order {
                orders = order + 1;
            }
            if matched == 0.0 {
                match options.smoothing {
                    Smoothing::None | Smoothing::AddK(_) => return 0.0,
                    Smoothing::Floor(value) => matched = value,
                    Smoothing::Exp => {
                        pseudo_match /= 2.0;
                        matched = pseudo_match;
                    }
                }
            }
            log_sum += (100.0 * matched / total).ln();
        }
        self.brevity_penalty() * (log_sum / orders as f64).exp()
    }

    fn brevity_penalty(&self) -> f64 {
        if self.hypothesis_len >= self.reference_len {
            1.0
        } else if self.hypothesis_len == 0 {
            0.0
        } else {
            (1.0 - self.reference_len as f64 / self.hypothesis_len as f64).exp()
        }
    }
}

/// BLEU of one segment against its references; `None` without references.
pub fn sentence_bleu(hypothesis: &str, references: &[&str], options: &BleuOptions) -> Option<f64> {
    BleuStats::of_segment(hypothesis, references, options.lowercase)
        .map(|stats| stats.score(options))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(hypothesis: &str, references: &[&str]) -> f64 {
        sentence_bleu(hypothesis, references, &BleuOptions::SENTENCE).unwrap()
    }

    #[test]
    fn identical_and_foreign_texts() {
        assert!((sentence("a b c d e", &["a b c d e"]) - 100.0).abs() < 1e-9);
        assert!((sentence("a b", &["a b"]) - 100.0).abs() < 1e-9);
        assert_eq!(sentence("a b", &["c d"]), 0.0);
        assert_eq!(sentence("", &["c d"]), 0.0);
        assert_eq!(sentence("", &[""]), 0.0);
        assert_eq!(sentence_bleu("a", &[], &BleuOptions::SENTENCE), None);
    }

    #[test]
    fn short_hypotheses_need_the_effective_order() {
        assert_eq!(sentence_bleu("a b", &["a b"], &BleuOptions::CORPUS), Some(0.0));
    }

    #[test]
    fn several_references_clip_by_the_best_and_measure_by_the_closest() {
        // sacrebleu.sentence_bleu('the the cat sat', ['the cat sat down there', 'the the dog'])
        let score = sentence("the the cat sat", &["the cat sat down there", "the the dog"]);
        assert!((score - 70.71067811865478).abs() < 1e-9, "{score}");
    }

    #[test]
    fn smoothing_by_name() {
        assert_eq!(Smoothing::new("floor", None), Ok(Smoothing::Floor(0.1)));
        assert_eq!(Smoothing::new("add-k", Some(2.0)), Ok(Smoothing::AddK(2.0)));
        assert!(matches!(Smoothing::new("exp", Some(1.0)), Err(SmoothingError::NoValue(_))));
        assert!(matches!(Smoothing::new("floor", Some(-1.0)), Err(SmoothingError::Value(_))));
        assert!(matches!(Smoothing::new("expo", None), Err(SmoothingError::Method(_))));
    }

    #[test]
    fn signatures_are_sacrebleus() {
        assert_eq!(
            BleuOptions::CORPUS.signature(Some(1)),
            "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
        );
        let floor = BleuOptions {
            smoothing: Smoothing::Floor(0.1),
            lowercase: true,
            ..BleuOptions::SENTENCE
        };
        assert_eq!(
            floor.signature(None),
            "nrefs:var|case:lc|eff:yes|tok:13a|smooth:floor[0.10]|version:2.6.0"
        );
    }
}
