//! Many small tasks on a few threads, results in order.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Tasks that a thread takes at a time.
const CHUNK: usize = 16;

/// `work(0), …, work(count - 1)`, or the error of the first that failed.
pub(super) fn in_order<T: Send, E: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let threads = threads.min(count.div_ceil(CHUNK));
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take_chunks = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            if start >= count {
                return done;
            }
            let chunk: Result<Vec<T>, E> = (start..count.min(start + CHUNK)).map(&work).collect();
            let failed = chunk.is_err();
            done.push((start, chunk));
            if failed {
                return done;
            }
        }
    };
    let mut chunks = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(take_chunks)).collect();
        let joined = handles.into_iter().map(|handle| match handle.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect::<Vec<_>>()
    });
    chunks.sort_unstable_by_key(|(start, _)| *start);
    let mut results = Vec::with_capacity(count);
    for (_, chunk) in chunks {
        results.extend(chunk?);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_for_any_number_of_threads() {
        for count in [0, 1, 15, 16, 17, 1000] {
            for threads in [0, 1, 2, 7, 64] {
                let results: Result<Vec<usize>, ()> = in_order(count, threads, |i| Ok(i * i));
                let expected: Vec<usize> = (0..count).map(|i| i * i).collect();
                assert_eq!(results, Ok(expected), "{count} tasks, {threads} threads");
            }
        }
    }

    #[test]
    fn the_first_error_wins() {
        let fail = |i| if i >= 100 { Err(i) } else { Ok(i) };
        assert_eq!(in_order(1000, 1, fail), Err(100));
        assert_eq!(in_order(1000, 4, fail), Err(100));
    }
}
