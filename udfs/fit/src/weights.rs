//! The parameters of a network: their shapes, first values, and places in a checkpoint.
//!
//! Matrices lie as `[inputs, outputs]`, those with the same input side by side; a checkpoint has each
//! alone as `[outputs, inputs]`.

use proofmill_engine::checkpoint::{Folder, LoadError};

use crate::rng::{CounterRng, Purpose};
use crate::shape::Shape;

/// The numbers of all parameters, in the order of a [`Plan`].
pub type Weights = Vec<Vec<f32>>;

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Names in a checkpoint of the tensors that lie side by side.
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
    /// `[buckets, heads]`.
    Positions { buckets: usize, heads: usize },
    /// `[rows, width]`.
    Embedding { rows: usize, width: usize },
    /// `[inputs, parts * outputs]`.
    Matrix { inputs: usize, outputs: usize },
}

/// Where a network finds its parameters.
#[derive(Clone, Debug)]
pub struct Places {
    /// How many parameters there are.
    pub parameters: usize,
    pub embedding: usize,
    pub head: Option<usize>,
    pub encoder: Stack,
    pub decoder: Stack,
}

#[derive(Clone, Debug)]
pub struct Stack {
    pub positions: usize,
    pub blocks: Vec<Block>,
    pub norm: usize,
}

#[derive(Clone, Debug)]
pub struct Block {
    pub attention: Attention,
    pub cross: Option<Cross>,
    pub mlp: Mlp,
}

#[derive(Clone, Debug)]
pub struct Attention {
    pub norm: usize,
    pub qkv: usize,
    pub out: usize,
}

#[derive(Clone, Debug)]
pub struct Cross {
    pub norm: usize,
    pub q: usize,
    pub kv: usize,
    pub out: usize,
}

#[derive(Clone, Debug)]
pub struct Mlp {
    pub norm: usize,
    pub up: usize,
    pub down: usize,
}

/// All parameters of a shape, in a fixed order, and where the network finds them.
#[derive(Clone, Debug)]
pub struct Plan {
    pub shape: Shape,
    pub parameters: Vec<Parameter>,
    pub places: Places,
}

impl Parameter {
    /// Its sizes.
    pub fn dims(&self) -> Vec<usize> {
        match self.kind {
            Kind::Norm { width } => vec![width],
            Kind::Positions { buckets, heads } => vec![buckets, heads],
            Kind::Embedding { rows, width } => vec![rows, width],
            Kind::Matrix { inputs, outputs } => vec![inputs, self.names.len() * outputs],
        }
    }

    /// How many numbers it has.
    pub fn count(&self) -> usize {
        self.dims().iter().product()
    }

    /// Whether a part of it is taken away at each step.
    pub fn decays(&self) -> bool {
        match self.kind {
            Kind::Norm { .. } | Kind::Positions { .. } => false,
            Kind::Embedding { .. } | Kind::Matrix { .. } => true,
        }
    }

