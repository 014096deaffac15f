//! A processor with little memory: it gives up where too much is requested, now and then; and one that stands
//! for a device which computes while the host goes on.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use proofmill_engine::backend::{
    Activation, Attend, AttentionMetadata, Backend, CacheShape, DeviceError, Embedding, Input,
    KvWrite, Linear, LoadWeights, MatrixSource, Norm, Pool, Precision, RelativeBias, Rope,
    SamplerOutput, SamplingMetadata, Write,
};
use proofmill_engine::checkpoint::StoredTensor;
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
    /// It says that it computes while the host goes on.
    pub runs_ahead: bool,
    /// What fails of a generation is only noticed when its tokens are read, and nothing in the cache is left.
    pub late: bool,
}

impl Little {
    /// All the memory there is.
    pub const PLENTY: Self = Self {
        rows: usize::MAX,
        one_of: 1,
        tensor_rows: usize::MAX,
        blocks: usize::MAX,
        no_weights: false,
        runs_ahead: false,
        late: false,
    };
}

/// The processor with little memory.
pub struct Tight {
    cpu: Cpu,
    little: Little,
    /// Rows of the pass under way.
    rows: usize,
    random: Cell<u64>,
    shape: Cell<Option<CacheShape>>,
    /// Whether the cache is to be emptied.
    lost: bool,
    launched: u64,
    log: Log,
}

/// What steps of generations were launched and read, by their numbers.
pub type Log = Arc<Mutex<Vec<Event>>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Launched(u64),
    Read(u64),
}

/// What was sampled, and the number of the step if it is one of generations.
pub struct Numbered {
    output: SamplerOutput,
    step: Option<u64>,
    rows: usize,
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
        let (random, shape) = (Cell::new(seed | 1), Cell::new(None));
        let (cpu, log) = (Cpu::default(), Log::default());
        Self { cpu, little, rows: 0, random, shape, lost: false, launched: 0, log }
    }

    /// The same, which notes what it does.
    pub fn noting(self, log: Log) -> Self {
        Self { log, ..self }
    }

    /// Gives up, perhaps, if the pass is too large.
    fn memory(&self) -> Result<(), DeviceError> {
        if self.little.late { Ok(()) } else { self.memory_for(self.rows) }
    }

    fn memory_for(&self, rows: usize) -> Result<(), DeviceError> {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        let full = rows > self.little.rows && random.is_multiple_of(self.little.one_of);
        if full { Err(full_of(rows)) } else { Ok(()) }
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

impl LoadWeights for Tight {
    type Matrix = Lent<cpu::Matrix>;
    type Vector = Lent<cpu::Vector>;
    type Table = StoredTensor;

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

    fn table(&self, rows: &StoredTensor) -> Result<StoredTensor, DeviceError> {
        self.cpu.table(rows)
    }
}

impl Backend for Tight {
    type Tensor = cpu::Tensor;
    type Cache = cpu::Cache;
    type Input = Input;
    type Metadata = AttentionMetadata;
    type Tokens = Vec<u32>;
    type Sampled = Numbered;

    fn runs_ahead(&self) -> bool {
        self.little.runs_ahead
    }

    fn tokens(&self, rows: usize) -> Result<Vec<u32>, DeviceError> {
        self.cpu.tokens(rows)
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
        self.shape.set(Some(shape));
        self.cpu.cache(shape)
    }

    fn upload_input(
        &mut self,
        from: &Input,
        sampled: Option<&Vec<u32>>,
        to: &mut Input,
    ) -> Result<(), DeviceError> {
        self.rows = from.positions.len();
        self.memory()?;
        self.cpu.upload_input(from, sampled, to)
    }

    fn upload_metadata(
        &mut self,
        from: &AttentionMetadata,
        to: &mut AttentionMetadata,
    ) -> Result<(), DeviceError> {
        self.cpu.upload_metadata(from, to)
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

    fn glu(
        &mut self,
        x: &Self::Tensor,
        activation: Activation,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        self.cpu.glu(x, activation, out)
    }

    fn write_kv(
        &mut self,
        qkv: &mut Self::Tensor,
        rows: &Input,
        kv_write: &KvWrite<'_, Self>,
        cache: &mut Self::Cache,
        layer: usize,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        if let Some(shape) = self.shape.get().filter(|_| std::mem::take(&mut self.lost)) {
            *cache = self.cpu.cache(shape)?;
        }
        let &KvWrite { heads, kv_heads, head_dim, norms, rope: turns } = kv_write;
        let parts = norms.map(|(q, k)| (norm(q), norm(k)));
        let rope = turns.map(|turns| Rope {
            cos: turns.cos.take(),
            sin: turns.sin.take(),
            positions: turns.positions,
        });
        let both = parts.as_ref().map(|(q, k)| (q, k));
        let part = KvWrite { heads, kv_heads, head_dim, norms: both, rope: rope.as_ref() };
        let done = self.cpu.write_kv(qkv, rows, &part, cache, layer);
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
        metadata: &AttentionMetadata,
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
        let done = self.cpu.attend(q, metadata, &whole, cache, layer, out);
        Lent::put_some(bias.map(|bias| &bias.weights), part.map(|part| part.weights));
        done
    }

    fn index_select(
        &mut self,
        x: &Self::Tensor,
        rows: &[u32],
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        self.cpu.index_select(x, rows, out)
    }

    fn sample(
        &mut self,
        x: &Self::Tensor,
        head: &Linear<Self>,
        scale: f32,
        sampling: &SamplingMetadata,
        tokens: Option<&mut Vec<u32>>,
    ) -> Result<Numbered, DeviceError> {
        self.memory()?;
        let part = linear(head);
        let step = tokens.is_some().then_some(self.launched);
        let done = self.cpu.sample(x, &part, scale, sampling, tokens);
        put_linear(head, part);
        if let Some(step) = step {
            self.launched += 1;
            self.log.lock().unwrap().push(Event::Launched(step));
        }
        done.map(|output| Numbered { output, step, rows: self.rows })
    }

    fn read_sampled(
        &mut self,
        sampled: Numbered,
        out: &mut SamplerOutput,
    ) -> Result<(), DeviceError> {
        let Numbered { output, step, rows } = sampled;
        if let Some(step) = step {
            self.log.lock().unwrap().push(Event::Read(step));
            if self.little.late {
                let there = self.memory_for(rows);
                self.lost |= there.is_err();
                there?;
            }
        }
        self.cpu.read_sampled(output, out)
    }

    fn pool(
        &mut self,
        x: &Self::Tensor,
        metadata: &AttentionMetadata,
        pool: Pool,
        normalize: bool,
        out: &mut Self::Tensor,
    ) -> Result<(), DeviceError> {
        self.memory()?;
        self.cpu.pool(x, metadata, pool, normalize, out)
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
