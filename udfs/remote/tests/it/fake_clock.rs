//! Clocks and randomness for tests: a clock whose time passes only by waiting, and jitter that is
//! always the same part of its bound.

use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use proofmill_base::clock::Clock;
use proofmill_base::rng::Rng;

/// The wall-clock time at which [`FakeClock`] starts: `Sun, 06 Nov 1994 08:49:37 GMT`.
const STARTED: Duration = Duration::from_secs(784_111_777);

/// Waiting takes no time and is written down.
#[derive(Debug, Default)]
pub struct FakeClock {
    slept: Mutex<Vec<Duration>>,
}

impl FakeClock {
    /// Every wait so far.
    pub fn slept(&self) -> Vec<Duration> {
        self.slept.lock().unwrap().clone()
    }
}

#[async_trait]
impl Clock for FakeClock {
    fn now(&self) -> DateTime<Utc> {
        (UNIX_EPOCH + STARTED + self.monotonic()).into()
    }

    fn monotonic(&self) -> Duration {
        self.slept.lock().unwrap().iter().sum()
    }

    async fn sleep(&self, duration: Duration) {
        self.slept.lock().unwrap().push(duration);
    }
}

/// The same bits each time: `1 << 63` is half of every jitter's bound, `1 << 62` a quarter.
#[derive(Debug)]
pub struct Always(pub u64);

impl Rng for Always {
    fn next_u64(&self) -> u64 {
        self.0
    }
}
