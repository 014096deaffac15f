//! The k best entries without looking at all postings: MaxScore over windows of ordinals.
//!
//! Turtle and Flood, "Query evaluation: strategies and optimizations" (1995); windows as in
//! Lucene's `MaxScoreBulkScorer`. Lists are sorted by falling weight. The tail of lists that
//! together cannot lift an entry above the current k-th score is not essential: entries found only
//! there are skipped, and for the others these lists are read by `seek`.
//!
//! Bits do not depend on pruning. The score of an entry is by definition
//! `((absent + gain_1) + gain_2) + …` in `f64`, over its terms by falling weight (ties by term).
//! Essential lists come first in that order, so windows add exactly in that order, and a finished
//! sum is never rounded in another way. Bounds carry a slack for the rounding of their own sums.

use std::sync::Arc;

use tantivy::TERMINATED;
use tantivy::postings::BlockSegmentPostings;

use crate::dense::{Dense, Occurs};
use crate::scoring::Scoring;
use crate::terms::KnownTerm;
use crate::topk::{Hit, TopK};

/// Ordinals per window: 32 KiB of sums.
const WINDOW: usize = 4096;

/// The postings of one query term.
pub(super) struct List {
    postings: BlockSegmentPostings,
    dense: Option<Arc<Dense>>,
    /// Position in the current block, and the ordinal there.
    at: usize,
    doc: u32,
    weight: f64,
    /// What an entry without the term gets.
    absent: f64,
    /// No posting gains more.
    bound: f64,
    /// No number in a gain is larger.
    magnitude: f64,
}

impl List {
    /// The `postings` of `term`, which is worth `weight`.
    pub fn new(
        postings: BlockSegmentPostings,
        term: KnownTerm,
        weight: f64,
        scoring: &Scoring,
    ) -> Self {
        let KnownTerm { best_part, dense, .. } = term;
        let doc = postings.doc(0);
        let absent = weight * scoring.absent_part();
        let bound = if weight > 0.0 { (weight * best_part - absent).max(0.0) } else { 0.0 };
        let magnitude = (weight * best_part).abs() + absent.abs();
        Self { postings, dense, at: 0, doc, weight, absent, bound, magnitude }
    }

    fn gain(&self, part: f64) -> f64 {
        self.weight * part - self.absent
    }

    /// Adds the gains of all postings inside the window and moves behind it.
    fn add_to(&mut self, window: &mut Window, scoring: &Scoring) {
        let end = window.start.saturating_add(WINDOW as u32).min(TERMINATED);
        while self.doc < end {
            let docs = &self.postings.docs()[self.at..];
            let freqs = &self.postings.freqs()[self.at..];
            let inside = match docs.last() {
                Some(&last) if last < end => docs.len(),
                _ => docs.partition_point(|&doc| doc < end),
            };
            for (&doc, &f) in docs[..inside].iter().zip(freqs) {
                window.add(doc, self.gain(scoring.part(doc, f)));
            }
            if inside == docs.len() {
                self.postings.advance();
                self.at = 0;
            } else {
                self.at += inside;
            }
            self.doc = self.postings.doc(self.at);
        }
    }

    /// Adds the gains of the candidates, which ascend, and drops those that `can_enter` refuses.
    fn add_to_candidates(
        &mut self,
        candidates: &mut Vec<Hit>,
        scoring: &Scoring,
        can_enter: impl Fn(f64) -> bool,
    ) {
        let dense = self.dense.clone();
        // Without jumps for the usual case, so that many candidates are in flight at once.
        let mut kept = 0;
        for i in 0..candidates.len() {
            let Hit { ordinal, mut score } = candidates[i];
            match dense.as_ref().map_or(Occurs::Repeatedly, |dense| dense.occurs(ordinal)) {
                Occurs::Repeatedly => {
                    if let Some(f) = self.frequency(ordinal) {
                        score += self.gain(scoring.part(ordinal, f));
                    }
                }
                occurs => {
                    let gain = self.gain(scoring.part(ordinal, 1));
                    score += if occurs == Occurs::Once { gain } else { 0.0 };
                }
            }
            candidates[kept] = Hit { ordinal, score };
            kept += usize::from(can_enter(score));
        }
        candidates.truncate(kept);
    }

