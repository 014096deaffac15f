//! A processor with little memory: it gives up where it is asked for too much, now and then.

use std::cell::Cell;
use std::sync::Mutex;

use proofmill_engine::backend::{
    Activation, Append, Attend, Backend, CacheShape, DeviceError, Embedding, Input, Layout, Linear,
    MatrixSource, Norm, Picked, Picks, Pool, Precision, RelativeBias, Rope, Write,
};
use proofmill_engine::checkpoint::Stored;
use proofmill_engine::cpu::{self, Cpu};

/// How little memory there is.
#[derive(Clone, Copy, Debug)]
pub struct Little {
    /// Passes of more rows may fail, at any of their operations.
    pub rows: usize,
    /// One of so many operations does.
    pub one_of: u64,
    /// Tensors of more rows always fail.
    pub tensor_rows: usize,
    /// Caches of more blocks always fail.
    pub blocks: usize,
    pub no_weights: bool,
}

impl Little {
    /// All the memory there is.
    pub const PLENTY: Self = Self {
        rows: usize::MAX,
        one_of: 1,
        tensor_rows: usize::MAX,
        blocks: usize::MAX,
        no_weights: false,
    };
}

/// The processor with little memory.
pub struct Tight {
    cpu: Cpu,
    little: Little,
    /// Rows of the pass under way.
    rows: usize,
    random: Cell<u64>,
}

/// A part of a network that is handed to the processor for each operation.
pub struct Lent<T>(Mutex<Option<T>>);

impl<T> Lent<T> {
    fn new(part: T) -> Self {
        Self(Mutex::new(Some(part)))
    }

    fn take(&self) -> T {
        self.0.lock().unwrap().take().unwrap()
    }

    fn put(&self, part: T) {
        *self.0.lock().unwrap() = Some(part);
    }

    fn put_some(lent: Option<&Self>, part: Option<T>) {
        if let (Some(lent), Some(part)) = (lent, part) {
            lent.put(part);
        }
    }
}

impl Tight {
    pub fn new(little: Little, seed: u64) -> Self {
        Self { cpu: Cpu::default(), little, rows: 0, random: Cell::new(seed | 1) }
    }

    /// Gives up, perhaps, if the pass is too large.
    fn memory(&self) -> Result<(), DeviceError> {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        let full = self.rows > self.little.rows && random.is_multiple_of(self.little.one_of);
        if full { Err(full_of(self.rows)) } else { Ok(()) }
    }
}

fn full_of(bytes: usize) -> DeviceError {
    DeviceError::OutOfMemory { bytes }
}

fn linear(lent: &Linear<Tight>) -> Linear<Cpu> {
    let &Linear { ref matrix, ref bias, outputs, inputs } = lent;
    Linear { matrix: matrix.take(), bias: bias.as_ref().map(Lent::take), outputs, inputs }
}

fn put_linear(lent: &Linear<Tight>, part: Linear<Cpu>) {
    lent.matrix.put(part.matrix);
    Lent::put_some(lent.bias.as_ref(), part.bias);
}

fn norm(lent: &Norm<Tight>) -> Norm<Cpu> {
    let &Norm { kind, ref weight, ref bias, eps } = lent;
    Norm { kind, weight: weight.take(), bias: bias.as_ref().map(Lent::take), eps }
}

fn put_norm(lent: &Norm<Tight>, part: Norm<Cpu>) {
    lent.weight.put(part.weight);
    Lent::put_some(lent.bias.as_ref(), part.bias);
}

impl Backend for Tight {
    type Tensor = cpu::Tensor;
    type Matrix = Lent<cpu::Matrix>;
    type Vector = Lent<cpu::Vector>;
    type Table = Stored;
    type Cache = cpu::Cache;
    type Input = Input;
    type Layout = Layout;

    fn matrix(
        &self,
        source: &MatrixSource,
        precision: Precision,
    ) -> Result<Self::Matrix, DeviceError> {
        if self.little.no_weights {
            return Err(full_of(1));
        }
        self.cpu.matrix(source, precision).map(Lent::new)
    }

    fn vector(&self, values: &[f32]) -> Result<Self::Vector, DeviceError> {
        self.cpu.vector(values).map(Lent::new)
    }

    fn table(&self, rows: &Stored) -> Result<Stored, DeviceError> {
        self.cpu.table(rows)
    }

    fn tensor(&self, rows: usize, width: usize) -> Result<Self::Tensor, DeviceError> {
        if rows > self.little.tensor_rows {
            return Err(full_of(rows));
        }
        self.cpu.tensor(rows, width)
    }

