//! The date format of HTTP headers (RFC 9110, 5.6.7: the one form that senders must use).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The time of a text like `Sun, 06 Nov 1994 08:49:37 GMT`. None for anything else and for dates
/// before 1970. The name of the day is not compared with the date.
pub fn parse(text: &str) -> Option<SystemTime> {
    let (_, date) = text.split_once(", ")?;
    let fields: Vec<&str> = date.split(' ').collect();
    let [day, month, year, time, "GMT"] = fields[..] else { return None };
    let clock: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = clock[..] else { return None };

    let month = MONTHS.iter().position(|name| *name == month)?;
    let year = number(year, 4, 9999).filter(|year| *year >= 1970)?;
    let day = number(day, 2, days_in(month, year)).filter(|day| *day >= 1)?;
    let years: u64 = (1970..year).map(|year| if leap(year) { 366 } else { 365 }).sum();
    let months: u64 = (0..month).map(|month| days_in(month, year)).sum();
    let hours = (years + months + day - 1) * 24 + number(hour, 2, 23)?;
    // Second 60 is a leap second.
    let seconds = (hours * 60 + number(minute, 2, 59)?) * 60 + number(second, 2, 60)?;
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

fn number(text: &str, digits: usize, max: u64) -> Option<u64> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok().filter(|number| *number <= max) } else { None }
}

fn leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days of a month, counted from 0.
fn days_in(month: usize, year: u64) -> u64 {
    match month {
        1 if leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_dates() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199),
            ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200),
        ] {
            assert_eq!(parse(text), Some(UNIX_EPOCH + Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "",
            "120",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 2023 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,40}") {
            parse(&text);
        }

        #[test]
        fn the_next_day_is_a_day_later(day in 1u64..28, month in 0usize..12, year in 1970u64..2400) {
            let at = |day| parse(&format!("Mon, {day:02} {} {year} 01:02:03 GMT", MONTHS[month]));
            let (one, next) = (at(day).unwrap(), at(day + 1).unwrap());
            prop_assert_eq!(next.duration_since(one).unwrap(), Duration::from_secs(86_400));
        }

        #[test]
        fn a_month_ends_where_the_next_begins(month in 0usize..11, year in 1970u64..2400) {
            let last = format!("Mon, {} {} {year} 23:59:59 GMT", days_in(month, year), MONTHS[month]);
            let first = format!("Mon, 01 {} {year} 00:00:00 GMT", MONTHS[month + 1]);
            let gap = parse(&first).unwrap().duration_since(parse(&last).unwrap()).unwrap();
            prop_assert_eq!(gap, Duration::from_secs(1));
        }
    }
}
