//! Keys and values on their way into a cache, against the processor's.

use half::bf16;
use proofmill_engine::backend::{
    Attend, AttentionMetadata, Backend, BlockRef, CacheShape, DeviceError, Input, KvWrite, Norm,
    NormKind, Precision, Rope,
};
use proofmill_engine::cpu::Cpu;
use proofmill_engine::cuda::Gpu;

use crate::emulator::{Emulator, pass};
use crate::mutation::Mutation;
use crate::texts::{
    Model, Texts, attended, bits, download, filled, input, numbers, slots, tensor, text,
};

/// How rows `[q | k | v]` enter a cache.
#[derive(Clone, Copy, Debug)]
struct Case {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    norms: Option<NormKind>,
    rotated: bool,
    precision: Precision,
}

const ROWS: usize = 5;
const POSITIONS: usize = 40;

impl Case {
    fn width(self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_dim
    }

    /// What is left of the queries, then what each row reads of the rows' keys and values.
    fn run<B: Backend>(self, backend: &mut B) -> Result<[Vec<f32>; 2], DeviceError> {
        let Self { heads, kv_heads, head_dim, precision, .. } = self;
        let width = self.width();
        let values: Vec<f32> = numbers(1, ROWS * width).iter().map(|x| x * 3.0).collect();
        let values: Vec<f32> = values.iter().map(|&x| bf16::from_f32(x).to_f32()).collect();
        let mut qkv = tensor(backend, &values, width)?;

        let shape = CacheShape { layers: 2, blocks: 4, kv_heads, head_dim, precision };
        let mut cache = backend.cache(shape)?;
        let norm = |seed, kind| -> Result<Norm<B>, DeviceError> {
            let weight = backend.vector(&numbers(seed, head_dim))?;
            let bias = match kind {
                NormKind::Layer => Some(backend.vector(&numbers(seed + 1, head_dim))?),
                NormKind::Rms => None,
            };
            Ok(Norm { kind, weight, bias, eps: 0.1 })
        };
        let norms = self
            .norms
            .map(|kind| Ok::<_, DeviceError>((norm(2, kind)?, norm(4, kind)?)))
            .transpose()?;
        let angles = numbers(6, POSITIONS * head_dim / 2);
        let table = |of: fn(f32) -> f32| {
            backend.vector(&angles.iter().map(|x| of(3.0 * x)).collect::<Vec<_>>())
        };
        let rope = Rope::<B> { cos: table(f32::cos)?, sin: table(f32::sin)?, positions: POSITIONS };
        let kv_write = KvWrite {
            heads,
            kv_heads,
            head_dim,
            norms: norms.as_ref().map(|(q, k)| (q, k)),
            rope: self.rotated.then_some(&rope),
        };
        let own = Input {
            tokens: Vec::new(),
            positions: vec![3, 0, 39, 7, 7],
            slots: vec![16, 49, 18, 17, 48],
            sampled: Vec::new(),
        };
        let rows = input(backend, &own)?;
        backend.write_kv(&mut qkv, &rows, &kv_write, &mut cache, 1)?;
        let mut q = download(backend, &qkv)?;
        q = q.chunks(width).flat_map(|row| row[..heads * head_dim].to_vec()).collect();

        // Queries that tell keys apart.
        let heads = heads.max(kv_heads);
        let probes: Vec<f32> = numbers(8, 4 * heads * head_dim).iter().map(|x| x.round()).collect();
        let probes = tensor(backend, &probes, heads * head_dim)?;
        let mut metadata = AttentionMetadata::default();
        metadata.push(3, [BlockRef { block: 1, used: 3 }, BlockRef { block: 3, used: 2 }]);
        metadata.push(1, [BlockRef { block: 1, used: 1 }]);
        let mut there = B::Metadata::default();
        backend.upload_metadata(&metadata, &mut there)?;
        let attend = Attend { heads, kv_heads, head_dim, scale: 0.3, causal: false, bias: None };
        let mut out = backend.tensor(4, heads * head_dim)?;
        backend.attend(&probes, &there, &attend, &cache, 1, &mut out)?;
        Ok([q, download(backend, &out)?])
    }
}