    fn cache(&self, shape: CacheShape) -> Result<Self::Cache, DeviceError> {
        if shape.blocks > self.little.blocks {
            return Err(full_of(shape.blocks));
        }
        self.cpu.cache(shape)
    }

    fn input(&mut self, from: &Input, to: &mut Input) -> Result<(), DeviceError> {
        self.rows = from.positions.len();
        self.memory()?;
        self.cpu.input(from, to)
    }

    fn layout(&mut self, from: &Layout, to: &mut Layout) -> Result<(), DeviceError> {
        self.cpu.layout(from, to)
    }

    fn embed(
        &mut self,
        rows: &Input,
        embedding: &Embedding<Self>,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        let &Embedding { ref tokens, scale, ref positions, ref kind, width } = embedding;
        let (tokens, positions) = (tokens.clone(), positions.clone());
        let part =
            Embedding { tokens, scale, positions, kind: kind.as_ref().map(Lent::take), width };
        let done = self.cpu.embed(rows, &part, out);
        Lent::put_some(kind.as_ref(), part.kind);
        done
    }

    fn norm(
        &mut self,
        x: &Self::Tensor,
        lent: &Norm<Self>,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        let part = norm(lent);
        let done = self.cpu.norm(x, &part, out);
        put_norm(lent, part);
        done
    }

    fn linear(
        &mut self,
        x: &Self::Tensor,
        weights: &Linear<Self>,
        activation: Activation,
        write: Write,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        let part = linear(weights);
        let done = self.cpu.linear(x, &part, activation, write, out);
        put_linear(weights, part);
        done
    }

    fn gate(
        &mut self,
        x: &Self::Tensor,
        activation: Activation,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        self.cpu.gate(x, activation, out)
    }

    fn append(
        &mut self,
        qkv: &mut Self::Tensor,
        rows: &Input,
        append: &Append<'_, Self>,
        cache: &mut Self::Cache,
        layer: usize,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        let &Append { heads, kv_heads, head_dim, norms, rope: turns } = append;
        let parts = norms.map(|(q, k)| (norm(q), norm(k)));
        let rope = turns.map(|turns| Rope {
            cos: turns.cos.take(),
            sin: turns.sin.take(),
            positions: turns.positions,
        });
        let both = parts.as_ref().map(|(q, k)| (q, k));
        let part = Append { heads, kv_heads, head_dim, norms: both, rope: rope.as_ref() };
        let done = self.cpu.append(qkv, rows, &part, cache, layer);
        if let (Some((q, k)), Some(parts)) = (norms, parts) {
            put_norm(q, parts.0);
            put_norm(k, parts.1);
        }
        if let (Some(turns), Some(rope)) = (turns, rope) {
            turns.cos.put(rope.cos);
            turns.sin.put(rope.sin);
        }
        done
    }

    fn attend(
        &mut self,
        q: &Self::Tensor,
        layout: &Layout,
        attend: &Attend<'_, Self>,
        cache: &Self::Cache,
        layer: usize,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        let &Attend { heads, kv_heads, head_dim, scale, causal, bias } = attend;
        let part =
            bias.map(|bias| RelativeBias { weights: bias.weights.take(), reach: bias.reach });
        let whole = Attend { heads, kv_heads, head_dim, scale, causal, bias: part.as_ref() };
        let done = self.cpu.attend(q, layout, &whole, cache, layer, out);
        Lent::put_some(bias.map(|bias| &bias.weights), part.map(|part| part.weights));
        done
    }

    fn gather(
        &mut self,
        x: &Self::Tensor,
        rows: &[u32],
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        self.cpu.gather(x, rows, out)
    }

    fn pick(
        &mut self,
        x: &Self::Tensor,
        head: &Linear<Self>,
        scale: f32,
        picks: &Picks,
        out: &mut Picked,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        let part = linear(head);
        let done = self.cpu.pick(x, &part, scale, picks, out);
        put_linear(head, part);
        done
    }

    fn pool(
        &mut self,
        x: &Self::Tensor,
        layout: &Layout,
        pool: Pool,
        normalize: bool,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        self.cpu.pool(x, layout, pool, normalize, out)
    }

    fn copy_blocks(
        &mut self,
        cache: &mut Self::Cache,
        pairs: &[(u32, u32)],
    ) -> Result<(), DeviceError> {
        self.cpu.copy_blocks(cache, pairs)
    }

    fn download(&mut self, x: &Self::Tensor, out: &mut Vec<f32>) -> Result<(), DeviceError> {
        self.cpu.download(x, out)
    }
}
