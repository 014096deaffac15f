//! The difference of two systems that answered the same items.
//!
//! The difference is always *first minus second*: positive means the first system is better.

use std::hash::Hash;

use super::bootstrap::{interval, mean_replicates};
use super::clustered::{ClusteredSe, clustered_se};
use super::{
    Method, StatsError, check_level, check_resamples, check_values, differences, mean,
    normal_multiplier, sample_sd, sorted, t_multiplier, t_two_sided_p, two_sided_p,
};

/// A mean difference with its interval: normal, or of the t distribution where items come in clusters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedDifference {
    pub diff: f64,
    /// Standard error of the mean; NaN when it cannot be estimated.
    pub se: f64,
    /// Difference in standard errors; 0 for a difference of 0.
    pub z: f64,
    /// Two-sided p value; 1 for a difference of 0.
    pub p: f64,
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of pairs.
    pub n: usize,
}

impl PairedDifference {
    fn new(diff: f64, se: f64, multiplier: f64, p: impl Fn(f64) -> f64, n: usize) -> Self {
        // Identical runs have diff = se = 0: no difference, no alarm.
        let z = if diff == 0.0 { 0.0 } else { diff / se };
        let (low, high) = (diff - multiplier * se, diff + multiplier * se);
        Self { diff, se, z, p: p(z), low, high, n }
    }
}

impl ClusteredSe {
    /// Degrees of freedom of the error: the clusters less one.
    pub fn df(&self) -> f64 {
        self.clusters as f64 - 1.0
    }

    /// The mean as a difference, if the values were differences: interval and p value are those of the t
    /// distribution, as few clusters tell little of their own spread.
    pub fn difference(&self, level: f64) -> Result<PairedDifference, StatsError> {
        let multiplier = t_multiplier(level, self.df())?;
        let p = |t| t_two_sided_p(t, self.df());
        Ok(PairedDifference::new(self.mean, self.se, multiplier, p, self.n))
    }
}

/// Mean of the item-wise differences with a normal interval: SE = sqrt(var/(n-1)).
pub fn paired_difference(d: &[f64], level: f64) -> Result<PairedDifference, StatsError> {
    paired_difference_with_multiplier(d, normal_multiplier(level)?)
}

/// The same with a given multiplier of the standard error, such as the 1.96 of many papers.
pub fn paired_difference_with_multiplier(
    d: &[f64],
    multiplier: f64,
) -> Result<PairedDifference, StatsError> {
    check_values(d)?;
    let d = sorted(d);
    let se = sample_sd(&d) / (d.len() as f64).sqrt();
    Ok(PairedDifference::new(mean(&d), se, multiplier, two_sided_p, d.len()))
}

/// A difference with a bootstrap interval and p value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedBootstrap {
    /// The difference of the two systems.
    pub diff: f64,
    /// Lower end of the percentile interval.
    pub low: f64,
    /// Upper end of the percentile interval.
    pub high: f64,
    /// Standard error: standard deviation of the replicates.
    pub se: f64,
    /// Two-sided p value; exactly 1 for identical inputs.
    pub p: f64,
}

/// Paired bootstrap of the mean difference `a - b` (Koehn 2004; Berg-Kirkpatrick et al. 2012).
///
/// The replicates are centred on their null: p = (1 + #{|d* - d| >= |d|}) / (1 + R).
pub fn paired_bootstrap(
    a: &[f64],
    b: &[f64],
    n_resamples: u32,
    seed: u64,
    level: f64,
) -> Result<PairedBootstrap, StatsError> {
    paired_bootstrap_of_differences(&differences(a, b)?, n_resamples, seed, level)
}

/// The same over item-wise differences.
pub fn paired_bootstrap_of_differences(
    d: &[f64],
    n_resamples: u32,
    seed: u64,
    level: f64,
) -> Result<PairedBootstrap, StatsError> {
    check_resamples(n_resamples)?;
    check_level(level)?;
    check_values(d)?;
    let d = sorted(d);
    if let [diff] = d[..] {
        let nan = f64::NAN;
        return Ok(PairedBootstrap { diff, low: nan, high: nan, se: nan, p: 1.0 });
    }
    let scale = d.iter().fold(0.0f64, |scale, d| scale.max(d.abs()));
    Ok(from_replicates(mean(&d), mean_replicates(&d, n_resamples, seed), level, scale))
}

