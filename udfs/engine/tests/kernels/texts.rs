//! Texts in a cache: where their keys lie, what rows attend to them, and what must come out.

use half::bf16;
use proofmill_engine::backend::{
    Attend, AttentionMetadata, BLOCK_SLOTS, Backend, BlockRef, CacheShape, DeviceError, Embedding,
    Input, KvWrite, Precision, RelativeBias,
};
use proofmill_engine::checkpoint::StoredTensor;

pub const SCALE: f32 = 0.6;

/// How texts are attended to.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    pub kv_heads: usize,
    pub group: usize,
    pub head_dim: usize,
    pub causal: bool,
    pub reach: Option<usize>,
    pub precision: Precision,
}

/// Keys of a text, of which the first few may be those of all texts, and rows that attend to them.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    pub keys: usize,
    pub rows: usize,
    pub seed: u64,
}

/// Some texts that begin with the same `shared` keys, and where all those lie.
#[derive(Clone, Debug)]
pub struct Texts {
    pub texts: Vec<Text>,
    pub shared: usize,
    /// Decides how much of each block is used and in which order blocks are taken; with 0 they are
    /// full and in order.
    pub seed: u64,
}

/// Numbers between -1 and 1 in an order that `seed` decides.
pub fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count + 4).map(|_| next()).skip(4).collect()
}

