//! Drops of a rate on the same questions: found, excluded, or neither.
//!
//! Reading order: [`sign_drop_p`] finds a drop, [`drop_excluded_p`] excludes one, [`drop_bound`] is the largest that is not
//! excluded; what follows says how many questions either takes. A question is *worse* if only the baseline has it right, and
//! *better* if only the candidate has; the two together are *discordant*.

use statrs::distribution::{Binomial, Discrete, DiscreteCDF};

use super::{StatsError, normal_cdf, normal_quantile};

/// Rates of discordant questions at which a p value is sought before the largest is refined.
const NUISANCE_STEPS: u32 = 64;
/// Halvings around the largest.
const REFINEMENTS: u32 = 12;
/// Probabilities below this are not summed.
const NEGLIGIBLE: f64 = 1e-16;
/// Discordant questions up to which a number of them is sought.
const DISCORDANT_MAX: u64 = 20_000;
/// Questions from which on a p value is that of the normal distribution: exact sums take too long, and say the same.
const EXACT_MAX: u64 = 100_000;
/// How far above the first number of discordant questions the power is looked at, for the number from which on it is kept.
const LOOK_AHEAD: u64 = 400;

/// One-sided exact sign test: how probable at least so many worse questions are if a discordant one is as likely better.
pub fn sign_drop_p(worse: u64, better: u64) -> f64 {
    at_least(worse, worse + better, 0.5)
}

/// The one-sided p value against a drop of `drop` or more, given so many worse and better of `n` questions.
///
/// Exact and unconditional: outcomes are ordered by the score statistic of Tango (1998), and the probability of all that speak
/// as much against the drop is the largest over the rate of discordant questions, which is not known.
///
/// # Errors
///
/// Without questions, with more discordant ones than questions, and for a drop outside of 0 to 1.
pub fn drop_excluded_p(worse: u64, better: u64, n: u64, drop: f64) -> Result<f64, StatsError> {
    if n == 0 {
        return Err(StatsError::Empty);
    }
    if worse + better > n {
        return Err(StatsError::Successes { successes: worse + better, n });
    }
    if !(drop > 0.0 && drop < 1.0) {
        return Err(StatsError::Probability { name: "drop", value: drop });
    }
    let reached = score(worse, better, n, drop) + 1e-12;
    if n > EXACT_MAX {
        return Ok(normal_cdf(reached));
    }
    // Of m discordant questions, the most that may be worse.
    let most = |m: u64| below(m, |worse| score(worse, m - worse, n, drop) <= reached);
    let regions: Vec<Option<u64>> = (0..=n).map(most).collect();
    let probability = |rate: f64| {
        let share = (rate + drop) / (2.0 * rate);
        sum_over(n, rate, |m| match regions[usize::try_from(m).unwrap_or(usize::MAX)] {
            Some(most) => at_most(most, m, share),
            None => 0.0,
        })
    };
    // Fine where the rate is little more than the drop.
    let rate = |step: f64| drop + (1.0 - drop) * (step / f64::from(NUISANCE_STEPS)).powi(2);
    let found = (0..=NUISANCE_STEPS).map(|step| (probability(rate(f64::from(step))), step));
    let (mut largest, at) =
        found.fold((0.0, 0), |best, next| if next.0 > best.0 { next } else { best });
    let (mut at, mut width) = (f64::from(at), 0.5);
    for _ in 0..REFINEMENTS {
        for near in [at - width, at + width] {
            let found = probability(rate(near.clamp(0.0, f64::from(NUISANCE_STEPS))));
            if found > largest {
                (largest, at) = (found, near.clamp(0.0, f64::from(NUISANCE_STEPS)));
            }
        }
        width /= 2.0;
    }
    Ok(largest.min(1.0))
}

/// The smallest drop that is excluded at `alpha`, to three digits of its share; 1 if none is.
///
/// # Errors
///
/// As [`drop_excluded_p`].
pub fn drop_bound(worse: u64, better: u64, n: u64, alpha: f64) -> Result<f64, StatsError> {
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 5e-4 {
        let middle = f64::midpoint(low, high);
        match drop_excluded_p(worse, better, n, middle)? <= alpha {
            true => high = middle,
            false => low = middle,
        }
    }
    Ok(high)
}

/// The fewest discordant questions of which any number being worse is a drop at `alpha`: 5 at .05.
pub fn fewest_discordant(alpha: f64) -> u64 {
    let fewest = -alpha.log2();
    if fewest.is_finite() { (fewest - 1e-9).ceil().max(1.0) as u64 } else { u64::MAX }
}

