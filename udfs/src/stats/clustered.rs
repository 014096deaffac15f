//! Standard errors of a mean whose observations come in clusters.

use std::collections::HashMap;
use std::hash::Hash;

use super::{
    PairedDifference, StatsError, check_lengths, check_values, differences, mean,
    normal_multiplier, sample_sd, sorted,
};

/// A mean with its clustered and its naive standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusteredSe {
    pub mean: f64,
    /// Clustered standard error; NaN with fewer than two clusters.
    pub se: f64,
    /// The same without the factor G/(G-1); NaN with fewer than two clusters.
    pub se_uncorrected: f64,
    /// Standard error that ignores the clusters: sd/sqrt(n).
    pub se_naive: f64,
    /// Number of observations.
    pub n: usize,
    /// Number of clusters; of a two-way error the smaller number.
    pub clusters: usize,
}

impl ClusteredSe {
    /// The mean as a difference with a normal interval, if the values were differences.
    pub fn difference(&self, level: f64) -> Result<PairedDifference, StatsError> {
        Ok(PairedDifference::new(self.mean, self.se, normal_multiplier(level)?, self.n))
    }
}

/// Sum and size of one cluster.
pub(super) struct ClusterSum {
    pub(super) sum: f64,
    pub(super) n: f64,
}

/// Clustered standard error (Liang and Zeger 1986): sqrt(G/(G-1) Σ_g (Σ_{i∈g}(x_i - mean))²)/N.
///
/// Equal to the clustered covariance of a least-squares fit on a constant.
pub fn clustered_se<C: Eq + Hash>(
    values: &[f64],
    clusters: &[C],
) -> Result<ClusteredSe, StatsError> {
    check_values(values)?;
    check_lengths(values.len(), clusters.len())?;
    let part = variance(values, clusters);
    let correction = part.groups as f64 / (part.groups as f64 - 1.0);
    Ok(summary(values, part.groups, part.variance.sqrt(), (part.variance / correction).sqrt()))
}

/// Two-way clustered standard error (Cameron, Gelbach and Miller 2011), for example users by
/// items: variance of the first + variance of the second - variance of their crossing, each with
/// its own factor G/(G-1).
///
/// The difference can be negative in small samples; the larger one-way variance is then used, so
/// that the error is never understated as zero.
pub fn two_way_clustered_se<C: Eq + Hash, D: Eq + Hash>(
    values: &[f64],
    first: &[C],
    second: &[D],
) -> Result<ClusteredSe, StatsError> {
    check_values(values)?;
    check_lengths(values.len(), first.len())?;
    check_lengths(values.len(), second.len())?;
    let cells: Vec<(&C, &D)> = first.iter().zip(second).collect();
    let (rows, columns, cells) =
        (variance(values, first), variance(values, second), variance(values, &cells));
    let combine = |rows: f64, columns: f64, cells: f64| {
        let both = rows + columns - cells;
        if both > 0.0 { both } else { rows.max(columns) }
    };
    let corrected = combine(rows.variance, columns.variance, cells.variance);
    let uncorrected = combine(rows.uncorrected(), columns.uncorrected(), cells.uncorrected());
    let groups = rows.groups.min(columns.groups);
    Ok(summary(values, groups, corrected.sqrt(), uncorrected.sqrt()))
}

/// Paired difference `a - b` whose items come in clusters.
pub fn clustered_paired<C: Eq + Hash>(
    a: &[f64],
    b: &[f64],
    clusters: &[C],
    level: f64,
) -> Result<PairedDifference, StatsError> {
    let clustered = clustered_se(&differences(a, b)?, clusters)?;
    let multiplier = normal_multiplier(level)?;
    Ok(PairedDifference::new(clustered.mean, clustered.se, multiplier, clustered.n))
}

/// Sums of the clusters in an order that depends on their contents alone.
pub(super) fn cluster_sums<C: Eq + Hash>(values: &[f64], clusters: &[C]) -> Vec<ClusterSum> {
    let mut members: HashMap<&C, Vec<f64>> = HashMap::new();
    for (value, cluster) in values.iter().zip(clusters) {
        members.entry(cluster).or_default().push(*value);
    }
    let mut sums: Vec<ClusterSum> = members
        .into_values()
        .map(|values| ClusterSum { sum: sorted(&values).iter().sum(), n: values.len() as f64 })
        .collect();
    sums.sort_unstable_by(|left, right| {
        left.sum.total_cmp(&right.sum).then(left.n.total_cmp(&right.n))
    });
    sums
}

/// Variance of the mean under one clustering.
struct Variance {
    variance: f64,
    groups: usize,
}

