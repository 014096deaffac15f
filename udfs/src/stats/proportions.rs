//! Proportions: the Wilson interval, and the unpaired z test for contrast.

use super::{Interval, StatsError, normal_multiplier, two_sided_p};

/// The Wilson score interval of a proportion (Wilson 1927). `se` is sqrt(p(1-p)/n).
///
/// Unlike the normal interval it stays inside [0, 1] and is not empty at 0 or n successes.
pub fn wilson(successes: u64, n: u64, level: f64) -> Result<Interval, StatsError> {
    let z = normal_multiplier(level)?;
    if n == 0 {
        return Err(StatsError::Empty);
    }
    if successes > n {
        return Err(StatsError::Successes { successes, n });
    }
    let trials = n as f64;
    let p = successes as f64 / trials;
    let z2 = z * z / trials;
    let center = (p + z2 / 2.0) / (1.0 + z2);
    let half = z / (1.0 + z2) * (p * (1.0 - p) / trials + z2 / (4.0 * trials)).sqrt();
    Ok(Interval {
        estimate: p,
        low: if successes == 0 { 0.0 } else { (center - half).max(0.0) },
        high: if successes == n { 1.0 } else { (center + half).min(1.0) },
        se: (p * (1.0 - p) / trials).sqrt(),
    })
}

/// The unpaired z test of two proportions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TwoProportionZ {
    /// (p2 - p1) in standard errors.
    pub z: f64,
    pub p: f64,
}

/// The unpaired z test with unpooled variance. For contrast only: two systems that answered the
/// same items are paired, and this test then has too little power.
pub fn two_proportion_z(p1: f64, n1: u64, p2: f64, n2: u64) -> Result<TwoProportionZ, StatsError> {
    for (name, value) in [("p1", p1), ("p2", p2)] {
        if !(0.0..=1.0).contains(&value) {
            return Err(StatsError::Probability { name, value });
        }
    }
    if n1 == 0 || n2 == 0 {
        return Err(StatsError::Empty);
    }
    if p1 == p2 {
        return Ok(TwoProportionZ { z: 0.0, p: 1.0 });
    }
    let variance = p1 * (1.0 - p1) / n1 as f64 + p2 * (1.0 - p2) / n2 as f64;
    let z = (p2 - p1) / variance.sqrt();
    Ok(TwoProportionZ { z, p: two_sided_p(z) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_agrees_with_statsmodels() {
        // statsmodels.stats.proportion.proportion_confint(x, n, method='wilson')
        let interval = wilson(7, 10, 0.95).unwrap();
        assert!((interval.low - 0.3967781).abs() < 1e-6, "{interval:?}");
        assert!((interval.high - 0.8922087).abs() < 1e-6, "{interval:?}");
    }

    #[test]
    fn wilson_at_the_edges() {
        let none = wilson(0, 20, 0.95).unwrap();
        let all = wilson(20, 20, 0.95).unwrap();
        assert_eq!(none.low, 0.0);
        assert!((none.high - 0.161125).abs() < 1e-6, "{none:?}");
        assert_eq!(all.high, 1.0);
        assert!((all.low - (1.0 - none.high)).abs() < 1e-12);
        assert_eq!(wilson(0, 0, 0.95), Err(StatsError::Empty));
        assert!(matches!(wilson(3, 2, 0.95), Err(StatsError::Successes { .. })));
    }

    #[test]
    fn equal_proportions_raise_no_alarm() {
        assert_eq!(two_proportion_z(1.0, 5, 1.0, 5).unwrap().p, 1.0);
        assert!(two_proportion_z(1.5, 5, 1.0, 5).is_err());
    }
}