    fn first(&self, rng: CounterRng) -> Vec<f32> {
        match self.kind {
            Kind::Norm { width } => vec![1.0; width],
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

    fn read(&self, folder: &Folder) -> Result<Vec<f32>, LoadError> {
        let Kind::Matrix { inputs, outputs } = self.kind else {
            let name = |name: &&String| folder.has(name);
            let found = self.names.iter().find(name).unwrap_or(&self.names[0]);
            return Ok(folder.tensor(found, &self.dims())?.values());
        };
        let mut values = vec![0.0; self.count()];
        let across = self.names.len() * outputs;
        for (part, name) in self.names.iter().enumerate() {
            let tensor = folder.tensor(name, &[outputs, inputs])?.values();
            for (output, row) in tensor.chunks_exact(inputs).enumerate() {
                for (input, value) in row.iter().enumerate() {
                    values[input * across + part * outputs + output] = *value;
                }
            }
        }
        Ok(values)
    }

    /// The tensors of a checkpoint: name, sizes and numbers.
    pub fn tensors(&self, values: &[f32]) -> Vec<(String, Vec<usize>, Vec<f32>)> {
        let Kind::Matrix { inputs, outputs } = self.kind else {
            return vec![(self.names[0].clone(), self.dims(), values.to_vec())];
        };
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

impl Plan {
    /// The parameters of a shape.
    pub fn new(shape: Shape) -> Self {
        let mut draft = Draft { shape, parameters: Vec::new() };
        let rows = Kind::Embedding { rows: shape.vocabulary, width: shape.width };
        // Files made by other tools than transformers keep only one of the shared names.
        let shared =
            ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
        let embedding = draft.add(shared.map(str::to_owned).to_vec(), rows, vec![1.0]);
        let own = shape.own_head;
        let head = own.then(|| draft.add(vec!["lm_head.weight".to_owned()], rows, vec![1.0]));
        let encoder = draft.stack("encoder", shape.layers);
        let decoder = draft.stack("decoder", shape.decoder_layers);
        let parameters = draft.parameters.len();
        let places = Places { parameters, embedding, head, encoder, decoder };
        Self { shape, parameters: draft.parameters, places }
    }

    /// First values: those of transformers in spread, by our own numbers.
    pub fn first(&self, seed: u64) -> Weights {
        let rng = CounterRng::new(seed, Purpose::Weights);
        let parameters = self.parameters.iter().enumerate();
        parameters.map(|(number, it)| it.first(rng.of(number as u64))).collect()
    }

    /// The values of a checkpoint.
    pub fn read(&self, folder: &Folder) -> Result<Weights, LoadError> {
        self.parameters.iter().map(|parameter| parameter.read(folder)).collect()
    }
}

/// A plan in the making.
struct Draft {
    shape: Shape,
    parameters: Vec<Parameter>,
}

impl Draft {
    fn add(&mut self, names: Vec<String>, kind: Kind, spreads: Vec<f32>) -> usize {
        self.parameters.push(Parameter { names, kind, spreads });
        self.parameters.len() - 1
    }

    fn norm(&mut self, at: &str) -> usize {
        let kind = Kind::Norm { width: self.shape.width };
        self.add(vec![format!("{at}.weight")], kind, Vec::new())
    }

    /// Matrices side by side, whose results begin about as large as what they are given. Queries
    /// begin smaller by the root of their width, as nothing scales their products with keys.
    fn matrix(&mut self, at: &str, names: &[&str], inputs: usize, outputs: usize) -> usize {
        let spread = |name: &&str| match *name {
            "q" => ((inputs * self.shape.heads.width) as f32).sqrt().recip(),
            _ => (inputs as f32).sqrt().recip(),
        };
        let spreads = names.iter().map(spread).collect();
        let names = names.iter().map(|name| format!("{at}.{name}.weight")).collect();
        self.add(names, Kind::Matrix { inputs, outputs }, spreads)
    }

    fn stack(&mut self, name: &str, layers: usize) -> Stack {
        let shape = self.shape;
        let decoder = name == "decoder";
        let at = format!("{name}.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
        let kind = Kind::Positions { buckets: shape.buckets, heads: shape.heads.count };
        let positions = self.add(vec![at], kind, vec![(shape.width as f32).sqrt().recip()]);
        let blocks = (0..layers).map(|layer| self.block(name, layer, decoder)).collect();
        let norm = self.norm(&format!("{name}.final_layer_norm"));
        Stack { positions, blocks, norm }
    }

    fn block(&mut self, name: &str, layer: usize, decoder: bool) -> Block {
        let (width, inner, mlp_width) =
            (self.shape.width, self.shape.inner(), self.shape.mlp_width);
        let part = |number: usize| format!("{name}.block.{layer}.layer.{number}");
        let norm = |number: usize| format!("{}.layer_norm", part(number));
        let own = format!("{}.SelfAttention", part(0));
        let attention = Attention {
            norm: self.norm(&norm(0)),
            qkv: self.matrix(&own, &["q", "k", "v"], width, inner),
            out: self.matrix(&own, &["o"], inner, width),
        };
        let other = format!("{}.EncDecAttention", part(1));
        let cross = decoder.then(|| Cross {
            norm: self.norm(&norm(1)),
            q: self.matrix(&other, &["q"], width, inner),
            kv: self.matrix(&other, &["k", "v"], width, inner),
            out: self.matrix(&other, &["o"], inner, width),
        });
        let last = if decoder { 2 } else { 1 };
        let dense = format!("{}.DenseReluDense", part(last));
        let up: &[&str] = match self.shape.activation.projections() {
            1 => &["wi"],
            _ => &["wi_0", "wi_1"],
        };
        let mlp = Mlp {
            norm: self.norm(&norm(last)),
            up: self.matrix(&dense, up, width, mlp_width),
            down: self.matrix(&dense, &["wo"], mlp_width, width),
        };
        Block { attention, cross, mlp }
    }
}

#[cfg(test)]
impl Parameter {
    /// A parameter without names.
    pub fn for_tests(kind: Kind) -> Self {
        Self { names: vec![String::new()], kind, spreads: vec![1.0] }
    }
}
