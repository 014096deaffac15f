//! Two systems on the same items: how far apart they are, and how likely chance alone is.
//!
//! Where the differences do not vary, nothing tells how far they might: an estimated variance of 0 is unknown and not certainty. There is
//! no interval then, and the p-value is that of the exact test by signs. One cluster alone tells nothing at all.

use std::collections::HashSet;

use proofmill_pipeline::kinds::statistics::Interval;
use proofmill_udfs::stats::{self, ROUNDING, StatsError};

/// Resamples when the settings give none.
const BOOTSTRAP_DEFAULT: u32 = 9_999;

/// Clusters that tell little of how far clusters differ: fewer than this.
const CLUSTERS_MIN: usize = 10;

/// What is said of numbers that rest on so many clusters of `column`; `None` if there are enough.
pub fn few_clusters(column: &str, clusters: usize) -> Option<String> {
    let counted =
        if clusters == 1 { "1 cluster".to_owned() } else { format!("{clusters} clusters") };
    (clusters < CLUSTERS_MIN).then(|| {
        format!("a metric rests on {counted} of `{column}`: fewer than {CLUSTERS_MIN} say little about how much clusters differ")
    })
}

/// What a paired comparison of a metric found.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    /// Means of the first and of the second system.
    pub means: (f64, f64),
    /// The second mean less the first.
    pub diff: f64,
    /// Interval of the difference; NaN where nothing tells how far it might vary.
    pub interval: (f64, f64),
    /// How the interval was made.
    pub method: String,
    /// For booleans: items that only the first has right, and only the second.
    pub discordant: Option<(u64, u64)>,
    /// Exact McNemar, for booleans.
    pub p_mcnemar: Option<f64>,
    /// Where differences vary.
    pub p_bootstrap: Option<f64>,
    /// Where items come in clusters whose differences vary.
    pub p_clustered: Option<f64>,
    /// By signs, where all differences are alike: of items, or of clusters.
    pub p_signs: Option<f64>,
    /// Pairs.
    pub n: usize,
    /// Clusters of pairs, where there are any.
    pub clusters: Option<usize>,
}

impl Paired {
    /// The p-value that fits the data best: clustered, else by signs, else exact, else of the bootstrap. `None` where there
    /// is but one cluster.
    pub fn p(&self) -> Option<f64> {
        self.p_clustered.or(self.p_signs).or(self.p_mcnemar).or(self.p_bootstrap)
    }
}

/// Compares the values `a` and `b` of the same items, in the same order. `clusters` names the cluster of each.
///
/// # Errors
///
/// When there are no items, or the settings of the interval make no sense.
pub fn paired(
    a: &[f64],
    b: &[f64],
    clusters: Option<&[Option<&str>]>,
    boolean: bool,
    ci: &Interval,
) -> Result<Paired, StatsError> {
    let resamples = ci.bootstrap.unwrap_or(BOOTSTRAP_DEFAULT);
    let bootstrap = stats::paired_bootstrap(b, a, resamples, ci.seed, ci.level)?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let discordant = boolean.then(|| {
        let only = |x: &[f64], y: &[f64]| x.iter().zip(y).filter(|(x, y)| x > y).count() as u64;
        (only(a, b), only(b, a))
    });
    let mut found = Paired {
        means: (mean(a), mean(b)),
        diff: bootstrap.diff,
        interval: (bootstrap.low, bootstrap.high),
        method: format!("paired bootstrap {resamples} seed {}", ci.seed),
        discordant,
        p_mcnemar: discordant.map(|(b, c)| stats::mcnemar(b, c).p_exact),
        p_bootstrap: Some(bootstrap.p),
        p_clustered: None,
        p_signs: None,
        n: a.len(),
        clusters: None,
    };
    let differs = found.diff != 0.0;
    let is_diff = |d: f64| (d - found.diff).abs() <= ROUNDING * found.diff.abs();
    if differs && a.iter().zip(b).all(|(a, b)| is_diff(b - a)) {
        found.alike("items", a.len());
    }
    let Some(clusters) = clusters else { return Ok(found) };
    let groups = clusters.iter().collect::<HashSet<_>>().len();
    found.clusters = Some(groups);
    let clustered = stats::clustered_paired(b, a, clusters, ci.level)?;
    if groups < 2 {
        found.interval = (f64::NAN, f64::NAN);
        found.method = "none: one cluster".to_owned();
        (found.p_mcnemar, found.p_bootstrap, found.p_signs) = (None, None, None);
    } else if differs && clustered.se <= ROUNDING * found.diff.abs() {
        found.alike("clusters", groups);
    } else {
        // The distribution of t knows no bounds; rates do.
        let bounded = |end: f64| if boolean { end.clamp(-1.0, 1.0) } else { end };
        found.interval = (bounded(clustered.low), bounded(clustered.high));
        found.method = "clustered".to_owned();
        found.p_clustered = Some(clustered.p);
        found.p_signs = None;
    }
    Ok(found)
}

impl Paired {
    /// Says that all differences of so many `units` are alike.
    fn alike(&mut self, units: &str, count: usize) {
        self.interval = (f64::NAN, f64::NAN);
        self.method = format!("none: all {units} differ alike");
        self.p_bootstrap = None;
        self.p_signs = Some(stats::signs_alike_p(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(a: &[f64], b: &[f64], clusters: Option<&[&str]>, boolean: bool) -> Paired {
        let clusters: Option<Vec<_>> =
            clusters.map(|names| names.iter().copied().map(Some).collect());
        paired(a, b, clusters.as_deref(), boolean, &Interval::default()).unwrap()
    }

    #[test]
    fn what_does_not_vary_is_not_certain() {
        let clusters: &[&str] = &["x", "y", "z"];
        let three = compared(&[0.0; 3], &[1.0; 3], Some(clusters), true);
        assert_eq!((three.p_clustered, three.p_bootstrap), (None, None));
        assert_eq!(three.p(), Some(0.25));
        assert!((three.p_mcnemar.unwrap() - 0.25).abs() < 1e-12);
        assert!(three.interval.0.is_nan() && three.interval.1.is_nan());
        let two = compared(&[0.1, 0.3], &[0.35, 0.55], None, false);
        assert_eq!((two.p(), two.p_bootstrap), (Some(0.5), None));
        // Six items in three clusters that differ alike are three observations.
        let clusters: &[&str] = &["x", "x", "y", "y", "z", "z"];
        let b = [1.0, 0.0, 1.0, 0.0, 0.0, 1.0];
        let six = compared(&[0.0; 6], &b, Some(clusters), true);
        assert_eq!((six.p(), six.p_clustered), (Some(0.25), None));
    }

    #[test]
    fn one_cluster_tells_nothing_and_no_difference_is_none() {
        let one = compared(&[0.0, 1.0, 0.0], &[1.0, 1.0, 1.0], Some(&["x"; 3]), true);
        assert_eq!((one.p(), one.p_mcnemar, one.p_bootstrap), (None, None, None));
        assert!(one.interval.0.is_nan());
        let same = compared(&[1.0, 0.0, 1.0], &[1.0, 0.0, 1.0], Some(&["x", "y", "z"]), true);
        assert_eq!((same.diff, same.p()), (0.0, Some(1.0)));
    }
}
