//! How many items a paired comparison needs.

use super::{StatsError, normal_quantile};

/// The number of items at which a paired difference is found with the wanted power.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PowerLine {
    /// The number of items before rounding; infinite for a difference of zero.
    pub n: f64,
    /// The smallest whole number of items; `None` for a difference of zero.
    pub n_rounded_up: Option<u64>,
}

/// Sample size of McNemar's test (Connor 1987): to find a difference `difference` of two
/// accuracies whose systems disagree on a share `discordance` of the items, two-sided at `alpha`.
pub fn power_paired_proportions(
    difference: f64,
    discordance: f64,
    alpha: f64,
    power: f64,
) -> Result<PowerLine, StatsError> {
    let open = |p: f64| p > 0.0 && p < 1.0;
    for (name, value, fits) in [
        ("difference", difference, (-1.0..=1.0).contains(&difference)),
        ("discordance", discordance, (difference.abs()..=1.0).contains(&discordance)),
        ("alpha", alpha, open(alpha)),
        ("power", power, open(power)),
    ] {
        if !fits {
            return Err(StatsError::Probability { name, value });
        }
    }
    if difference == 0.0 {
        return Ok(PowerLine { n: f64::INFINITY, n_rounded_up: None });
    }
    let spread = (discordance - difference * difference).max(0.0).sqrt();
    let reach =
        normal_quantile(1.0 - alpha / 2.0) * discordance.sqrt() + normal_quantile(power) * spread;
    let n = (reach / difference).powi(2);
    Ok(PowerLine { n, n_rounded_up: Some(n.ceil() as u64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_differences_need_more_items() {
        let n = |difference| power_paired_proportions(difference, 0.25, 0.05, 0.8).unwrap().n;
        assert!(n(0.02) > 3.9 * n(0.04));
        assert_eq!(n(0.04), n(-0.04));
        assert_eq!(n(0.0), f64::INFINITY);
    }

    #[test]
    fn refuses_impossible_settings() {
        for (difference, discordance, alpha, power) in [
            (0.3, 0.2, 0.05, 0.8),
            (0.1, 1.2, 0.05, 0.8),
            (0.1, 0.2, 0.0, 0.8),
            (0.1, 0.2, 0.05, 1.0),
        ] {
            assert!(power_paired_proportions(difference, discordance, alpha, power).is_err());
        }
    }
}