/// In f32, to 1e-5. In bfloat16 a query is rounded once, by 2^-8 of it; a key, too, so that a logit
/// moves by up to 2^-8 of the sum of its products, and the result is rounded as well.
fn right(emulator: &Emulator, case: Case) -> Result<(), String> {
    let mut gpu = Gpu::new(emulator.clone(), case.precision);
    let got = case.run(&mut gpu).map_err(|error| error.to_string())?;
    let wanted = case.run(&mut Cpu::default()).map_err(|error| error.to_string())?;
    let allowed = match case.precision {
        Precision::F32 => [1e-5, 1e-5],
        Precision::Bf16 | Precision::Int8 => [1.0 / 256.0, 1.0 / 32.0],
    };
    for (what, ((got, wanted), allowed)) in
        ["query", "result"].into_iter().zip(got.iter().zip(&wanted).zip(allowed))
    {
        if got.len() != wanted.len() {
            return Err(format!("{case:?}: {} numbers for {}", got.len(), wanted.len()));
        }
        let near = |(x, y): (&f32, &f32)| (x - y).abs() <= allowed * y.abs().max(1.0);
        if let Some(index) = got.iter().zip(wanted).position(|pair| !near(pair)) {
            let (got, wanted) = (got[index], wanted[index]);
            return Err(format!("{case:?}: {what} {index}: {got} for {wanted}"));
        }
    }
    Ok(())
}

fn all(emulator: &Emulator, precision: Precision) -> Result<(), String> {
    let plain = Case { heads: 0, kv_heads: 3, head_dim: 7, norms: None, rotated: false, precision };
    right(emulator, plain)?;
    right(emulator, Case { heads: 6, head_dim: 8, ..plain })?;
    let rotated = Case { heads: 2, kv_heads: 1, head_dim: 68, rotated: true, ..plain };
    right(emulator, rotated)?;
    right(emulator, Case { norms: Some(NormKind::Rms), head_dim: 40, ..rotated })?;
    right(emulator, Case { norms: Some(NormKind::Layer), ..rotated })?;
    let normed = Case { norms: Some(NormKind::Layer), head_dim: 33, rotated: false, ..rotated };
    right(emulator, normed)
}

fn f32_rows(emulator: &Emulator) -> Result<(), String> {
    all(emulator, Precision::F32)
}

fn bf16_rows(emulator: &Emulator) -> Result<(), String> {
    all(emulator, Precision::Bf16)
}

/// Rows read the same from copies of blocks, in whatever order those were made.
fn copies(emulator: &Emulator) -> Result<(), String> {
    let run = |precision, head_dim| -> Result<_, DeviceError> {
        let model =
            Model { kv_heads: 2, group: 1, head_dim, causal: false, reach: None, precision };
        let mut gpu = Gpu::new(emulator.clone(), precision);
        let texts = Texts::one(text(20, 2, 5));
        let mut cache = filled(&mut gpu, model, &texts)?;
        let q = model.q(&texts.texts[0]);
        let before = attended(&mut gpu, model, &texts.metadata(), &q, &cache)?;
        // Blocks 1 and 2 change places by way of 5, which stays a copy of 1.
        gpu.copy_blocks(&mut cache, &[(1, 5), (2, 1), (5, 2), (1, 7)])?;
        let mut all = vec![before];
        for blocks in [[2, 1], [5, 7]] {
            let mut metadata = AttentionMetadata::default();
            let used = [16, 4];
            metadata.push(2, (0..2).map(|i| BlockRef { block: blocks[i], used: used[i] }));
            all.push(attended(&mut gpu, model, &metadata, &q, &cache)?);
        }
        Ok(all)
    };
    for (precision, head_dim) in [(Precision::F32, 5), (Precision::Bf16, 72)] {
        let all = run(precision, head_dim).map_err(|error| error.to_string())?;
        if all.iter().any(|other| bits(other) != bits(&all[0])) {
            return Err(format!("{precision:?}: a copy reads otherwise"));
        }
    }
    Ok(())
}

