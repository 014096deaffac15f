//! The learning rate of each step.

use proofmill_settings::fit::{Decay, Training};

/// The rate of a step, from 0.
pub fn rate(settings: &Training, step: u32) -> f64 {
    let (top, warmup) = (settings.learning_rate, settings.warmup);
    if step < warmup {
        return top * f64::from(step + 1) / f64::from(warmup);
    }
    let part = f64::from(step - warmup) / f64::from(settings.steps - warmup);
    match settings.decay {
        Decay::Constant => top,
        Decay::Linear => top * (1.0 - part),
        Decay::Cosine => top * 0.5 * (1.0 + cos_half_turn(part)),
    }
}

/// `cos(π part)` for `part` from 0 to 1, by Taylor's series about a quarter turn: the same bits with
/// every system's library.
fn cos_half_turn(part: f64) -> f64 {
    let x = std::f64::consts::PI * (0.5 - part);
    let square = x * x;
    let series = |rest: f64, n: i32| 1.0 - rest * square / f64::from((n - 1) * n);
    x * [23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3].into_iter().fold(1.0, series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Checked;

    #[test]
    fn rates_rise_and_fall() {
        let rates = |decay| {
            let base = Training::default();
            let settings = Training { steps: 10, warmup: 2, learning_rate: 1.0, decay, ..base };
            settings.check().unwrap();
            (0..10).map(|step| rate(&settings, step)).collect::<Vec<_>>()
        };
        let linear = [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125];
        assert_eq!(rates(Decay::Linear), linear);
        assert_eq!(rates(Decay::Constant)[1..], [1.0; 9]);
        for (step, rate) in rates(Decay::Cosine).into_iter().enumerate().skip(2) {
            let part = (step - 2) as f64 / 8.0;
            let right = 0.5 * (1.0 + (std::f64::consts::PI * part).cos());
            assert!((rate - right).abs() < 1e-14, "{rate} {right}");
        }
    }

    #[test]
    fn warming_up_to_the_end_divides_nothing_by_nothing() {
        let settings = Training { steps: 4, warmup: 4, ..Training::default() };
        assert_eq!(rate(&settings, 3), settings.learning_rate);
    }
}
