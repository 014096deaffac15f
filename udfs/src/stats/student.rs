//! Student's t distribution, for standard errors from few clusters: its two-sided p value, and its multiplier.

use statrs::function::beta::beta_reg;

use super::{StatsError, normal_multiplier};

/// Two-sided p value of a t statistic with `df` degrees of freedom; NaN without any, but 1 for a statistic of 0.
pub fn t_two_sided_p(t: f64, df: f64) -> f64 {
    if t == 0.0 {
        return 1.0;
    }
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    // P(|T| > t) = I_x(df/2, 1/2) with x = df/(df + t^2): it keeps its digits far out, where 1 - P does not.
    beta_reg(df / 2.0, 0.5, df / (df + t * t))
}

/// The multiplier of the standard error in a two-sided interval of the t distribution: 2.364624 at 0.95 with 7
/// degrees of freedom; NaN without any.
pub fn t_multiplier(level: f64, df: f64) -> Result<f64, StatsError> {
    // Between the normal multiplier, which is less, and a bound that is found by doubling.
    let mut low = normal_multiplier(level)?;
    if df.is_nan() || df <= 0.0 {
        return Ok(f64::NAN);
    }
    let beyond = |t: f64| t_two_sided_p(t, df) > 1.0 - level;
    let mut high = 2.0 * low;
    while beyond(high) && high.is_finite() {
        (low, high) = (high, 2.0 * high);
    }
    // Each step halves what is left; a double has 53 binary digits.
    for _ in 0..60 {
        let middle = low.midpoint(high);
        if beyond(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_scipy() {
        // 2 * scipy.stats.t.sf(t, df) for t of 0.5, 2.12 and 12.9; scipy.stats.t.ppf at 0.975 and 0.95.
        let cases = [
            (1.0, [0.7048327646991335, 0.2805907043841542, 0.049251871874331776]),
            (2.0, [0.6666666666666667, 0.16810915681851366, 0.005955624405036792]),
            (7.0, [0.6324071356892844, 0.07172149891342376, 3.907972586171102e-06]),
            (25.0, [0.6214477851902287, 0.04410774528413641, 1.5008139135549998e-12]),
            (115.0, [0.6180304807087654, 0.036155972867553295, 4.318183469935834e-24]),
            (1000.0, [0.6171850808338747, 0.0342518192519126, 2.491629749949184e-35]),
        ];
        for (df, expected) in cases {
            for (t, expected) in [0.5, 2.12, 12.9].into_iter().zip(expected) {
                let found = t_two_sided_p(t, df);
                assert!((found / expected - 1.0).abs() < 1e-9, "{t} {df}: {found:e}");
                assert_eq!(t_two_sided_p(-t, df), found);
            }
        }
        let quantiles = [
            (1.0, 12.706204736174694, 6.313751514675037),
            (2.0, 4.302652729749462, 2.9199855803537242),
            (7.0, 2.364624251592784, 1.8945786050900062),
            (25.0, 2.0595385527532972, 1.7081407612518986),
            (115.0, 1.9808075411039094, 1.6582118300311501),
            (1000.0, 1.9623390808264083, 1.6463788172854643),
        ];
        for (df, wide, narrow) in quantiles {
            for (level, expected) in [(0.95, wide), (0.9, narrow)] {
                let found = t_multiplier(level, df).unwrap();
                assert!((found / expected - 1.0).abs() < 1e-8, "{level} {df}: {found}");
            }
        }
    }

    #[test]
    fn many_degrees_of_freedom_are_the_normal_distribution() {
        assert!((t_multiplier(0.95, 1e5).unwrap() - 1.959964).abs() < 1e-4);
        assert!((t_two_sided_p(1.96, 1e5) - 0.0499958).abs() < 1e-4);
    }

    #[test]
    fn what_cannot_be_computed_is_nan_and_no_difference_is_no_alarm() {
        assert_eq!(t_two_sided_p(0.0, 0.0), 1.0);
        assert_eq!(t_two_sided_p(f64::INFINITY, 3.0), 0.0);
        assert!(t_two_sided_p(1.0, 0.0).is_nan() && t_two_sided_p(f64::NAN, 3.0).is_nan());
        assert!(t_multiplier(0.95, 0.0).unwrap().is_nan());
        assert!(matches!(t_multiplier(1.0, 3.0), Err(StatsError::Level(_))));
    }
}
