//! Dropout: which numbers are dropped is a function of place and step, and is never stored.

use std::cell::Cell;

use crate::rng::{CounterRng, Purpose};

/// What is dropped in one pass over a part of a batch.
pub struct Dropout {
    rng: CounterRng,
    rate: f64,
    /// Places in the graph that have taken theirs.
    places: Cell<u64>,
}

/// What is dropped at one place of the graph.
#[derive(Clone, Copy)]
pub struct Drop {
    rng: CounterRng,
    /// Below this, of 2^32, a number is dropped.
    below: u64,
    /// What the others are multiplied by.
    scale: f32,
}

impl Dropout {
    /// Drops nothing.
    pub fn none() -> Self {
        Self::new(CounterRng::new(0, Purpose::Dropout), 0.0)
    }

    /// Drops a part of `rate`.
    pub fn new(rng: CounterRng, rate: f64) -> Self {
        Self { rng, rate, places: Cell::new(0) }
    }

    /// What is dropped at the next place; none if nothing ever is.
    pub fn next(&self) -> Option<Drop> {
        if self.rate == 0.0 {
            return None;
        }
        let place = self.places.get();
        self.places.set(place + 1);
        let below = (self.rate * (1_u64 << 32) as f64) as u64;
        let scale = (1.0 / (1.0 - self.rate)) as f32;
        Some(Drop { rng: self.rng.of(place), below, scale })
    }
}

impl Drop {
    /// The numbers after dropout.
    pub fn apply(&self, values: &[f32]) -> Vec<f32> {
        let keep = |(index, &value): (usize, &f32)| {
            if self.rng.bits(index as u64) >> 32 < self.below { 0.0 } else { value * self.scale }
        };
        values.iter().enumerate().map(keep).collect()
    }
}
