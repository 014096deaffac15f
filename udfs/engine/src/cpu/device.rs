//! [`Cpu`] and its operations: arguments are checked here, kernels compute.

use std::mem;
use std::sync::Arc;

use proofmill_gemm::{Buffer, Isa, Level};

use super::attend::{self, Attention, Bias, Over};
use super::epilogue::Epilogue;
use super::gumbel::SamplerScratch;
use super::kv_cache::{Cache, Numbers};
use super::kv_write::{Angles, KvRows, WriteKv};
use super::matrix::Matrix;
use super::memory::{Tensor, Vector};
use super::norm::{Normal, Norms};
use super::product::{Member, Product};
use super::rows::{Glu, Pooling};
use super::sampler::SampleRows;
use super::team::{self, PIECES_PER_THREAD, Team};
use crate::backend::check::{self, TableSize};
use crate::backend::{
    Activation, Attend, AttentionMetadata, Backend, CacheShape, DeviceError, Embedding, Input,
    KvWrite, Linear, LoadWeights, MatrixSource, Norm, Pool, Precision, SamplerOutput,
    SamplingMetadata, Write,
};
use crate::checkpoint::StoredTensor;

/// Logits that are computed before the next rows follow: 32 MiB.
const LOGITS_NUMBERS: usize = 8 << 20;

/// The processor as one worker has it, with scratch memory.
pub struct Cpu {
    level: Level,
    team: Arc<Team>,
    work: Workspace,
}

struct Workspace {
    /// One for each thread that ever shared an operation; never empty.
    members: Vec<Member>,
    logits: Buffer<f32>,
    row: Vec<f32>,
    sampler: SamplerScratch,
    /// The memory of results that were read.
    output: SamplerOutput,
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new(Level::best(), Arc::new(Team::new(1)))
    }
}

impl Cpu {
    /// With one instruction set, if the processor has it. Results are the same with each.
    pub fn with(isa: Isa) -> Option<Self> {
        Some(Self::new(Level::of(isa)?, Arc::new(Team::new(1))))
    }

    /// The same device as one of the workers of a team. Results are the same in each.
    #[must_use]
    pub fn in_team(self, team: Arc<Team>) -> Self {
        Self { team, ..self }
    }

    fn new(level: Level, team: Arc<Team>) -> Self {
        let work = Workspace {
            members: vec![Member::default()],
            logits: Buffer::default(),
            row: Vec::new(),
            sampler: SamplerScratch::default(),
            output: SamplerOutput::default(),
        };
        Self { level, team, work }
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.level.isa()
    }

    /// The same, as a right to use it.
    #[cfg(test)]
    pub(super) fn level(&self) -> Level {
        self.level
    }
}

impl Workspace {
    /// The memory of as many threads as an operation of so many products is worth, of those that `team` has now.
    fn members(&mut self, team: &Team, products: usize) -> &mut [Member] {
        let threads = team.threads(products);
        if self.members.len() < threads {
            self.members.resize_with(threads, Member::default);
        }
        &mut self.members[..threads]
    }
}

/// Fails unless the parts of `linear` fit each other and `x`.
fn expect_linear(x: &Tensor, linear: &Linear<Cpu>) -> Result<(), DeviceError> {
    let (n, k) = (linear.matrix.n, linear.matrix.k);
    check::linear(linear, (n, k))?;
    linear.bias.as_ref().map_or(Ok(()), |bias| bias.expect_len(n))?;
    x.expect_width(k)
}

/// A norm of rows of `width`.
fn normal(norm: &Norm<Cpu>, width: usize) -> Result<Normal<'_>, DeviceError> {
    norm.weight.expect_len(width)?;
    norm.bias.as_ref().map_or(Ok(()), |bias| bias.expect_len(width))?;
    let weight = norm.weight.values();
    Ok(Normal { kind: norm.kind, weight, bias: norm.bias.as_ref(), eps: norm.eps })
}

impl LoadWeights for Cpu {
    type Matrix = Matrix;
    type Vector = Vector;
    type Table = StoredTensor;

