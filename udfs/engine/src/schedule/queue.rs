//! The queue of requests, one for all callers and all workers of a model.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::job::{GenerateWork, Job, ScoreWork, VectorWork};
use crate::request::RequestError;

/// Jobs of all kinds, each kind in the order that suits it.
#[derive(Default)]
pub struct Queue {
    waiting: Mutex<WaitingJobs>,
    changed: Condvar,
}

/// The jobs themselves. Cancelled ones are answered when their turn comes.
#[derive(Default)]
pub struct WaitingJobs {
    pub generate: Ordered<Order, GenerateWork>,
    /// By their tokens, so that neighbours share beginnings.
    pub score: Ordered<Vec<u32>, ScoreWork>,
    pub vector: Ordered<Order, VectorWork>,
    next: u64,
    closed: bool,
}

/// The order of texts that an encoder reads, and of those that a decoder reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Longest first: the last to end are short, and no worker waits long for another. Equal texts are
    /// neighbours.
    Encoder(Reverse<usize>, Vec<u32>),
    /// By their tokens, so that neighbours share beginnings.
    Decoder(Vec<u32>),
}

/// Jobs by a key, in order of arrival where keys are equal.
pub struct Ordered<K, W> {
    /// Those that were given back, before all others.
    again: VecDeque<Job<W>>,
    jobs: BTreeMap<(K, u64), Job<W>>,
    /// Cancelled ones, until the queue is unlocked: their replies may use the queue.
    cancelled: Vec<Job<W>>,
}

impl<K, W> Default for Ordered<K, W> {
    fn default() -> Self {
        Self { again: VecDeque::new(), jobs: BTreeMap::new(), cancelled: Vec::new() }
    }
}

impl<K: Ord, W> Ordered<K, W> {
    /// The first job, if `take` wants it.
    pub fn pop_if(&mut self, take: impl FnOnce(&W) -> bool) -> Option<Job<W>> {
        loop {
            let first = self.first()?;
            if !first.is_cancelled() {
                return if take(&first.work) { self.pop() } else { None };
            }
            let cancelled = self.pop();
            self.cancelled.extend(cancelled);
        }
    }

    /// How many wait, cancelled ones too.
    pub fn len(&self) -> usize {
        self.again.len() + self.jobs.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.again.is_empty() && self.jobs.is_empty()
    }

    fn first(&self) -> Option<&Job<W>> {
        self.again.front().or_else(|| self.jobs.first_key_value().map(|(_, job)| job))
    }

    fn pop(&mut self) -> Option<Job<W>> {
        self.again.pop_front().or_else(|| self.jobs.pop_first().map(|(_, job)| job))
    }

    /// Takes jobs back, in the order in which they were popped.
    pub fn put_back(&mut self, jobs: Vec<Job<W>>) {
        jobs.into_iter().rev().for_each(|job| self.again.push_front(job));
    }

    fn insert(&mut self, key: K, id: u64, job: Job<W>) {
        self.jobs.insert((key, id), job);
    }
}

impl WaitingJobs {
    fn is_empty(&self) -> bool {
        self.generate.is_empty() && self.score.is_empty() && self.vector.is_empty()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Queue")
    }
}

impl Queue {
    /// Adds a generation.
    pub fn push_generate(&self, job: Job<GenerateWork>) {
        let GenerateWork { passages, decoder_prompt, .. } = &job.work;
        let key = if passages.is_empty() {
            Order::Decoder(decoder_prompt.clone())
        } else {
            let read = passages.concat();
            Order::Encoder(Reverse(read.len() + decoder_prompt.len()), read)
        };
        self.push(|waiting, id| waiting.generate.insert(key, id, job));
    }

    /// Adds continuations to be scored.
    pub fn push_score(&self, job: Job<ScoreWork>) {
        let shared = job.work.continuations.first();
        let prompt = shared.map_or(&[][..], |(tokens, before)| &tokens[..*before]);
        let key = [&job.work.passage, prompt].concat();
        self.push(|waiting, id| waiting.score.insert(key, id, job));
    }

    /// Adds a text to be embedded, by a `decoder` or by an encoder.
    pub fn push_vector(&self, job: Job<VectorWork>, decoder: bool) {
        let key = if decoder {
            Order::Decoder(job.work.tokens.clone())
        } else {
            Order::Encoder(Reverse(job.work.tokens.len()), Vec::new())
        };
        self.push(|waiting, id| waiting.vector.insert(key, id, job));
    }

