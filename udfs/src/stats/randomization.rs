//! Approximate randomisation: could the labels of the two systems be exchanged?

use super::rng::Stream;
use super::{StatsError, check_resamples, check_values, sorted};

/// Paired approximate randomisation of the mean (Noreen 1989; Riezler and Maxwell 2005) over the item-wise
/// differences of two systems: swaps the two systems per item at random;
/// p = (1 + #{|swapped| >= |observed|}) / (1 + R).
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

#[cfg(test)]
mod tests {
    use super::super::mcnemar;
    use super::*;

    #[test]
    fn identical_systems_have_p_one() {
        assert_eq!(randomization_of_differences(&[0.0; 3], 500, 3), Ok(1.0));
        assert_eq!(randomization_of_differences(&[], 500, 3), Err(StatsError::Empty));
    }

    #[test]
    fn binary_answers_agree_with_exact_mcnemar() {
        // Over binary answers the test is the Monte Carlo form of the exact McNemar test.
        for (b, c) in [(52usize, 74usize), (9, 2), (7, 41)] {
            let d: Vec<f64> = (0..b + c).map(|i| if i < b { 1.0 } else { -1.0 }).collect();
            let p = randomization_of_differences(&d, 20_000, 8).unwrap();
            let exact = mcnemar(b as u64, c as u64).p_exact;
            assert!((p - exact).abs() < 0.006, "{p} against {exact}");
        }
    }
}
