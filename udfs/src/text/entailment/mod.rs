//! EntailmentBank's scores of proofs: their text, which intermediate stands for which, and the scores.
//!
//! Source: EntailmentBank (Dalvi et al. 2021) and its released scorer (allenai/entailment_bank,
//! `eval/run_scorer.py`). Where that scorer errs, this one does not: an intermediate that shares no
//! leaf with the gold proof is no perfect match, two intermediates of the same text stay two, and
//! similarities that are not known leave scores unknown instead of wrong.

mod align;
mod proof;
mod scores;

pub use align::{Aligned, Ties, align};
pub use proof::{Malformed, Premise, Proof, Step};
pub use scores::{BLEURT_THRESHOLD, intermediates, leaves, steps};
