//! Proportions: the Wilson interval, the same over clusters, and the unpaired z test for contrast.

use std::hash::Hash;

use super::{
    Interval, ROUNDING, StatsError, clustered_se, normal_multiplier, t_multiplier, two_sided_p,
};

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
    let p = successes as f64 / n as f64;
    let (low, high) = score(p, n as f64, z);
    Ok(Interval { estimate: p, low, high, se: (p * (1.0 - p) / n as f64).sqrt() })
}

/// The Wilson interval of a proportion whose observations, 0 or 1, come in clusters: of as many trials as would give the
/// [clustered error](clustered_se), with the multiplier of the t distribution with G - 1 degrees of freedom. `se` is the clustered error.
///
/// The trials are p(1-p)/se², but no more than there are observations: an error below that of independent observations is chance as a
/// rule. Where the clusters do not differ the error is unknown (`se` is NaN), and each cluster counts as one trial, as if its observations
/// always agreed. With one cluster there is no interval (NaN).
pub fn clustered_wilson<C: Eq + Hash>(
    values: &[f64],
    clusters: &[C],
    level: f64,
) -> Result<Interval, StatsError> {
    let found = clustered_se(values, clusters)?;
    let (p, n, groups) = (found.mean, found.n as f64, found.clusters as f64);
    let multiplier = t_multiplier(level, groups - 1.0)?;
    let differ = found.se > ROUNDING;
    let trials = if differ { (p * (1.0 - p) / found.se.powi(2)).min(n) } else { groups };
    let (low, high) = score(p, trials, multiplier);
    let se = if differ { found.se } else { f64::NAN };
    Ok(Interval { estimate: p, low, high, se })
}

/// Bounds of the score interval of a proportion of so many trials, which may be a fraction.
fn score(p: f64, trials: f64, multiplier: f64) -> (f64, f64) {
    let squared = multiplier * multiplier / trials;
    let center = (p + squared / 2.0) / (1.0 + squared);
    let half =
        multiplier / (1.0 + squared) * (p * (1.0 - p) / trials + squared / (4.0 * trials)).sqrt();
    // Without rounding at the ends, where the interval begins; NaN stays.
    let low = if p == 0.0 && !half.is_nan() { 0.0 } else { (center - half).clamp(0.0, 1.0) };
    let high = if p == 1.0 && !half.is_nan() { 1.0 } else { (center + half).clamp(0.0, 1.0) };
    (low, high)
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
    use crate::stats::rng::Stream;

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
    fn clustered_wilson_agrees_with_statsmodels() {
        // statsmodels: se of OLS(x, 1).fit(cov_type='cluster'), then proportion_confint(p * m, m, 2 * norm.sf(t.ppf(.975, 4)), 'wilson')
        // with m = p(1-p)/se².
        let values = [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0];
        let clusters = [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4];
        let found = clustered_wilson(&values, &clusters, 0.95).unwrap();
        let expected = (0.342944120621, 0.962628799788, 0.13784955189904);
        assert!((found.low - expected.0).abs() < 1e-9, "{found:?}");
        assert!((found.high - expected.1).abs() < 1e-9, "{found:?}");
        assert!((found.se - expected.2).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn clusters_that_do_not_differ_are_one_trial_each() {
        assert!(matches!(clustered_wilson(&[1.0; 4], &[0], 0.95), Err(StatsError::Length { .. })));
        let of = |values: &[f64], size: usize| {
            let clusters: Vec<usize> = (0..values.len()).map(|i| i / size).collect();
            clustered_wilson(values, &clusters, 0.95).unwrap()
        };
        // As three trials of three, by the t distribution with two degrees of freedom: 3/(3 + 4.302653²).
        let right = of(&[1.0; 30], 10);
        assert!((right.low - 3.0 / (3.0 + 4.302_652_729_f64.powi(2))).abs() < 1e-6, "{right:?}");
        assert_eq!(right.high, 1.0);
        assert!(right.se.is_nan());
        let halves = of(&[1.0, 0.0].repeat(15), 10);
        assert!(halves.se.is_nan() && halves.low > 0.0 && halves.high < 1.0, "{halves:?}");
        let one = of(&[1.0, 0.0, 1.0], 3);
        assert!(one.low.is_nan() && one.high.is_nan(), "{one:?}");
        assert_eq!(one.estimate, 2.0 / 3.0);
    }

    /// Part of simulated tables whose interval holds the true rate: by [`clustered_wilson`], and by the t distribution alone.
    fn coverage(rate: f64, clusters: u64, size: u64, shared: f64) -> (f64, f64) {
        const TABLES: u64 = 2_000;
        let mut stream = Stream::new(7, 0);
        let mut is_so = |rate: f64| (stream.next_u64() as f64) < rate * 2f64.powi(64);
        let mut held = (0, 0);
        for _ in 0..TABLES {
            let (mut values, mut labels) = (Vec::new(), Vec::new());
            for cluster in 0..clusters {
                let common = is_so(rate);
                for _ in 0..size {
                    let own = is_so(rate);
                    let value = if is_so(shared) { common } else { own };
                    values.push(f64::from(u8::from(value)));
                    labels.push(cluster);
                }
            }
            let wilson = clustered_wilson(&values, &labels, 0.95).unwrap();
            let plain = clustered_se(&values, &labels).unwrap();
            let half = t_multiplier(0.95, plain.df()).unwrap() * plain.se;
            held.0 += u64::from((wilson.low..=wilson.high).contains(&rate));
            held.1 += u64::from((rate - plain.mean).abs() <= half);
        }
        (held.0 as f64 / TABLES as f64, held.1 as f64 / TABLES as f64)
    }

    #[test]
    fn few_clusters_of_a_high_rate_are_covered() {
        let [mut worst, mut of_t]: [f64; 2] = [1.0; 2];
        for (rate, clusters) in [(0.5, 5), (0.5, 12), (0.9, 5), (0.9, 12), (0.97, 5), (0.97, 12)] {
            for shared in [0.0, 0.6] {
                let (wilson, plain) = coverage(rate, clusters, 4, shared);
                println!(
                    "rate {rate}, {clusters} clusters of 4, {shared} shared: {wilson:.3} (t alone {plain:.3})"
                );
                (worst, of_t) = (worst.min(wilson), of_t.min(plain));
            }
        }
        assert!(worst > 0.94 && of_t < 0.6, "{worst} {of_t}");
    }

    /// Few large clusters that mostly agree: where none of a dozen shows the rare outcome, nothing tells how much they agree, and
    /// no interval from the rows alone holds the rate as often as it says.
    #[test]
    fn few_large_clusters_of_a_high_rate_are_not() {
        for (rate, clusters) in [(0.5, 12), (0.9, 12), (0.97, 12), (0.97, 40)] {
            let (wilson, plain) = coverage(rate, clusters, 20, 0.6);
            println!(
                "rate {rate}, {clusters} clusters of 20, 0.6 shared: {wilson:.3} (t alone {plain:.3})"
            );
            assert_eq!(wilson > 0.94, rate == 0.5, "{rate} {clusters}: {wilson}");
        }
    }

    #[test]
    fn equal_proportions_raise_no_alarm() {
        assert_eq!(two_proportion_z(1.0, 5, 1.0, 5).unwrap().p, 1.0);
        assert!(two_proportion_z(1.5, 5, 1.0, 5).is_err());
    }
}