/// Interval and p value. Rounding errors relative to `scale` do not decide a comparison.
fn from_replicates(diff: f64, replicates: Vec<f64>, level: f64, scale: f64) -> PairedBootstrap {
    let bar = diff.abs() - scale * 1e-12;
    let beyond = replicates.iter().filter(|replicate| (**replicate - diff).abs() >= bar).count();
    let p = (1 + beyond) as f64 / (1 + replicates.len()) as f64;
    let interval = interval(diff, replicates, level, Method::Percentile, Vec::new);
    PairedBootstrap { diff, low: interval.low, high: interval.high, se: interval.se, p }
}

/// Paired difference `a - b` whose items come in clusters.
pub fn clustered_paired<C: Eq + Hash>(
    a: &[f64],
    b: &[f64],
    clusters: &[C],
    level: f64,
) -> Result<PairedDifference, StatsError> {
    clustered_se(&differences(a, b)?, clusters)?.difference(level)
}

/// Two-sided p value of the exact test by signs where all of `n` differences are alike, and not 0: 2^(1-n).
pub fn signs_alike_p(n: usize) -> f64 {
    (1.0 - n as f64).exp2().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::rng::Stream;
    use super::*;

    /// Answers that differ on `plus` and `minus` items of `n`.
    fn answers(plus: usize, minus: usize, n: usize) -> (Vec<f64>, Vec<f64>) {
        let a = (0..n).map(|i| f64::from(u8::from(i < plus))).collect();
        let b = (0..n).map(|i| f64::from(u8::from(i >= plus && i < plus + minus))).collect();
        (a, b)
    }

    #[test]
    fn identical_runs_raise_no_alarm() {
        let a = [0.1, 0.7, 0.3];
        let test = paired_bootstrap(&a, &a, 200, 4, 0.95).unwrap();
        assert_eq!((test.diff, test.low, test.high, test.p), (0.0, 0.0, 0.0, 1.0));
        let normal = paired_difference(&[0.0; 3], 0.95).unwrap();
        assert_eq!((normal.z, normal.p), (0.0, 1.0));
    }

    #[test]
    fn sign_says_that_the_first_system_is_better() {
        let (a, b) = answers(40, 10, 100);
        let test = paired_bootstrap(&a, &b, 2000, 4, 0.95).unwrap();
        assert!((test.diff - 0.3).abs() < 1e-12);
        assert!(test.low > 0.0 && test.p < 0.01, "{test:?}");
        let swapped = paired_bootstrap(&b, &a, 2000, 4, 0.95).unwrap();
        assert!((swapped.diff + 0.3).abs() < 1e-12);
    }

    #[test]
    fn agrees_with_the_normal_approximation() {
        let (a, b) = answers(74, 52, 500);
        let test = paired_bootstrap(&a, &b, 9999, 1, 0.95).unwrap();
        let d: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        let normal = paired_difference(&d, 0.95).unwrap();
        assert!((test.p - normal.p).abs() < 0.012, "{} {}", test.p, normal.p);
        assert!((test.se - normal.se).abs() < 0.0005);
    }

    #[test]
    fn false_alarms_stay_near_alpha() {
        // 400 comparisons of two fair coins: about 20 alarms at 5 %, standard deviation 4.4.
        let alarms = (0..400u64)
            .filter(|round| {
                let mut stream = Stream::new(99, *round);
                let mut coins = || (0..80).map(|_| (stream.next_u64() >> 63) as f64).collect();
                let (a, b): (Vec<f64>, Vec<f64>) = (coins(), coins());
                paired_bootstrap(&a, &b, 199, *round, 0.95).unwrap().p <= 0.05
            })
            .count();
        assert!((6..=36).contains(&alarms), "{alarms}");
    }

    #[test]
    fn refuses_unequal_lengths_and_nothing() {
        assert!(matches!(
            paired_bootstrap(&[1.0], &[1.0, 2.0], 10, 0, 0.95),
            Err(StatsError::Length { left: 1, right: 2 })
        ));
        assert_eq!(paired_bootstrap(&[], &[], 10, 0, 0.95), Err(StatsError::Empty));
        assert_eq!(paired_bootstrap(&[1.0], &[0.0], 10, 0, 0.95).unwrap().p, 1.0);
    }
}
