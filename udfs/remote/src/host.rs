//! What a model needs of its surroundings: time, waiting and jitter. Injected, so that tests decide.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

/// A wait that has not ended yet.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Time and randomness. No answer depends on either; they decide when a request is sent.
pub trait Host: Debug + Send + Sync {
    /// Wall-clock time, to which the dates in `Retry-After` are compared.
    fn now(&self) -> SystemTime;
    /// Time since an arbitrary fixed point; never goes backwards.
    fn monotonic(&self) -> Duration;
    /// Waits for `duration` of this host's time.
    fn sleep(&self, duration: Duration) -> Sleep<'_>;
    /// The next 64 random bits.
    fn random(&self) -> u64;
}
