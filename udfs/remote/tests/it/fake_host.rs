//! Hosts for tests: one whose time passes only by waiting, and that of the machine.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proofmill_remote::Host;
use proofmill_remote::Sleep;

/// The wall-clock time at which [`FakeHost`] starts: `Sun, 06 Nov 1994 08:49:37 GMT`.
const STARTED: Duration = Duration::from_secs(784_111_777);

/// Waiting takes no time and is written down; half of every jitter's bound is drawn.
#[derive(Debug, Default)]
pub struct FakeHost {
    slept: Mutex<Vec<Duration>>,
}

impl FakeHost {
    /// Every wait so far.
    pub fn slept(&self) -> Vec<Duration> {
        self.slept.lock().unwrap().clone()
    }
}

impl Host for FakeHost {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + STARTED + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.slept.lock().unwrap().iter().sum()
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        Box::pin(async move { self.slept.lock().unwrap().push(duration) })
    }

    fn random(&self) -> u64 {
        1 << 63
    }
}

/// The time of the machine.
#[derive(Debug)]
pub struct RealHost(pub Instant);

impl Host for RealHost {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn random(&self) -> u64 {
        1 << 62
    }
}
