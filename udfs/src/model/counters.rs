//! What the functions of one query have done so far, for progress displays; and when so much failed that
//! nothing more is to be sent.

use std::any::Any;
use std::collections::HashMap;
use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, plan_err};
use proofmill_base::waits::Waits;
use tokio::sync::watch;

use super::canonical::Key;
use super::error::Failure;

/// Counters of one query. They only grow; beside them, what is under way.
#[derive(Debug, Default)]
pub struct Counters {
    failed_rows: AtomicU64,
    failed_rows_max: OnceLock<u64>,
    /// Requests that failed before for reasons that stay.
    failed_before: OnceLock<HashMap<Key, Failure>>,
    failed_again: AtomicU64,
    /// Requests that failed after all retries, since the last one that did not.
    unanswered: AtomicU64,
    stopped: watch::Sender<Option<Stopped>>,
    rows: AtomicU64,
    settled: AtomicU64,
    replayed: AtomicU64,
    sent: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
    prompt_tokens: AtomicU64,
    output_tokens: AtomicU64,
    in_flight: AtomicU64,
    waits: Arc<Waits>,
}

/// Why a query asks no more although it has rows left. What is under way then ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The run is stopped, by a signal or a budget.
    Interrupted,
    /// More rows failed than may.
    FailedRows,
    /// So many requests in a row had no answer after all retries.
    Unanswered {
        requests: u64,
        /// Why the last one had none.
        reason: String,
    },
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows with a request; NULL rows are none.
    pub rows: u64,
    /// Rows that wait for nothing any more: answered, failed or NULL.
    pub settled: u64,
    /// Rows whose answer the ledger had.
    pub replayed: u64,
    /// Rows whose request failed before for a reason that stays, so that it is not sent.
    pub failed_again: u64,
    /// Requests sent to a model, whatever came of them. Rows with equal requests share one.
    pub sent: u64,
    /// Requests that a model answered. Rows with equal requests share one.
    pub answered: u64,
    /// Requests that have no answer, and rows that are no request.
    pub failed: u64,
    /// Prompt tokens of the requests that a model answered.
    pub prompt_tokens: u64,
    /// New tokens of the requests that a model answered.
    pub output_tokens: u64,
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            settled: self.settled + other.settled,
            replayed: self.replayed + other.replayed,
            failed_again: self.failed_again + other.failed_again,
            sent: self.sent + other.sent,
            answered: self.answered + other.answered,
            failed: self.failed + other.failed,
            prompt_tokens: self.prompt_tokens + other.prompt_tokens,
            output_tokens: self.output_tokens + other.output_tokens,
        }
    }
}

impl Counters {
    /// Has the query ask no more when more rows than these fail, or when the model has no answer to many
    /// requests in a row after all retries. Without it, the request of every row is sent. Set once,
    /// before anything is sent.
    pub fn stop_beyond(&self, failed_rows: u64) {
        // Who says it twice is not heard the second time.
        let _ = self.failed_rows_max.set(failed_rows);
    }

    /// Has these requests fail as they did before, without asking. Set once, before anything is
    /// sent.
    pub fn fail_again(&self, before: HashMap<Key, Failure>) {
        let _ = self.failed_before.set(before);
    }

    /// How a request failed before, if that stays.
    pub(super) fn failed_before(&self, key: &Key) -> Option<&Failure> {
        self.failed_before.get()?.get(key)
    }

    /// Has the query ask no more: somebody stops the run.
    pub fn interrupt(&self) {
        self.stop(Stopped::Interrupted);
    }

    /// Why the query asks no more, if it does not.
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped.borrow().clone()
    }

    /// Ends when the query asks no more.
    pub(super) async fn until_stopped(&self) {
        // The sender is ours: it is there as long as anybody waits.
        let _ = self.stopped.subscribe().wait_for(Option::is_some).await;
    }

    fn stop(&self, why: Stopped) {
        self.stopped.send_if_modified(|stopped| {
            let first = stopped.is_none();
            stopped.get_or_insert(why);
            first
        });
    }

    /// Rows have no answer.
    pub(super) fn rows_failed(&self, count: usize) {
        let failed = self.failed_rows.fetch_add(count as u64, Ordering::Relaxed) + count as u64;
        if self.failed_rows_max.get().is_some_and(|most| failed > *most) {
            self.stop(Stopped::FailedRows);
        }
    }

    /// A request had an answer, or one that says what is wrong with the request.
    pub(super) fn model_replied(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// A request had none after all retries; `most` such in a row are enough.
    pub(super) fn model_did_not_reply(&self, reason: &str, most: u64) {
        let requests = self.unanswered.fetch_add(1, Ordering::Relaxed) + 1;
        if self.failed_rows_max.get().is_some() && requests >= most {
            self.stop(Stopped::Unanswered { requests, reason: reason.to_owned() });
        }
    }

    /// The counters now.
    pub fn now(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            rows: read(&self.rows),
            settled: read(&self.settled),
            replayed: read(&self.replayed),
            failed_again: read(&self.failed_again),
            sent: read(&self.sent),
            answered: read(&self.answered),
            failed: read(&self.failed),
            prompt_tokens: read(&self.prompt_tokens),
            output_tokens: read(&self.output_tokens),
        }
    }

    /// Requests that a model has and has not answered, those that wait there among them.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// What requests wait for: their turn, and what the model says.
    pub fn waits(&self) -> &Arc<Waits> {
        &self.waits
    }

    /// A request is with the model until what this gives is dropped.
    pub(super) fn hand_over(&self) -> HandedOver<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        HandedOver(self)
    }

    pub(super) fn rows(&self, count: usize) {
        self.rows.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn settled(&self, count: usize) {
        self.settled.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// A request that was counted as sent was not.
    pub(super) fn not_sent(&self) {
        self.sent.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn replayed(&self, count: usize) {
        self.replayed.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn failed_again(&self, count: usize) {
        self.failed_again.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, count: usize) {
        self.failed.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// A model answered a request of so many tokens with so many.
    pub fn answered(&self, prompt_tokens: u64, output_tokens: u64) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.prompt_tokens.fetch_add(prompt_tokens, Ordering::Relaxed);
        self.output_tokens.fetch_add(output_tokens, Ordering::Relaxed);
    }
}

/// A request that a model has.
pub(super) struct HandedOver<'a>(&'a Counters);

impl Drop for HandedOver<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Has the functions of a session count into these counters, once it is among the extensions of the
/// session's configuration. Where it is missing, nothing is counted.
#[derive(Clone, Debug)]
pub struct Watch(pub Arc<Counters>);

impl Watch {
    /// The counters that a call is to raise.
    pub(super) fn of(options: &ConfigOptions) -> Arc<Counters> {
        options.extensions.get::<Self>().map_or_else(Arc::default, |watch| Arc::clone(&watch.0))
    }
}

impl ConfigExtension for Watch {
    const PREFIX: &'static str = "model_counters";
}

impl ExtensionOptions for Watch {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    // A copy of the session's configuration is still watched by the same counters.
    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        plan_err!("counters have no setting `{key}`")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}
