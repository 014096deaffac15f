//! What requests wait for while they wait, for those who watch: a progress display asks now and then, and so
//! does the task that cancels requests that only wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitFor {
    /// Its turn at the model: requests that came earlier are served first.
    Turn,
    /// The model, which is being loaded.
    Loading,
    /// A limit per minute that its user set.
    RateLimit,
    /// The time that the endpoint requested to wait (`Retry-After`).
    RetryAfter,
    /// The pause before another attempt.
    Backoff,
    /// The end of its run, whose budget is spent.
    Budget,
}

/// Requests that wait for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub what: WaitFor,
    pub requests: u64,
    /// When the first of them goes on, in monotonic time of the injected clock; `None` if unknown.
    pub until: Option<Duration>,
}

/// The requests of one query that wait. Each is counted as long as its [`Wait`] is kept.
#[derive(Debug, Default)]
pub struct Waits {
    all: Mutex<BTreeMap<Key, u64>>,
    /// Those of which these are a part.
    whole: Option<Arc<Waits>>,
}

type Key = (WaitFor, Option<Duration>);

/// A request that waits. Dropping it ends the waiting, however that came about.
#[derive(Debug)]
#[must_use = "the request waits as long as this is kept"]
pub struct Wait<'a> {
    waits: &'a Waits,
    key: Key,
}

impl Waits {
    /// Those of one request, which count in `whole` as well.
    pub fn within(whole: &Arc<Self>) -> Self {
        Self { whole: Some(Arc::clone(whole)), ..Self::default() }
    }

    /// A request begins to wait; `until` when, in monotonic time of the injected clock, if that is known.
    pub fn begin(&self, what: WaitFor, until: Option<Duration>) -> Wait<'_> {
        let key = (what, until);
        self.each(|waits| *waits.all().entry(key).or_default() += 1);
        Wait { waits: self, key }
    }

    /// Whether a request waits for one of these.
    pub fn any(&self, wanted: impl Fn(WaitFor) -> bool) -> bool {
        self.all().keys().any(|(what, _)| wanted(*what))
    }

    /// Who waits now, at most one entry for each thing that is waited for, in the order of [`WaitFor`].
    pub fn now(&self) -> Vec<Waiting> {
        let mut found: Vec<Waiting> = Vec::new();
        for (&(what, until), &requests) in self.all().iter() {
            match found.last_mut().filter(|last| last.what == what) {
                // In order of time, and what has no end comes before all others.
                Some(last) => {
                    last.requests += requests;
                    last.until = last.until.or(until);
                }
                None => found.push(Waiting { what, requests, until }),
            }
        }
        found
    }

    /// Acts on these and on those of which they are a part.
    fn each(&self, act: impl Fn(&Self)) {
        let mut waits = Some(self);
        while let Some(these) = waits {
            act(these);
            waits = these.whole.as_deref();
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<Key, u64>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.waits.each(|waits| {
            let mut all = waits.all();
            if let Some(requests) = all.get_mut(&self.key) {
                *requests -= 1;
                if *requests == 0 {
                    all.remove(&self.key);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_counted_until_the_wait_is_over() {
        let waits = Waits::default();
        let at = |seconds| Some(Duration::from_secs(seconds));
        let late = waits.begin(WaitFor::RetryAfter, at(9));
        let soon = waits.begin(WaitFor::RetryAfter, at(4));
        let also = waits.begin(WaitFor::RetryAfter, at(4));
        let turn = waits.begin(WaitFor::Turn, None);
        let retry = |requests, until| Waiting { what: WaitFor::RetryAfter, requests, until };
        let turns = Waiting { what: WaitFor::Turn, requests: 1, until: None };
        assert_eq!(waits.now(), [turns, retry(3, at(4))]);
        drop((soon, turn));
        assert_eq!(waits.now(), [retry(2, at(4))]);
        drop(also);
        assert_eq!(waits.now(), [retry(1, at(9))]);
        drop(late);
        assert_eq!(waits.now(), []);
    }
    #[test]
    fn what_one_request_waits_for_is_counted_with_all() {
        let whole = Arc::new(Waits::default());
        let (one, other) = (Waits::within(&whole), Waits::within(&whole));
        let waits = (one.begin(WaitFor::Backoff, None), other.begin(WaitFor::Backoff, None));
        assert_eq!(whole.now()[0].requests, 2);
        assert_eq!(one.now()[0].requests, 1);
        assert!(one.any(|what| what == WaitFor::Backoff) && !one.any(|what| what == WaitFor::Turn));
        drop(waits);
        assert!(whole.now().is_empty() && one.now().is_empty());
    }
}
