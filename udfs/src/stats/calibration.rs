//! Calibration: whether answers are right as often as the confidence in them says.

use super::error::BINS_MAX;
use super::{StatsError, check_lengths, mean, sorted};

/// The answers whose confidence is above `low` and at most `high`; those of 0 are in the first bin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrationBin {
    pub low: f64,
    pub high: f64,
    /// Number of answers, at least 1.
    pub n: u64,
    /// Mean confidence.
    pub confidence: f64,
    /// Share of right answers.
    pub accuracy: f64,
}

/// How well confidence is calibrated.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// Expected calibration error (Naeini et al. 2015): the mean over the answers of how far accuracy and
    /// confidence of their bin lie apart.
    pub ece: f64,
    /// The largest of these distances.
    pub mce: f64,
    /// Brier score (Brier 1950): mean squared distance of the confidence to 1 for right answers, else to 0.
    pub brier: f64,
    pub n: u64,
    /// The bins with answers, ascending.
    pub bins: Vec<CalibrationBin>,
}

/// Calibration over `bins` bins of equal width.
///
/// # Errors
///
/// Without answers, and for a confidence outside 0 to 1 or a number of bins outside 1 to [`BINS_MAX`].
pub fn calibration(
    confidence: &[f64],
    right: &[bool],
    bins: usize,
) -> Result<Calibration, StatsError> {
    check_lengths(confidence.len(), right.len())?;
    if confidence.is_empty() {
        return Err(StatsError::Empty);
    }
    if !(1..=BINS_MAX).contains(&bins) {
        return Err(StatsError::Bins(bins));
    }
    if let Some(value) = confidence.iter().find(|value| !(0.0..=1.0).contains(*value)) {
        return Err(StatsError::Probability { name: "confidence", value: *value });
    }
    let edges: Vec<f64> = (1..=bins).map(|i| i as f64 / bins as f64).collect();
    let mut filled: Vec<(Vec<f64>, u64)> = vec![(Vec::new(), 0); bins];
    for (value, right) in confidence.iter().zip(right) {
        let (values, hits) = &mut filled[edges.partition_point(|edge| edge < value)];
        values.push(*value);
        *hits += u64::from(*right);
    }
    let bin = |(i, (values, hits)): (usize, &(Vec<f64>, u64))| {
        (!values.is_empty()).then(|| CalibrationBin {
            low: if i == 0 { 0.0 } else { edges[i - 1] },
            high: edges[i],
            n: values.len() as u64,
            confidence: mean(&sorted(values)),
            accuracy: *hits as f64 / values.len() as f64,
        })
    };
    let bins: Vec<CalibrationBin> = filled.iter().enumerate().filter_map(bin).collect();
    let n = confidence.len() as u64;
    let gap = |bin: &CalibrationBin| (bin.accuracy - bin.confidence).abs();
    let squares = confidence.iter().zip(right).map(|(value, right)| {
        let distance = value - f64::from(u8::from(*right));
        distance * distance
    });
    Ok(Calibration {
        ece: bins.iter().map(|bin| bin.n as f64 * gap(bin)).sum::<f64>() / n as f64,
        mce: bins.iter().map(gap).fold(0.0, f64::max),
        brier: mean(&sorted(&squares.collect::<Vec<_>>())),
        n,
        bins,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two bins. Up to 0.5: 0, 0.2 and 0.5, one right: 1/3 and 0.7/3. Above: 0.75 and 1, one right:
    /// 0.5 and 0.875. ECE (3 · 0.1 + 2 · 0.375) / 5 = 0.21; squares 0, 0.04, 0.25, 0.0625, 1.
    #[test]
    fn numbers_are_those_of_the_arithmetic() {
        let confidence = [0.5, 1.0, 0.2, 0.0, 0.75];
        let right = [true, false, false, false, true];
        let found = calibration(&confidence, &right, 2).unwrap();
        assert_eq!((found.n, found.bins.len()), (5, 2));
        assert_eq!((found.bins[0].low, found.bins[0].high, found.bins[0].n), (0.0, 0.5, 3));
        assert!((found.ece - 0.21).abs() < 1e-15, "{}", found.ece);
        assert_eq!(found.mce, 0.375);
        assert!((found.brier - 1.3525 / 5.0).abs() < 1e-15, "{}", found.brier);
    }

    #[test]
    fn edges_belong_below_and_empty_bins_are_left_out() {
        let found = calibration(&[0.1, 0.3, 0.30000000000000004, 0.7], &[true; 4], 10).unwrap();
        let edges: Vec<(f64, u64)> = found.bins.iter().map(|bin| (bin.high, bin.n)).collect();
        assert_eq!(edges, [(0.1, 1), (0.3, 1), (0.4, 1), (0.7, 1)]);
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        assert_eq!(calibration(&[], &[], 5), Err(StatsError::Empty));
        assert_eq!(calibration(&[0.5], &[true], 0), Err(StatsError::Bins(0)));
        for value in [-0.1, 1.1, f64::INFINITY, f64::NAN] {
            let error = calibration(&[value], &[true], 5).unwrap_err();
            assert!(matches!(error, StatsError::Probability { .. }), "{value}");
        }
    }
}
