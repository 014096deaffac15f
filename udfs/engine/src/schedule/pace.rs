//! How much a worker takes at once: all that its limits allow, and less once its device had no room.

use crate::backend::DeviceError;

/// How much a worker takes at once, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Rows of a pass.
    pub rows: usize,
    /// Requests that share passes.
    pub requests: usize,
}

/// A pass that failed, and how large it was.
#[derive(Debug)]
pub struct Failure {
    pub error: DeviceError,
    pub requests: usize,
    pub rows: usize,
    /// Rows that a pass over its requests cannot do without.
    pub least: usize,
}

/// A worker's pace as it learns what its device can take.
#[derive(Debug)]
pub struct Learned {
    now: Pace,
    full: Pace,
}

impl Pace {
    /// Whether a batch of so many requests takes one more, with which it has so many rows. One
    /// request is always taken.
    pub fn admits(self, requests: usize, rows: usize) -> bool {
        requests == 0 || requests < self.requests && rows <= self.rows
    }
}

impl Learned {
    /// Passes of up to `rows` rows.
    pub fn new(rows: usize) -> Self {
        let full = Pace { rows, requests: usize::MAX };
        Self { now: full, full }
    }

    pub fn now(&self) -> Pace {
        self.now
    }

    /// Takes half as much at once as the pass that failed. False if that cannot help: the device
    /// failed for another reason, or has no room for a single request in its smallest passes. That
    /// one may be why others failed before, so the full pace is tried again.
    pub fn slow_down(&mut self, failure: &Failure) -> bool {
        let &Failure { ref error, requests, rows, least } = failure;
        if !matches!(error, DeviceError::OutOfMemory { .. }) {
            return false;
        }
        if requests <= 1 && rows <= least {
            self.now = self.full;
            return false;
        }
        let Pace { rows: most, requests: together } = self.now;
        self.now =
            Pace { rows: (rows / 2).clamp(1, most), requests: (requests / 2).clamp(1, together) };
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full(requests: usize, rows: usize, least: usize) -> Failure {
        Failure { error: DeviceError::OutOfMemory { bytes: 1 }, requests, rows, least }
    }

    #[test]
    fn one_request_is_always_taken() {
        let pace = Pace { rows: 10, requests: 2 };
        assert!(pace.admits(0, 99));
        assert!(pace.admits(1, 10) && !pace.admits(1, 11) && !pace.admits(2, 5));
    }

    #[test]
    fn other_failures_slow_nothing() {
        let mut learned = Learned::new(64);
        let error = DeviceError::Failed("it burns".to_owned());
        assert!(!learned.slow_down(&Failure { error, ..full(9, 64, 0) }));
        assert_eq!(learned.now(), Learned::new(64).now());
    }

    #[test]
    fn one_that_never_fits_is_no_burden_to_others() {
        let mut learned = Learned::new(64);
        assert!(learned.slow_down(&full(8, 40, 1)));
        assert_eq!(learned.now(), Pace { rows: 20, requests: 4 });
        assert!(learned.slow_down(&full(1, 20, 3)));
        assert_eq!(learned.now(), Pace { rows: 10, requests: 1 });
        assert!(learned.slow_down(&full(1, 10, 3)));
        assert!(!learned.slow_down(&full(1, 3, 3)));
        assert_eq!(learned.now(), Learned::new(64).now());
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
            let mut learned = Learned::new(64);
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
                } else if !learned.slow_down(&full(taken, taken * size, size)) {
                    prop_assert_eq!(taken, 1);
                    failed += 1;
                    left -= 1;
                }
            }
            prop_assert_eq!(failed, if size > room { waiting } else { 0 });
        }
    }
}
