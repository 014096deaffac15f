//! Two systems on the same items: how far apart they are, and how likely chance alone is.

use proofmill_pipeline::kinds::statistics::Interval;
use proofmill_udfs::stats::{self, StatsError};

/// Resamples when the settings give none.
const BOOTSTRAP_DEFAULT: u32 = 9_999;

/// What a paired comparison of a metric found.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    /// Means of the first and of the second system.
    pub means: (f64, f64),
    /// The second mean less the first.
    pub diff: f64,
    /// Interval of the difference.
    pub interval: (f64, f64),
    /// How the interval was made.
    pub method: String,
    /// For booleans: items that only the first has right, and only the second.
    pub discordant: Option<(u64, u64)>,
    /// Exact McNemar, for booleans.
    pub p_mcnemar: Option<f64>,
    pub p_bootstrap: f64,
    /// Where items come in clusters.
    pub p_clustered: Option<f64>,
    /// Pairs.
    pub n: usize,
}

impl Paired {
    /// The p-value that fits the data best: clustered, else exact, else of the bootstrap.
    pub fn p(&self) -> f64 {
        self.p_clustered.or(self.p_mcnemar).unwrap_or(self.p_bootstrap)
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
    clusters: Option<&[&str]>,
    boolean: bool,
    ci: &Interval,
) -> Result<Paired, StatsError> {
    let resamples = ci.bootstrap.unwrap_or(BOOTSTRAP_DEFAULT);
    let bootstrap = stats::paired_bootstrap(b, a, resamples, ci.seed, ci.level)?;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mut interval = (bootstrap.low, bootstrap.high);
    let mut method = format!("paired bootstrap {resamples} seed {}", ci.seed);
    let mut p_clustered = None;
    if let Some(clusters) = clusters {
        let found = stats::clustered_paired(b, a, clusters, ci.level)?;
        if found.se.is_finite() {
            interval = (found.low, found.high);
            method = "clustered".to_owned();
            p_clustered = Some(found.p);
        }
    }
    let discordant = boolean.then(|| {
        let only = |x: &[f64], y: &[f64]| x.iter().zip(y).filter(|(x, y)| x > y).count() as u64;
        (only(a, b), only(b, a))
    });
    Ok(Paired {
        means: (mean(a), mean(b)),
        diff: bootstrap.diff,
        interval,
        method,
        discordant,
        p_mcnemar: discordant.map(|(b, c)| stats::mcnemar(b, c).p_exact),
        p_bootstrap: bootstrap.p,
        p_clustered,
        n: a.len(),
    })
}
