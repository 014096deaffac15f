//! Randomness as a component: names that must not collide and jitter, nothing that decides a result.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random bits. Results never depend on it: sampling in a pipeline is seeded there.
pub trait Rng: Debug + Send + Sync {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;
}

/// SplitMix64 from a given seed: the same seed gives the same sequence.
#[derive(Debug)]
pub struct SeededRng {
    state: AtomicU64,
}

impl SeededRng {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// A generator seeded by the operating system's randomness.
    #[expect(clippy::disallowed_methods, reason = "the one place that draws real randomness")]
    pub fn from_entropy() -> Self {
        use std::hash::{BuildHasher, Hasher};
        Self::new(std::hash::RandomState::new().build_hasher().finish())
    }
}

impl Rng for SeededRng {
    fn next_u64(&self) -> u64 {
        const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z =
            self.state.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed).wrapping_add(GOLDEN_GAMMA);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// `len` random characters of Crockford's base 32, lower case: safe in file names and keys.
pub fn random_name(rng: &dyn Rng, len: usize) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..len).map(|_| ALPHABET[(rng.next_u64() >> 59) as usize] as char).collect()
}
