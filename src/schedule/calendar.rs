//! The planned instants of a cron pattern in a time zone.
//!
//! The pattern is matched on the local clock face, by `croner`; what a local time means as an instant is decided here:
//!
//! - A pattern whose hour is not `*` names times of the day. Each of them is planned once a day:
//!   one that the clock skips (the spring gap) at the first instant after the gap, one that comes twice (the autumn fold) at
//!   the first of the two.
//! - A pattern whose hour is `*` names minutes of every hour, so of every hour that there is:
//!   none in a gap, and those of a repeated hour twice.

use std::fmt;
use std::str::FromStr as _;

use chrono::{DateTime, Days, MappedLocalTime, NaiveDateTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

/// How far ahead a pattern must have an instant.
const YEARS_MAX: u64 = 5;
/// The longest gap that a zone has had: a whole day, when one moved across the date line.
const GAP_MINUTES_MAX: i64 = 36 * 60;

/// Why a pattern in a zone is no calendar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalendarError {
    #[error("`{pattern}` is not a cron pattern of five fields: {reason}")]
    Pattern { pattern: String, reason: String },
    #[error("`{0}` is not the name of a time zone")]
    Zone(String),
    #[error("`{0}` has no instant in the next five years")]
    Never(String),
}

/// A pattern in a zone.
#[derive(Clone)]
pub struct Calendar {
    cron: Cron,
    zone: Tz,
    /// Whether it names minutes of every hour.
    is_hourly: bool,
}

impl fmt::Debug for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calendar({} in {})", self.cron.as_str(), self.zone)
    }
}

/// How a planned instant came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// The zone has its local time once.
    Once,
    /// The zone skips its local time, which is given: this is the first instant after the gap.
    Skipped(NaiveDateTime),
    /// The zone has its local time twice: this is the first one.
    First,
    /// The second one of an hour that comes twice.
    Second,
}

/// A planned instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    pub instant: DateTime<Utc>,
    pub wall: Wall,
}

impl Calendar {
    /// Reads a pattern of five fields (or `@daily` and the like) and the IANA name of a zone.
    ///
    /// # Errors
    ///
    /// If either is none, or the pattern has no instant in five years from `now`.
    pub fn new(pattern: &str, zone: &str, now: DateTime<Utc>) -> Result<Self, CalendarError> {
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed);
        let cron = parser.build().parse(pattern).map_err(|error| CalendarError::Pattern {
            pattern: pattern.to_owned(),
            reason: error.to_string(),
        })?;
        let zone = Tz::from_str(zone).map_err(|_| CalendarError::Zone(zone.to_owned()))?;
        let hour = pattern.split_whitespace().nth(1);
        let is_hourly = hour == Some("*") || pattern.trim().eq_ignore_ascii_case("@hourly");
        let calendar = Self { cron, zone, is_hourly };
        let end =
            now.checked_add_days(Days::new(YEARS_MAX * 366)).unwrap_or(DateTime::<Utc>::MAX_UTC);
        match calendar.after(now).next().is_some_and(|first| first.instant <= end) {
            true => Ok(calendar),
            false => Err(CalendarError::Never(pattern.to_owned())),
        }
    }

    /// What the clock of the zone shows at an instant, with its distance from UTC.
    pub fn local(&self, instant: DateTime<Utc>) -> String {
        instant.with_timezone(&self.zone).format("%a %Y-%m-%d %H:%M %:z").to_string()
    }

    /// The planned instants after `from`, in order, each once.
    pub fn after(&self, from: DateTime<Utc>) -> Instants<'_> {
        // A local time of the day before can be an instant after `from`: it may lie in a gap.
        let naive = from.with_timezone(&self.zone).naive_local();
        let local = naive.checked_sub_days(Days::new(2)).unwrap_or(naive);
        let mut instants = Instants { calendar: self, last: from, face: None, known: Vec::new() };
        instants.advance(local);
        instants
    }

    /// The planned instants after `from` up to `to`.
    pub fn between(
        &self,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
    ) -> impl Iterator<Item = Planned> + '_ {
        self.after(from).take_while(move |planned| planned.instant <= to)
    }

    /// The next local time of the pattern after `local`, on a clock face that never jumps.
    fn face_after(&self, local: NaiveDateTime) -> Option<NaiveDateTime> {
        let next = self.cron.find_next_occurrence(&local.and_utc(), false).ok()?.naive_utc();
        (next > local).then_some(next)
    }

    /// The instants that a local time of the pattern stands for.
    fn instants(&self, local: NaiveDateTime) -> Vec<Planned> {
        let at = |time: DateTime<Tz>, wall| Planned { instant: time.to_utc(), wall };
        match self.zone.from_local_datetime(&local) {
            MappedLocalTime::Single(time) => vec![at(time, Wall::Once)],
            MappedLocalTime::Ambiguous(first, second) => match self.is_hourly {
                true => vec![at(first, Wall::First), at(second, Wall::Second)],
                false => vec![at(first, Wall::First)],
            },
            MappedLocalTime::None if self.is_hourly => Vec::new(),
            MappedLocalTime::None => {
                let instant = self.earliest(local);
                let planned = |instant| Planned { instant, wall: Wall::Skipped(local) };
                instant.map(planned).into_iter().collect()
            }
        }
    }

    /// The first instant at which the clock of the zone shows `local`, or later than that where it skips it. Never decreases with
    /// `local`.
    fn earliest(&self, local: NaiveDateTime) -> Option<DateTime<Utc>> {
        let later = |minutes| local.checked_add_signed(TimeDelta::minutes(minutes));
        let shown = (0..=GAP_MINUTES_MAX).filter_map(later);
        let mut found = shown.filter_map(|local| self.zone.from_local_datetime(&local).earliest());
        found.next().map(|time| time.to_utc())
    }
}

/// The planned instants of a calendar, in order.
#[derive(Debug)]
pub struct Instants<'a> {
    calendar: &'a Calendar,
    /// Instants up to this one were given.
    last: DateTime<Utc>,
    /// The next local time of the pattern, and the earliest instant that it or a later one can stand for.
    face: Option<(NaiveDateTime, DateTime<Utc>)>,
    /// Instants that are known and not given: of the hours that come twice, second ones wait here for the first ones.
    known: Vec<Planned>,
}

impl Instants<'_> {
    fn advance(&mut self, local: NaiveDateTime) {
        let next = self.calendar.face_after(local);
        self.face = next.and_then(|next| Some((next, self.calendar.earliest(next)?)));
    }
}

impl Iterator for Instants<'_> {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        loop {
            let first = self.known.iter().map(|planned| planned.instant).min();
            match (first, self.face) {
                // Nothing that follows can be earlier.
                (Some(first), face) if face.is_none_or(|(_, earliest)| first <= earliest) => {
                    let planned = self.known.iter().find(|it| it.instant == first).copied();
                    self.known.retain(|it| it.instant != first);
                    if first > self.last {
                        self.last = first;
                        return planned;
                    }
                }
                (_, Some((local, _))) => {
                    self.known.extend(self.calendar.instants(local));
                    self.advance(local);
                }
                (_, None) => return None,
            }
        }
    }
}
