//! Numbers as people read them.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// `1234567` as `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size in bytes: `812 B`, `1.4 MiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A length of time: `850 ms`, `12.3 s`, `4 min 05 s`.
pub fn duration(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 1.0 => format!("{} ms", time.as_millis()),
        s if s < 60.0 => format!("{s:.1} s"),
        s => format!("{} min {:02} s", s as u64 / 60, s as u64 % 60),
    }
}

/// A length of time on a clock that runs: `9 s`, `4 min 05 s`, `2 h 03 min`.
pub fn clock(time: Duration) -> String {
    match time.as_secs() {
        s if s < 60 => format!("{s} s"),
        s if s < 3600 => format!("{} min {:02} s", s / 60, s % 60),
        s => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

/// `1 stage`, `2 stages`.
pub fn plural(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{} {noun}s", count(n as u64)) }
}

/// `2026-11-27 02:15:00`, in UTC.
pub fn date_and_time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_scaled() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(duration(Duration::from_secs(245)), "4 min 05 s");
        assert_eq!(clock(Duration::from_millis(59_900)), "59 s");
        assert_eq!(clock(Duration::from_secs(7_384)), "2 h 03 min");
        assert_eq!(plural(1, "row"), "1 row");
    }
}