pub fn text(keys: usize, rows: usize, seed: u64) -> Text {
    Text { keys, rows, seed }
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

impl Model {
    pub fn heads(self) -> usize {
        self.kv_heads * self.group
    }

    pub fn q_width(self) -> usize {
        self.heads() * self.head_dim
    }

    fn kv_width(self) -> usize {
        2 * self.kv_heads * self.head_dim
    }

    pub fn shape(self, blocks: usize) -> CacheShape {
        let Self { kv_heads, head_dim, precision, .. } = self;
        CacheShape { layers: 2, blocks, kv_heads, head_dim, precision }
    }

    /// Numbers that the model's precision holds exactly.
    fn exact(self, mut numbers: Vec<f32>) -> Vec<f32> {
        if self.precision != Precision::F32 {
            numbers.iter_mut().for_each(|x| *x = bf16::from_f32(*x).to_f32());
        }
        numbers
    }

    /// `[keys][k | v]`.
    fn kv(self, text: &Text, shared: usize) -> Vec<f32> {
        let mut all = numbers(0, shared * self.kv_width());
        all.extend(numbers(text.seed, (text.keys - shared) * self.kv_width()));
        self.exact(all)
    }

    pub fn q(self, text: &Text) -> Vec<f32> {
        self.exact(
            numbers(text.seed ^ 99, text.rows * self.q_width()).iter().map(|x| x * 2.0).collect(),
        )
    }

    fn bias(self) -> Vec<f32> {
        numbers(7, self.heads() * (2 * self.reach.unwrap_or(0) + 1))
    }
}

impl Texts {
    pub fn one(text: Text) -> Self {
        Self { texts: vec![text], shared: 0, seed: 0 }
    }

    /// Where the keys of each text lie, and how many blocks there are.
    pub fn blocks(&self) -> (Vec<Vec<BlockRef>>, usize) {
        let keys: usize = self.texts.iter().map(|text| text.keys).sum();
        let end = keys + 1;
        let mut taken = 0;
        let mut take = |keys: usize| {
            let mut own = Vec::new();
            let mut left = keys;
            while left > 0 {
                let drawn = numbers(self.seed + taken as u64, 1)[0].abs() * 15.99;
                let used = if self.seed == 0 { BLOCK_SLOTS } else { 1 + drawn as usize }.min(left);
                taken += 1;
                let block = if self.seed == 0 { taken } else { end - taken };
                own.push(BlockRef { block: block as u32, used: used as u32 });
                left -= used;
            }
            own
        };
        let shared = take(self.shared);
        let own = |text: &Text| [shared.clone(), take(text.keys - self.shared)].concat();
        (self.texts.iter().map(own).collect(), end + 1)
    }

    pub fn metadata(&self) -> AttentionMetadata {
        let mut metadata = AttentionMetadata::default();
        for (text, blocks) in self.texts.iter().zip(self.blocks().0) {
            metadata.push(text.rows, blocks);
        }
        metadata
    }

    fn q(&self, model: Model) -> Vec<f32> {
        self.texts.iter().flat_map(|text| model.q(text)).collect()
    }
}

/// One slot per key.
pub fn slots(blocks: &[BlockRef]) -> Vec<u32> {
    let slots = |block: &BlockRef| {
        let first = block.block * BLOCK_SLOTS as u32;
        first..first + block.used
    };
    blocks.iter().flat_map(slots).collect()
}

/// A tensor of rows, each `width` numbers of `values`.
pub fn tensor<B: Backend>(
    backend: &mut B,
    values: &[f32],
    width: usize,
) -> Result<B::Tensor, DeviceError> {
    let rows = values.len() / width;
    let stored = StoredTensor::from_f32(values, vec![rows, width]).expect("whole rows");
    let tokens = backend.table(&stored)?;
    let embedding = Embedding { tokens, scale: 1.0, positions: None, kind: None, width };
    let tokens = (0..rows as u32).collect();
    let rows_there = input(backend, &Input { tokens, ..Input::default() })?;
    let mut out = backend.tensor(rows, width)?;
    backend.embed(&rows_there, &embedding, &mut out)?;
    // What a kernel that waits knows must live until it has run.
    download(backend, &out)?;
    Ok(out)
}

pub fn input<B: Backend>(backend: &mut B, from: &Input) -> Result<B::Input, DeviceError> {
    let mut there = B::Input::default();
    backend.upload_input(from, None, &mut there)?;
    Ok(there)
}

pub fn download<B: Backend>(backend: &mut B, x: &B::Tensor) -> Result<Vec<f32>, DeviceError> {
    let mut out = Vec::new();
    backend.download(x, &mut out)?;
    Ok(out)
}

/// A cache with the keys and values of the texts in layer 1.
pub fn filled<B: Backend>(
    backend: &mut B,
    model: Model,
    texts: &Texts,
) -> Result<B::Cache, DeviceError> {
    let Model { kv_heads, head_dim, .. } = model;
    let (blocks, count) = texts.blocks();
    let mut cache = backend.cache(model.shape(count))?;
    let kv_write = KvWrite { heads: 0, kv_heads, head_dim, norms: None, rope: None };
    for (text, blocks) in texts.texts.iter().zip(&blocks) {
        let mut kv = tensor(backend, &model.kv(text, texts.shared), model.kv_width())?;
        let rows = input(backend, &Input { slots: slots(blocks), ..Input::default() })?;
        backend.write_kv(&mut kv, &rows, &kv_write, &mut cache, 1)?;
        download(backend, &kv)?;
    }
    Ok(cache)
}

/// What the rows of `metadata` with the queries `q` read in layer 1 of `cache`.
pub fn attended<B: Backend>(
    backend: &mut B,
    model: Model,
    metadata: &AttentionMetadata,
    q: &[f32],
    cache: &B::Cache,
) -> Result<Vec<f32>, DeviceError> {
    let weights = backend.vector(&model.bias())?;
    let bias = RelativeBias::<B> { weights, reach: model.reach.unwrap_or(0) };
    let attend = Attend {
        heads: model.heads(),
        kv_heads: model.kv_heads,
        head_dim: model.head_dim,
        scale: SCALE,
        causal: model.causal,
        bias: model.reach.map(|_| &bias),
    };
    let width = model.q_width();
    let q = tensor(backend, q, width)?;
    let mut there = B::Metadata::default();
    backend.upload_metadata(metadata, &mut there)?;
    let mut out = backend.tensor(metadata.segments.iter().map(|s| s.rows as usize).sum(), width)?;
    backend.attend(&q, &there, &attend, cache, 1, &mut out)?;
    download(backend, &out)
}

/// What all rows of the texts read.
pub fn all_attended<B: Backend>(
    backend: &mut B,
    model: Model,
    texts: &Texts,
) -> Result<Vec<f32>, DeviceError> {
    let cache = filled(backend, model, texts)?;
    attended(backend, model, &texts.metadata(), &texts.q(model), &cache)
}

/// A number that must come out, and how much the values that it is a mean of differ from it.
pub struct Mean {
    pub value: f64,
    pub spread: f64,
}

/// The same in f64.
pub fn means(model: Model, texts: &Texts) -> Vec<Mean> {
    texts.texts.iter().flat_map(|text| means_of(model, text, texts.shared)).collect()
}

fn means_of(model: Model, text: &Text, shared: usize) -> Vec<Mean> {
    let Model { kv_heads, group, head_dim: dim, causal, reach, .. } = model;
    let (kv, q, bias) = (model.kv(text, shared), model.q(text), model.bias());
    let mut out = Vec::new();
    for row in 0..text.rows {
        let place = (text.keys + row).saturating_sub(text.rows);
        let keys = if causal { place + 1 } else { text.keys };
        for head in 0..kv_heads * group {
            let q = &q[(row * kv_heads * group + head) * dim..][..dim];
            let k = |key: usize| &kv[(key * 2 * kv_heads + head / group) * dim..][..dim];
            let v = |key: usize| &kv[(key * 2 * kv_heads + kv_heads + head / group) * dim..][..dim];
            let logit = |key: usize| {
                let dot: f64 =
                    q.iter().zip(k(key)).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
                let bias = reach.map_or(0.0, |reach| {
                    let far = reach as isize;
                    let distance = (key as isize - place as isize).clamp(-far, far);
                    bias[head * (2 * reach + 1) + (distance + far) as usize]
                });
                dot * f64::from(SCALE) + f64::from(bias)
            };
            let logits: Vec<f64> = (0..keys).map(logit).collect();
            let top = logits.iter().copied().fold(f64::MIN, f64::max);
            let weights: Vec<f64> = logits.iter().map(|logit| (logit - top).exp()).collect();
            let total: f64 = weights.iter().sum();
            for d in 0..dim {
                let mean = |what: &dyn Fn(f64) -> f64| {
                    let terms = weights.iter().enumerate();
                    terms.map(|(key, w)| w * what(f64::from(v(key)[d]))).sum::<f64>() / total
                };
                let value = mean(&|v| v);
                out.push(Mean { value, spread: mean(&|v| (v - value).abs()) });
            }
        }
    }
    out
}
