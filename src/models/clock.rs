//! Time and jitter as the endpoint's crate wants them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proofmill_remote::{Host, Sleep};

use proofmill_base::clock::Clock;
use proofmill_base::rng::Rng;

/// The program's clock and randomness.
#[derive(Debug)]
pub struct Injected {
    pub clock: Arc<dyn Clock>,
    pub rng: Arc<dyn Rng>,
}

impl Host for Injected {
    fn now(&self) -> SystemTime {
        self.clock.now().into()
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        Box::pin(self.clock.sleep(duration))
    }

    fn random(&self) -> u64 {
        self.rng.next_u64()
    }
}
