//! Both denominators of an accuracy: unanswered items left out, and unanswered items as wrong.

use super::StatsError;

/// The accuracies that the same answers allow, depending on what happened to the failed items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Denominators {
    /// right / answered; `None` if nothing was answered.
    pub scored_only: Option<f64>,
    /// right / attempted: every failure counts as wrong. Also the lower bound.
    pub failures_wrong: f64,
    /// (right + failed) / attempted: the upper bound, if every failure had been right.
    pub failures_right: f64,
}

/// Accuracy under both denominators, with the bounds between which the truth lies.
pub fn denominators(right: u64, answered: u64, attempted: u64) -> Result<Denominators, StatsError> {
    if attempted == 0 {
        return Err(StatsError::Empty);
    }
    for (successes, n) in [(right, answered), (answered, attempted)] {
        if successes > n {
            return Err(StatsError::Successes { successes, n });
        }
    }
    let all = attempted as f64;
    Ok(Denominators {
        scored_only: (answered > 0).then(|| right as f64 / answered as f64),
        failures_wrong: right as f64 / all,
        failures_right: (right + attempted - answered) as f64 / all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_items_failed() {
        let both = denominators(45, 50, 100).unwrap();
        assert_eq!(both.scored_only, Some(0.9));
        assert_eq!((both.failures_wrong, both.failures_right), (0.45, 0.95));
    }

    #[test]
    fn nothing_answered_and_impossible_counts() {
        assert_eq!(denominators(0, 0, 10).unwrap().scored_only, None);
        assert_eq!(denominators(0, 0, 0), Err(StatsError::Empty));
        assert!(denominators(3, 2, 10).is_err());
        assert!(denominators(1, 11, 10).is_err());
    }
}
