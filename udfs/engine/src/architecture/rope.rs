//! Tables of rotary positions, computed as transformers computes them: in 32-bit floats, each step
//! rounded.

use std::f32::consts::TAU;

use crate::backend::{LoadWeights, Rope};
use crate::checkpoint::{Config, LoadError};

/// How angles depend on positions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Angles {
    theta: f64,
    scaling: Scaling,
}

#[derive(Clone, Debug, PartialEq)]
enum Scaling {
    Default,
    /// Positions are divided by a factor.
    Linear {
        factor: f32,
    },
    /// Llama 3: slow rotations are divided, fast ones kept, those between interpolated.
    Llama3 {
        factor: f32,
        low: f32,
        high: f32,
        trained: f32,
    },
}

impl Angles {
    /// Reads `rope_parameters` (transformers 5), or `rope_theta` and `rope_scaling` (before).
    pub fn read(config: &Config, max_positions: usize) -> Result<Self, LoadError> {
        let parameters = config.section("rope_parameters")?;
        let theta = match &parameters {
            Some(parameters) if parameters.has("rope_theta") => {
                parameters.positive("rope_theta")?
            }
            _ => config.positive_or("rope_theta", 10_000.0)?,
        };
        let settings = match parameters {
            Some(parameters) => Some(parameters),
            None => config.section("rope_scaling")?,
        };
        for file in settings.iter().chain([config]) {
            if file.positive_or("partial_rotary_factor", 1.0)? != 1.0 {
                return Err(file.refuse("partial_rotary_factor", "1"));
            }
        }
        let Some(settings) = settings else { return Ok(Self { theta, scaling: Scaling::Default }) };
        let key = if settings.has("rope_type") { "rope_type" } else { "type" };
        let number = |key: &str| settings.positive(key).map(|number| number as f32);
        let scaling = match settings.text(key)?.unwrap_or("default") {
            "default" => Scaling::Default,
            "linear" => Scaling::Linear { factor: number("factor")? },
            "llama3" => Scaling::Llama3 {
                factor: number("factor")?,
                low: number("low_freq_factor")?,
                high: number("high_freq_factor")?,
                trained: settings.size_or("original_max_position_embeddings", max_positions)?
                    as f32,
            },
            _ => return Err(settings.refuse(key, "one of default, linear and llama3")),
        };
        Ok(Self { theta, scaling })
    }

    /// Cosines and sines, `[positions, head_dim / 2]` each.
    fn tables(&self, positions: usize, head_dim: usize) -> (Vec<f32>, Vec<f32>) {
        let speeds = self.speeds(head_dim);
        (0..positions)
            .flat_map(|position| speeds.iter().map(move |speed| position as f32 * speed))
            // The sine of the rounded angle, itself rounded once.
            .map(|angle| (f64::from(angle).cos() as f32, f64::from(angle).sin() as f32))
            .unzip()
    }

    /// The angle between neighbouring positions, for each pair of numbers.
    fn speeds(&self, head_dim: usize) -> Vec<f32> {
        let base = |i: usize| {
            let exponent = (2 * i) as f32 / head_dim as f32;
            1.0 / self.theta.powf(f64::from(exponent)) as f32
        };
        (0..head_dim / 2)
            .map(|i| {
                let speed = base(i);
                match self.scaling {
                    Scaling::Default => speed,
                    Scaling::Linear { factor } => speed / factor,
                    Scaling::Llama3 { factor, low, high, trained } => {
                        let wavelength = TAU / speed;
                        if wavelength < trained / high {
                            speed
                        } else if wavelength > trained / low {
                            speed / factor
                        } else {
                            let smooth = (trained / wavelength - low) / (high - low);
                            (1.0 - smooth) * speed / factor + smooth * speed
                        }
                    }
                }
            })
            .collect()
    }

    /// Tables on a backend.
    pub fn load<B: LoadWeights>(
        &self,
        backend: &B,
        positions: usize,
        head_dim: usize,
    ) -> Result<Rope<B>, LoadError> {
        let (cos, sin) = self.tables(positions, head_dim);
        Ok(Rope { cos: backend.vector(&cos)?, sin: backend.vector(&sin)?, positions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Speeds that transformers 5.17 computes for heads of 16, theta 500000, trained on 64 tokens.
    #[test]
    fn llama3_speeds_are_those_of_transformers() {
        let scaling = Scaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, trained: 64.0 };
        let speeds = Angles { theta: 500_000.0, scaling }.speeds(16);
        assert_eq!(speeds, SPEEDS);
    }

    const SPEEDS: [f32; 8] = [
        1.0,
        0.07940301,
        0.004700754,
        0.00091158313,
        0.00017677668,
        3.4281024e-5,
        6.6478697e-6,
        1.2891732e-6,
    ];
}