/// Power of the one-sided sign test at `alpha` with so many discordant questions, each worse with probability `share`.
pub fn sign_power(discordant: u64, share: f64, alpha: f64) -> f64 {
    fewest_worse(discordant, alpha).map_or(0.0, |worse| at_least(worse, discordant, share))
}

/// Numbers of discordant questions that give a power. It is a saw-tooth: more questions may have less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discordant {
    /// The smallest with the power.
    pub first: u64,
    /// The smallest from which on all have it.
    pub from_which_on: u64,
}

/// How many discordant questions give the power if each is worse with probability `share`; `None` if even
/// 20,000 do not.
pub fn discordant_needed(share: f64, alpha: f64, power: f64) -> Option<Discordant> {
    let has = |m: u64| sign_power(m, share, alpha) >= power;
    let first = (1..=DISCORDANT_MAX).find(|m| has(*m))?;
    let last_without = (first..first * 2 + LOOK_AHEAD).rev().find(|m| !has(*m));
    Some(Discordant { first, from_which_on: last_without.map_or(first, |m| m + 1) })
}

/// The power to find a drop: that of `n` questions, of which a share `discordance` is discordant, the sign test rejects at
/// `alpha` and the measured drop is `min_effect` or more.
pub fn drop_power(n: u64, discordance: f64, drop: f64, alpha: f64, min_effect: f64) -> f64 {
    // A drop of so many questions makes at least as many discordant.
    let discordance = discordance.max(drop);
    if n == 0 || discordance <= 0.0 || discordance > 1.0 {
        return 0.0;
    }
    let share = f64::midpoint(1.0, drop / discordance);
    sum_over(n, discordance, |m| {
        let of_effect = ((m as f64 + n as f64 * min_effect) / 2.0 - 1e-9).ceil().max(0.0) as u64;
        let needed = fewest_worse(m, alpha).map(|worse| worse.max(of_effect));
        needed.map_or(0.0, |worse| at_least(worse, m, share))
    })
}

