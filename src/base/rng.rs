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
        splitmix64(self.state.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed))
    }
}

/// The step of SplitMix64's counter: 2^64 divided by the golden ratio, made odd.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number that SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) gives in state `x`: a bijection of
/// the 64-bit integers, and so a counter-based generator for results that must not depend on the
/// order in which numbers are drawn.
#[inline]
pub const fn splitmix64(x: u64) -> u64 {
    mix64(x.wrapping_add(GOLDEN_GAMMA))
}

/// SplitMix64's finaliser: a bijection of the 64-bit integers that scatters every bit.
#[inline]
pub const fn mix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `len` random characters of Crockford's base 32, lower case: safe in file names and keys.
pub fn random_name(rng: &dyn Rng, len: usize) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..len).map(|_| ALPHABET[(rng.next_u64() >> 59) as usize] as char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the published generator with the seed 1234567.
    #[test]
    fn the_sequence_is_the_published_one() {
        let rng = SeededRng::new(1_234_567);
        let drawn: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(drawn, published);
        assert_eq!(splitmix64(1_234_567), published[0]);
    }
}
