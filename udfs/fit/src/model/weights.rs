//! The parameters of a network: their shapes, first values, and names in a checkpoint.
//!
//! Matrices lie as `[inputs, outputs]`, those with the same input side by side; a checkpoint has each
//! alone as `[outputs, inputs]`.

use proofmill_engine::checkpoint::{Folder, LoadError};

use crate::model::places::{Linear, NormPlace, Places};
use crate::rng::{CounterRng, Purpose};

/// The numbers of all parameters, in the order of a [`Plan`].
pub type Weights = Vec<Vec<f32>>;

/// A tensor of a checkpoint: name, sizes and numbers.
pub type Stored = (String, Vec<usize>, Vec<f32>);

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Names in a checkpoint of the tensors that lie side by side; of an embedding, all that it may have.
    pub names: Vec<String>,
    pub kind: Kind,
    /// The standard deviations of their first values.
    spreads: Vec<f32>,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `[width]`, of a norm; begins as 1.
    Norm { width: usize },
    /// `[parts * width]`; begins as 0.
    Bias { width: usize },
    /// `[buckets, heads]`.
    Positions { buckets: usize, heads: usize },
    /// `[rows, width]`.
    Embedding { rows: usize, width: usize },
    /// `[inputs, parts * outputs]`.
    Matrix { inputs: usize, outputs: usize },
}

/// All parameters of a network, in a fixed order, and where it finds them.
#[derive(Clone, Debug)]
pub struct Plan {
    pub parameters: Vec<Parameter>,
    pub places: Places,
    /// Tokens that it knows.
    pub vocabulary: usize,
}

impl Parameter {
    /// Its sizes.
    pub fn dims(&self) -> Vec<usize> {
        match self.kind {
            Kind::Norm { width } => vec![width],
            Kind::Bias { width } => vec![self.names.len() * width],
            Kind::Positions { buckets, heads } => vec![buckets, heads],
            Kind::Embedding { rows, width } => vec![rows, width],
            Kind::Matrix { inputs, outputs } => vec![inputs, self.names.len() * outputs],
        }
    }

    /// How many numbers it has.
    pub fn count(&self) -> usize {
        self.dims().iter().product()
    }

    /// Numbers of a row.
    pub fn width(&self) -> usize {
        self.dims().last().copied().unwrap_or(0)
    }

    /// Whether a part of it is taken away at each step.
    pub fn decays(&self) -> bool {
        match self.kind {
            Kind::Norm { .. } | Kind::Bias { .. } | Kind::Positions { .. } => false,
            Kind::Embedding { .. } | Kind::Matrix { .. } => true,
        }
    }

    fn first(&self, rng: CounterRng) -> Vec<f32> {
        match self.kind {
            Kind::Norm { width } => vec![1.0; width],
            Kind::Bias { .. } => vec![0.0; self.count()],
            Kind::Positions { .. } | Kind::Embedding { .. } => self.draw(rng, |_| self.spreads[0]),
            Kind::Matrix { outputs, .. } => {
                let across = self.names.len() * outputs;
                self.draw(rng, |index| self.spreads[index % across / outputs])
            }
        }
    }

    fn draw(&self, rng: CounterRng, spread: impl Fn(usize) -> f32) -> Vec<f32> {
        (0..self.count()).map(|index| rng.normal(index as u64) * spread(index)).collect()
    }

    /// The values of a checkpoint, where its tensors have these names.
    fn read(&self, folder: &Folder, names: &[String]) -> Result<Vec<f32>, LoadError> {
        match self.kind {
            Kind::Norm { .. } | Kind::Positions { .. } | Kind::Embedding { .. } => {
                let name = |name: &&String| folder.has(name);
                let found = names.iter().find(name).unwrap_or(&names[0]);
                Ok(folder.tensor(found, &self.dims())?.values())
            }
            Kind::Bias { width } => {
                let mut values = Vec::with_capacity(self.count());
                for name in names {
                    values.extend(folder.tensor(name, &[width])?.values());
                }
                Ok(values)
            }
            Kind::Matrix { inputs, outputs } => {
                let mut values = vec![0.0; self.count()];
                let across = names.len() * outputs;
                for (part, name) in names.iter().enumerate() {
                    let tensor = folder.tensor(name, &[outputs, inputs])?.values();
                    for (output, row) in tensor.chunks_exact(inputs).enumerate() {
                        for (input, value) in row.iter().enumerate() {
                            values[input * across + part * outputs + output] = *value;
                        }
                    }
                }
                Ok(values)
            }
        }
    }

