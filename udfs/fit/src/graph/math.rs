//! Sums in a fixed order and an exponential of our own: compilers can make both into vector
//! instructions without changing a bit, and no last bit depends on the system's library.

/// Numbers that are summed side by side.
const LANES: usize = 8;

/// Added to a number below 2^22 it leaves the nearest integer in the low bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts, the first with few bits.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Beyond these the result is 0 or infinite to 32 bits, near enough.
const LEAST: f32 = -87.0;
const MOST: f32 = 88.0;

/// `e^x` to about 2 ulp; not a number for what is none.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > MOST { MOST } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    // Taylor's series; |r| is at most ln 2 / 2, so that the rest is below 6e-9.
    let p = 1.0 / 5040.0;
    let p = p * r + 1.0 / 720.0;
    let p = p * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    let power = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    p * f32::from_bits(power)
}

/// `tanh x`.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    1.0 - 2.0 / (1.0 + exp(2.0 * x))
}

/// `e^(t^2) erfc(t) / u` in `u = 1 / (1 + 0.4 t)` for `t >= 0`: interpolated at Chebyshev's points, error 9e-9.
const ERFC: [f32; 11] = [
    0.225_675_84,
    0.225_675_87,
    0.207_615_67,
    0.171_700_4,
    0.119_323_07,
    0.082_566_7,
    -0.043_509_904,
    0.132_427_69,
    -0.230_893_39,
    0.138_155_36,
    -0.028_737_292,
];

/// Of the normal distribution: the part below `x`, and the density at it.
#[inline(always)]
pub fn normal(x: f32) -> (f32, f32) {
    const ROOT_OF_2_PI: f32 = 2.506_628_3;
    let size = if x < 0.0 { -x } else { x };
    let u = 1.0 / (1.0 + 0.4 * std::f32::consts::FRAC_1_SQRT_2 * size);
    let power = exp(-0.5 * x * x);
    let mut series = 0.0;
    for coefficient in ERFC.iter().rev() {
        series = series * u + coefficient;
    }
    let tail = 0.5 * u * series * power;
    (if x < 0.0 { tail } else { 1.0 - tail }, power / ROOT_OF_2_PI)
}

#[inline(always)]
fn fold(lanes: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

#[inline]
pub fn sum(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    rest.iter().fold(fold(lanes), |sum, value| sum + value)
}

/// The sum of products.
#[inline]
pub fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (lefts, left_rest) = left.as_chunks::<LANES>();
    let (rights, right_rest) = right.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (left, right) in lefts.iter().zip(rights) {
        for ((lane, left), right) in lanes.iter_mut().zip(left).zip(right) {
            *lane += left * right;
        }
    }
    left_rest.iter().zip(right_rest).fold(fold(lanes), |sum, (left, right)| sum + left * right)
}

/// The sum of squares in 64 bits.
pub fn squares(values: &[f32]) -> f64 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0_f64; LANES];
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(*value) * f64::from(*value);
        }
    }
    let whole: f64 = lanes.iter().sum();
    rest.iter().fold(whole, |sum, value| sum + f64::from(*value) * f64::from(*value))
}

/// The greatest; what is no number counts only if it is all there is.
#[inline]
pub fn greatest(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = if value > *lane { value } else { *lane };
        }
    }
    lanes
        .iter()
        .chain(rest)
        .fold(f32::NEG_INFINITY, |most, &value| if value > most { value } else { most })
}

/// Makes numbers into probabilities.
#[inline]
pub fn softmax(values: &mut [f32]) {
    let most = greatest(values);
    for value in values.iter_mut() {
        *value = exp(*value - most);
    }
    let scale = 1.0 / sum(values);
    for value in values.iter_mut() {
        *value *= scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_near_and_keeps_what_is_no_number() {
        let mut worst = 0.0_f64;
        for i in -870_000..880_000 {
            let x = i as f32 * 1e-4;
            let right = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) / right - 1.0).abs());
        }
        assert!(worst < 3e-7, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan() && exp(f32::NEG_INFINITY) < 1e-37);
        for x in [-9.0_f32, -1.0, -0.1, 0.0, 0.3, 2.0, 50.0] {
            assert!((tanh(x) - x.tanh()).abs() < 3e-7, "{x}");
        }
    }

    #[test]
    fn the_normal_distribution_is_near() {
        // Of tables.
        let known = [
            (0.0, 0.5),
            (0.5, 0.691_462_461),
            (1.0, 0.841_344_746),
            (2.0, 0.977_249_868),
            (-1.0, 0.158_655_254),
            (-3.0, 0.001_349_898),
            (-5.0, 2.866_515_7e-7),
        ];
        for (x, right) in known {
            let (below, density) = normal(x);
            assert!((f64::from(below) / right - 1.0).abs() < 1e-6, "{x}: {below}");
            let right = (-0.5 * f64::from(x).powi(2)).exp() / (2.0 * std::f64::consts::PI).sqrt();
            assert!((f64::from(density) / right - 1.0).abs() < 1e-6, "{x}: {density}");
        }
        // It falls and rises as its density says.
        for i in -500..500 {
            let x = i as f32 / 100.0;
            let slope = (normal(x + 0.01).0 - normal(x - 0.01).0) / 0.02;
            assert!((slope - normal(x).1).abs() < 2e-5, "{x}");
        }
    }

    #[test]
    fn sums_are_sums() {
        let values: Vec<f32> = (0..21).map(|i| i as f32).collect();
        assert_eq!(sum(&values), 210.0);
        assert_eq!(dot(&values, &values), 2870.0);
        assert_eq!(squares(&values), 2870.0);
        assert_eq!(greatest(&values), 20.0);
        let mut values = values;
        softmax(&mut values);
        assert!((sum(&values) - 1.0).abs() < 1e-6);
    }
}