/// What does not fit is an error, not a crash.
fn refused(emulator: &Emulator) -> Result<(), String> {
    let run = || -> Result<_, DeviceError> {
        let mut gpu = Gpu::new(emulator.clone(), Precision::F32);
        let shape = CacheShape {
            layers: 1,
            blocks: 4,
            kv_heads: 1,
            head_dim: 4,
            precision: Precision::F32,
        };
        let mut cache = gpu.cache(shape)?;
        let mut halves = Gpu::new(emulator.clone(), Precision::Bf16).cache(shape)?;
        let mut kv = tensor(&mut gpu, &numbers(1, 16), 8)?;
        let kv_write = KvWrite { heads: 0, kv_heads: 1, head_dim: 4, norms: None, rope: None };
        let slots_of = |gpu: &mut Gpu<_>, slots: &[u32]| {
            input(gpu, &Input { slots: slots.to_vec(), ..Input::default() })
        };
        let good = slots_of(&mut gpu, &[0, 63])?;
        gpu.write_kv(&mut kv, &good, &kv_write, &mut cache, 0)?;
        let one = slots_of(&mut gpu, &[0])?;
        let beyond = slots_of(&mut gpu, &[0, 64])?;
        let wide = KvWrite { head_dim: 8, ..kv_write };
        Ok(vec![
            gpu.write_kv(&mut kv, &one, &kv_write, &mut cache, 0).is_err(),
            gpu.write_kv(&mut kv, &beyond, &kv_write, &mut cache, 0).is_err(),
            gpu.write_kv(&mut kv, &good, &kv_write, &mut cache, 1).is_err(),
            gpu.write_kv(&mut kv, &good, &wide, &mut cache, 0).is_err(),
            gpu.write_kv(&mut kv, &good, &kv_write, &mut halves, 0).is_err(),
            gpu.copy_blocks(&mut cache, &[(0, 4)]).is_err(),
            gpu.copy_blocks(&mut cache, &[]).is_ok(),
        ])
    };
    let refused = run().map_err(|error| error.to_string())?;
    match refused.iter().position(|refused| !refused) {
        None => Ok(()),
        Some(index) => Err(format!("number {index} was not as it should")),
    }
}

#[test]
fn rows_enter_an_f32_cache() {
    pass(f32_rows);
}

#[test]
fn rows_enter_a_bf16_cache() {
    pass(bf16_rows);
}

#[test]
fn copied_blocks_hold_the_same() {
    pass(copies);
}

#[test]
fn what_does_not_fit_is_refused() {
    pass(refused);
}

#[test]
fn slots_are_in_the_order_of_keys() {
    let blocks = [BlockRef { block: 2, used: 2 }, BlockRef { block: 0, used: 1 }];
    assert_eq!(slots(&blocks), [32, 33, 0]);
}

pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        kernel: "expand",
        source: "cache.cu",
        from: "block[0] * 16 + i",
        to: "block[0] * 16",
        check: f32_rows,
    },
    Mutation {
        kernel: "expand",
        source: "cache.cu",
        from: "first_key + block[2] + i",
        to: "first_key + 16 * b + i",
        check: f32_rows,
    },
    Mutation {
        kernel: "append_f32",
        source: "cache.cu",
        from: "put_cache_number(to + half + i, b * c + a * s);",
        to: "put_cache_number(to + half + i, b * c - a * s);",
        check: f32_rows,
    },
    Mutation {
        kernel: "append_f32",
        source: "cache.cu",
        from: "float apart = cache_number(x + i) - norm.mean;",
        to: "float apart = cache_number(x + i);",
        check: f32_rows,
    },
    Mutation {
        kernel: "append_f32",
        source: "cache.cu",
        from: "if (slot == NO_SLOT || ",
        to: "if (",
        check: f32_rows,
    },
    Mutation {
        kernel: "append_bf16",
        source: "cache.cu",
        from: "u32 kind = is_q ? q_kind : k_kind;",
        to: "u32 kind = q_kind; k_weight = q_weight; k_bias = q_bias;",
        check: bf16_rows,
    },
    Mutation {
        kernel: "append_bf16",
        source: "cache.cu",
        from: "return norm.bias ? number + norm.bias[i] : number;",
        to: "return number;",
        check: bf16_rows,
    },
    Mutation {
        kernel: "append_bf16",
        source: "cache.cu",
        from: "u64 angles = (u64)positions[blockIdx.x] * half;",
        to: "u64 angles = (u64)blockIdx.x * half;",
        check: bf16_rows,
    },
    Mutation {
        kernel: "copy_blocks",
        source: "cache.cu",
        from: "values[to + i] = values[from + i];",
        to: "",
        check: copies,
    },
    Mutation {
        kernel: "copy_blocks",
        source: "cache.cu",
        from: "u64 layer = (u64)blockIdx.y * blocks;",
        to: "u64 layer = 0;",
        check: copies,
    },
];
