//! AdamW: decay apart from the gradient, gradients shortened all together.

use crate::graph::math::squares;
use crate::model::weights::{Parameter, Weights};
use proofmill_settings::fit::Training;

/// What the optimiser remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    pub first: Weights,
    pub second: Weights,
}

impl Moments {
    /// Before the first step.
    pub fn new(weights: &Weights) -> Self {
        let zeros = || weights.iter().map(|values| vec![0.0; values.len()]).collect();
        Self { first: zeros(), second: zeros() }
    }
}

/// The length of a gradient over all parameters.
pub fn length(gradient: &Weights) -> f64 {
    gradient.iter().map(|values| squares(values)).sum::<f64>().sqrt()
}

/// Changes the weights against a gradient of this length; `step` counts from 1.
pub fn step(
    settings: &Training,
    parameters: &[Parameter],
    weights: &mut Weights,
    moments: &mut Moments,
    gradient: &Weights,
    length: f64,
    (step, rate): (u32, f64),
) {
    let shorten = match settings.clip {
        Some(clip) if length > clip => (clip / length) as f32,
        _ => 1.0,
    };
    let (beta1, beta2) = (settings.beta1 as f32, settings.beta2 as f32);
    let (rest1, rest2) = ((1.0 - settings.beta1) as f32, (1.0 - settings.beta2) as f32);
    let size = (rate / (1.0 - power(settings.beta1, step))) as f32;
    let grown = (1.0 / (1.0 - power(settings.beta2, step))).sqrt() as f32;
    let eps = settings.epsilon as f32;
    let tensors = weights.iter_mut().zip(&mut moments.first).zip(&mut moments.second);
    for (((weights, first), second), (gradient, parameter)) in
        tensors.zip(gradient.iter().zip(parameters))
    {
        let keep =
            if parameter.decays() { (1.0 - rate * settings.weight_decay) as f32 } else { 1.0 };
        let numbers = weights.iter_mut().zip(first).zip(second).zip(gradient);
        for (((weight, first), second), grad) in numbers {
            let grad = grad * shorten;
            *first = beta1 * *first + rest1 * grad;
            *second = beta2 * *second + rest2 * grad * grad;
            *weight = keep * *weight - size * *first / (second.sqrt() * grown + eps);
        }
    }
}

/// `base^exponent` by squaring: the same bits everywhere.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::weights::Kind;

    #[test]
    fn two_steps_by_hand() {
        let settings = Training {
            beta1: 0.5,
            beta2: 0.75,
            weight_decay: 0.1,
            clip: Some(2.5),
            epsilon: 1e-8,
            ..Training::default()
        };
        let matrix = Parameter::for_tests(Kind::Matrix { inputs: 1, outputs: 1 });
        let norm = Parameter::for_tests(Kind::Norm { width: 1 });
        let parameters = [matrix, norm];
        let mut weights = vec![vec![1.0], vec![1.0]];
        let mut moments = Moments::new(&weights);
        let gradient = vec![vec![3.0], vec![-4.0]];
        let length = length(&gradient);
        assert_eq!(length, 5.0);
        step(&settings, &parameters, &mut weights, &mut moments, &gradient, length, (1, 0.1));
        // The first step has length `rate` in each number; only the matrix decays.
        assert!((weights[0][0] - (0.99 - 0.1)).abs() < 1e-6);
        assert!((weights[1][0] - 1.1).abs() < 1e-6);
        assert_eq!(moments.first, [[0.75], [-1.0]]);
        assert_eq!(moments.second, [[0.5625], [1.0]]);
        let zero = vec![vec![0.0], vec![0.0]];
        step(&settings, &parameters, &mut weights, &mut moments, &zero, 0.0, (2, 0.1));
        let first: f64 = -0.5 / 0.75;
        let second: f64 = 0.75 / 0.4375;
        let right = 1.1 - 0.1 * first / second.sqrt();
        assert!((f64::from(weights[1][0]) - right).abs() < 1e-6);
        assert!((power(0.999, 1000) - 0.999_f64.powi(1000)).abs() < 1e-12);
    }
}
