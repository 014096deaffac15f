//! Numbers of rows that kernels are launched with. Few different ones, so that a step of as many
//! texts as an earlier one is the same list of launches and can be run as the same graph.

/// The number of rows that a step of `rows` is filled up to; 0 stays 0. Up to 64 rows that is a
/// power of two or a multiple of 16, then a multiple of 64.
pub(super) fn bucket(rows: usize) -> usize {
    match rows {
        0..=16 => rows.next_power_of_two() * usize::from(rows > 0),
        17..=64 => rows.next_multiple_of(16),
        _ => rows.next_multiple_of(64),
    }
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn buckets_hold_their_rows_and_are_few() {
        let buckets: std::collections::BTreeSet<usize> = (1..=256).map(bucket).collect();
        assert_eq!(buckets, [1, 2, 4, 8, 16, 32, 48, 64, 128, 192, 256].into());
        assert!((0..5000).all(|rows| bucket(rows) >= rows && bucket(rows) < 2 * rows.max(1)));
        assert_eq!(bucket(0), 0);
    }
}
