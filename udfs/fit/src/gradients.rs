//! Loss and gradient of a batch: its parts on several threads, summed in their order, so that the
//! number of threads changes no bit.

use std::thread;

use candle_core::utils::with_threadpool;
use candle_core::{Device, Result, Tensor};

use crate::batch::Part;
use crate::network::Pass;
use crate::ops::{Dropout, with_numbers};
use crate::rng::CounterRng;
use crate::tape::Tape;
use crate::weights::{Plan, Weights};

/// What a pass needs besides the weights.
#[derive(Clone, Copy)]
pub struct Mode {
    /// Decides what is dropped in this step.
    pub rng: CounterRng,
    pub dropout: f64,
    /// Part of the target that is spread evenly.
    pub smoothing: f64,
}

/// The loss of a batch and its gradient.
pub fn gradient(
    plan: &Plan,
    weights: &Weights,
    parts: &[Part],
    mode: Mode,
    threads: usize,
) -> Result<(f64, Weights)> {
    let tensors = tensors(plan, weights)?;
    let mut loss = 0.0;
    let mut sum: Weights = weights.iter().map(|values| vec![0.0; values.len()]).collect();
    in_order(
        parts,
        threads,
        |number, part| part_gradient(plan, &tensors, part, number, mode),
        |(part, grads)| {
            loss += part;
            for (sum, grad) in sum.iter_mut().zip(&grads) {
                let Some(grad) = grad else { continue };
                with_numbers(grad, |grad| {
                    for (sum, grad) in sum.iter_mut().zip(grad) {
                        *sum += grad;
                    }
                })?;
            }
            Ok(())
        },
    )?;
    Ok((loss, sum))
}

/// The loss of a batch.
pub fn loss(plan: &Plan, weights: &Weights, parts: &[Part], threads: usize) -> Result<f64> {
    let weights = tensors(plan, weights)?;
    let mut sum = 0.0;
    let one = |_: usize, part: &Part| {
        let tape = Tape::new(&weights, false);
        let (shape, places) = (&plan.shape, &plan.places);
        let pass = Pass { shape, places, tape, dropout: Dropout::none(), smoothing: 0.0 };
        pass.loss(part).map(|(loss, _)| loss)
    };
    in_order(parts, threads, one, |loss| {
        sum += loss;
        Ok(())
    })?;
    Ok(sum)
}

fn tensors(plan: &Plan, weights: &Weights) -> Result<Vec<Tensor>> {
    let both = plan.parameters.iter().zip(weights);
    both.map(|(it, values)| Tensor::from_slice(values, it.dims(), &Device::Cpu)).collect()
}

/// The loss of a part, and the gradient of each parameter; none where it does not take part.
fn part_gradient(
    plan: &Plan,
    weights: &[Tensor],
    part: &Part,
    number: usize,
    mode: Mode,
) -> Result<(f64, Vec<Option<Tensor>>)> {
    let pass = Pass {
        shape: &plan.shape,
        places: &plan.places,
        tape: Tape::new(weights, true),
        dropout: Dropout::new(mode.rng.of(number as u64), mode.dropout),
        smoothing: mode.smoothing as f32,
    };
    pass.loss(part)
}

