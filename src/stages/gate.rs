//! How many rows of a stage may fail.

use proofmill_pipeline::kinds::OnError;
use proofmill_pipeline::pipeline::Common;

/// What becomes of a row that fails, and the share of rows that may.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    pub on_error: OnError,
    pub max_error_rate: f64,
}

impl Gate {
    /// As the settings of a stage say it.
    pub fn of(common: &Common) -> Self {
        Self { on_error: common.on_error, max_error_rate: common.max_error_rate }
    }

    /// Whether a stage passes of which so many rows failed and so many others did not.
    pub fn passes(self, failed: u64, others: u64) -> bool {
        // A product may be off by one: 0.29 of 100 is less than 29.
        let rate = || failed as f64 / (failed + others) as f64;
        failed == 0 || self.on_error == OnError::Capture && rate() <= self.max_error_rate
    }

    /// Most failures of `rows` with which a stage can still pass, where it is known how many rows there can be; `None` if it passes
    /// with any.
    pub fn failures_max(self, rows: Option<u64>) -> Option<u64> {
        if self.on_error == OnError::Fail {
            return Some(0);
        }
        if self.max_error_rate >= 1.0 {
            return None;
        }
        let Some(rows) = rows else { return Some(u64::MAX) };
        let passes = |failed: &u64| self.passes(*failed, rows.saturating_sub(*failed));
        let near = (self.max_error_rate * rows as f64) as u64;
        (near.saturating_sub(1)..=near + 1).rev().find(passes).or(Some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_may_fail_as_the_rate_says_and_no_more() {
        for percent in 0..100_u64 {
            let max_error_rate = percent as f64 / 100.0;
            let gate = Gate { on_error: OnError::Capture, max_error_rate };
            for rows in [1, 7, 10, 40, 100, 1000, 1_000_003] {
                let most = gate.failures_max(Some(rows)).unwrap();
                assert_eq!(most, percent * rows / 100, "{percent} % of {rows}");
                assert!(gate.passes(most, rows - most), "{percent} % of {rows}");
                assert!(!gate.passes(most + 1, rows - most - 1), "{percent} % of {rows}");
            }
        }
    }

    #[test]
    fn all_may_fail_or_none() {
        let gate = Gate { on_error: OnError::Capture, max_error_rate: 1.0 };
        assert_eq!(gate.failures_max(Some(5)), None);
        assert!(gate.passes(5, 0) && gate.passes(0, 0));
        let strict = Gate { on_error: OnError::Fail, ..gate };
        assert_eq!(strict.failures_max(Some(5)), Some(0));
        assert!(strict.passes(0, 5) && !strict.passes(1, 4));
        let half = Gate { max_error_rate: 0.5, ..gate };
        assert_eq!(half.failures_max(None), Some(u64::MAX));
        assert_eq!(half.failures_max(Some(0)), Some(0));
    }
}