impl Variance {
    fn uncorrected(&self) -> f64 {
        self.variance * (self.groups as f64 - 1.0) / self.groups as f64
    }
}

fn variance<C: Eq + Hash>(values: &[f64], clusters: &[C]) -> Variance {
    let center = mean(&sorted(values));
    let sums = cluster_sums(values, clusters);
    let groups = sums.len();
    if groups < 2 {
        return Variance { variance: f64::NAN, groups };
    }
    let squares: f64 = sums.iter().map(|group| (group.sum - group.n * center).powi(2)).sum();
    let factor = groups as f64 / (groups - 1) as f64;
    Variance { variance: factor * squares / (values.len() as f64).powi(2), groups }
}

fn summary(values: &[f64], clusters: usize, se: f64, se_uncorrected: f64) -> ClusteredSe {
    let values = sorted(values);
    let n = values.len();
    let se_naive = sample_sd(&values) / (n as f64).sqrt();
    ClusteredSe { mean: mean(&values), se, se_uncorrected, se_naive, n, clusters }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const X: [f64; 12] = [1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0];

    #[test]
    fn clusters_of_one_give_the_naive_error() {
        let each: Vec<usize> = (0..X.len()).collect();
        let clustered = clustered_se(&X, &each).unwrap();
        assert!((clustered.se - clustered.se_naive).abs() < 1e-12);
        let two_way = two_way_clustered_se(&X, &each, &each).unwrap();
        assert!((two_way.se - clustered.se).abs() < 1e-12);
    }

    #[test]
    fn copies_of_every_row_do_not_shrink_the_clustered_error() {
        let twice: Vec<f64> = X.iter().chain(&X).copied().collect();
        let each: Vec<usize> = (0..X.len()).chain(0..X.len()).collect();
        let clustered = clustered_se(&twice, &each).unwrap();
        let single = clustered_se(&X, &each[..X.len()]).unwrap();
        assert!((clustered.se - single.se).abs() < 1e-12);
        assert!(clustered.se_naive < 0.8 * single.se_naive);
    }

    #[test]
    fn two_way_error_by_hand() {
        // Two users by two items, d = [[1, 0], [0, 1]]: users and items cancel, the cells do not.
        let d = [1.0, 0.0, 0.0, 1.0];
        let (users, items) = ([0, 0, 1, 1], [0, 1, 0, 1]);
        let two_way = two_way_clustered_se(&d, &users, &items).unwrap();
        assert_eq!(two_way.se, 0.0, "{two_way:?}");
        // d = [[1, 1], [0, 0]]: users 2*(1+1)/16 = .25, items 0, cells 4/3*1/16 = 1/12.
        let rows = two_way_clustered_se(&[1.0, 1.0, 0.0, 0.0], &users, &items).unwrap();
        assert!((rows.se - (0.25f64 - 1.0 / 12.0).sqrt()).abs() < 1e-12, "{rows:?}");
    }

    #[test]
    fn one_cluster_says_nothing_about_spread() {
        let clustered = clustered_se(&X, &["u"; 12]).unwrap();
        assert!(clustered.se.is_nan() && clustered.se_uncorrected.is_nan());
        assert_eq!(clustered.clusters, 1);
        assert_eq!(clustered_se::<u8>(&[], &[]), Err(StatsError::Empty));
        assert!(matches!(clustered_se(&X, &[1]), Err(StatsError::Length { .. })));
    }

    #[test]
    fn paired_form_is_the_error_of_the_differences() {
        let zeros = [0.0; 12];
        let clusters: Vec<usize> = (0..12).map(|i| i / 3).collect();
        let paired = clustered_paired(&X, &zeros, &clusters, 0.95).unwrap();
        assert!((paired.se - 1.0 / 12.0).abs() < 1e-12, "{paired:?}");
        let identical = clustered_paired(&X, &X, &clusters, 0.95).unwrap();
        assert_eq!((identical.diff, identical.p), (0.0, 1.0));
    }

    proptest! {
        #[test]
        fn order_of_rows_does_not_matter(
            mut rows in prop::collection::vec((-1e3f64..1e3, 0u8..5, 0u8..5), 2..40),
        ) {
            let error = |rows: &[(f64, u8, u8)]| {
                let values: Vec<f64> = rows.iter().map(|row| row.0).collect();
                let first: Vec<u8> = rows.iter().map(|row| row.1).collect();
                let second: Vec<u8> = rows.iter().map(|row| row.2).collect();
                two_way_clustered_se(&values, &first, &second).unwrap().se.to_bits()
            };
            let before = error(&rows);
            rows.reverse();
            prop_assert_eq!(error(&rows), before);
        }
    }
}
