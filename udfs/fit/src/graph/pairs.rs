//! Losses over the vectors of a batch, each pair of them against the others: in 64 bits, summed in the order of the
//! pairs.

/// The loss of a batch: its sum, what it is to be divided by, and the gradients of the sum.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchLoss {
    pub sum: f64,
    /// What all that was summed counts together.
    pub count: f64,
    /// Of the inputs' vectors.
    pub inputs: Vec<Vec<f64>>,
    /// Of the outputs' vectors; none if those are given.
    pub outputs: Vec<Vec<f64>>,
}

/// A vector and its length.
struct Direction {
    /// At length 1.
    unit: Vec<f64>,
    length: f64,
}

/// Below it a vector has no direction to speak of (transformers' and torch's `normalize`).
const LENGTH_MIN: f64 = 1e-12;

impl Direction {
    fn of(vector: &[f32]) -> Self {
        let square: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        let length = square.sqrt().max(LENGTH_MIN);
        Self { unit: vector.iter().map(|&x| f64::from(x) / length).collect(), length }
    }

    fn all(vectors: &[Vec<f32>]) -> Vec<Self> {
        vectors.iter().map(|vector| Self::of(vector)).collect()
    }

    /// The cosine of the angle between two.
    fn cos(&self, other: &Self) -> f64 {
        self.unit.iter().zip(&other.unit).map(|(a, b)| a * b).sum()
    }

    /// The gradient of the vector, given that of its direction.
    fn pull(&self, grad: &[f64]) -> Vec<f64> {
        let along: f64 = self.unit.iter().zip(grad).map(|(a, b)| a * b).sum();
        self.unit.iter().zip(grad).map(|(unit, grad)| (grad - along * unit) / self.length).collect()
    }
}

/// Adds `by` times the direction.
fn add(sum: &mut [f64], by: f64, direction: &Direction) {
    for (sum, unit) in sum.iter_mut().zip(&direction.unit) {
        *sum += by * unit;
    }
}

fn pull(directions: &[Direction], grads: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    directions.iter().zip(grads).map(|(direction, grad)| direction.pull(&grad)).collect()
}

fn zeros(directions: &[Direction]) -> Vec<Vec<f64>> {
    directions.iter().map(|direction| vec![0.0; direction.unit.len()]).collect()
}

/// `Σ w_i w_j (cos(x_i, x_j) - cos(u_i, u_j))^2` over all two of a batch, where the `u` are given.
pub fn similarity(inputs: &[Vec<f32>], outputs: &[Vec<f32>], weights: &[f32]) -> BatchLoss {
    let (read, given) = (Direction::all(inputs), Direction::all(outputs));
    let mut grads = zeros(&read);
    let (mut sum, mut count) = (0.0, 0.0);
    for i in 0..read.len() {
        for j in 0..i {
            let weight = f64::from(weights[i]) * f64::from(weights[j]);
            let off = read[i].cos(&read[j]) - given[i].cos(&given[j]);
            sum += weight * off * off;
            count += weight;
            add(&mut grads[i], 2.0 * weight * off, &read[j]);
            add(&mut grads[j], 2.0 * weight * off, &read[i]);
        }
    }
    BatchLoss { sum, count, inputs: pull(&read, grads), outputs: Vec::new() }
}

/// `Σ w_i (lse_j(cos(x_i, u_j) / t) - cos(x_i, u_i) / t)`: each input against the outputs of its batch. Outputs that
/// are the right one too, as `same` numbers tell, are not held against it.
pub fn contrastive(
    inputs: &[Vec<f32>],
    outputs: &[Vec<f32>],
    same: &[usize],
    weights: &[f32],
    temperature: f64,
) -> BatchLoss {
    let (read, given) = (Direction::all(inputs), Direction::all(outputs));
    let (mut of_read, mut of_given) = (zeros(&read), zeros(&given));
    let (mut sum, mut count) = (0.0, 0.0);
    for (i, input) in read.iter().enumerate() {
        let weight = f64::from(weights[i]);
        let others = || (0..given.len()).filter(|&j| j == i || same[j] != same[i]);
        let logits: Vec<f64> = others().map(|j| input.cos(&given[j]) / temperature).collect();
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<f64> = logits.iter().map(|logit| exp(logit - most)).collect();
        let total: f64 = powers.iter().sum();
        count += weight;
        for ((j, logit), power) in others().zip(&logits).zip(&powers) {
            let mut grad = weight * power / total;
            if j == i {
                sum += weight * (most + total.ln() - logit);
                grad -= weight;
            }
            add(&mut of_read[i], grad / temperature, &given[j]);
            add(&mut of_given[j], grad / temperature, input);
        }
    }
    BatchLoss { sum, count, inputs: pull(&read, of_read), outputs: pull(&given, of_given) }
}

