//! Bootstrap intervals of a mean: plain and over clusters, percentile and BCa.

use std::hash::Hash;

use super::clustered::cluster_sums;
use super::rng::Stream;
use super::{
    StatsError, check_lengths, check_level, check_resamples, check_values, mean, normal_cdf,
    normal_quantile, sample_sd, sorted,
};

/// An estimate with its uncertainty.
///
/// `low`, `high` and `se` are NaN where one observation (or one cluster) says nothing about spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub estimate: f64,
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Standard error; of a bootstrap: the standard deviation of the replicates.
    pub se: f64,
}

impl Interval {
    /// An estimate of unknown spread.
    pub(super) fn unknown(estimate: f64) -> Self {
        Self { estimate, low: f64::NAN, high: f64::NAN, se: f64::NAN }
    }
}

/// How the replicates become an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Quantiles of the replicates.
    Percentile,
    /// Bias-corrected and accelerated (Efron 1987).
    Bca,
}

impl std::str::FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "percentile" => Ok(Self::Percentile),
            "bca" => Ok(Self::Bca),
            _ => Err(UnknownMethod(text.to_owned())),
        }
    }
}

/// A name that is no bootstrap method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("method `{0}`; expected `percentile` or `bca`")]
pub struct UnknownMethod(pub String);

/// Bootstrap interval of the mean (Efron 1979), as `scipy.stats.bootstrap` defines both methods.
pub fn bootstrap_mean(
    values: &[f64],
    n_resamples: u32,
    seed: u64,
    level: f64,
    method: Method,
) -> Result<Interval, StatsError> {
    check_resamples(n_resamples)?;
    check_level(level)?;
    check_values(values)?;
    let values = sorted(values);
    let n = values.len();
    let estimate = mean(&values);
    if n < 2 {
        return Ok(Interval::unknown(estimate));
    }
    let replicates = mean_replicates(&values, n_resamples, seed);
    let total: f64 = values.iter().sum();
    let left_out = || values.iter().map(|value| (total - value) / (n - 1) as f64).collect();
    Ok(interval(estimate, replicates, level, method, left_out))
}

/// Bootstrap interval of the mean that resamples whole clusters: users, documents, seeds.
pub fn cluster_bootstrap<C: Eq + Hash>(
    values: &[f64],
    clusters: &[C],
    n_resamples: u32,
    seed: u64,
    level: f64,
    method: Method,
) -> Result<Interval, StatsError> {
    check_resamples(n_resamples)?;
    check_level(level)?;
    check_values(values)?;
    check_lengths(values.len(), clusters.len())?;
    let groups = cluster_sums(values, clusters);
    let total: f64 = groups.iter().map(|group| group.sum).sum();
    let n: f64 = groups.iter().map(|group| group.n).sum();
    let estimate = total / n;
    if groups.len() < 2 {
        return Ok(Interval::unknown(estimate));
    }
    let replicates = (0..n_resamples)
        .map(|replicate| {
            let (mut sum, mut n) = (0.0, 0.0);
            Stream::new(seed, replicate.into()).for_each_index(groups.len(), |index| {
                sum += groups[index].sum;
                n += groups[index].n;
            });
            sum / n
        })
        .collect();
    let left_out = || groups.iter().map(|group| (total - group.sum) / (n - group.n)).collect();
    Ok(interval(estimate, replicates, level, method, left_out))
}

/// Means of `n_resamples` resamples of `values`.
pub(super) fn mean_replicates(values: &[f64], n_resamples: u32, seed: u64) -> Vec<f64> {
    let n = values.len() as f64;
    (0..n_resamples)
        .map(|replicate| {
            let mut sum = 0.0;
            Stream::new(seed, replicate.into())
                .for_each_index(values.len(), |index| sum += values[index]);
            sum / n
        })
        .collect()
}

/// Replicates to interval. `left_out` gives the jackknife estimates, which only BCa needs.
pub(super) fn interval(
    estimate: f64,
    mut replicates: Vec<f64>,
    level: f64,
    method: Method,
    left_out: impl FnOnce() -> Vec<f64>,
) -> Interval {
    replicates.sort_unstable_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    let (low, high) = match method {
        Method::Percentile => (tail, 1.0 - tail),
        Method::Bca => bca_probabilities(estimate, &replicates, tail, &left_out()),
    };
    Interval {
        estimate,
        low: quantile(&replicates, low),
        high: quantile(&replicates, high),
        se: sample_sd(&replicates),
    }
}

/// The probabilities whose quantiles are the ends of the BCa interval.
fn bca_probabilities(estimate: f64, sorted: &[f64], tail: f64, left_out: &[f64]) -> (f64, f64) {
    let n = sorted.len() as f64;
    let below = sorted.partition_point(|replicate| *replicate < estimate) as f64;
    let up_to = sorted.partition_point(|replicate| *replicate <= estimate) as f64;
    // An estimate beyond all replicates would have an infinite bias correction.
    let share = ((below + up_to) / (2.0 * n)).clamp(0.5 / n, 1.0 - 0.5 / n);
    let bias = normal_quantile(share);
    let center = mean(left_out);
    let (mut squares, mut cubes) = (0.0, 0.0);
    for left_out in left_out {
        let pull = center - left_out;
        squares += pull * pull;
        cubes += pull * pull * pull;
    }
    let acceleration = if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 };
    let corrected = |p: f64| {
        let z = bias + normal_quantile(p);
        normal_cdf(bias + z / (1.0 - acceleration * z))
    };
    (corrected(tail), corrected(1.0 - tail))
}

