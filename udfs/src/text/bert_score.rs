//! BERTScore (Zhang et al. 2020): texts compared by the vectors of their tokens.

use super::overlap::Prf;

/// Precision: the mean over the candidate's tokens of the largest cosine to a token of the reference; recall likewise
/// for the reference's tokens; without weights (no idf) and without rescaling. 0 if a side has no tokens. `None` if vectors differ
/// in length or one has the length 0, which has no direction.
pub fn bert_score(candidate: &[Vec<f64>], reference: &[Vec<f64>]) -> Option<Prf> {
    if candidate.is_empty() || reference.is_empty() {
        return Some(Prf::ZERO);
    }
    let (candidate, reference) = (units(candidate)?, units(reference)?);
    let width = reference[0].len();
    if candidate.iter().chain(&reference).any(|vector| vector.len() != width) {
        return None;
    }
    let mut of_reference = vec![f64::NEG_INFINITY; reference.len()];
    let mut of_candidate = 0.0;
    for token in &candidate {
        let mut best = f64::NEG_INFINITY;
        for (other, largest) in reference.iter().zip(&mut of_reference) {
            let cosine: f64 = token.iter().zip(other).map(|(a, b)| a * b).sum();
            best = best.max(cosine);
            *largest = largest.max(cosine);
        }
        of_candidate += best;
    }
    let precision = of_candidate / candidate.len() as f64;
    let recall = of_reference.iter().sum::<f64>() / reference.len() as f64;
    let sum = precision + recall;
    let f1 = if sum == 0.0 { 0.0 } else { 2.0 * precision * recall / sum };
    Some(Prf { precision, recall, f1 })
}

/// The vectors at length 1.
fn units(vectors: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let unit = |vector: &Vec<f64>| {
        let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        (length > 0.0).then(|| vector.iter().map(|x| x / length).collect())
    };
    vectors.iter().map(unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_token_takes_its_nearest() {
        let candidate = [vec![2.0, 0.0], vec![0.0, 1.0], vec![3.0, 4.0]];
        let reference = [vec![1.0, 0.0]];
        let found = bert_score(&candidate, &reference).unwrap();
        assert!((found.precision - 1.6 / 3.0).abs() < 1e-12);
        assert!((found.recall - 1.0).abs() < 1e-12);
        assert!((found.f1 - 2.0 * found.precision / (found.precision + 1.0)).abs() < 1e-12);
        assert_eq!(bert_score(&[], &reference), Some(Prf::ZERO));
        assert_eq!(bert_score(&[vec![0.0, 0.0]], &reference), None);
        assert_eq!(bert_score(&[vec![1.0]], &reference), None);
    }
}