/// The smallest drop that is found with `power`; `None` if not even the largest possible one is.
pub fn smallest_found(
    n: u64,
    discordance: f64,
    alpha: f64,
    min_effect: f64,
    power: f64,
) -> Option<f64> {
    let is_found = |drop: f64| drop_power(n, discordance, drop, alpha, min_effect) >= power;
    let (mut low, mut high) = (0.0, 1.0);
    if !is_found(high) {
        return None;
    }
    while high - low > 5e-4 {
        let middle = f64::midpoint(low, high);
        match is_found(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

/// About how many questions exclude a drop with a power of .8, if a share `discordance` is discordant and the true drop is smaller by
/// `drop`.
pub fn questions_to_exclude(drop: f64, discordance: f64, alpha: f64) -> u64 {
    let none = (alpha.ln() / (1.0 - drop).ln()).ceil();
    let reach = normal_quantile(1.0 - alpha) + normal_quantile(0.8);
    let some = (discordance * (reach / drop).powi(2)).ceil();
    none.max(some) as u64
}

/// The same for the mean of values that are no rates, of which `n` have this standard error.
pub fn questions_to_exclude_of_mean(drop: f64, se: f64, n: u64, alpha: f64) -> u64 {
    let reach = normal_quantile(1.0 - alpha) + normal_quantile(0.8);
    (n as f64 * (se * reach / drop).powi(2)).ceil() as u64
}

/// Tango's score statistic of a drop: negative where the questions speak against it.
fn score(worse: u64, better: u64, n: u64, drop: f64) -> f64 {
    let (worse, better, n) = (worse as f64, better as f64, n as f64);
    // The most likely rate of better questions if the drop is so large.
    let b = (2.0 * n - worse + better) * drop - worse - better;
    let c = -better * drop * (1.0 - drop);
    let rate = ((b * b - 8.0 * n * c).max(0.0).sqrt() - b) / (4.0 * n);
    let variance = n * (2.0 * rate + drop * (1.0 - drop));
    (worse - better - n * drop) / variance.sqrt()
}

/// The most of `0..=m` that fits, where what is below fits too.
fn below(m: u64, fits: impl Fn(u64) -> bool) -> Option<u64> {
    if !fits(0) {
        return None;
    }
    let (mut low, mut high) = (0, m);
    while low < high {
        let middle = (low + high).div_ceil(2);
        match fits(middle) {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    Some(low)
}

/// The fewest worse of `m` discordant questions that are a drop at `alpha`.
fn fewest_worse(m: u64, alpha: f64) -> Option<u64> {
    let no_drop = |worse: u64| at_least(worse, m, 0.5) > alpha;
    match below(m, no_drop) {
        Some(most) if most == m => None,
        most => Some(most.map_or(0, |most| most + 1)),
    }
}

/// The mean of `value` over the number of discordant questions, of `n` at `rate`.
fn sum_over(n: u64, rate: f64, value: impl Fn(u64) -> f64) -> f64 {
    let Ok(numbers) = Binomial::new(rate.clamp(0.0, 1.0), n) else { return 0.0 };
    let weighed = |m: u64| {
        let weight = numbers.pmf(m);
        (weight > NEGLIGIBLE).then(|| weight * value(m))
    };
    let likeliest = ((n as f64 * rate) as u64).min(n);
    // Beyond the first that is negligible all are.
    let up = (likeliest..=n).map_while(weighed).sum::<f64>();
    up + (0..likeliest).rev().map_while(weighed).sum::<f64>()
}

/// P(X >= k) for X binomial.
fn at_least(k: u64, n: u64, p: f64) -> f64 {
    match (k, Binomial::new(p, n)) {
        (0, _) => 1.0,
        (k, Ok(numbers)) => numbers.sf(k - 1),
        (_, Err(_)) => f64::NAN,
    }
}

/// P(X <= k) for X binomial.
fn at_most(k: u64, n: u64, p: f64) -> f64 {
    Binomial::new(p.clamp(0.0, 1.0), n).map_or(f64::NAN, |numbers| numbers.cdf(k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_discordant_questions_are_those_published() {
        let needed = [0.6, 0.7, 0.8, 0.9].map(|share| discordant_needed(share, 0.05, 0.8).unwrap());
        assert_eq!(needed.map(|it| it.first), [158, 37, 18, 8]);
        assert_eq!(needed.map(|it| it.from_which_on), [169, 42, 18, 11]);
        assert_eq!([0.05, 0.025, 1.0 / 365.0].map(fewest_discordant), [5, 6, 9]);
        assert_eq!(sign_power(4, 1.0, 0.05), 0.0, "four cannot reject, whatever they are");
        assert!(discordant_needed(0.5, 0.05, 0.8).is_none());
    }

    #[test]
    fn a_drop_is_excluded_by_enough_equal_questions() {
        // (1 - drop)^n <= .05
        for (n, drop) in [(299, 0.01), (149, 0.02), (59, 0.05)] {
            assert!(drop_excluded_p(0, 0, n, drop).unwrap() <= 0.05, "{n}");
            assert!(drop_excluded_p(0, 0, n - 1, drop).unwrap() > 0.05, "{n}");
            assert_eq!(questions_to_exclude(drop, 0.0, 0.05), n);
        }
        assert!((drop_bound(0, 0, 59, 0.05).unwrap() - 0.0495).abs() < 1e-3);
        assert_eq!(drop_excluded_p(0, 0, 0, 0.05), Err(StatsError::Empty));
        assert!(drop_excluded_p(3, 3, 5, 0.05).is_err() && drop_excluded_p(0, 0, 5, 0.0).is_err());
    }

    /// The rate at which a true drop of `drop` is excluded, whatever the rate of discordant questions: by adding up all outcomes.
    #[test]
    fn a_true_drop_is_excluded_in_at_most_alpha() {
        for (n, drop) in [(30, 0.1), (59, 0.05), (80, 0.05)] {
            let mut excluded = Vec::new();
            for worse in 0..=n {
                for better in 0..=n - worse {
                    // What is as bad as the drop is not looked at.
                    let hopeless = worse as f64 - better as f64 > n as f64 * drop;
                    if !hopeless && drop_excluded_p(worse, better, n, drop).unwrap() <= 0.05 {
                        excluded.push((worse, better));
                    }
                }
            }
            let mut worst = 0.0f64;
            for step in 0..40 {
                let rate = drop + (1.0 - drop) * f64::from(step) / 40.0;
                let numbers = Binomial::new(rate, n).unwrap();
                let share = (rate + drop) / (2.0 * rate);
                let of = |&(worse, better): &(u64, u64)| {
                    let m = worse + better;
                    let split = Binomial::new(share.min(1.0), m).unwrap();
                    numbers.pmf(m) * split.pmf(worse)
                };
                worst = worst.max(excluded.iter().map(of).sum());
            }
            assert!(worst <= 0.0501 && worst > 0.04, "{n} questions, {drop}: {worst}");
        }
    }

    #[test]
    fn many_questions_are_counted_as_fast_as_few() {
        let exact = drop_excluded_p(4_800, 4_000, 100_000, 0.01).unwrap();
        let normal = drop_excluded_p(4_800, 4_000, 100_001, 0.01).unwrap();
        assert!((exact - normal).abs() < 0.1 * exact, "{exact} {normal}");
        assert!(drop_bound(1 << 30, 1 << 29, 1 << 40, 0.05).unwrap() < 0.002);
    }

    #[test]
    fn a_better_outcome_is_never_further_from_excluding() {
        let p = |worse, better| drop_excluded_p(worse, better, 40, 0.08).unwrap();
        for worse in 1..6 {
            for better in 0..6 {
                assert!(p(worse - 1, better) <= p(worse, better) + 1e-9, "{worse} {better}");
                assert!(p(worse - 1, better + 1) <= p(worse, better) + 1e-9, "{worse} {better}");
            }
        }
    }

    #[test]
    fn the_power_is_that_of_simulated_nights() {
        use crate::stats::rng::Stream;
        // 500 questions, 10 % discordant, a drop of 5 points, one false alarm in 365 nights.
        let level = 1.0 / 365.0;
        let power = drop_power(500, 0.1, 0.05, level, 0.02);
        assert!((power - 0.76).abs() < 0.005, "{power}");
        let mut stream = Stream::new(11, 0);
        let mut uniform = || stream.next_u64() as f64 / 2f64.powi(64);
        let nights = 4_000;
        let found = (0..nights).filter(|_| {
            let (mut worse, mut better) = (0, 0);
            for _ in 0..500 {
                let at = uniform();
                worse += u64::from(at < 0.075);
                better += u64::from((0.075..0.1).contains(&at));
            }
            sign_drop_p(worse, better) <= level && worse >= better + 10
        });
        let rate = found.count() as f64 / f64::from(nights);
        assert!((rate - power).abs() < 0.02, "{rate} {power}");
        let smallest = smallest_found(500, 0.1, level, 0.02, 0.8).unwrap();
        assert!(smallest > 0.05 && smallest < 0.06, "{smallest}");
        // More is lost than was discordant.
        let large = smallest_found(20, 0.1, level, 0.02, 0.8).unwrap();
        assert!(large > 0.5 && large < 0.6, "{large}");
        assert!(drop_power(200, 0.03, 0.2, 0.05, 0.05) > 0.99);
        assert_eq!(smallest_found(5, 0.1, level, 0.02, 0.8), None, "five reject nothing");
    }

    /// The same drop where one alpha is spent over all nights for ever, as `compare: look` does.
    #[test]
    fn a_level_that_is_spent_over_all_nights_finds_little_after_a_year() {
        use crate::stats::alpha_spent;
        for (night, expected) in [(1, 0.95), (7, 0.60), (30, 0.30), (100, 0.14), (365, 0.05)] {
            let level = alpha_spent(0.05, night).unwrap();
            let power = drop_power(500, 0.1, 0.05, level, 0.0);
            assert!((power - expected).abs() < 0.006, "night {night}: {power}");
        }
    }

    /// A thousand years of nights on which nothing changed, at one false alarm a year.
    #[test]
    fn equal_nights_give_one_false_alarm_a_year() {
        use crate::stats::rng::Stream;
        let level = 1.0 / 365.0;
        let reject: Vec<Option<u64>> = (0..200).map(|m| fewest_worse(m, level)).collect();
        let mut stream = Stream::new(5, 0);
        let mut alarms = 0;
        for _ in 0..365_000 {
            let discordant = stream.next_u64().count_ones() + 20;
            let coins = u128::from(stream.next_u64()) << 64 | u128::from(stream.next_u64());
            let worse = (coins >> (128 - discordant)).count_ones();
            let fewest = reject[discordant as usize];
            alarms += u32::from(fewest.is_some_and(|fewest| u64::from(worse) >= fewest));
        }
        let yearly = f64::from(alarms) / 1000.0;
        assert!(yearly <= 1.1 && yearly > 0.3, "{yearly}");
    }
}
