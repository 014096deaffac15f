//! Approximate randomisation: could the labels of the two systems be exchanged?

use super::rng::Stream;
use super::{StatsError, check_resamples, check_values, differences, sorted};

/// Paired approximate randomisation of the mean (Noreen 1989; Riezler and Maxwell 2005): swaps
/// the two systems per item at random; p = (1 + #{|swapped| >= |observed|}) / (1 + R).
pub fn approximate_randomization(
    a: &[f64],
    b: &[f64],
    n_resamples: u32,
    seed: u64,
) -> Result<f64, StatsError> {
    randomization_of_differences(&differences(a, b)?, n_resamples, seed)
}

/// The same over item-wise differences.
pub fn randomization_of_differences(
    d: &[f64],
    n_resamples: u32,
    seed: u64,
) -> Result<f64, StatsError> {
    check_resamples(n_resamples)?;
    check_values(d)?;
    // Equal items never change the sum: leaving them out changes no result.
    let d: Vec<f64> = sorted(d).into_iter().filter(|d| *d != 0.0).collect();
    let scale: f64 = d.iter().map(|d| d.abs()).sum();
    let bar = d.iter().sum::<f64>().abs() - scale * 1e-12;
    let beyond = (0..n_resamples)
        .filter(|replicate| {
            let mut stream = Stream::new(seed, (*replicate).into());
            let sum: f64 = d
                .chunks(64)
                .map(|chunk| {
                    let signs = stream.next_u64();
                    let flip = |(bit, d): (usize, &f64)| {
                        f64::from_bits(d.to_bits() ^ (((signs >> bit) & 1) << 63))
                    };
                    chunk.iter().enumerate().map(flip).sum::<f64>()
                })
                .sum();
            sum.abs() >= bar
        })
        .count();
    Ok((1 + beyond) as f64 / (1 + u64::from(n_resamples)) as f64)
}

/// Approximate randomisation of any statistic, such as corpus BLEU: `difference` is told for every
/// item whether the two systems are swapped and returns the difference of the resulting systems.
pub fn approximate_randomization_by(
    n_items: usize,
    n_resamples: u32,
    seed: u64,
    mut difference: impl FnMut(&[bool]) -> f64,
) -> Result<f64, StatsError> {
    check_resamples(n_resamples)?;
    if n_items == 0 {
        return Err(StatsError::Empty);
    }
    let mut swapped = vec![false; n_items];
    let observed = difference(&swapped).abs();
    let bar = observed - observed * 1e-12;
    let mut beyond = 0u64;
    for replicate in 0..n_resamples {
        let mut stream = Stream::new(seed, replicate.into());
        for chunk in swapped.chunks_mut(64) {
            let signs = stream.next_u64();
            chunk.iter_mut().enumerate().for_each(|(bit, swap)| *swap = (signs >> bit) & 1 == 1);
        }
        beyond += u64::from(difference(&swapped).abs() >= bar);
    }
    Ok((1 + beyond) as f64 / (1 + u64::from(n_resamples)) as f64)
}

#[cfg(test)]
mod tests {
    use super::super::mcnemar;
    use super::*;

    #[test]
    fn identical_systems_have_p_one() {
        let a = [0.25, 0.5, 1.0];
        assert_eq!(approximate_randomization(&a, &a, 500, 3), Ok(1.0));
        assert_eq!(approximate_randomization_by(3, 500, 3, |_| 0.0), Ok(1.0));
        assert_eq!(approximate_randomization(&[], &[], 500, 3), Err(StatsError::Empty));
    }

    #[test]
    fn binary_answers_agree_with_exact_mcnemar() {
        // Over binary answers the test is the Monte Carlo form of the exact McNemar test.
        for (b, c) in [(52usize, 74usize), (9, 2), (7, 41)] {
            let first: Vec<f64> = (0..b + c).map(|i| f64::from(u8::from(i < b))).collect();
            let second: Vec<f64> = first.iter().map(|answer| 1.0 - answer).collect();
            let p = approximate_randomization(&first, &second, 20_000, 8).unwrap();
            let exact = mcnemar(b as u64, c as u64).p_exact;
            assert!((p - exact).abs() < 0.006, "{p} against {exact}");
            let by = approximate_randomization_by(b + c, 20_000, 8, |swapped| {
                let sign = |swap: &bool| if *swap { -1.0 } else { 1.0 };
                swapped.iter().zip(&first).zip(&second).map(|((s, a), b)| sign(s) * (a - b)).sum()
            })
            .unwrap();
            assert!((by - exact).abs() < 0.006, "{by} against {exact}");
        }
    }
}
