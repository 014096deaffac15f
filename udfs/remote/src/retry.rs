//! When a request that failed is sent again.

use std::time::{Duration, SystemTime};

use proofmill_base::retry::RetryPolicy;

use crate::settings::Retry;

/// How long to wait after `failed` attempts (at least 1), the first of which began `elapsed` ago.
/// None if nothing is to be tried any more.
///
/// Full jitter: evenly spread from nothing to a bound that doubles. What the endpoint requests
/// (`Retry-After`) is waited for in any case, with the jitter on top, so that clients with the same
/// wait do not come back together.
pub fn next_wait(
    retry: &Retry,
    failed: u32,
    elapsed: Duration,
    requested: Option<Duration>,
    random: u64,
) -> Option<Duration> {
    if failed > retry.retries_max {
        return None;
    }
    let &Retry { retries_max, first_delay, delay_max, .. } = retry;
    let policy = RetryPolicy { retries_max, first_delay, delay_max };
    let jitter = policy.delay(failed.saturating_sub(1), random);
    let wait = requested.unwrap_or_default().saturating_add(jitter);
    (elapsed.saturating_add(wait) <= retry.total_max).then_some(wait)
}

/// How long a `Retry-After` header asks to wait. None if it is neither a number of seconds nor a date.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a u64 holds is "never", which the bound on the total then decides.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    // A date in the past asks for nothing.
    httpdate::parse_http_date(value).ok().map(|at| at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::*;

    const RETRY: Retry = Retry {
        retries_max: 4,
        first_delay: Duration::from_secs(1),
        delay_max: Duration::from_secs(3),
        total_max: Duration::from_secs(60),
    };

    #[test]
    fn bounds_double_up_to_the_highest() {
        let wait = |failed| next_wait(&RETRY, failed, Duration::ZERO, None, u64::MAX);
        let seconds = [1.0, 2.0, 3.0, 3.0];
        for (failed, bound) in (1..=4).zip(seconds) {
            let wait = wait(failed).unwrap().as_secs_f64();
            assert!(wait <= bound && wait > bound - 1e-6, "{failed}: {wait}");
        }
        assert_eq!(wait(5), None);
    }

    #[test]
    fn what_takes_too_long_is_not_waited_for() {
        let wait = |elapsed, requested| {
            let (elapsed, requested) =
                (Duration::from_secs(elapsed), Duration::from_secs(requested));
            next_wait(&RETRY, 1, elapsed, Some(requested), 0)
        };
        assert_eq!(wait(0, 60), Some(Duration::from_secs(60)));
        assert_eq!(wait(0, 61), None);
        assert_eq!(wait(1, 60), None);
        assert_eq!(wait(0, u64::MAX), None);
    }

    proptest! {
        #[test]
        fn never_less_than_requested_and_never_beyond_the_total(
            failed in 1u32..8, elapsed in 0u64..100, requested in 0u64..100, random: u64,
        ) {
            let (elapsed, requested) =
                (Duration::from_secs(elapsed), Duration::from_secs(requested));
            if let Some(wait) = next_wait(&RETRY, failed, elapsed, Some(requested), random) {
                prop_assert!(failed <= RETRY.retries_max);
                prop_assert!(wait >= requested && wait <= requested + RETRY.delay_max);
                prop_assert!(elapsed + wait <= RETRY.total_max);
            }
        }
    }

    #[test]
    fn seconds_and_dates() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777 - 90);
        let seconds = |value| retry_after(value, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds(" 0 "), Some(0));
        assert_eq!(seconds("99999999999999999999999"), Some(u64::MAX));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(90));
        assert_eq!(seconds("Sat, 06 Nov 1993 08:49:37 GMT"), Some(0));
        // The two old forms, which recipients must read as well (RFC 9110, 5.6.7).
        assert_eq!(seconds("Sunday, 06-Nov-94 08:49:37 GMT"), Some(90));
        assert_eq!(seconds("Sun Nov  6 08:49:37 1994"), Some(90));
        assert_eq!(seconds("Sun, 31 Nov 1994 08:49:37 GMT"), None);
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 CET"), None);
        assert_eq!(seconds("soon"), None);
        assert_eq!(seconds("-1"), None);
        assert_eq!(seconds(""), None);
    }
}
