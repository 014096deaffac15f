//! Adjusted p values for several tests at once.
//!
//! A test is rejected at alpha if its adjusted p value is at most alpha.

use super::StatsError;

/// Holm's step-down adjustment: controls the chance of any false alarm (Holm 1979).
pub fn holm(p: &[f64]) -> Result<Vec<f64>, StatsError> {
    let order = ascending(p)?;
    let mut adjusted = vec![0.0; p.len()];
    let mut largest = 0.0f64;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * p[index]).min(1.0);
        adjusted[index] = largest;
    }
    Ok(adjusted)
}

/// The step-up adjustment of Benjamini and Hochberg (1995): controls the false discovery rate.
pub fn benjamini_hochberg(p: &[f64]) -> Result<Vec<f64>, StatsError> {
    let order = ascending(p)?;
    let mut adjusted = vec![0.0; p.len()];
    let mut smallest = 1.0f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        smallest = smallest.min(p.len() as f64 / (rank + 1) as f64 * p[index]);
        adjusted[index] = smallest;
    }
    Ok(adjusted)
}

/// Indices of `p` from the smallest to the largest value.
fn ascending(p: &[f64]) -> Result<Vec<usize>, StatsError> {
    if let Some(value) = p.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        return Err(StatsError::Probability { name: "p", value: *value });
    }
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&left, &right| p[left].total_cmp(&p[right]));
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: &[f64], right: &[f64]) -> bool {
        left.len() == right.len() && left.iter().zip(right).all(|(l, r)| (l - r).abs() < 1e-12)
    }

    #[test]
    fn keeps_the_callers_order() {
        let p = [0.04, 0.01, 0.03];
        assert!(close(&holm(&p).unwrap(), &[0.06, 0.03, 0.06]));
        assert!(close(&benjamini_hochberg(&p).unwrap(), &[0.04, 0.03, 0.04]));
    }

    #[test]
    fn is_capped_at_one_and_accepts_nothing() {
        assert_eq!(holm(&[0.9, 0.8]).unwrap(), [1.0, 1.0]);
        assert_eq!(benjamini_hochberg(&[1.0]).unwrap(), [1.0]);
        assert!(holm(&[]).unwrap().is_empty());
    }

    #[test]
    fn refuses_what_is_no_probability() {
        for p in [f64::NAN, -0.1, 1.1] {
            assert!(matches!(holm(&[p]), Err(StatsError::Probability { .. })));
        }
    }
}
