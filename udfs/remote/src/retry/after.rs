//! The header `Retry-After`: seconds or a date.

use std::time::{Duration, SystemTime};

use super::http_date;

/// How long the header asks to wait. None if it is neither a number of seconds nor a date.
pub fn parse(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a u64 holds is "never", which the bound on the total then decides.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    // A date in the past asks for nothing.
    http_date::parse(value).map(|at| at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn seconds_and_dates() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777 - 90);
        let seconds = |value| parse(value, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds(" 0 "), Some(0));
        assert_eq!(seconds("99999999999999999999999"), Some(u64::MAX));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(90));
        assert_eq!(seconds("Sun, 06 Nov 1993 08:49:37 GMT"), Some(0));
        assert_eq!(seconds("soon"), None);
        assert_eq!(seconds("-1"), None);
        assert_eq!(seconds(""), None);
    }
}
