//! Patterns in zones, on the days on which other schedulers fail.

use chrono::{DateTime, Utc};
use proptest::prelude::*;

use crate::calendar::{Calendar, CalendarError};

fn time(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).unwrap().to_utc()
}

/// The next instants after a time, as the clock of the zone shows them.
fn next(pattern: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
    let calendar = Calendar::new(pattern, zone, time(from)).unwrap();
    // Without the day of the week and the year.
    let shown = |instant: DateTime<Utc>| {
        calendar.local(instant)[9..].replacen(" +", "+", 1).replacen(" -", "-", 1)
    };
    calendar.after(time(from)).take(count).map(|planned| shown(planned.instant)).collect()
}

#[test]
fn a_time_of_the_day_is_planned_once_a_day_whatever_the_clock_does() {
    let new_york = "America/New_York";
    assert_eq!(
        next("30 2 * * *", new_york, "2026-03-07T17:00:00Z", 2),
        ["03-08 03:00-04:00", "03-09 02:30-04:00"]
    );
    assert_eq!(
        next("30 1 * * *", new_york, "2026-10-31T16:00:00Z", 2),
        ["11-01 01:30-04:00", "11-02 01:30-05:00"]
    );
    // Also of lists of hours, where two of them have one instant after the gap.
    assert_eq!(
        next("15 2,3 * * *", new_york, "2026-03-08T05:00:00Z", 3),
        ["03-08 03:00-04:00", "03-08 03:15-04:00", "03-09 02:15-04:00"]
    );
    assert_eq!(
        next("0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", 2),
        ["09-06 01:00-03:00", "09-07 00:00-03:00"]
    );
    // A shift of half an hour.
    assert_eq!(
        next("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2),
        ["10-04 02:30+11:00", "10-05 02:15+11:00"]
    );
    // A day that the zone skipped.
    assert_eq!(
        next("0 12 * * *", "Pacific/Apia", "2011-12-29T23:00:00Z", 2),
        ["12-31 00:00+14:00", "12-31 12:00+14:00"]
    );
}

#[test]
fn minutes_of_every_hour_are_planned_in_every_hour_that_there_is() {
    let new_york = "America/New_York";
    assert_eq!(
        next("*/30 * * * *", new_york, "2026-11-01T04:45:00Z", 5),
        [
            "11-01 01:00-04:00",
            "11-01 01:30-04:00",
            "11-01 01:00-05:00",
            "11-01 01:30-05:00",
            "11-01 02:00-05:00"
        ]
    );
    assert_eq!(
        next("0 * * * *", new_york, "2026-03-08T05:30:00Z", 3),
        ["03-08 01:00-05:00", "03-08 03:00-04:00", "03-08 04:00-04:00"]
    );
}

#[test]
fn what_is_no_calendar_is_named() {
    let new = |pattern: &str, zone: &str| {
        Calendar::new(pattern, zone, time("2026-01-01T00:00:00Z")).map(|_| ()).unwrap_err()
    };
    for pattern in
        ["60 * * * *", "0 25 * * *", "", "@every 5m", "0 0 0 * * *", "a b c d e", "* * * *"]
    {
        let error = new(pattern, "UTC");
        assert!(matches!(error, CalendarError::Pattern { .. }), "{pattern}: {error}");
    }
    assert_eq!(new("0 2 31 2 *", "UTC"), CalendarError::Never("0 2 31 2 *".to_owned()));
    assert_eq!(new("0 2 * * *", "Europe/Berli"), CalendarError::Zone("Europe/Berli".to_owned()));
    // Four years from now is soon enough.
    assert_eq!(next("0 2 29 2 *", "UTC", "2025-01-01T00:00:00Z", 1), ["02-29 02:00+00:00"]);
    for (pattern, first) in [
        ("@hourly", "01-01 01:00+00:00"),
        ("@daily", "01-02 00:00+00:00"),
        ("@weekly", "01-05 00:00+00:00"),
        ("@monthly", "02-01 00:00+00:00"),
        ("@yearly", "01-01 00:00+00:00"),
    ] {
        assert_eq!(next(pattern, "UTC", "2025-01-01T00:00:00Z", 1), [first], "{pattern}");
    }
    // A day of the month or a day of the week, as in cron.
    assert_eq!(
        next("0 2 13 * 5", "UTC", "2026-02-09T00:00:00Z", 3),
        ["02-13 02:00+00:00", "02-20 02:00+00:00", "02-27 02:00+00:00"]
    );
    assert_eq!(
        next("0 2 11 * 5", "UTC", "2026-02-09T00:00:00Z", 2),
        ["02-11 02:00+00:00", "02-13 02:00+00:00"]
    );
}

proptest! {
    /// Where one starts to look makes no difference, and the order is that of time.
    #[test]
    fn instants_are_the_same_from_wherever_one_looks(
        minute in 0u32..60,
        hours in prop::sample::select(vec!["*", "0", "1,2", "2", "0-3", "23"]),
        zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]),
        start in 1_767_225_600i64..1_798_761_600,
    ) {
        let from = DateTime::from_timestamp(start, 0).unwrap();
        let calendar = Calendar::new(&format!("{minute} {hours} * * *"), zone, from).unwrap();
        let all: Vec<DateTime<Utc>> = calendar.after(from).take(40).map(|it| it.instant).collect();
        prop_assert!(all.is_sorted() && all.windows(2).all(|pair| pair[0] < pair[1]));
        for at in [0, 7, 20] {
            let rest: Vec<DateTime<Utc>> = calendar.after(all[at]).take(39 - at).map(|it| it.instant).collect();
            prop_assert_eq!(&rest[..], &all[at + 1..]);
        }
    }
}
