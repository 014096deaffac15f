//! Values of arguments, from their text.

use chrono::{DateTime, Utc};

use proofmill_base::clock::parse_duration;
use proofmill_pipeline::models::Share;

/// `NAME=VALUE`.
pub fn parse_param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

/// A number of bytes: `8GiB`.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let number: f64 =
        text[..digits].parse().map_err(|_| "expected a size such as 8GiB".to_owned())?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1024.0 * 1024.0,
        "g" | "gb" | "gib" => 1024.0 * 1024.0 * 1024.0,
        other => return Err(format!("`{other}` is not a unit of size: use KiB, MiB or GiB")),
    };
    Ok((number * unit) as usize)
}

/// A time in seconds: `26h`.
pub fn parse_seconds(text: &str) -> Result<u64, String> {
    let time = parse_duration(text).map(|time| time.as_secs());
    time.ok_or_else(|| "expected a number and `s`, `m` or `h`, such as `26h`".to_owned())
}

/// A date or a time.
pub fn parse_time(text: &str) -> Result<DateTime<Utc>, String> {
    let date = format!("{text}T00:00:00Z");
    let time = DateTime::parse_from_rfc3339(text).or_else(|_| DateTime::parse_from_rfc3339(&date));
    time.map(|time| time.to_utc()).map_err(|_| {
        "expected a date or a time, such as `2026-11-28` or `2026-11-28T02:30:00Z`".to_owned()
    })
}

/// A share in percent: `10%`.
pub fn parse_share(text: &str) -> Result<f64, String> {
    text.parse::<Share>().map(Share::fraction)
}
