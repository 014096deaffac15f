//! Repeated looks: tests for a nightly series whose false alarms stay below alpha however many
//! nights are looked at.

use statrs::function::gamma::ln_gamma;

/// The level to test at when a series is looked at for the `look`-th time (from 1): alpha * 6 / (π² look²).
///
/// The levels of all looks sum to alpha, so by the union bound a series of identical systems raises
/// any alarm with probability at most alpha, however the looks depend on each other. `None` for look 0 and for
/// an alpha outside of 0 to 1.
pub fn alpha_spent(alpha: f64, look: u64) -> Option<f64> {
    if look == 0 || !(0.0..=1.0).contains(&alpha) {
        return None;
    }
    let look = look as f64;
    Some(alpha * 6.0 / (std::f64::consts::PI.powi(2) * look * look))
}

/// E-value against "a discordant item favours either system equally", from the discordant counts
/// summed over all nights so far: the Beta(1/2, 1/2) mixture of likelihood ratios.
///
/// It is a test martingale, so P(it ever reaches 1/alpha) <= alpha under the null (Ville 1939;
/// Grünwald, de Heide and Koolen 2024), provided every night brings fresh items. The mean of e-values is again
/// one, whatever the dependence between them: of several metrics, or of nights that repeat the same items.
pub fn sign_e_value(b: u64, c: u64) -> f64 {
    let (b, c) = (b as f64, c as f64);
    let ln_beta = |x: f64, y: f64| ln_gamma(x) + ln_gamma(y) - ln_gamma(x + y);
    let ln_e = (b + c) * std::f64::consts::LN_2 + ln_beta(b + 0.5, c + 0.5) - ln_beta(0.5, 0.5);
    ln_e.exp()
}

#[cfg(test)]
mod tests {
    use super::super::rng::Stream;
    use super::*;

    #[test]
    fn spending_never_exceeds_alpha() {
        let spent: f64 = (1..100_000).filter_map(|look| alpha_spent(0.05, look)).sum();
        assert!(spent <= 0.05 && spent > 0.0499, "{spent}");
        assert_eq!((alpha_spent(0.05, 0), alpha_spent(5.0, 1)), (None, None));
    }

    #[test]
    fn e_value_by_hand() {
        assert_eq!(sign_e_value(0, 0), 1.0);
        // B(1.5, .5)/B(.5, .5) = 1/2, times 2: one item is no evidence.
        assert!((sign_e_value(1, 0) - 1.0).abs() < 1e-12);
        // B(2.5, .5)/B(.5, .5) = 3/8, times 4.
        assert!((sign_e_value(2, 0) - 1.5).abs() < 1e-12);
        assert!(sign_e_value(40, 5) > 1e4 && sign_e_value(20, 20) < 1.0);
    }

    #[test]
    fn thirty_nights_of_identical_systems_seldom_raise_an_alarm() {
        // 1000 series of 30 nights with 20 discordant items each; at most 5 % may ever reach 20.
        let alarms = (0..1000)
            .filter(|series| {
                let mut stream = Stream::new(7, *series);
                let (mut b, mut c) = (0u64, 0u64);
                (0..30).any(|_| {
                    let right = u64::from((stream.next_u64() & 0xf_ffff).count_ones());
                    b += right;
                    c += 20 - right;
                    sign_e_value(b, c) >= 20.0
                })
            })
            .count();
        assert!(alarms <= 50, "{alarms}");
    }
}