    /// How often the term stands in `doc`; called with ascending ordinals only.
    fn frequency(&mut self, doc: u32) -> Option<u32> {
        if self.doc < doc {
            self.at = self.postings.seek(doc);
            self.doc = self.postings.doc(self.at);
        }
        (self.doc == doc).then(|| self.postings.freq(self.at))
    }
}

/// Sums of a run of ordinals.
struct Window {
    start: u32,
    /// What an entry has before any gain.
    absent: f64,
    sums: Vec<f64>,
    seen: [u64; WINDOW / 64],
}

impl Window {
    fn new(absent: f64) -> Self {
        Self { start: 0, absent, sums: vec![absent; WINDOW], seen: [0; WINDOW / 64] }
    }

    fn add(&mut self, doc: u32, gain: f64) {
        let slot = (doc - self.start) as usize;
        self.sums[slot] += gain;
        self.seen[slot / 64] |= 1 << (slot % 64);
    }

    /// Moves the sums that `can_enter` accepts to `candidates`, by ascending ordinal, and empties
    /// the window.
    fn drain(&mut self, candidates: &mut Vec<Hit>, can_enter: impl Fn(f64) -> bool) {
        for (word, seen) in (0u32..).zip(&mut self.seen) {
            let mut bits = std::mem::take(seen);
            while bits != 0 {
                let slot = word * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let score = std::mem::replace(&mut self.sums[slot as usize], self.absent);
                if can_enter(score) {
                    candidates.push(Hit { ordinal: self.start + slot, score });
                }
            }
        }
    }
}

/// The `k` best entries over `lists`, which are sorted by falling weight. `excluded` is sorted.
pub(super) fn best(lists: &mut [List], scoring: &Scoring, k: usize, excluded: &[u32]) -> Vec<Hit> {
    let absent: f64 = lists.iter().map(|list| list.absent).sum();
    let rest = suffix_sums(lists);
    let slack = slack(lists, absent);
    let mut top = TopK::new(k, 0.0);
    let mut window = Window::new(absent);
    let mut candidates = Vec::with_capacity(WINDOW);
    let mut essential = lists.len();
    loop {
        while essential > 0 && absent + rest[essential - 1] + slack <= top.floor() {
            essential -= 1;
        }
        let (essentials, others) = lists.split_at_mut(essential);
        match essentials.iter().map(|list| list.doc).min() {
            None | Some(TERMINATED) => return top.into_hits(),
            Some(doc) => window.start = doc,
        }
        for list in essentials {
            list.add_to(&mut window, scoring);
        }
        let can_enter = |score: f64, rest: f64| score + rest + slack > top.floor();
        window.drain(&mut candidates, |score| can_enter(score, rest[essential]));
        if !excluded.is_empty() {
            candidates.retain(|hit| excluded.binary_search(&hit.ordinal).is_err());
        }
        for (list, &rest) in others.iter_mut().zip(&rest[essential + 1..]) {
            list.add_to_candidates(&mut candidates, scoring, |score| can_enter(score, rest));
        }
        for hit in candidates.drain(..) {
            top.offer(hit);
        }
    }
}

/// `rest[i]`: no entry gains more from `lists[i..]`.
fn suffix_sums(lists: &[List]) -> Vec<f64> {
    let mut rest = vec![0.0; lists.len() + 1];
    for (i, list) in lists.iter().enumerate().rev() {
        rest[i] = rest[i + 1] + list.bound;
    }
    rest
}

/// More than the rounding error of any sum of gains and bounds here: each of at most `2 n + 2`
/// additions errs by at most half an epsilon of the sum of all magnitudes.
fn slack(lists: &[List], absent: f64) -> f64 {
    let magnitude: f64 = lists.iter().map(|list| list.magnitude).sum();
    4.0 * (lists.len() + 1) as f64 * f64::EPSILON * (magnitude + absent.abs())
}
