//! T5's relative positions: distances fall into buckets, small ones each into its own, larger ones by
//! their logarithm. The engine's reading of the same settings, which tests compare by its scores.

/// How distances fall into buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets {
    pub count: usize,
    /// The distance from which on all share the last.
    pub max_distance: usize,
    /// Whether half of them is for what comes later in the text; else that is all in the first.
    pub both_ways: bool,
}

impl Buckets {
    /// The buckets of the distances from `1 - length` to `length - 1`, in this order.
    pub fn span(self, length: usize) -> Vec<usize> {
        let length = length as i64;
        (1 - length..length).map(|distance| self.of(distance)).collect()
    }

    /// The bucket of `key - query`.
    fn of(self, distance: i64) -> usize {
        let side = if self.both_ways { self.count / 2 } else { self.count };
        let later = self.both_ways && distance > 0;
        let far = if self.both_ways { distance.unsigned_abs() } else { (-distance).max(0) as u64 };
        let bucket = self.on_side(far as usize, side);
        if later { side + bucket } else { bucket }
    }

    /// In 32-bit floats, as torch does it: at powers of two the last bit decides.
    fn on_side(self, far: usize, side: usize) -> usize {
        let exact = side / 2;
        if far < exact {
            return far;
        }
        let growth = (self.max_distance as f64 / exact as f64).ln() as f32;
        let log = (far as f32 / exact as f32).ln() / growth * (side - exact) as f32;
        (exact + log as usize).min(side - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_begin_where_those_of_transformers_do() {
        let back = Buckets { count: 32, max_distance: 128, both_ways: false };
        let begins = |buckets: Buckets| -> Vec<usize> {
            let of = |far: usize| buckets.of(-(far as i64));
            (0..=128).filter(|&far| far == 0 || of(far) != of(far - 1)).collect()
        };
        let both = Buckets { both_ways: true, ..back };
        assert_eq!(begins(both)[8..], [8, 12, 16, 23, 32, 46, 64, 91]);
        assert_eq!(begins(back)[16..22], [16, 19, 21, 24, 27, 31]);
        assert_eq!(both.span(3), [2, 1, 0, 17, 18]);
        assert_eq!(back.span(3), [2, 1, 0, 0, 0]);
    }
}
