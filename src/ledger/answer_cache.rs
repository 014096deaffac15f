//! Answers that were looked up lately, as many as fit into a fixed amount of memory: what recurs in a
//! run, such as a fact of a memory that grows, is not read from its segment each time.
//!
//! Only what stands in a segment is remembered. That changes only when answers are forgotten: the first
//! answer in the order of the log counts, entries are only added behind, and a merge keeps the order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proofmill_base::digest::Digest;
use crate::entry::Answer;

/// Bytes of an answer without its text, and of its place here.
const ANSWER_BYTES: usize = 256;

/// Stored answers, by key.
pub(crate) struct AnswerCache {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    answers: HashMap<Digest, Arc<Answer>>,
    bytes: usize,
    /// The forgettings that were known when the answers were looked up.
    forgotten: usize,
}

impl AnswerCache {
    /// A cache that holds at most `bytes_max`. What does not fit makes it forget the rest.
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, held: Mutex::default() }
    }

    /// The remembered answer to each key, for a state of the ledger with so many forgettings.
    pub fn get(&self, keys: &[Digest], forgotten: usize) -> Vec<Option<Arc<Answer>>> {
        let mut held = self.lock();
        if held.forgotten < forgotten {
            *held = Held { forgotten, ..Held::default() };
        }
        if held.forgotten > forgotten {
            return vec![None; keys.len()];
        }
        keys.iter().map(|key| held.answers.get(key).cloned()).collect()
    }

    /// Remembers answers that stand in a segment of a state with so many forgettings.
    pub fn put<'a>(&self, stored: impl IntoIterator<Item = &'a Arc<Answer>>, forgotten: usize) {
        let mut held = self.lock();
        if held.forgotten != forgotten {
            return;
        }
        for answer in stored {
            let bytes = ANSWER_BYTES + answer.answer.len();
            if held.bytes + bytes > self.bytes_max {
                *held = Held { forgotten, ..Held::default() };
            }
            if bytes <= self.bytes_max && !held.answers.contains_key(&answer.key) {
                held.bytes += bytes;
                held.answers.insert(answer.key, Arc::clone(answer));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Origin;

    fn answer(n: u8) -> Arc<Answer> {
        let run = "20261121-021500123-k3f9qa".parse().unwrap();
        let origin = Origin { model: "m".into(), kind: "score".into(), run };
        let key = Digest::of(&[n]);
        let created_at = chrono::DateTime::UNIX_EPOCH;
        Arc::new(Answer { key, answer: "1234".into(), origin, writer: "w".into(), created_at })
    }

    #[test]
    fn it_stays_within_its_memory_and_never_gives_another_answer() {
        for (room, held) in [(0, 0), (ANSWER_BYTES + 3, 0), (ANSWER_BYTES + 4, 1), (1 << 20, 9)] {
            let cache = AnswerCache::new(room);
            for n in (0..9).chain(0..9) {
                cache.put(&[answer(n)], 0);
                assert!(cache.lock().bytes <= room);
            }
            let keys: Vec<Digest> = (0..9).map(|n| Digest::of(&[n])).collect();
            let found = cache.get(&keys, 0);
            assert_eq!(found.iter().flatten().count(), held, "{room}");
            assert!(
                found
                    .iter()
                    .zip(&keys)
                    .all(|(it, key)| it.as_ref().is_none_or(|it| it.key == *key))
            );
        }
    }
    #[test]
    fn what_was_forgotten_is_not_remembered_nor_brought_back_by_who_looked_before() {
        let cache = AnswerCache::new(1 << 20);
        let keys = [Digest::of(&[1])];
        let known = |forgotten| cache.get(&keys, forgotten)[0].is_some();
        cache.get(&keys, 0);
        cache.put(&[answer(1)], 0);
        assert!(known(0));
        assert!(!known(1));
        cache.put(&[answer(1)], 0);
        assert!(!known(1) && !known(0));
        cache.put(&[answer(1)], 1);
        assert!(known(1) && !known(0));
    }
}