/// `e^x` for `x <= 0`, by halving and Taylor's series: the same bits with every system's library.
fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    let halvings = 12;
    let small = x / f64::from(1 << halvings);
    let series = (1..=12).rev().fold(1.0, |rest, n| 1.0 + small / f64::from(n) * rest);
    (0..halvings).fold(series, |power, _| power * power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{CounterRng, Purpose};

    fn vectors(seed: u64) -> Vec<Vec<f32>> {
        let rng = CounterRng::new(seed, Purpose::Weights);
        (0..6).map(|i| (0..5).map(|j| rng.of(i).normal(j)).collect()).collect()
    }

    const WEIGHTS: [f32; 6] = [1.0, 2.0, 0.5, 1.0, 3.0, 1.0];
    const SAME: [usize; 6] = [0, 1, 0, 2, 3, 4];

    /// Compares gradients with finite differences in 64 bits.
    fn check(loss: impl Fn(&[Vec<f32>]) -> (f64, Vec<Vec<f64>>), vectors: &[Vec<f32>]) {
        let (_, grads) = loss(vectors);
        for i in 0..vectors.len() {
            for j in 0..vectors[i].len() {
                let at = |by: f32| {
                    let mut moved = vectors.to_vec();
                    moved[i][j] += by;
                    (f64::from(moved[i][j]), loss(&moved).0)
                };
                let ((ahead, more), (behind, less)) = (at(1e-3), at(-1e-3));
                let found = (more - less) / (ahead - behind);
                assert!((found - grads[i][j]).abs() < 1e-4, "{i} {j}: {found} {}", grads[i][j]);
            }
        }
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        let (x, u) = (vectors(1), vectors(2));
        check(|x| (similarity(x, &u, &WEIGHTS).sum, similarity(x, &u, &WEIGHTS).inputs), &x);
        let loss = |x: &[Vec<f32>], u: &[Vec<f32>]| contrastive(x, u, &SAME, &WEIGHTS, 0.3);
        check(|x| (loss(x, &u).sum, loss(x, &u).inputs), &x);
        check(|u| (loss(&x, u).sum, loss(&x, u).outputs), &u);
    }

    #[test]
    fn losses_by_hand() {
        let flat = |angle: f32| vec![2.0 * angle.cos(), 2.0 * angle.sin()];
        let x = [flat(0.0), flat(1.0), flat(3.0)];
        let u = [flat(0.5), flat(0.5), flat(1.5)];
        let loss = similarity(&x, &u, &[1.0, 1.0, 2.0]);
        let right = (1_f64.cos() - 1.0).powi(2)
            + 2.0 * (3_f64.cos() - 1_f64.cos()).powi(2)
            + 2.0 * (2_f64.cos() - 1_f64.cos()).powi(2);
        assert!((loss.sum - right).abs() < 1e-6 && loss.count == 5.0, "{}", loss.sum);
        // The first two outputs are one: neither is held against the other.
        let loss = contrastive(&x, &u, &[0, 0, 1], &[1.0; 3], 0.5);
        let p = |right: f64, wrong: &[f64]| {
            let all: f64 = wrong.iter().map(|it| (it / 0.5).exp()).sum();
            ((right / 0.5).exp() + all).ln() - right / 0.5
        };
        let right = p(0.5_f64.cos(), &[1.5_f64.cos()])
            + p(0.5_f64.cos(), &[0.5_f64.cos()])
            + p(1.5_f64.cos(), &[2.5_f64.cos(), 2.5_f64.cos()]);
        assert!((loss.sum - right).abs() < 1e-6 && loss.count == 3.0, "{} {right}", loss.sum);
    }

    #[test]
    fn the_exponential_is_near() {
        for i in 0..70_000 {
            let x = -f64::from(i) / 100.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-11, "{x}");
        }
    }

    #[test]
    fn a_pair_alone_has_no_other() {
        let one = [vec![1.0, 2.0]];
        assert_eq!(similarity(&one, &one, &[1.0]).count, 0.0);
        let loss = contrastive(&one, &[vec![0.5, -1.0]], &[0], &[1.0], 0.05);
        assert_eq!((loss.sum, loss.count), (0.0, 1.0));
    }
}