    fn push(&self, insert: impl FnOnce(&mut WaitingJobs, u64)) {
        let mut waiting = self.lock();
        // A closed queue drops the job, which answers with an error.
        if !waiting.closed {
            waiting.next += 1;
            let id = waiting.next;
            insert(&mut waiting, id);
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// Gives back jobs that were taken and are not answered: they come before all others.
    pub fn give_back<K: Ord, W>(
        &self,
        jobs: Vec<Job<W>>,
        kind: impl FnOnce(&mut WaitingJobs) -> &mut Ordered<K, W>,
    ) {
        let mut waiting = self.lock();
        if waiting.closed {
            // A reply may take the lock.
            drop(waiting);
            drop(jobs);
            return;
        }
        kind(&mut waiting).put_back(jobs);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Lets a worker take jobs. Cancelled ones that it met are answered then.
    pub fn take<T>(&self, take: impl FnOnce(&mut WaitingJobs) -> T) -> T {
        let mut waiting = self.lock();
        let taken = take(&mut waiting);
        let WaitingJobs { generate, score, vector, .. } = &mut *waiting;
        let generate = mem::take(&mut generate.cancelled);
        let score = mem::take(&mut score.cancelled);
        let vector = mem::take(&mut vector.cancelled);
        drop(waiting);
        cancel(generate);
        cancel(score);
        cancel(vector);
        taken
    }

    fn lock(&self) -> MutexGuard<'_, WaitingJobs> {
        // A worker that panicked left the maps whole: they change in single calls.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is something to do; `None` when the queue is closed for good.
    pub fn wait(&self) -> Option<()> {
        let mut waiting = self.lock();
        while waiting.is_empty() {
            if waiting.closed {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        Some(())
    }

    /// Whether it takes no more jobs.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes no more jobs, and drops those that wait.
    pub fn close(&self) {
        let mut waiting = self.lock();
        let dropped = WaitingJobs { closed: true, ..WaitingJobs::default() };
        let dropped = mem::replace(&mut *waiting, dropped);
        drop(waiting);
        self.changed.notify_all();
        drop(dropped);
    }
}

fn cancel<W>(jobs: Vec<Job<W>>) {
    for job in jobs {
        job.answer(Err(RequestError::Cancelled));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{self, Receiver};

    use super::super::job::{Cancel, VectorOutput};
    use super::*;
    use crate::request::Answer;

    type Answered = Result<Answer, RequestError>;

    fn push(queue: &Queue, tokens: usize, cancel: &Cancel) -> Receiver<Answered> {
        let (sender, receiver) = mpsc::channel();
        let reply = Box::new(move |answer| sender.send(answer).unwrap());
        let work = VectorWork {
            tokens: vec![1; tokens],
            type_offsets: Vec::new(),
            output: VectorOutput::Pooled,
            prompt_truncated: false,
        };
        queue.push_vector(Job::new(work, reply, cancel.clone()), false);
        receiver
    }

    fn pop(queue: &Queue) -> Option<usize> {
        let job = queue.take(|waiting| waiting.vector.pop_if(|_| true));
        job.map(|job| job.work.tokens.len())
    }

    #[test]
    fn the_longest_come_first_and_the_cancelled_are_answered() {
        let queue = Queue::default();
        let (waits, gone) = (Cancel::default(), Cancel::default());
        let _short = push(&queue, 3, &waits);
        let long = push(&queue, 9, &gone);
        let _middle = push(&queue, 5, &waits);
        gone.cancel();
        assert!(queue.take(|waiting| waiting.vector.pop_if(|_| false)).is_none());
        assert_eq!(long.try_recv().unwrap(), Err(RequestError::Cancelled));
        assert_eq!([pop(&queue), pop(&queue), pop(&queue)], [Some(5), Some(3), None]);
    }

    #[test]
    fn what_is_given_back_comes_first_and_in_order() {
        let queue = Queue::default();
        let (waits, gone) = (Cancel::default(), Cancel::default());
        let _three = push(&queue, 3, &waits);
        let five = push(&queue, 5, &gone);
        let _four = push(&queue, 4, &waits);
        let take = |waiting: &mut WaitingJobs| waiting.vector.pop_if(|_| true);
        let taken: Vec<_> = (0..3).filter_map(|_| queue.take(take)).collect();
        let _nine = push(&queue, 9, &waits);
        gone.cancel();
        queue.give_back(taken, |waiting| &mut waiting.vector);
        assert_eq!([pop(&queue), pop(&queue), pop(&queue)], [Some(4), Some(3), Some(9)]);
        assert_eq!(five.try_recv().unwrap(), Err(RequestError::Cancelled));
        let late = push(&queue, 1, &waits);
        let taken: Vec<_> = queue.take(take).into_iter().collect();
        queue.close();
        queue.give_back(taken, |waiting| &mut waiting.vector);
        assert!(matches!(late.try_recv().unwrap(), Err(RequestError::Failed(_))));
    }

    #[test]
    fn a_closed_queue_answers_what_waits_and_what_comes() {
        let queue = Arc::new(Queue::default());
        let waits = push(&queue, 3, &Cancel::default());
        let other = Arc::clone(&queue);
        // It sleeps once the first is taken.
        let sleeper = std::thread::spawn(move || {
            while other.wait().is_some() {
                pop(&other);
            }
        });
        assert!(waits.recv().unwrap().is_err());
        let held = push(&queue, 3, &Cancel::default());
        queue.close();
        sleeper.join().unwrap();
        let comes = push(&queue, 4, &Cancel::default());
        for answer in [held.recv().unwrap(), comes.recv().unwrap()] {
            let why = "the model stopped before it answered".to_owned();
            assert_eq!(answer, Err(RequestError::Failed(why)));
        }
        assert!(queue.is_closed() && queue.wait().is_none());
    }
}