/// Computes items on threads, so many at a time, and takes their results in the order of the items.
///
/// Each runs inside candle's pool: what its products hand to other threads then waits in a queue of
/// its own, and is taken over only by a thread that has nothing to do.
fn in_order<I: Sync, T: Send>(
    items: &[I],
    threads: usize,
    compute: impl Fn(usize, &I) -> Result<T> + Sync,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let threads = threads.max(1);
    let compute = &compute;
    for (wave, items) in items.chunks(threads).enumerate() {
        let number = |index: usize| wave * threads + index;
        let results: Vec<Result<T>> = thread::scope(|scope| {
            let handles: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(index, item)| {
                    let number = number(index);
                    scope.spawn(move || with_threadpool(|| compute(number, item)))
                })
                .collect();
            let join = |handle: thread::ScopedJoinHandle<'_, _>| {
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            handles.into_iter().map(join).collect()
        });
        for result in results {
            take(result?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Example, parts};
    use crate::ops::Heads;
    use crate::rng::Purpose;
    use crate::shape::Shape;
    use crate::sizes::Activation;

    fn plan(activation: Activation, own_head: bool) -> Plan {
        Plan::new(Shape {
            vocabulary: 13,
            width: 12,
            heads: Heads { count: 3, width: 5 },
            mlp_width: 20,
            activation,
            layers: 2,
            decoder_layers: 2,
            buckets: 8,
            max_distance: 20,
            eps: 1e-6,
            own_head,
            scaled: !own_head,
        })
    }

    fn examples() -> Vec<Example> {
        let text = |seed: u32, length: u32| (0..length).map(|i| (seed + i * i * 5) % 13).collect();
        let lengths = [(3, 2), (9, 1), (1, 6), (14, 4)];
        lengths
            .iter()
            .zip(1..)
            .map(|(&(input, output), seed)| Example {
                input: text(seed, input),
                output: text(seed + 2, output),
                weight: seed as f32 / 2.0,
            })
            .collect()
    }

    fn mode(dropout: f64, smoothing: f64) -> Mode {
        Mode { rng: CounterRng::new(5, Purpose::Dropout), dropout, smoothing }
    }

    fn moved(weights: &Weights, at: usize, direction: &[f32], by: f32) -> Weights {
        let mut weights = weights.clone();
        for (weight, direction) in weights[at].iter_mut().zip(direction) {
            *weight += by * direction;
        }
        weights
    }

    /// Compares the gradient along directions in every parameter with finite differences.
    fn gradients_are_right(plan: &Plan, mode: Mode) {
        const STEP: f32 = 5e-3;
        let parts = parts(&examples(), &[0, 1, 2, 3], 0);
        let weights = plan.first(3);
        let loss = |weights: &Weights| gradient(plan, weights, &parts, mode, 1).unwrap().0;
        let (_, grads) = gradient(plan, &weights, &parts, mode, 1).unwrap();
        for (at, grad) in grads.iter().enumerate() {
            let length = grad.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!(length > 1e-4, "{:?} has no slope", plan.parameters[at].names);
            let steepest = grad.iter().map(|x| x / length).collect::<Vec<_>>();
            let rng = CounterRng::new(1, Purpose::Weights).of(at as u64);
            let scale = (grad.len() as f32).sqrt().recip();
            let others = (0..3).map(|number| {
                let of = |i: usize| rng.of(number).normal(i as u64) * scale;
                (0..grad.len()).map(of).collect::<Vec<_>>()
            });
            for direction in others.chain([steepest]) {
                let right: f32 = grad.iter().zip(&direction).map(|(a, b)| a * b).sum();
                let ahead = loss(&moved(&weights, at, &direction, STEP));
                let behind = loss(&moved(&weights, at, &direction, -STEP));
                let found = (ahead - behind) / f64::from(2.0 * STEP);
                let off = (found - f64::from(right)).abs();
                let names = &plan.parameters[at].names;
                assert!(
                    off < 3e-3 * f64::from(length) + 1e-4,
                    "{names:?}: {found} {right} {length}"
                );
            }
        }
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        gradients_are_right(&plan(Activation::Relu, false), mode(0.0, 0.0));
        gradients_are_right(&plan(Activation::GatedGelu, true), mode(0.0, 0.2));
        gradients_are_right(&plan(Activation::GatedGelu, false), mode(0.3, 0.1));
    }

    #[test]
    fn a_pair_does_not_see_its_neighbours() {
        let plan = plan(Activation::GatedGelu, false);
        let weights = plan.first(3);
        let all = examples();
        for alone in 0..all.len() {
            let single = parts(&all, &[alone], 0);
            let (right, grads) = gradient(&plan, &weights, &single, mode(0.0, 0.0), 1).unwrap();
            let mut together = parts(&all, &[0, 1, 2, 3], 0);
            assert_eq!(together.len(), 1);
            let longest = together[0].outputs.longest;
            for (row, weight) in together[0].weights.iter_mut().enumerate() {
                let real = row / longest == alone && row % longest < all[alone].output.len();
                *weight = if real { 1.0 / all[alone].output.len() as f32 } else { 0.0 };
            }
            let (found, others) = gradient(&plan, &weights, &together, mode(0.0, 0.0), 1).unwrap();
            assert!((found - right).abs() < 1e-6, "{found} {right}");
            for (grad, other) in grads.iter().flatten().zip(others.iter().flatten()) {
                assert!((grad - other).abs() < 1e-5, "{grad} {other}");
            }
            let seen = loss(&plan, &weights, &together, 1).unwrap();
            assert!((seen - right).abs() < 1e-6);
        }
    }

    #[test]
    fn what_is_dropped_follows_from_the_step() {
        let plan = plan(Activation::Relu, false);
        let (weights, parts) = (plan.first(3), parts(&examples(), &[0, 1, 2, 3], 0));
        let at = |step| {
            let rng = CounterRng::new(5, Purpose::Dropout).of(step);
            gradient(&plan, &weights, &parts, Mode { rng, ..mode(0.5, 0.0) }, 1).unwrap()
        };
        assert_eq!(at(1), at(1));
        assert_ne!(at(1).0, at(2).0);
    }
}
