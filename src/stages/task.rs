//! Computations as tasks of their own, which end with whoever waits for them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::stages::error::StageError;

/// Starts `work` as a task, in the span of whoever starts it. Dropping what is returned stops it where it next waits.
pub fn task<T: Send + 'static>(
    work: impl Future<Output = Result<T, StageError>> + Send + 'static,
) -> Task<T> {
    Task(tokio::spawn(work.in_current_span()))
}

/// A task that was started.
pub struct Task<T>(JoinHandle<Result<T, StageError>>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, StageError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let joined = ready!(Pin::new(&mut self.0).poll(context));
        Poll::Ready(joined.unwrap_or_else(|error| Err(StageError::Task(error.to_string()))))
    }
}
