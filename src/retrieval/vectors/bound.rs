//! How far the inner product of two vectors rounded to bytes may be from their score.
//!
//! Of a query q and an entry e with their rounded forms q' and e', `q·e - q'·e' = q·(e - e') + (q - q')·e'`, so that by
//! Cauchy and Schwarz it is at most `|q| |e - e'| + |q - q'| |e'|` in size. A number is rounded to a multiple of its
//! vector's step, the largest magnitude divided by 127, so that it moves by half a step at most, and a vector of n numbers
//! by half a step times √n. To that comes what f32 loses in either sum.

/// Largest magnitude of a byte.
const BYTE_MAX: f64 = 127.0;
/// Half a step, and what f32 adds to it: the quotient and the step are rounded as well.
const HALF: f64 = 0.501;
/// What one operation in f32 may lose, relative to its result.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;
/// The smallest difference of two numbers of f32: what an operation may lose near 0.
const TINY: f64 = f32::from_bits(1) as f64;
/// For the rounding of the bound itself, which is computed in f64.
const SLACK: f64 = 1.0 + 1e-9;

/// How large one or several vectors are, and how far they are from their rounded forms, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Extent {
    norm: f64,
    moved: f64,
}

impl Extent {
    pub(super) fn of(vector: &[f32]) -> Self {
        let (mut squares, mut largest) = (0.0, 0.0_f64);
        for &x in vector {
            let x = f64::from(x);
            squares += x * x;
            largest = largest.max(x.abs());
        }
        let moved = HALF * largest / BYTE_MAX * (vector.len() as f64).sqrt();
        // A vector near 0 has no bytes: then it moves by itself.
        Self {
            norm: squares.sqrt(),
            moved: moved.max(if largest < 1e-30 { squares.sqrt() } else { 0.0 }),
        }
    }

    /// That of both.
    pub(super) fn or(self, other: Self) -> Self {
        Self { norm: self.norm.max(other.norm), moved: self.moved.max(other.moved) }
    }

    /// How far the score of a query of this extent and an entry of that of `entry` may be from the product of bytes.
    pub(super) fn bound(self, entry: Self, dimension: usize) -> f64 {
        let n = dimension as f64;
        let rounded = entry.norm + entry.moved;
        let by_bytes = self.norm * entry.moved + self.moved * rounded;
        // The score is n products and n sums, each rounded. The product of bytes is an exact integer that is
        // rounded and scaled by a rounded product of two steps.
        let by_sums = 2.0 * n * UNIT / (1.0 - 2.0 * n * UNIT) * self.norm * entry.norm;
        let by_scales = 8.0 * UNIT * (self.norm + self.moved) * rounded;
        let near_zero = TINY * n * (2.0 + BYTE_MAX * BYTE_MAX);
        (by_bytes + by_sums + by_scales + near_zero) * SLACK
    }
}
