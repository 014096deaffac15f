//! The A/A noise floor: how far runs of one and the same system lie apart.

use super::{StatsError, check_values, mean, sample_sd, sorted};

/// Spread of a metric over identical runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseFloor {
    pub mean: f64,
    /// Standard deviation over the runs; NaN for one run.
    pub sd: f64,
    /// Largest difference between two of the runs: a change below it is not a regression.
    pub floor: f64,
    /// Number of runs.
    pub runs: usize,
}

impl NoiseFloor {
    /// Whether a difference of two runs stands out from the noise; never with fewer than two runs.
    pub fn exceeded_by(&self, difference: f64) -> bool {
        self.runs >= 2 && difference.abs() > self.floor
    }
}

/// Noise floor of a metric from the values it took in runs that should not differ.
pub fn noise_floor(runs: &[f64]) -> Result<NoiseFloor, StatsError> {
    check_values(runs)?;
    let runs = sorted(runs);
    let floor = runs[runs.len() - 1] - runs[0];
    Ok(NoiseFloor { mean: mean(&runs), sd: sample_sd(&runs), floor, runs: runs.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_larger_difference_stands_out() {
        let noise = noise_floor(&[0.75, 0.7, 0.725]).unwrap();
        assert!((noise.floor - 0.05).abs() < 1e-12);
        assert!(!noise.exceeded_by(0.04) && noise.exceeded_by(-0.06));
    }

    #[test]
    fn one_run_knows_no_noise() {
        let noise = noise_floor(&[0.75]).unwrap();
        assert!(noise.sd.is_nan() && !noise.exceeded_by(1.0));
        assert_eq!(noise_floor(&[]), Err(StatsError::Empty));
    }
}
