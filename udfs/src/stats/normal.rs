//! The normal distribution: the three functions the other statistics need.

use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::erf::erfc;

use super::{StatsError, check_level};

/// Distribution function of the standard normal.
pub fn normal_cdf(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

/// Quantile function of the standard normal; infinite at 0 and 1, NaN outside [0, 1].
pub fn normal_quantile(p: f64) -> f64 {
    if p.is_nan() || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    Normal::standard().inverse_cdf(p)
}

/// Two-sided p value of a standard normal statistic.
pub fn two_sided_p(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// The multiplier of the standard error in a two-sided normal interval: 1.959964 at 0.95.
pub fn normal_multiplier(level: f64) -> Result<f64, StatsError> {
    check_level(level)?;
    Ok(normal_quantile(0.5 + level / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_published_quantiles() {
        // Values of scipy.special.ndtri.
        for (p, z) in [
            (0.975, 1.959963984540054),
            (0.8, 0.8416212335729143),
            (0.5, 0.0),
            (0.0001, -3.719016485455709),
        ] {
            assert!((normal_quantile(p) - z).abs() < 1e-9, "{p}");
            assert!((normal_cdf(z) - p).abs() < 1e-10, "{p}");
        }
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert!(normal_quantile(1.5).is_nan());
    }

    #[test]
    fn refuses_levels_outside_the_unit_interval() {
        for level in [0.0, 1.0, 95.0, -0.1, f64::NAN] {
            assert!(matches!(normal_multiplier(level), Err(StatsError::Level(_))), "{level}");
        }
    }
}
