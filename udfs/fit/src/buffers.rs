//! Memory that steps use again and again. The allocator gives large blocks back to the system, which clears each page when it
//! is written to next: a sixth of a step's time, and its zeros and copies were as much again.

use std::sync::{Mutex, PoisonError};

/// Numbers from which on a block is kept; smaller ones the allocator keeps itself.
const NUMBERS_MIN: usize = 1 << 15;
/// Numbers that are kept at most (1 GiB): what a part of a step takes for a model of forty million numbers. Batches differ in
/// their lengths, so that without a limit blocks of each length would pile up.
const KEPT_MAX: usize = 1 << 28;

/// Blocks that nobody uses.
#[derive(Debug, Default)]
pub struct Buffers {
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    /// Those that were given back last stand last.
    blocks: Vec<Vec<f32>>,
    /// Their numbers together.
    numbers: usize,
}

impl Buffers {
    /// So many numbers, of any value.
    pub fn take(&self, len: usize) -> Vec<f32> {
        let mut buffer = self.find(len).unwrap_or_default();
        buffer.resize(len, 0.0);
        buffer
    }

    /// These numbers.
    pub fn copy(&self, numbers: &[f32]) -> Vec<f32> {
        let mut buffer = self.find(numbers.len()).unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(numbers);
        buffer
    }

    /// Zeros.
    pub fn zeros(&self, len: usize) -> Vec<f32> {
        match self.find(len) {
            Some(mut buffer) => {
                buffer.clear();
                buffer.resize(len, 0.0);
                buffer
            }
            None => vec![0.0; len],
        }
    }

    /// Takes numbers back.
    pub fn give(&self, buffer: Vec<f32>) {
        if buffer.capacity() >= NUMBERS_MIN {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.numbers += buffer.capacity();
            free.blocks.push(buffer);
            // Those that nobody wanted for the longest time go.
            let mut spare = 0;
            while free.numbers > KEPT_MAX {
                free.numbers -= free.blocks[spare].capacity();
                spare += 1;
            }
            free.blocks.drain(..spare);
        }
    }

    /// The smallest block that is large enough, and not twice as large.
    fn find(&self, len: usize) -> Option<Vec<f32>> {
        if len < NUMBERS_MIN {
            return None;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |buffer: &&Vec<f32>| (len..=2 * len).contains(&buffer.capacity());
        let least = free.blocks.iter().filter(fits).map(Vec::capacity).min()?;
        let at = free.blocks.iter().rposition(|buffer| buffer.capacity() == least)?;
        free.numbers -= least;
        Some(free.blocks.remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_used_again_where_they_fit() {
        let buffers = Buffers::default();
        let mut block = buffers.take(NUMBERS_MIN + 10);
        block.fill(7.0);
        let place = block.as_ptr();
        buffers.give(block);
        let is_it = |buffer: &Vec<f32>| buffer.as_ptr() == place;
        assert!(!is_it(&buffers.take(NUMBERS_MIN / 2 + 1)), "small blocks are not kept");
        let zeros = buffers.zeros(NUMBERS_MIN + 1);
        assert!(is_it(&zeros) && zeros.iter().all(|number| *number == 0.0));
        buffers.give(zeros);
        assert!(!is_it(&buffers.take(4 * NUMBERS_MIN)), "it is too small");
        let copy = buffers.copy(&vec![2.0; NUMBERS_MIN]);
        assert!(is_it(&copy) && copy.len() == NUMBERS_MIN && copy[5] == 2.0);
        assert!(!is_it(&buffers.take(NUMBERS_MIN)), "somebody has it");
    }

    #[test]
    fn no_more_is_kept_than_the_limit() {
        let buffers = Buffers::default();
        // Capacity alone is no memory that was written to.
        let block = |part: usize| Vec::with_capacity(KEPT_MAX / part);
        for part in [3, 4, 5, 2] {
            buffers.give(block(part));
        }
        let free = buffers.free.lock().unwrap();
        let kept: Vec<usize> = free.blocks.iter().map(Vec::capacity).collect();
        assert_eq!(kept, [KEPT_MAX / 4, KEPT_MAX / 5, KEPT_MAX / 2]);
        assert_eq!(free.numbers, kept.iter().sum::<usize>());
    }
}
