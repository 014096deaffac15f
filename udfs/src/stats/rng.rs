//! Counter-based random numbers: draw `j` of stream `r` under a seed is a pure function of the
//! three, so that no result depends on the order in which streams are computed.
//!
//! The mixing function is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", OOPSLA 2014); the counter form follows Salmon et al., "Parallel random numbers: as
//! easy as 1, 2, 3", SC 2011.

use proofmill_base::rng::{GOLDEN_GAMMA, mix64};

/// Up to this many items one 64-bit draw gives two indices; the bias stays below 2^-16.
const PAIRED_ITEMS_MAX: usize = 1 << 16;

/// One stream of random numbers: a key and a counter.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    state: u64,
}

impl Stream {
    /// Stream `stream` under `seed`.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        Self {
            state: mix64(
                mix64(seed.wrapping_add(GOLDEN_GAMMA))
                    ^ mix64(stream.wrapping_mul(GOLDEN_GAMMA) ^ !seed),
            ),
        }
    }

    /// The next 64 random bits.
    #[inline]
    pub(super) fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_GAMMA);
        mix64(self.state)
    }

    /// Calls `use_index` with `n` indices drawn with replacement from `0..n`.
    #[inline]
    pub(super) fn for_each_index(&mut self, n: usize, mut use_index: impl FnMut(usize)) {
        if n <= PAIRED_ITEMS_MAX {
            let bound = n as u64;
            for _ in 0..n / 2 {
                let bits = self.next_u64();
                use_index((((bits >> 32) * bound) >> 32) as usize);
                use_index((((bits & 0xffff_ffff) * bound) >> 32) as usize);
            }
            if n % 2 == 1 {
                use_index((((self.next_u64() >> 32) * bound) >> 32) as usize);
            }
        } else {
            for _ in 0..n {
                use_index(((u128::from(self.next_u64()) * n as u128) >> 64) as usize);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_drawn_about_equally_often_and_none_outside() {
        for n in [1, 2, 7, 500] {
            let mut hits = vec![0u32; n];
            for stream in 0..2000 {
                Stream::new(42, stream).for_each_index(n, |index| hits[index] += 1);
            }
            for hit in hits {
                // 2000 expected, standard deviation below 45.
                assert!((1750..2250).contains(&hit), "{hit} hits for n = {n}");
            }
        }
    }

    #[test]
    fn large_samples_stay_in_range() {
        let n = PAIRED_ITEMS_MAX + 1;
        let (mut largest, mut count) = (0, 0);
        Stream::new(1, 1).for_each_index(n, |index| {
            largest = largest.max(index);
            count += 1;
        });
        assert!(largest < n && largest > n - 100);
        assert_eq!(count, n);
    }

    #[test]
    fn seeds_and_streams_differ() {
        let first = |seed, stream| Stream::new(seed, stream).next_u64();
        let drawn = [first(0, 0), first(0, 1), first(1, 0), first(1, 1), first(2, 0)];
        let distinct: std::collections::HashSet<_> = drawn.iter().collect();
        assert_eq!(distinct.len(), drawn.len());
        assert_eq!(first(7, 9), first(7, 9));
    }
}
