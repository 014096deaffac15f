//! A counter-based random number generator: each number is a function of a seed, of what it is for and of its number, so
//! that a fit which was stopped goes on as if it had not been.

use proofmill_base::rng::splitmix64;

/// The random numbers of one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterRng(u64);

/// What numbers are for. The numbers of different purposes have nothing to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// First weights of a parameter.
    Weights,
    /// Order of the pairs in an epoch.
    Pairs,
    /// Order of the batches in an epoch.
    Batches,
    Dropout,
}

impl CounterRng {
    /// The numbers of `purpose`.
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        let salt = match purpose {
            Purpose::Weights => 1,
            Purpose::Pairs => 2,
            Purpose::Batches => 3,
            Purpose::Dropout => 4,
        };
        Self(splitmix64(splitmix64(seed) ^ salt))
    }

    /// The numbers of a part of it.
    pub fn of(self, part: u64) -> Self {
        Self(splitmix64(self.0 ^ part))
    }

    /// 64 random bits.
    pub fn bits(self, index: u64) -> u64 {
        splitmix64(self.0 ^ index)
    }

    /// About normal, with mean 0 and variance 1, never beyond 3.5: the sum of four even numbers. It
    /// needs no function of the system's library, whose last bits differ.
    pub fn normal(self, index: u64) -> f32 {
        let bits = self.bits(index);
        let sum: u64 = (0..4).map(|part| bits >> (16 * part) & 0xFFFF).sum();
        ((sum as f64 + 2.0) / 65_536.0 - 2.0) as f32 * 3_f32.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_parts_and_seeds_differ() {
        let of = |seed, purpose, part| CounterRng::new(seed, purpose).of(part).bits(0);
        let base = of(7, Purpose::Pairs, 1);
        assert_eq!(base, of(7, Purpose::Pairs, 1));
        let others =
            [of(8, Purpose::Pairs, 1), of(7, Purpose::Batches, 1), of(7, Purpose::Pairs, 2)];
        assert!(others.iter().all(|&other| other != base));
    }

    #[test]
    fn the_sum_is_about_normal() {
        let rng = CounterRng::new(0, Purpose::Weights);
        let draws: Vec<f64> = (0..100_000).map(|i| f64::from(rng.normal(i))).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.01 && (square - 1.0).abs() < 0.01, "{mean} {square}");
        assert!(draws.iter().all(|x| x.abs() < 3.5));
    }
}
