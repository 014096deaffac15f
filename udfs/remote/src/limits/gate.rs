//! The one way out: so many at a time, so many per minute, in the order of their coming.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, Semaphore, SemaphorePermit};

use super::window::{Ticket, Window};
use crate::host::Host;
use crate::settings::Settings;

/// What every request of a model passes. Keeps no queue of its own: who waits, waits in the
/// caller's future.
#[derive(Debug)]
pub struct Gate {
    places: Semaphore,
    turn: Turn<()>,
    window: Mutex<Window>,
}

impl Gate {
    /// A gate with the limits of `settings`.
    pub fn new(settings: &Settings) -> Self {
        Self {
            places: Semaphore::new(
                (settings.concurrency.get() as usize).min(Semaphore::MAX_PERMITS),
            ),
            turn: Turn::new(()),
            window: Mutex::new(Window::new(
                settings.requests_per_minute,
                settings.tokens_per_minute,
            )),
        }
    }

    /// Waits for a place. None if the gate was closed, which nobody does.
    pub async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.acquire().await.ok()
    }

    /// Waits until the minute has room for an attempt of about so many tokens.
    pub async fn admit(&self, host: &dyn Host, tokens: u32) -> Ticket {
        let _turn = self.turn.lock().await;
        loop {
            let answer = self.with(|window| window.admit(host.monotonic(), tokens));
            match answer {
                Ok(ticket) => return ticket,
                Err(wait) => host.sleep(wait).await,
            }
        }
    }

    /// Replaces the guess of an attempt's tokens by the count.
    pub fn settle(&self, ticket: &Ticket, tokens: u32) {
        self.with(|window| window.settle(ticket, tokens));
    }

    /// Lets nothing through before a time of the host's monotonic clock.
    pub fn hold(&self, until: Duration) {
        self.with(|window| window.hold(until));
    }

    fn with<T>(&self, act: impl FnOnce(&mut Window) -> T) -> T {
        act(&mut self.window.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
