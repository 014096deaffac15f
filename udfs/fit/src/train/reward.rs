//! What is usual among rewards: the baseline that each is held against.

use crate::data::batch::{Example, Order};

/// A moving mean of the rewards of batches. It begins as the mean of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Baseline {
    pub value: f64,
    /// How slowly it moves: 0 to below 1.
    inertia: f64,
}

impl Baseline {
    /// That of the step after `steps` steps in this order; 0 where nothing has a reward.
    pub fn after(examples: &[Example], order: &mut Order<'_>, steps: u32, inertia: f64) -> Self {
        let all: Vec<usize> = (0..examples.len()).collect();
        let mut baseline = Self { value: mean(examples, &all), inertia };
        if examples.iter().any(|it| it.logged.is_some()) {
            for step in 0..steps {
                baseline.take(examples, order.step(step));
            }
        }
        baseline
    }

    /// Moves towards the rewards of a batch.
    pub fn take(&mut self, examples: &[Example], batch: &[usize]) {
        self.value = self.inertia * self.value + (1.0 - self.inertia) * mean(examples, batch);
    }
}

fn mean(examples: &[Example], batch: &[usize]) -> f64 {
    let reward = |&pair: &usize| examples[pair].logged.map_or(0.0, |it| f64::from(it.reward));
    batch.iter().map(reward).sum::<f64>() / batch.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::batch::Logged;

    #[test]
    fn a_fit_that_goes_on_has_the_baseline_that_it_had() {
        let example = |reward: f32| Example {
            input: vec![3],
            passages: Vec::new(),
            output: vec![4],
            weight: 1.0,
            logged: Some(Logged { reward, logprob: None }),
        };
        let examples: Vec<Example> = (0..7).map(|i| example(i as f32)).collect();
        let mut order = Order::new(&examples, 2, 1, false);
        let mut running = Baseline::after(&examples, &mut order, 0, 0.9);
        assert!((running.value - 3.0).abs() < 1e-12);
        for step in 0..9 {
            running.take(&examples, order.step(step));
        }
        assert_eq!(Baseline::after(&examples, &mut order, 9, 0.9), running);
        assert_ne!(running.value, 3.0);
    }
}
