//! Which segments to merge: neighbours in the order of the log, once enough of one size have gathered.
//!
//! Only neighbours, because of two answers to one request the earlier counts: a segment takes the place
//! of what it was merged from. Sizes grow by a factor from tier to tier, so each answer is rewritten
//! about once per tier, and the number of segments grows with the logarithm of the ledger until
//! segments are full.

use std::ops::Range;

/// The sizes at which segments are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// Segments of less are of the lowest tier, in bytes.
    pub lowest_bytes: u64,
    /// How much larger the segments of the next tier are.
    pub growth: u64,
    /// Segments of a tier from which on they are merged.
    pub merge_min: usize,
    pub merge_max: usize,
    /// Size that a merged segment stays below, in bytes; those of half of it are left alone.
    pub full_bytes: u64,
}

impl Default for Tiers {
    fn default() -> Self {
        Self {
            lowest_bytes: 1 << 20,
            growth: 8,
            merge_min: 8,
            merge_max: 32,
            full_bytes: 512 << 20,
        }
    }
}

impl Tiers {
    /// Neighbours among segments of these `sizes` in bytes, earliest first, that should become one.
    pub fn pick(&self, sizes: &[u64]) -> Option<Range<usize>> {
        let tiers: Vec<Option<u32>> = sizes.iter().map(|size| self.tier(*size)).collect();
        let highest = tiers.iter().flatten().max()?;
        (0..=*highest).find_map(|tier| {
            let run = runs(&tiers, tier).into_iter().find(|run| {
                let of_tier = tiers[run.clone()].iter().filter(|t| **t == Some(tier));
                of_tier.count() >= self.merge_min
            })?;
            Some(self.fill(run, sizes))
        })
    }

    /// The tier of a segment; none when it is full.
    fn tier(&self, size: u64) -> Option<u32> {
        if size >= self.full_bytes / 2 {
            return None;
        }
        let mut tier = 0;
        let mut below = self.lowest_bytes;
        while size >= below {
            below = below.saturating_mul(self.growth.max(2));
            tier += 1;
        }
        Some(tier)
    }

    /// The first segments of `run` that fit into one.
    fn fill(&self, run: Range<usize>, sizes: &[u64]) -> Range<usize> {
        let mut bytes = 0;
        let fits = |at: &usize| {
            bytes += sizes[*at];
            bytes < self.full_bytes
        };
        let count = run.clone().take(self.merge_max.max(2)).take_while(fits).count();
        run.start..run.start + count
    }
}

/// The longest stretches of neighbours of at most `tier`.
fn runs(tiers: &[Option<u32>], tier: u32) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (at, of) in tiers.iter().enumerate() {
        if of.is_none_or(|of| of > tier) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIERS: Tiers =
        Tiers { lowest_bytes: 10, growth: 4, merge_min: 4, merge_max: 8, full_bytes: 2000 };

    /// Appends segments, merging what `Tiers::pick` selects; returns what is left and how many
    /// bytes merges wrote.
    fn simulate(tiers: Tiers, appended: impl IntoIterator<Item = u64>) -> (Vec<u64>, u64, usize) {
        let (mut sizes, mut rewritten, mut most) = (Vec::new(), 0, 0);
        for size in appended {
            sizes.push(size);
            while let Some(range) = tiers.pick(&sizes) {
                let merged = sizes[range.clone()].iter().sum();
                rewritten += merged;
                sizes.splice(range, [merged]);
            }
            most = most.max(sizes.len());
        }
        (sizes, rewritten, most)
    }

    #[test]
    fn ten_million_answers_stay_tens_of_segments() {
        // Bytes of an answer as stored, answers of a batch, and how often each is written anew.
        for (bytes, batch, segments_max, rewrites_max) in
            [(200, 5_000, 40, 4), (200, 256, 40, 8), (5_000, 5_000, 250, 3)]
        {
            let batches = std::iter::repeat_n(batch * bytes, (10_000_000 / batch) as usize);
            let (_, rewritten, most) = simulate(Tiers::default(), batches);
            assert!(most <= segments_max, "{bytes}, {batch}: {most} segments");
            let rewrites = rewritten as f64 / (10_000_000 * bytes) as f64;
            assert!(rewrites <= f64::from(rewrites_max), "{bytes}, {batch}: {rewrites}");
        }
    }

    proptest! {
        #[test]
        fn merges_end_keep_all_bytes_and_leave_few(
            appended in prop::collection::vec(1u64..300, 0..300),
        ) {
            let total: u64 = appended.iter().sum();
            let (sizes, rewritten, most) = simulate(TIERS, appended);
            prop_assert_eq!(sizes.iter().sum::<u64>(), total);
            prop_assert!(sizes.iter().all(|size| *size < TIERS.full_bytes));
            // Five tiers of up to three, and those that are full.
            let full = usize::try_from(2 * total / TIERS.full_bytes).unwrap();
            prop_assert!(most <= 4 * 5 + 2 * full, "{} segments of {} bytes", most, total);
            prop_assert!(rewritten <= 8 * total, "{} of {}", rewritten, total);
        }

        #[test]
        fn a_pick_is_a_real_merge(sizes in prop::collection::vec(1u64..3000, 0..100)) {
            if let Some(range) = TIERS.pick(&sizes) {
                prop_assert!(range.len() >= 2 && range.len() <= TIERS.merge_max);
                prop_assert!(sizes[range].iter().sum::<u64>() < TIERS.full_bytes);
            }
        }
    }
}
