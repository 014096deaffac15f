//! McNemar's test on the discordant pairs of two systems that answered the same items.

use statrs::distribution::{Binomial, Discrete, DiscreteCDF};
use statrs::function::erf::erfc;

/// All forms of McNemar's test for one pair of discordant counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct McNemar {
    /// Items only the first system has right.
    pub b: u64,
    /// Items only the second system has right.
    pub c: u64,
    /// Two-sided binomial p value, capped at 1; 1 without discordant pairs.
    pub p_exact: f64,
    /// Mid-p value: less conservative than the exact one; 1 without discordant pairs.
    pub p_mid: f64,
    /// Chi-square with continuity correction; `None` without discordant pairs.
    pub chi2: Option<ChiSquare>,
    /// Chi-square without correction; `None` without discordant pairs.
    pub chi2_uncorrected: Option<ChiSquare>,
}

/// A chi-square statistic with one degree of freedom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChiSquare {
    pub statistic: f64,
    /// Its upper tail probability.
    pub p: f64,
}

impl ChiSquare {
    fn new(statistic: f64) -> Self {
        Self { statistic, p: erfc((statistic / 2.0).sqrt()) }
    }
}

/// McNemar's test (McNemar 1947; mid-p after Fagerland, Lydersen and Laake 2013).
///
/// Two identical runs have no discordant pair: both p values are 1 and the chi-square forms,
/// which would divide by zero, are absent.
pub fn mcnemar(b: u64, c: u64) -> McNemar {
    let n = b + c;
    let Some(binomial) = (n > 0).then(|| Binomial::new(0.5, n).ok()).flatten() else {
        return McNemar { b, c, p_exact: 1.0, p_mid: 1.0, chi2: None, chi2_uncorrected: None };
    };
    let smaller = b.min(c);
    let tail = 2.0 * binomial.cdf(smaller);
    let gap = b.abs_diff(c) as f64;
    McNemar {
        b,
        c,
        p_exact: tail.min(1.0),
        p_mid: (tail - binomial.pmf(smaller)).min(1.0),
        chi2: Some(ChiSquare::new((gap - 1.0).powi(2) / n as f64)),
        chi2_uncorrected: Some(ChiSquare::new(gap * gap / n as f64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_runs_raise_no_alarm() {
        let test = mcnemar(0, 0);
        assert_eq!((test.p_exact, test.p_mid), (1.0, 1.0));
        assert_eq!((test.chi2, test.chi2_uncorrected), (None, None));
    }

    #[test]
    fn small_counts_by_hand() {
        // P(X <= 1) with n = 4 is 5/16; the pmf at 1 is 4/16.
        let test = mcnemar(1, 3);
        assert!((test.p_exact - 10.0 / 16.0).abs() < 1e-12);
        assert!((test.p_mid - 6.0 / 16.0).abs() < 1e-12);
        assert_eq!(test.chi2.map(|chi2| chi2.statistic), Some(0.25));
        assert_eq!(test.chi2_uncorrected.map(|chi2| chi2.statistic), Some(1.0));
    }

    #[test]
    fn the_sides_are_exchangeable_and_extremes_hold() {
        assert_eq!(mcnemar(9, 2).p_exact, mcnemar(2, 9).p_exact);
        assert_eq!(mcnemar(5, 5).p_exact, 1.0);
        let extreme = mcnemar(0, 1_000);
        assert!(extreme.p_exact > 0.0 && extreme.p_exact < 1e-300);
        assert!(mcnemar(500_000, 501_000).p_exact < 0.33);
    }
}
