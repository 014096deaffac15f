//! An axis: from where to where, and which round numbers stand at it.

/// Steps between ticks, times a power of ten.
const STEPS: [f64; 4] = [1.0, 2.0, 2.5, 5.0];
/// Rounding that is not taken for a difference, in steps.
const SLACK: f64 = 1e-9;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
    /// At least two, rising evenly.
    pub ticks: Vec<f64>,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain(usize),
    /// In powers of ten, with so many decimals before.
    Powers(usize),
}

impl Scale {
    /// The narrowest axis with at most `most` ticks (at least three) that covers all values, which
    /// are at most 1e300 in size.
    pub fn covering(values: impl Iterator<Item = f64>, most: usize) -> Self {
        let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        let (low, high) = widened(ends.unwrap_or((0.0, 1.0)));
        let most = most.max(3);
        let mut power = ((high - low) / most as f64).log10().floor() as i32;
        loop {
            for mantissa in STEPS {
                let step = mantissa * 10f64.powi(power);
                let first = (low / step + SLACK).floor();
                let last = (high / step - SLACK).ceil();
                let count = (last - first).round() as usize + 1;
                if count <= most {
                    let ticks = (0..count).map(|i| (first + i as f64) * step).collect();
                    // 2.5 has one decimal more than 2.
                    let power = if mantissa == 2.5 { power - 1 } else { power };
                    return Self::of(ticks, power);
                }
            }
            power += 1;
        }
    }

    fn of(ticks: Vec<f64>, power: i32) -> Self {
        let low = ticks.first().copied().unwrap_or(0.0);
        let high = ticks.last().copied().unwrap_or(1.0);
        let size = low.abs().max(high.abs());
        let form = if size >= 1e7 || power < -6 {
            let digits = size.log10().floor() as i32 - power;
            Form::Powers(digits.max(0) as usize)
        } else {
            Form::Plain((-power).max(0) as usize)
        };
        Self { low, high, ticks, form }
    }

    /// Where `value` stands, from 0 at the first tick to 1 at the last.
    pub fn fraction(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The tick as text.
    pub fn label(&self, tick: f64) -> String {
        match self.form {
            // The sign of a zero says nothing.
            Form::Plain(digits) => format!("{:.digits$}", if tick == 0.0 { 0.0 } else { tick }),
            Form::Powers(_) if tick == 0.0 => "0".to_owned(),
            Form::Powers(digits) => format!("{tick:.digits$e}"),
        }
    }
}

/// Ends that are far enough apart for round numbers between them.
fn widened((low, high): (f64, f64)) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if high - low > size * 1e-9 && high - low > 1e-290 {
        (low, high)
    } else if size > 1e-290 {
        (low - size * 0.1, high + size * 0.1)
    } else {
        (low - 1.0, high + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn labels(values: &[f64], most: usize) -> Vec<String> {
        let scale = Scale::covering(values.iter().copied(), most);
        scale.ticks.iter().map(|tick| scale.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(&[0.0, 100.0], 6), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&[0.0, 100.0], 5), ["0", "25", "50", "75", "100"]);
        assert_eq!(labels(&[0.3, 0.91], 6), ["0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&[-3.0, 4.0], 6), ["-4", "-2", "0", "2", "4"]);
        assert_eq!(labels(&[0.99995, 0.99999], 4), ["0.99994", "0.99996", "0.99998", "1.00000"]);
        assert_eq!(labels(&[0.0, 3e9], 4), ["0", "1e9", "2e9", "3e9"]);
        assert_eq!(labels(&[0.5], 5), ["0.450", "0.475", "0.500", "0.525", "0.550"]);
        assert_eq!(labels(&[0.0], 5), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(labels(&[], 3), ["0.0", "0.5", "1.0"]);
    }

    fn numbers() -> impl Strategy<Value = f64> {
        prop_oneof![
            -1.0f64..1.0,
            -1e9f64..1e9,
            -1e300f64..1e300,
            (-290i32..300).prop_map(|power| 10f64.powi(power)),
            Just(0.0),
            Just(f64::MIN_POSITIVE),
        ]
    }

    proptest! {
        #[test]
        fn any_values_have_an_axis(
            values in prop::collection::vec(numbers(), 0..6),
            most in 3usize..12,
        ) {
            let scale = Scale::covering(values.iter().copied(), most);
            prop_assert!((2..=most).contains(&scale.ticks.len()), "{scale:?}");
            prop_assert!(scale.ticks.windows(2).all(|pair| pair[0] < pair[1]), "{scale:?}");
            let labels: BTreeSet<_> = scale.ticks.iter().map(|t| scale.label(*t)).collect();
            prop_assert_eq!(labels.len(), scale.ticks.len(), "{:?}", scale);
            let slack = (scale.high - scale.low) * 1e-6;
            for value in values {
                prop_assert!(value >= scale.low - slack && value <= scale.high + slack, "{scale:?}");
                prop_assert!((0.0..=1.0).contains(&scale.fraction(value)));
            }
        }
    }
}
