//! A counter-based random number generator: each number is a function of what is sampled and of
//! nothing else, so that it is the same in any batch, in any order, on any device.
//!
//! With `g = -ln(-ln u)`, `u` uniform in (0, 1) and independent per token, `argmax(logit + g)` is an
//! exact sample of `softmax(logit)` (the Gumbel-max trick).

use proofmill_base::rng::splitmix64;

/// The random numbers of one row, sample and step, one for each token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterRng(u64);

impl CounterRng {
    /// `row` names the request (the first eight bytes of its digest, big endian), `sample` its
    /// answer, `step` the new token, from 0.
    pub fn new(seed: u64, row: u64, sample: u32, step: u32) -> Self {
        Self(splitmix64(
            splitmix64(splitmix64(splitmix64(seed) ^ row) ^ u64::from(sample)) ^ u64::from(step),
        ))
    }

    /// The state from which a device computes the numbers of all tokens.
    pub(crate) fn state(self) -> u64 {
        self.0
    }

    /// The 53 bits of `u` as an integer: `u = (bits + 1/2) / 2^53`.
    pub fn bits(self, token: u32) -> u64 {
        splitmix64(self.0 ^ u64::from(token)) >> 11
    }

    /// `u`, in (0, 1).
    pub fn uniform(self, token: u32) -> f64 {
        (self.bits(token) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// `-ln(-ln u)`.
    pub fn gumbel(self, token: u32) -> f64 {
        -(-self.uniform(token).ln()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_name_matters() {
        let base = CounterRng::new(7, 1, 2, 3).bits(4);
        let others = [
            CounterRng::new(8, 1, 2, 3).bits(4),
            CounterRng::new(7, 2, 2, 3).bits(4),
            CounterRng::new(7, 1, 3, 3).bits(4),
            CounterRng::new(7, 1, 2, 4).bits(4),
            CounterRng::new(7, 1, 2, 3).bits(5),
            CounterRng::new(1, 7, 2, 3).bits(4),
        ];
        assert!(others.iter().all(|&other| other != base));
    }

    #[test]
    fn draws_are_uniform_and_finite() {
        let rng = CounterRng::new(0, 0, 0, 0);
        let draws: Vec<f64> = (0..100_000).map(|token| rng.uniform(token)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 0.5).abs() < 0.004, "{mean}");
        assert!((0..100_000).all(|token| rng.gumbel(token).is_finite()));
        // The mean of a Gumbel variable is Euler's constant.
        let mean = (0..100_000).map(|token| rng.gumbel(token)).sum::<f64>() / 1e5;
        assert!((mean - 0.5772).abs() < 0.02, "{mean}");
    }
}
