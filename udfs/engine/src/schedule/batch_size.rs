//! Adaptive batch size: all that a worker's limits allow, and less after its device ran out of memory.

use crate::backend::DeviceError;

/// Most that a worker takes into a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Rows of a pass.
    pub rows: usize,
    /// Requests that share passes.
    pub requests: usize,
}

/// A pass that failed, and how large it was.
#[derive(Debug)]
pub struct PassFailure {
    pub error: DeviceError,
    pub requests: usize,
    pub rows: usize,
    /// Rows that a pass over its requests cannot do without.
    pub least: usize,
}

/// The batch size of a worker, halved whenever its device runs out of memory.
#[derive(Debug)]
pub struct AdaptiveBatchSize {
    now: BatchSize,
    full: BatchSize,
}

impl BatchSize {
    /// Whether a batch of so many requests takes one more, with which it has so many rows. One
    /// request is always taken.
    pub fn admits(self, requests: usize, rows: usize) -> bool {
        requests == 0 || requests < self.requests && rows <= self.rows
    }
}

impl AdaptiveBatchSize {
    /// Begins with passes of up to `rows` rows and any number of requests.
    pub fn new(rows: usize) -> Self {
        let full = BatchSize { rows, requests: usize::MAX };
        Self { now: full, full }
    }

    pub fn now(&self) -> BatchSize {
        self.now
    }

    /// Takes half as much at once as the pass that failed. False if that cannot help: the device
    /// failed for another reason, or runs out of memory for a single request in its smallest passes. That
    /// one may be why others failed before, so the full pace is tried again.
    pub fn shrink(&mut self, failure: &PassFailure) -> bool {
        let &PassFailure { ref error, requests, rows, least } = failure;
        if !matches!(error, DeviceError::OutOfMemory { .. }) {
            return false;
        }
        if requests <= 1 && rows <= least {
            self.now = self.full;
            return false;
        }
        let BatchSize { rows: most, requests: together } = self.now;
        self.now = BatchSize {
            rows: (rows / 2).clamp(1, most),
            requests: (requests / 2).clamp(1, together),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full(requests: usize, rows: usize, least: usize) -> PassFailure {
        PassFailure { error: DeviceError::OutOfMemory { bytes: 1 }, requests, rows, least }
    }

    #[test]
    fn one_request_is_always_taken() {
        let batch_size = BatchSize { rows: 10, requests: 2 };
        assert!(batch_size.admits(0, 99));
        assert!(batch_size.admits(1, 10) && !batch_size.admits(1, 11) && !batch_size.admits(2, 5));
    }

    #[test]
    fn other_failures_slow_nothing() {
        let mut learned = AdaptiveBatchSize::new(64);
        let error = DeviceError::Failed("it burns".to_owned());
        assert!(!learned.shrink(&PassFailure { error, ..full(9, 64, 0) }));
        assert_eq!(learned.now(), AdaptiveBatchSize::new(64).now());
    }

    #[test]
    fn one_that_never_fits_is_no_burden_to_others() {
        let mut learned = AdaptiveBatchSize::new(64);
        assert!(learned.shrink(&full(8, 40, 1)));
        assert_eq!(learned.now(), BatchSize { rows: 20, requests: 4 });
        assert!(learned.shrink(&full(1, 20, 3)));
        assert_eq!(learned.now(), BatchSize { rows: 10, requests: 1 });
        assert!(learned.shrink(&full(1, 10, 3)));
        assert!(!learned.shrink(&full(1, 3, 3)));
        assert_eq!(learned.now(), AdaptiveBatchSize::new(64).now());
    }

    proptest! {
        /// A device with room for `room` rows; passes of one kind over `waiting` requests of equal
        /// size come to an end, and fail only where one alone has no room.
        #[test]
        fn it_ends_and_only_what_never_fits_fails(
            room in 1usize..70,
            size in 1usize..70,
            waiting in 1usize..50,
        ) {
            let mut learned = AdaptiveBatchSize::new(64);
            let (mut left, mut failed, mut tries) = (waiting, 0, 0);
            while left > 0 {
                tries += 1;
                prop_assert!(tries < 20 * waiting, "{left} are left");
                let mut taken = 0;
                while taken < left && learned.now().admits(taken, (taken + 1) * size) {
                    taken += 1;
                }
                if taken * size <= room {
                    left -= taken;
                } else if !learned.shrink(&full(taken, taken * size, size)) {
                    prop_assert_eq!(taken, 1);
                    failed += 1;
                    left -= 1;
                }
            }
            prop_assert_eq!(failed, if size > room { waiting } else { 0 });
        }
    }
}