/// Linear interpolation between order statistics, as `numpy.percentile` does by default.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let position = p.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let index = (position as usize).min(sorted.len() - 1);
    let next = (index + 1).min(sorted.len() - 1);
    sorted[index] + (sorted[next] - sorted[index]) * (position - index as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_interpolate_like_numpy() {
        let sorted = [1.0, 2.0, 4.0, 8.0];
        assert_eq!(quantile(&sorted, 0.0), 1.0);
        assert_eq!(quantile(&sorted, 1.0), 8.0);
        assert_eq!(quantile(&sorted, 0.5), 3.0);
        assert!((quantile(&sorted, 0.9) - 6.8).abs() < 1e-12);
        assert_eq!(quantile(&[3.0], 0.7), 3.0);
    }

    #[test]
    fn skewed_sample_moves_bca_to_the_right() {
        let values: Vec<f64> = (0..40).map(|i| f64::from(i * i * i) / 1000.0).collect();
        let percentile = bootstrap_mean(&values, 4000, 3, 0.95, Method::Percentile).unwrap();
        let bca = bootstrap_mean(&values, 4000, 3, 0.95, Method::Bca).unwrap();
        assert!(bca.low > percentile.low && bca.high > percentile.high);
        assert_eq!(bca.se, percentile.se);
    }

    #[test]
    fn standard_error_is_the_spread_of_the_replicates() {
        // p = .77, n = 500: sqrt(p(1-p)/n) = .01882, whatever the number of resamples.
        let values: Vec<f64> = (0..500).map(|i| f64::from(i < 385)).collect();
        let interval = bootstrap_mean(&values, 1000, 1, 0.95, Method::Percentile).unwrap();
        assert!((interval.se - 0.01882).abs() < 0.0015, "{interval:?}");
    }

    #[test]
    fn constants_single_values_and_nothing() {
        let constant = bootstrap_mean(&[2.5; 9], 100, 0, 0.95, Method::Bca).unwrap();
        assert_eq!((constant.low, constant.high, constant.se), (2.5, 2.5, 0.0));
        let single = bootstrap_mean(&[2.5], 100, 0, 0.95, Method::Bca).unwrap();
        assert!(single.estimate == 2.5 && single.low.is_nan() && single.se.is_nan());
        let bootstrap = |values: &[f64], n, level| {
            bootstrap_mean(values, n, 0, level, Method::Percentile).unwrap_err()
        };
        assert_eq!(bootstrap(&[], 10, 0.95), StatsError::Empty);
        assert_eq!(bootstrap(&[1.0], 0, 0.95), StatsError::Resamples(0));
        assert_eq!(bootstrap(&[1.0], u32::MAX, 0.95), StatsError::Resamples(u32::MAX));
        assert_eq!(bootstrap(&[1.0], 10, 95.0), StatsError::Level(95.0));
        assert_eq!(bootstrap(&[f64::INFINITY], 10, 0.9), StatsError::NotFinite(f64::INFINITY));
    }

    #[test]
    fn clusters_of_one_equal_the_plain_bootstrap_and_larger_ones_widen_it() {
        let values: Vec<f64> = (0..60).map(|i| f64::from(u8::from(i % 10 < 6))).collect();
        let each: Vec<u32> = (0..60).collect();
        let tens: Vec<u32> =
            (0..60).map(|i| u32::from(values[i as usize] > 0.5) + i / 30).collect();
        for method in [Method::Percentile, Method::Bca] {
            let plain = bootstrap_mean(&values, 500, 9, 0.9, method).unwrap();
            assert_eq!(cluster_bootstrap(&values, &each, 500, 9, 0.9, method).unwrap(), plain);
            let wide = cluster_bootstrap(&values, &tens, 500, 9, 0.9, method).unwrap();
            assert!(wide.se > 2.0 * plain.se);
        }
        let one = cluster_bootstrap(&values, &[0; 60], 500, 9, 0.9, Method::Bca).unwrap();
        assert!(one.se.is_nan());
    }

    proptest! {
        #[test]
        fn order_of_rows_does_not_matter(
            mut values in prop::collection::vec(-1e6f64..1e6, 2..40),
            seed: u64,
            rotation in 0usize..40,
        ) {
            let before = bootstrap_mean(&values, 50, seed, 0.9, Method::Bca).unwrap();
            values.reverse();
            let middle = rotation % values.len();
            values.rotate_left(middle);
            prop_assert_eq!(bootstrap_mean(&values, 50, seed, 0.9, Method::Bca).unwrap(), before);
            prop_assert!(before.low <= before.high);
        }
    }
}