    fn matrix(&self, source: &MatrixSource, precision: Precision) -> Result<Matrix, DeviceError> {
        Matrix::new(source, precision)
    }

    fn vector(&self, values: &[f32]) -> Result<Vector, DeviceError> {
        Vector::new(values)
    }

    fn table(&self, rows: &StoredTensor) -> Result<StoredTensor, DeviceError> {
        check::expect(rows.shape().len() == 2, || {
            format!("expected a table of 2 dimensions, found the shape {:?}", rows.shape())
        })?;
        Ok(rows.clone())
    }
}

impl Backend for Cpu {
    type Tensor = Tensor;
    type Cache = Cache;
    type Input = Input;
    type Metadata = AttentionMetadata;
    type Tokens = Vec<u32>;
    type Sampled = SamplerOutput;

    fn runs_ahead(&self) -> bool {
        false
    }

    fn resting<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        self.team.rest(wait)
    }

    fn tensor(&self, rows: usize, width: usize) -> Result<Tensor, DeviceError> {
        Tensor::new(rows, width)
    }

    fn cache(&self, shape: CacheShape) -> Result<Cache, DeviceError> {
        Cache::new(shape)
    }

    fn tokens(&self, rows: usize) -> Result<Vec<u32>, DeviceError> {
        Ok(Vec::with_capacity(rows))
    }

    fn upload_input(
        &mut self,
        from: &Input,
        sampled: Option<&Vec<u32>>,
        to: &mut Input,
    ) -> Result<(), DeviceError> {
        let sampled = sampled.map_or(&[][..], Vec::as_slice);
        check::sampled_rows(from, sampled.len())?;
        to.tokens.clone_from(&from.tokens);
        for it in &from.sampled {
            to.tokens[it.row as usize] = sampled[it.from as usize];
        }
        to.positions.clone_from(&from.positions);
        to.slots.clone_from(&from.slots);
        Ok(())
    }

    fn upload_metadata(
        &mut self,
        from: &AttentionMetadata,
        to: &mut AttentionMetadata,
    ) -> Result<(), DeviceError> {
        to.segments.clone_from(&from.segments);
        to.blocks.clone_from(&from.blocks);
        Ok(())
    }

    fn embed(
        &mut self,
        rows: &Input,
        embedding: &Embedding<Self>,
        out: &mut Tensor,
    ) -> Result<(), DeviceError> {
        let width = embedding.width;
        out.set_rows(rows.tokens.len(), width)?;
        let table = &embedding.tokens;
        let size = |table: &StoredTensor| TableSize { rows: table.rows(), width: table.width() };
        let positions = embedding.positions.as_ref().map(|(table, first)| (size(table), *first));
        check::embedding(rows, width, size(table), positions)?;
        if let Some(kind) = &embedding.kind {
            kind.expect_len(width)?;
        }
        self.work.row.resize(width, 0.0);
        let place = &mut self.work.row;
        for (index, out) in out.data_mut().chunks_exact_mut(width).enumerate() {
            table.row(rows.tokens[index] as usize, out);
            out.iter_mut().for_each(|x| *x *= embedding.scale);
            if let Some((table, first)) = &embedding.positions {
                table.row(rows.positions[index] as usize + *first as usize, place);
                out.iter_mut().zip(&*place).for_each(|(x, place)| *x += place);
            }
            if let Some(kind) = &embedding.kind {
                out.iter_mut().zip(kind.values()).for_each(|(x, kind)| *x += kind);
            }
        }
        Ok(())
    }

    fn norm(&mut self, x: &Tensor, norm: &Norm<Self>, out: &mut Tensor) -> Result<(), DeviceError> {
        let normal = normal(norm, x.width())?;
        out.set_rows(x.rows(), x.width())?;
        self.level.run(Norms { x: x.data(), normal, out: out.data_mut() });
        Ok(())
    }

    fn linear(
        &mut self,
        x: &Tensor,
        weights: &Linear<Self>,
        activation: Activation,
        write: Write,
        out: &mut Tensor,
    ) -> Result<(), DeviceError> {
        expect_linear(x, weights)?;
        match write {
            Write::Store => out.set_rows(x.rows(), weights.outputs)?,
            Write::Add => {
                out.expect_width(weights.outputs)?;
                check::one_per_row(out.rows(), x.rows(), "rows to add to")?;
            }
        }
        let bias = weights.bias.as_ref().map(Vector::padded);
        let epilogue = Epilogue { bias, scale: 1.0, activation, write };
        let product = Product { level: self.level, matrix: &weights.matrix, epilogue };
        let members = self.work.members(&self.team, product.size(x.data()));
        product.run(members, x.data(), out.data_mut())
    }

    fn glu(
        &mut self,
        x: &Tensor,
        activation: Activation,
        out: &mut Tensor,
    ) -> Result<(), DeviceError> {
        let n = out.width();
        x.expect_width(2 * n)?;
        out.set_rows(x.rows(), n)?;
        self.level.run(Glu { x: x.data(), activation, n, out: out.data_mut() });
        Ok(())
    }

    fn write_kv(
        &mut self,
        qkv: &mut Tensor,
        rows: &Input,
        kv_write: &KvWrite<'_, Self>,
        cache: &mut Cache,
        layer: usize,
    ) -> Result<(), DeviceError> {
        let &KvWrite { heads, kv_heads, head_dim, norms, rope } = kv_write;
        let shape = cache.shape();
        qkv.expect_width((heads + 2 * kv_heads) * head_dim)?;
        let numbers = check::write_kv(kv_write, rows, qkv.rows(), (shape, layer))?;
        let norms = match norms {
            None => None,
            Some((q, k)) => Some((normal(q, head_dim)?, normal(k, head_dim)?)),
        };
        let angles = match rope.zip(numbers) {
            None => None,
            Some((rope, numbers)) => {
                rope.cos.expect_len(numbers)?;
                rope.sin.expect_len(numbers)?;
                Some(Angles { cos: rope.cos.values(), sin: rope.sin.values() })
            }
        };
        let kv_rows = KvRows {
            qkv: qkv.data_mut(),
            heads,
            kv_heads,
            head_dim,
            norms,
            angles,
            positions: &rows.positions,
            slots: &rows.slots,
        };
        match cache.numbers_mut() {
            Numbers::F32(cache) => self.level.run(WriteKv { rows: kv_rows, cache, layer }),
            Numbers::Bf16(cache) => self.level.run(WriteKv { rows: kv_rows, cache, layer }),
        }
        Ok(())
    }

    fn attend(
        &mut self,
        q: &Tensor,
        metadata: &AttentionMetadata,
        attend: &Attend<'_, Self>,
        cache: &Cache,
        layer: usize,
        out: &mut Tensor,
    ) -> Result<(), DeviceError> {
        let &Attend { heads, kv_heads, head_dim, scale, causal, ref bias } = attend;
        let shape = cache.shape();
        check::attend(attend, q.width(), (shape, layer))?;
        check::keys(metadata, q.rows(), shape, causal || bias.is_some())?;
        let bias = match bias {
            None => None,
            Some(bias) => {
                bias.weights.expect_len(heads * (2 * bias.reach + 1))?;
                Some(Bias { weights: bias.weights.values(), reach: bias.reach })
            }
        };
        let (rows, width) = (q.rows(), heads * head_dim);
        out.set_rows(rows, width)?;
        let pairs = metadata.segments.iter().map(|one| one.rows as usize * one.keys as usize);
        let members = self.work.members(&self.team, 2 * width * pairs.sum::<usize>());
        let size = rows.div_ceil(members.len() * PIECES_PER_THREAD).max(1);
        let size = if members.len() == 1 { rows.max(1) } else { size };
        let (level, q_width, q) = (self.level, q.width(), q.data());
        let pieces = out.data_mut().chunks_mut(size * width).enumerate();
        team::share(members, pieces, |member, (index, out)| {
            let first = index * size;
            let attention = Attention {
                rows: first..first + out.len() / width,
                q,
                q_width,
                metadata,
                heads,
                kv_heads,
                head_dim,
                scale,
                causal,
                bias,
                out,
                scratch: member.floats.room(attend::scratch_len(metadata, head_dim))?,
            };
            match cache.numbers() {
                Numbers::F32(cache) => level.run(Over { attention, layer: cache.layer(layer) }),
                Numbers::Bf16(cache) => level.run(Over { attention, layer: cache.layer(layer) }),
            }
            Ok(())
        })
    }

    fn index_select(
        &mut self,
        x: &Tensor,
        rows: &[u32],
        out: &mut Tensor,
    ) -> Result<(), DeviceError> {
        check::below(rows, x.rows(), "rows")?;
        out.set_rows(rows.len(), x.width())?;
        for (&row, out) in rows.iter().zip(out.data_mut().chunks_exact_mut(x.width())) {
            out.copy_from_slice(x.row(row as usize));
        }
        Ok(())
    }

    /// A row whose logits have no finite log-sum-exp (one is NaN or infinite, or all are `-inf`), or
    /// of which all tokens are banned, gets one result whose log-probability is NaN.
    fn sample(
        &mut self,
        x: &Tensor,
        head: &Linear<Self>,
        scale: f32,
        sampling: &SamplingMetadata,
        tokens: Option<&mut Vec<u32>>,
    ) -> Result<SamplerOutput, DeviceError> {
        expect_linear(x, head)?;
        let &Matrix { n, k, .. } = &head.matrix;
        check::sampling(sampling, x.rows(), n)?;
        let mut out = mem::take(&mut self.work.output);
        out.clear();
        let bias = head.bias.as_ref().map(Vector::padded);
        let epilogue = Epilogue { bias, scale, activation: Activation::None, write: Write::Store };
        let rows = (LOGITS_NUMBERS / n).max(1).min(x.rows().max(1));
        let product = Product { level: self.level, matrix: &head.matrix, epilogue };
        for (x, some) in x.data().chunks(rows * k).zip(sampling.rows.chunks(rows)) {
            let threads = self.work.members(&self.team, product.size(x)).len();
            let Workspace { members, logits, sampler, .. } = &mut self.work;
            let logits = logits.room(some.len() * n)?;
            product.run(&mut members[..threads], x, logits)?;
            self.level.run(SampleRows {
                logits,
                vocabulary: n,
                rows: some,
                all: sampling,
                scratch: sampler,
                out: &mut out,
            });
        }
        if let Some(tokens) = tokens {
            tokens.clear();
            let first = |row| out.of(row).first().map_or(0, |token| token.id);
            tokens.extend((0..sampling.rows.len()).map(first));
        }
        Ok(out)
    }

    fn read_sampled(
        &mut self,
        sampled: SamplerOutput,
        out: &mut SamplerOutput,
    ) -> Result<(), DeviceError> {
        self.work.output = mem::replace(out, sampled);
        Ok(())
    }

    fn pool(
        &mut self,
        x: &Tensor,
        metadata: &AttentionMetadata,
        pool: Pool,
        normalize: bool,
        out: &mut Tensor,
    ) -> Result<(), DeviceError> {
        check::segments(metadata, x.rows())?;
        out.set_rows(metadata.segments.len(), x.width())?;
        self.level.run(Pooling {
            x: x.data(),
            width: x.width(),
            segments: &metadata.segments,
            pool,
            normalize,
            out: out.data_mut(),
        });
        Ok(())
    }

    fn copy_blocks(&mut self, cache: &mut Cache, pairs: &[(u32, u32)]) -> Result<(), DeviceError> {
        for &(from, to) in pairs {
            check::below(&[from, to], cache.shape().blocks, "blocks")?;
            cache.copy_block(from as usize, to as usize);
        }
        Ok(())
    }

    fn download(&mut self, x: &Tensor, out: &mut Vec<f32>) -> Result<(), DeviceError> {
        out.clear();
        out.extend_from_slice(x.data());
        Ok(())
    }
}
