//! Time as a component: the only caller of the system clocks.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};

/// Where a component gets its time from. Injected, so that tests decide what time it is.
#[async_trait]
pub trait Clock: Debug + Send + Sync {
    /// Wall-clock time, for records that people read; never compared to decide safety.
    fn now(&self) -> DateTime<Utc>;
    /// Time since an arbitrary fixed point; never goes backwards.
    fn monotonic(&self) -> Duration;
    /// Waits for `duration` of this clock's time.
    async fn sleep(&self, duration: Duration);
}

/// A length of time as people write it: a whole number above 0 and `ms`, `s`, `m` or `h`, such as `90s`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok().filter(|number| *number > 0)?;
    match text[digits..].trim() {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3600)?)),
        _ => None,
    }
}

/// The clocks of the machine.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

#[async_trait]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        // `Utc::now()` panics before 1970.
        std::time::SystemTime::now().into()
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
