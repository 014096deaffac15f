//! Cosine similarity of two vectors.

/// a·b / (|a| |b|); `None` if a vector is zero (the angle is undefined) or the lengths differ.
pub fn cosine_similarity(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    let (mut dot, mut left, mut right) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        dot += a * b;
        left += a * a;
        right += b * b;
    }
    let norms = f64::sqrt(left) * f64::sqrt(right);
    (norms > 0.0).then(|| (dot / norms).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles() {
        assert_eq!(cosine_similarity(&[2.0, 0.0], &[5.0, 0.0]), Some(1.0));
        assert_eq!(cosine_similarity(&[1.0, 0.0], &[0.0, 3.0]), Some(0.0));
        assert_eq!(cosine_similarity(&[1.0], &[-3.0]), Some(-1.0));
        assert_eq!(cosine_similarity(&[0.0], &[1.0]), None);
        assert_eq!(cosine_similarity(&[], &[]), None);
        assert_eq!(cosine_similarity(&[1.0], &[1.0, 2.0]), None);
    }
}