    /// The tensors of a checkpoint.
    pub fn tensors(&self, values: &[f32]) -> Vec<Stored> {
        match self.kind {
            Kind::Norm { .. } | Kind::Positions { .. } | Kind::Embedding { .. } => {
                vec![(self.names[0].clone(), self.dims(), values.to_vec())]
            }
            Kind::Bias { width } => {
                let parts = self.names.iter().zip(values.chunks_exact(width));
                parts.map(|(name, part)| (name.clone(), vec![width], part.to_vec())).collect()
            }
            Kind::Matrix { inputs, outputs } => {
                let across = self.names.len() * outputs;
                let part = |(part, name): (usize, &String)| {
                    let mut tensor = Vec::with_capacity(inputs * outputs);
                    for output in 0..outputs {
                        let column = part * outputs + output;
                        tensor.extend((0..inputs).map(|input| values[input * across + column]));
                    }
                    (name.clone(), vec![outputs, inputs], tensor)
                };
                self.names.iter().enumerate().map(part).collect()
            }
        }
    }
}

impl Plan {
    /// First values: those of transformers in spread, by our own numbers.
    pub fn first(&self, seed: u64) -> Weights {
        let rng = CounterRng::new(seed, Purpose::Weights);
        let parameters = self.parameters.iter().enumerate();
        parameters.map(|(number, it)| it.first(rng.of(number as u64))).collect()
    }

    /// The values of a checkpoint for each parameter whose names `source` gives another name there; first values for
    /// the others.
    pub fn read(
        &self,
        folder: &Folder,
        seed: u64,
        source: impl Fn(&str) -> Option<String>,
    ) -> Result<Weights, LoadError> {
        let rng = CounterRng::new(seed, Purpose::Weights);
        let one = |(number, it): (usize, &Parameter)| {
            let names: Option<Vec<String>> = it.names.iter().map(|name| source(name)).collect();
            match names {
                Some(names) => it.read(folder, &names),
                None => Ok(it.first(rng.of(number as u64))),
            }
        };
        self.parameters.iter().enumerate().map(one).collect()
    }
}

/// A plan in the making.
#[derive(Default)]
pub struct Draft {
    pub parameters: Vec<Parameter>,
}

impl Draft {
    /// Appends a parameter; its place.
    pub fn add(&mut self, names: Vec<String>, kind: Kind, spreads: Vec<f32>) -> usize {
        self.parameters.push(Parameter { names, kind, spreads });
        self.parameters.len() - 1
    }

    /// Appends matrices with biases, side by side, whose names begin with `at`.
    pub fn linear(
        &mut self,
        at: &str,
        names: &[&str],
        (inputs, outputs): (usize, usize),
        spread: f32,
    ) -> Linear {
        let all = |end: &str| names.iter().map(|name| format!("{at}{name}.{end}")).collect();
        let spreads = vec![spread; names.len()];
        let matrix = self.add(all("weight"), Kind::Matrix { inputs, outputs }, spreads);
        let bias = self.add(all("bias"), Kind::Bias { width: outputs }, Vec::new());
        Linear { matrix, bias: Some(bias) }
    }

    /// Appends a norm by mean and variance.
    pub fn layer_norm(&mut self, at: &str, width: usize, eps: f32) -> NormPlace {
        let weight = self.add(vec![format!("{at}.weight")], Kind::Norm { width }, Vec::new());
        let bias = self.add(vec![format!("{at}.bias")], Kind::Bias { width }, Vec::new());
        NormPlace { weight, bias: Some(bias), eps }
    }
}

#[cfg(test)]
impl Parameter {
    /// A parameter without names.
    pub fn for_tests(kind: Kind) -> Self {
        Self { names: vec![String::new()], kind, spreads: vec![1.0] }
    }
}
