//! How much is sent: requests under way, attempts at a time, and requests and tokens per minute, first come
//! first served.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proofmill_base::clock::Clock;
use proofmill_base::waits::{WaitFor, Waits};
use tokio::sync::{Mutex as Turn, Semaphore, SemaphorePermit};
use tracing::info;

use crate::pace::{Pace, Round};
use crate::settings::Settings;

/// What every request of a model passes. Keeps no queue of its own: who waits, waits in the
/// caller's future.
#[derive(Debug)]
pub struct Gate {
    /// Requests under way, waits between attempts included.
    places: Semaphore,
    /// Attempts at a time: as many permits as the pace has places.
    sending: Semaphore,
    paced: Mutex<Paced>,
    turn: Turn<()>,
    window: Mutex<Window>,
}

#[derive(Debug)]
struct Paced {
    pace: Pace,
    /// Permits that are to be taken away as soon as they come back.
    owed: usize,
}

/// The right to send one attempt; it ends with it.
#[derive(Debug)]
pub struct Sending<'a> {
    gate: &'a Gate,
    permit: Option<SemaphorePermit<'a>>,
    round: Round,
}

impl Sending<'_> {
    /// It is sent now, whenever the right to it was had.
    pub fn starts(&mut self) {
        self.round = lock(&self.gate.paced).pace.round();
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let mut paced = lock(&self.gate.paced);
        if paced.owed > 0 {
            paced.owed -= 1;
            permit.forget();
        }
    }
}

impl Gate {
    /// A gate with the limits of `settings`.
    pub fn new(settings: &Settings) -> Self {
        let places = (settings.concurrency.get() as usize).min(Semaphore::MAX_PERMITS);
        Self {
            places: Semaphore::new(places),
            sending: Semaphore::new(places),
            paced: Mutex::new(Paced { pace: Pace::new(places), owed: 0 }),
            turn: Turn::new(()),
            window: Mutex::new(Window::new(
                settings.requests_per_minute,
                settings.tokens_per_minute,
            )),
        }
    }

