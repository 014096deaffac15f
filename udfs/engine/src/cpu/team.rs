//! Threads that share one operation: while some workers of a model have nothing to do, the others use their cores.
//!
//! An operation is cut into pieces that write rows or outputs of their own, and no sum is cut, so that the number of
//! threads changes no bit. Threads are started for an operation and end with it: that takes some ten microseconds,
//! and only operations that take many times as long are shared.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::backend::DeviceError;

/// Pieces for each thread, so that none waits long for the last.
pub(super) const PIECES_PER_THREAD: usize = 4;

/// Products of numbers that are worth a thread of their own: it takes less than a tenth of their time to start one.
const PRODUCTS_PER_THREAD: usize = 1 << 24;

/// The threads of a model's workers.
#[derive(Debug)]
pub struct Team {
    workers: usize,
    /// Products for which another thread is started.
    products_per_thread: usize,
    /// Workers that wait for requests.
    resting: AtomicUsize,
}

impl Team {
    /// Of so many workers, each of which tells when it rests.
    pub fn new(workers: usize) -> Self {
        let products_per_thread = PRODUCTS_PER_THREAD;
        Self { workers: workers.max(1), products_per_thread, resting: AtomicUsize::new(0) }
    }

    /// Of one worker that always has `threads` threads for itself.
    pub fn of_one(threads: usize) -> Self {
        let team = Self::new(threads);
        team.resting.store(team.workers - 1, Ordering::Relaxed);
        team
    }

    /// The same sharing every operation, however small: for tests.
    #[must_use]
    pub fn eager(self) -> Self {
        Self { products_per_thread: 1, ..self }
    }

    /// Threads for an operation of so many products on one of the workers at work, its own included.
    pub(super) fn threads(&self, products: usize) -> usize {
        let worth = products / self.products_per_thread;
        if worth < 2 {
            return 1;
        }
        worth.min(self.spare())
    }

    /// Threads that each worker at work has now.
    fn spare(&self) -> usize {
        let resting = self.resting.load(Ordering::Relaxed);
        self.workers / self.workers.saturating_sub(resting).max(1)
    }

    /// Calls `wait`, and counts the caller as resting meanwhile.
    pub(super) fn rest<T>(&self, wait: impl FnOnce() -> T) -> T {
        /// Also where `wait` panics.
        struct Resting<'a>(&'a AtomicUsize);
        impl Drop for Resting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.resting.fetch_add(1, Ordering::Relaxed);
        let _resting = Resting(&self.resting);
        wait()
    }
}

/// Does the work of all `pieces`, on a thread for each of `memories` if there are as many pieces; each thread takes the
/// next piece when it is done with one.
///
/// # Errors
///
/// The first failure of each thread ends its work, and the first of those is given. A panic is a failure too.
pub(super) fn share<M: Send, P>(
    memories: &mut [M],
    pieces: impl ExactSizeIterator<Item = P> + Send,
    work: impl Fn(&mut M, P) -> Result<(), DeviceError> + Sync,
) -> Result<(), DeviceError> {
    if let [memory] = memories {
        return pieces.into_iter().try_for_each(|piece| work(memory, piece));
    }
    let threads = memories.len().min(pieces.len());
    let waiting = Mutex::new(pieces);
    // The lock guards a position in a list: it cannot be left half done.
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = |memory: &mut M| -> Result<(), DeviceError> {
        let all = || -> Result<(), DeviceError> {
            while let Some(piece) = next() {
                work(memory, piece)?;
            }
            Ok(())
        };
        // What a panic leaves behind is scratch memory, and rows of a pass that fails.
        catch_unwind(AssertUnwindSafe(all)).unwrap_or_else(|panic| Err(panicked(&*panic)))
    };
    let Some((own, others)) = memories[..threads].split_first_mut() else { return Ok(()) };
    thread::scope(|scope| {
        let run = &run;
        // Where no thread is to be had, the others do its work.
        let started: Vec<_> = others
            .iter_mut()
            .filter_map(|memory| {
                let thread = thread::Builder::new().name("model-team".to_owned());
                thread.spawn_scoped(scope, move || run(memory)).ok()
            })
            .collect();
        let own = run(own);
        let joined = started
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| Err(panicked(&*panic))));
        joined.fold(own, Result::and)
    })
}

fn panicked(panic: &(dyn Any + Send)) -> DeviceError {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    DeviceError::Failed(format!("a thread that shared an operation panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn workers_at_work_share_the_threads_of_those_that_rest() {
        let team = Team::new(4);
        let large = 100 * PRODUCTS_PER_THREAD;
        assert_eq!(team.threads(large), 1);
        team.rest(|| {
            assert_eq!(team.threads(large), 1);
            team.rest(|| {
                assert_eq!(team.threads(large), 2);
                team.rest(|| assert_eq!(team.threads(large), 4));
            });
        });
        assert_eq!(team.threads(large), 1);
        assert_eq!(Team::new(0).threads(large), 1);
        let three = Team::of_one(3);
        let threads = [0, 1, 2, 3, 4].map(|times| three.threads(times * PRODUCTS_PER_THREAD));
        assert_eq!(threads, [1, 1, 2, 3, 3]);
        assert_eq!(three.eager().threads(3), 3);
    }

    #[test]
    fn each_piece_is_done_once() {
        for threads in [1, 2, 5] {
            let mut done = vec![0; 100];
            let mut memories = vec![0; threads];
            let pieces = done.chunks_mut(7).enumerate();
            share(&mut memories, pieces, |count, (index, piece)| {
                *count += 1;
                piece.iter_mut().for_each(|number| *number += index + 1);
                Ok(())
            })
            .unwrap();
            assert_eq!(memories.iter().sum::<i32>(), 15);
            assert!(done.iter().enumerate().all(|(i, &number)| number == i / 7 + 1));
        }
    }

    #[test]
    fn a_panic_of_any_thread_is_a_failure_and_nothing_waits_for_ever() {
        let caller = thread::current().id();
        for on_caller in [false, true] {
            // Both threads have a piece before one of them panics.
            let (both, panicked) = (Barrier::new(2), AtomicBool::new(false));
            let shared = share(&mut [(), ()], 0..2, |(), piece| {
                both.wait();
                if (thread::current().id() == caller) == on_caller {
                    panicked.store(true, Ordering::Relaxed);
                    panic!("in piece {piece}");
                }
                Ok(())
            });
            let message = shared.unwrap_err().to_string();
            assert!(message.contains("panicked: in piece"), "{message}");
            assert!(panicked.load(Ordering::Relaxed));
        }
    }
}
