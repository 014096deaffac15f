//! How often and how long to wait: delays as an iterator, jitter from the injected randomness.

use std::time::Duration;

use crate::rng::Rng;

/// Exponential back-off with full jitter.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Attempts after the first.
    pub retries_max: u32,
    /// Upper bound of the first delay; doubles each time.
    pub first_delay: Duration,
    /// Upper bound of every delay.
    pub delay_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries_max: 6,
            first_delay: Duration::from_millis(50),
            delay_max: Duration::from_secs(10),
        }
    }
}

impl RetryPolicy {
    /// The delays before each further attempt.
    pub fn delays<'a>(&self, rng: &'a dyn Rng) -> impl Iterator<Item = Duration> + use<'a> {
        let policy = *self;
        (0..policy.retries_max).map(move |retry| policy.delay(retry, rng.next_u64()))
    }

    /// The delay before retry `retry`, from 0: evenly spread from nothing to a bound that doubles, as
    /// the 64 bits of `random` say.
    pub fn delay(&self, retry: u32, random: u64) -> Duration {
        let bound = self.first_delay.saturating_mul(1 << retry.min(20)).min(self.delay_max);
        bound.mul_f64((random >> 11) as f64 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SeededRng;

    #[test]
    fn delays_stay_below_their_bounds() {
        let policy = RetryPolicy::default();
        let delays: Vec<_> = policy.delays(&SeededRng::new(7)).collect();
        assert_eq!(delays.len(), 6);
        for (attempt, delay) in delays.iter().enumerate() {
            assert!(*delay <= policy.first_delay * (1 << attempt));
        }
    }
}
