//! What is a vector, and why something is none.

/// Most dimensions of a vector.
pub const DIMENSIONS_MAX: usize = 16_384;

/// Largest Euclidean norm of a vector. Sums of products are at most the product of two norms in
/// size, so that with this limit no score and no part of one can overflow.
pub const NORM_MAX: f64 = 1e18;

/// Why numbers are not a vector that can be compared with others; reads on after "the vector of …".
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum VectorFlaw {
    #[error("is NULL")]
    Missing,
    /// It has no numbers, or too many.
    #[error("has {0} dimensions; expected 1 to {DIMENSIONS_MAX}")]
    Dimensions(usize),
    /// It has another number of dimensions than the vectors it is compared with.
    #[error("has {found} dimensions; expected {expected}, as all others have")]
    OtherDimension { found: usize, expected: usize },
    /// One of its numbers is NULL.
    #[error("is NULL at position {0}")]
    Hole(usize),
    /// One of its numbers is infinite or not a number.
    #[error("is {value} at position {position}; expected finite numbers")]
    NotFinite {
        /// Which, from 1.
        position: usize,
        value: f32,
    },
    /// Products with it could overflow.
    #[error("has the norm {0:e}; expected at most {NORM_MAX:e}")]
    TooLong(f64),
}

/// Refuses numbers that are not a vector of `dimension` dimensions.
pub fn check(vector: &[f32], dimension: usize) -> Result<(), VectorFlaw> {
    let found = vector.len();
    if !(1..=DIMENSIONS_MAX).contains(&found) {
        return Err(VectorFlaw::Dimensions(found));
    }
    if found != dimension {
        return Err(VectorFlaw::OtherDimension { found, expected: dimension });
    }
    // Squares of 32-bit numbers neither overflow nor vanish in 64 bits.
    let squares: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    if squares.sqrt() <= NORM_MAX {
        return Ok(());
    }
    Err(match vector.iter().position(|x| !x.is_finite()) {
        Some(at) => VectorFlaw::NotFinite { position: at + 1, value: vector[at] },
        None => VectorFlaw::TooLong(squares.sqrt()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flaw_is_distinguished_from_the_others() {
        assert_eq!(check(&[1.0, -0.0], 2), Ok(()));
        assert_eq!(check(&[0.0; 3], 3), Ok(()));
        assert_eq!(check(&[], 0), Err(VectorFlaw::Dimensions(0)));
        let long = vec![0.0; DIMENSIONS_MAX + 1];
        assert_eq!(check(&long, long.len()), Err(VectorFlaw::Dimensions(DIMENSIONS_MAX + 1)));
        let other = VectorFlaw::OtherDimension { found: 1, expected: 2 };
        assert_eq!(check(&[1.0], 2), Err(other));
        let flaw = check(&[0.0, f32::NAN], 2).unwrap_err();
        assert_eq!(flaw.to_string(), "is NaN at position 2; expected finite numbers");
        let flaw = check(&[f32::NEG_INFINITY], 1).unwrap_err();
        assert_eq!(flaw.to_string(), "is -inf at position 1; expected finite numbers");
        let flaw = check(&[3e18, 4e18], 2).unwrap_err();
        assert!(matches!(flaw, VectorFlaw::TooLong(norm) if (norm / 5e18 - 1.0).abs() < 1e-6));
    }

    #[test]
    fn products_of_the_longest_vectors_are_finite() {
        let longest = [9.9e17f32; 1];
        assert_eq!(check(&longest, 1), Ok(()));
        assert!((longest[0] * longest[0]).is_finite());
    }
}