    /// Waits for a place. None if the gate was closed, which never happens.
    pub async fn place(&self, waits: &Waits) -> Option<SemaphorePermit<'_>> {
        let _turn = waits.begin(WaitFor::Turn, None);
        self.places.acquire().await.ok()
    }

    /// Waits until an attempt may be sent beside the others.
    pub async fn send(&self, waits: &Waits) -> Sending<'_> {
        let _turn = waits.begin(WaitFor::Turn, None);
        let permit = self.sending.acquire().await.ok();
        Sending { gate: self, permit, round: Round::default() }
    }

    /// An attempt was answered.
    pub fn answered(&self) {
        let mut paced = lock(&self.paced);
        if !paced.pace.answered() {
            return;
        }
        match paced.owed {
            0 => self.sending.add_permits(1),
            _ => paced.owed -= 1,
        }
    }

    /// An attempt was refused: fewer are sent at a time, and if there are refusals only, none before
    /// `until` of the clock's monotonic time.
    pub fn refused(&self, sending: &Sending<'_>, until: Duration) {
        let slower = {
            let mut paced = lock(&self.paced);
            let Some(slower) = paced.pace.refused(sending.round) else { return };
            paced.owed += slower.fewer - self.sending.forget_permits(slower.fewer);
            info!(concurrency = paced.pace.places(), "endpoint is asked less at a time");
            slower
        };
        if slower.all_wait {
            self.with(|window| window.hold(until));
        }
    }

    /// Waits until the minute has room for an attempt of about so many tokens.
    pub async fn admit(&self, clock: &dyn Clock, tokens: u32, waits: &Waits) -> Ticket {
        let turn = waits.begin(WaitFor::Turn, None);
        let _turn = self.turn.lock().await;
        drop(turn);
        loop {
            let now = clock.monotonic();
            let (answer, held) =
                self.with(|window| (window.admit(now, tokens), window.not_before > now));
            match answer {
                Ok(ticket) => return ticket,
                Err(wait) => {
                    let what = if held { WaitFor::RetryAfter } else { WaitFor::RateLimit };
                    let _wait = waits.begin(what, Some(now.saturating_add(wait)));
                    clock.sleep(wait).await;
                }
            }
        }
    }

    /// Replaces the guess of an attempt's tokens by the count.
    pub fn settle(&self, ticket: &Ticket, tokens: u32) {
        self.with(|window| window.settle(ticket, tokens));
    }

    fn with<T>(&self, act: impl FnOnce(&mut Window) -> T) -> T {
        act(&mut lock(&self.window))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time that limits are about.
const MINUTE: Duration = Duration::from_secs(60);

/// A sliding minute. Times are those of the injected clock's monotonic time and must not go backwards.
#[derive(Debug)]
pub struct Window {
    requests_max: Option<NonZeroU32>,
    tokens_max: Option<NonZeroU32>,
    /// Oldest first. At most one per request or token that is allowed in a minute.
    sent: VecDeque<Sent>,
    /// Sum over `sent`.
    tokens: u64,
    number_next: u64,
    not_before: Duration,
}

#[derive(Debug)]
struct Sent {
    number: u64,
    at: Duration,
    tokens: u32,
}

/// A request that was let through.
#[derive(Debug)]
pub struct Ticket(u64);

impl Window {
    /// A window that nothing was sent in.
    pub fn new(requests_max: Option<NonZeroU32>, tokens_max: Option<NonZeroU32>) -> Self {
        Self {
            requests_max,
            tokens_max,
            sent: VecDeque::new(),
            tokens: 0,
            number_next: 0,
            not_before: Duration::ZERO,
        }
    }

    /// Lets a request of about so many tokens through, or says how long to wait before asking
    /// again. A request above the limit on tokens goes through alone.
    pub fn admit(&mut self, now: Duration, tokens: u32) -> Result<Ticket, Duration> {
        self.forget(now);
        let tokens = tokens.max(1);
        let ready = self.not_before.max(self.requests_ready()).max(self.tokens_ready(tokens));
        if ready > now {
            return Err(ready - now);
        }
        let ticket = Ticket(self.number_next);
        self.number_next += 1;
        // Without a limit nothing is remembered: the list would have no bound.
        if self.requests_max.is_some() || self.tokens_max.is_some() {
            self.sent.push_back(Sent { number: ticket.0, at: now, tokens });
            self.tokens += u64::from(tokens);
        }
        Ok(ticket)
    }

    /// Replaces the guess of a request's tokens by the count.
    pub fn settle(&mut self, ticket: &Ticket, tokens: u32) {
        let first = self.sent.front().map_or(0, |sent| sent.number);
        let Some(place) = ticket.0.checked_sub(first) else { return };
        if let Some(sent) = usize::try_from(place).ok().and_then(|place| self.sent.get_mut(place)) {
            self.tokens = self.tokens - u64::from(sent.tokens) + u64::from(tokens.max(1));
            sent.tokens = tokens.max(1);
        }
    }

    /// Lets nothing through before a time: the endpoint requested a pause of all clients.
    pub fn hold(&mut self, until: Duration) {
        self.not_before = self.not_before.max(until);
    }

    fn forget(&mut self, now: Duration) {
        while let Some(sent) = self.sent.pop_front_if(|sent| sent.at + MINUTE <= now) {
            self.tokens -= u64::from(sent.tokens);
        }
    }

    /// When one more request is allowed.
    fn requests_ready(&self) -> Duration {
        let Some(max) = self.requests_max else { return Duration::ZERO };
        let leaves = self.sent.len().checked_sub(max.get() as usize);
        leaves
            .and_then(|index| self.sent.get(index))
            .map_or(Duration::ZERO, |sent| sent.at + MINUTE)
    }

    /// When so many more tokens are allowed.
    fn tokens_ready(&self, tokens: u32) -> Duration {
        let Some(max) = self.tokens_max.map(|max| u64::from(max.get())) else {
            return Duration::ZERO;
        };
        let mut total = self.tokens + u64::from(tokens).min(max);
        let mut ready = Duration::ZERO;
        for sent in &self.sent {
            if total <= max {
                break;
            }
            total -= u64::from(sent.tokens);
            ready = sent.at + MINUTE;
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn window(requests: u32, tokens: u32) -> Window {
        Window::new(NonZeroU32::new(requests), NonZeroU32::new(tokens))
    }

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_third_of_two_waits_for_the_first_to_be_a_minute_old() {
        let mut window = window(2, 0);
        window.admit(seconds(0), 1).unwrap();
        window.admit(seconds(10), 1).unwrap();
        assert_eq!(window.admit(seconds(20), 1).unwrap_err(), seconds(40));
        window.admit(seconds(60), 1).unwrap();
        assert_eq!(window.admit(seconds(60), 1).unwrap_err(), seconds(10));
    }

    #[test]
    fn tokens_are_guessed_and_then_counted() {
        let mut window = window(0, 100);
        let ticket = window.admit(seconds(0), 90).unwrap();
        assert_eq!(window.admit(seconds(1), 20).unwrap_err(), seconds(59));
        window.settle(&ticket, 30);
        window.admit(seconds(1), 20).unwrap();
        window.settle(&ticket, 200);
        assert_eq!(window.admit(seconds(2), 1).unwrap_err(), seconds(58));
    }

    #[test]
    fn more_tokens_than_the_limit_go_alone() {
        let mut window = window(0, 100);
        window.admit(seconds(0), 5).unwrap();
        assert_eq!(window.admit(seconds(0), 500).unwrap_err(), seconds(60));
        window.admit(seconds(60), 500).unwrap();
        assert_eq!(window.admit(seconds(61), 1).unwrap_err(), seconds(59));
    }

    #[test]
    fn a_hold_stops_everything_and_nothing_is_remembered_without_limits() {
        let mut window = window(0, 0);
        let ticket = window.admit(seconds(0), 7).unwrap();
        window.settle(&ticket, 9);
        window.hold(seconds(5));
        window.hold(seconds(3));
        assert_eq!(window.admit(seconds(1), 7).unwrap_err(), seconds(4));
        window.admit(seconds(5), 7).unwrap();
        assert!(window.sent.is_empty());
    }

    #[tokio::test]
    async fn after_refusals_alone_nothing_is_let_through_and_answers_open_the_gate_again() {
        let gate = Gate::new(&Settings::new("http://h", "m"));
        for _ in 0..3 {
            let mut sending = gate.send(&Waits::default()).await;
            sending.starts();
            gate.refused(&sending, seconds(9));
        }
        assert_eq!(gate.with(|window| window.admit(seconds(2), 1)).unwrap_err(), seconds(7));
        assert_eq!(gate.sending.available_permits(), 1);
        gate.answered();
        assert_eq!(gate.sending.available_permits(), 2);
    }

    #[tokio::test]
    async fn what_is_under_way_when_places_go_ends_and_its_places_go_then() {
        let gate = Gate::new(&Settings::new("http://h", "m"));
        let mut all = Vec::new();
        for _ in 0..8 {
            let mut sending = gate.send(&Waits::default()).await;
            sending.starts();
            all.push(sending);
        }
        all.iter().for_each(|sending| gate.refused(sending, seconds(9)));
        assert_eq!(gate.sending.available_permits(), 0);
        all.truncate(1);
        assert_eq!(gate.sending.available_permits(), 3);
        all.clear();
        assert_eq!(gate.sending.available_permits(), 4, "one burst halves once");
        assert!(gate.with(|window| window.admit(seconds(2), 1)).is_ok());
    }

    proptest! {
        /// A request that waits for the time it is given gets through then, and no minute has more
        /// than is allowed.
        #[test]
        fn no_minute_has_more(
            requests in 0u32..5,
            tokens in 0u32..50,
            arrivals in proptest::collection::vec((0u64..30, 1u32..60), 1..60),
        ) {
            let mut window = window(requests, tokens);
            let mut now = Duration::ZERO;
            let mut log: Vec<(Duration, u32)> = Vec::new();
            for (gap, cost) in arrivals {
                now += seconds(gap);
                if let Err(wait) = window.admit(now, cost) {
                    prop_assert!(wait > Duration::ZERO);
                    now += wait;
                    prop_assert!(window.admit(now, cost).is_ok());
                }
                log.push((now, cost));
                let minute = log.iter().filter(|(at, _)| *at + MINUTE > now);
                prop_assert!(requests == 0 || minute.clone().count() <= requests as usize);
                let sum: u32 = minute.clone().map(|(_, cost)| cost).sum();
                prop_assert!(tokens == 0 || sum <= tokens || minute.count() == 1);
            }
        }
    }
}
