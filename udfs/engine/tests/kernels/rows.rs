//! Embeddings, norms, gates, chosen rows and pooling, against the processor's.

use std::sync::Arc;

use half::{bf16, f16};
use proofmill_engine::backend::{
    Activation, AttentionMetadata, Backend, DeviceError, Embedding, Input, Linear, MatrixSource,
    Norm, NormKind, Placement, Pool, Precision, Write,
};
use proofmill_engine::checkpoint::{Dtype, StoredTensor};
use proofmill_engine::cpu::Cpu;
use proofmill_engine::cuda::Gpu;

use crate::emulator::{Emulator, pass};
use crate::mutation::Mutation;

pub type Checked = Result<(), String>;
type Done<T> = Result<T, DeviceError>;

const BOTH: [Precision; 2] = [Precision::F32, Precision::Bf16];
/// Less than a thread has, multiples of nothing, several rounds of all threads.
const WIDTHS: [usize; 7] = [1, 3, 32, 38, 130, 1030, 2100];

/// Numbers between -1 and 1 in an order that `seed` decides.
pub fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// `values` as they are stored in a type.
fn stored(values: &[f32], dtype: Dtype, width: usize) -> StoredTensor {
    let bytes: Vec<u8> = match dtype {
        Dtype::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Dtype::F16 => values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
        Dtype::Bf16 => values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect(),
    };
    let range = 0..bytes.len();
    let shape = vec![values.len() / width, width];
    StoredTensor::new(Arc::new(bytes), range, dtype, shape).expect("the shape fits")
}

/// A tensor that holds `values`, in f32.
pub fn tensor<B: Backend>(device: &mut B, values: &[f32], width: usize) -> Done<B::Tensor> {
    let rows = values.len() / width;
    let tokens = device.table(&stored(values, Dtype::F32, width))?;
    let embedding = Embedding { tokens, scale: 1.0, positions: None, kind: None, width };
    let input = Input { tokens: (0..rows as u32).collect(), ..Input::default() };
    let mut place = B::Input::default();
    device.upload_input(&input, None, &mut place)?;
    let mut out = device.tensor(rows, width)?;
    device.embed(&place, &embedding, &mut out)?;
    settle(device)?;
    Ok(out)
}

/// The same numbers as a product leaves them: on a device that computes in bfloat16, only in that.
fn product<B: Backend>(
    device: &mut B,
    x: &B::Tensor,
    (rows, width): (usize, usize),
    precision: Precision,
) -> Done<B::Tensor> {
    let identity: Vec<f32> =
        (0..width * width).map(|i| f32::from(u8::from(i / width == i % width))).collect();
    let whole = Placement::OutputsByInputs(stored(&identity, Dtype::F32, width));
    let source = MatrixSource { blocks: vec![whole] };
    // The processor has f32 only.
    let matrix = device.matrix(&source, precision);
    let matrix = matrix.or_else(|_| device.matrix(&source, Precision::F32))?;
    let linear = Linear { matrix, bias: None, outputs: width, inputs: width };
    let mut out = device.tensor(rows, width)?;
    device.linear(x, &linear, Activation::None, Write::Store, &mut out)?;
    settle(device)?;
    Ok(out)
}

/// Runs what waits, so that what it reads can be given back. Brings nothing back that the result is.
fn settle<B: Backend>(device: &mut B) -> Done<()> {
    let nothing = device.tensor(0, 1)?;
    device.download(&nothing, &mut Vec::new())
}

fn all<B: Backend>(device: &mut B, x: &B::Tensor) -> Done<Vec<f32>> {
    let mut all = vec![7.0];
    device.download(x, &mut all)?;
    Ok(all)
}

fn gpu(emulator: &Emulator, precision: Precision) -> Gpu<Emulator> {
    Gpu::new(emulator.clone(), precision)
}

/// As far apart as `tolerance` times their size, or both no number.
fn close(what: &str, got: &[f32], expected: &[f32], tolerance: f32) -> Checked {
    if got.len() != expected.len() {
        return Err(format!("{what}: {} numbers instead of {}", got.len(), expected.len()));
    }
    for (place, (got, expected)) in got.iter().zip(expected).enumerate() {
        let near = (got - expected).abs() <= tolerance * (1.0 + expected.abs()) && !got.is_nan();
        if !(near || got.is_nan() && expected.is_nan()) {
            return Err(format!("{what}: number {place} is {got:e} instead of {expected:e}"));
        }
    }
    Ok(())
}

fn rounded(values: &[f32]) -> Vec<f32> {
    values.iter().map(|&x| bf16::from_f32(x).to_f32()).collect()
}

/// What `case` gives on both devices.
macro_rules! compare {
    ($emulator:expr, $precision:expr, $tolerance:expr, $what:expr, $case:expr) => {{
        let what: String = $what;
        let failed = |error: DeviceError| format!("{what}: {error}");
        let got = $case.on(&mut gpu($emulator, $precision)).map_err(failed)?;
        let expected = $case.on(&mut Cpu::default()).map_err(failed)?;
        close(&what, &got, &expected, $tolerance)
    }};
}

#[derive(Debug)]
struct Embeds {
    dtype: Dtype,
    width: usize,
    /// The row of position 0.
    first: Option<u32>,
    kind: bool,
    scale: f32,
    tokens: Vec<u32>,
    positions: Vec<u32>,
}

impl Embeds {
    fn on<B: Backend>(&self, device: &mut B) -> Done<Vec<f32>> {
        let width = self.width;
        let tokens = device.table(&stored(&numbers(1, 9 * width), self.dtype, width))?;
        let positions = match self.first {
            None => None,
            Some(first) => {
                Some((device.table(&stored(&numbers(2, 7 * width), self.dtype, width))?, first))
            }
        };
        let kind = if self.kind { Some(device.vector(&numbers(3, width))?) } else { None };
        let embedding = Embedding { tokens, scale: self.scale, positions, kind, width };
        let (tokens, positions) = (self.tokens.clone(), self.positions.clone());
        let mut rows = B::Input::default();
        let input = Input { tokens, positions, ..Input::default() };
        device.upload_input(&input, None, &mut rows)?;
        let mut out = device.tensor(5, width)?;
        device.embed(&rows, &embedding, &mut out)?;
        all(device, &out)
    }
}

/// Tables of all types, with positions and kinds and without, to the last bit.
pub fn embeds(emulator: &Emulator) -> Checked {
    for (dtype, width) in
        [Dtype::F32, Dtype::F16, Dtype::Bf16].into_iter().flat_map(|d| WIDTHS.map(|w| (d, w)))
    {
        for (first, kind, scale, precision) in [
            (None, false, 1.0, Precision::F32),
            (Some(2), true, 0.7, Precision::F32),
            (Some(0), false, 3.0, Precision::Bf16),
        ] {
            let (tokens, positions) = (vec![8, 0, 3, 3, 1], vec![4, 0, 1, 2, 4]);
            let case = Embeds { dtype, width, first, kind, scale, tokens, positions };
            compare!(emulator, precision, 0.0, format!("{precision:?}, {case:?}"), case)?;
        }
    }
    Ok(())
}

struct Norms {
    kind: NormKind,
    x: Vec<f32>,
    width: usize,
    bias: bool,
    precision: Precision,
}

impl Norms {
    fn on<B: Backend>(&self, device: &mut B) -> Done<Vec<f32>> {
        let (rows, width) = (self.x.len() / self.width, self.width);
        let weight = device.vector(&numbers(5, width))?;
        let bias = if self.bias { Some(device.vector(&numbers(6, width))?) } else { None };
        let norm = Norm::<B> { kind: self.kind, weight, bias, eps: 1e-5 };
        let x = tensor(device, &self.x, width)?;
        let mut out = device.tensor(rows, width)?;
        device.norm(&x, &norm, &mut out)?;
        let mut numbers = all(device, &out)?;
        // The same in bfloat16, if there is one.
        if width < 200 {
            let product = product(device, &out, (rows, width), self.precision)?;
            numbers.extend(rounded(&all(device, &product)?));
        }
        Ok(numbers)
    }
}

/// Both kinds, also of rows whose mean is large beside their differences.
pub fn norms(emulator: &Emulator) -> Checked {
    for (kind, width) in
        [NormKind::Layer, NormKind::Rms].into_iter().flat_map(|k| WIDTHS.map(|w| (k, w)))
    {
        for (precision, bias, shift) in [
            (Precision::F32, true, 0.0),
            (Precision::F32, false, 40.0),
            (Precision::Bf16, true, 0.5),
        ] {
            let mut x = numbers(width as u64, 3 * width);
            x.iter_mut().for_each(|x| *x += shift);
            let case = Norms { kind, x, width, bias, precision };
            let what = format!("{kind:?}, width {width}, {precision:?}, bias {bias}, {shift}");
            let got = case.on(&mut gpu(emulator, precision)).map_err(|e| format!("{what}: {e}"))?;
            let expected = case.on(&mut Cpu::default()).map_err(|e| format!("{what}: {e}"))?;
            // Where the mean is subtracted, differences have its rounding; a single number is only that.
            let exact = if shift == 40.0 { 2e-5 } else { 2e-6 };
            let (got, halves) = got.split_at(3 * width);
            let (expected, _) = expected.split_at(3 * width);
            if width > 1 || kind == NormKind::Rms {
                close(&what, got, expected, exact)?;
            }
            close(&format!("{what}, bf16"), halves, &rounded(&got[..halves.len()]), 0.0)?;
        }
    }
    Ok(())
}

struct Gates {
    activation: Activation,
    width: usize,
    product: bool,
}

impl Gates {
    fn on<B: Backend>(&self, device: &mut B) -> Done<Vec<f32>> {
        let (rows, width) = (3, self.width);
        let x: Vec<f32> = numbers(8, rows * 2 * width).iter().map(|x| x * 6.0).collect();
        let mut x = tensor(device, &rounded(&x), 2 * width)?;
        if self.product {
            x = product(device, &x, (rows, 2 * width), Precision::Bf16)?;
        }
        let mut out = device.tensor(rows, width)?;
        device.glu(&x, self.activation, &mut out)?;
        all(device, &out)
    }
}

/// Every activation; from f32 and from bfloat16.
pub fn gates(emulator: &Emulator) -> Checked {
    use Activation::{Gelu, GeluTanh, None as Nothing, Relu, Silu, Tanh};
    for (precision, product) in
        [(Precision::F32, false), (Precision::Bf16, false), (Precision::Bf16, true)]
    {
        let tolerance = if precision == Precision::F32 { 1e-6 } else { 1.0 / 256.0 };
        for activation in [Nothing, Relu, Gelu, GeluTanh, Silu, Tanh] {
            let case = Gates { activation, width: 38, product };
            let what = format!("{precision:?}, {activation:?}, of a product: {product}");
            compare!(emulator, precision, tolerance, what, case)?;
        }
        for width in WIDTHS.into_iter().filter(|&width| !product || width < 200) {
            let case = Gates { activation: Silu, width, product };
            let what = format!("{precision:?}, width {width}, of a product: {product}");
            compare!(emulator, precision, tolerance, what, case)?;
        }
    }
    Ok(())
}

struct Gathers {
    width: usize,
    product: bool,
}

impl Gathers {
    fn on<B: Backend>(&self, device: &mut B) -> Done<Vec<f32>> {
        let (rows, width) = (9, self.width);
        let mut x = tensor(device, &rounded(&numbers(9, rows * width)), width)?;
        if self.product {
            x = product(device, &x, (rows, width), Precision::Bf16)?;
        }
        // Twice before anything is brought back: the second list must not take the first one's place.
        let (mut some, mut others) = (device.tensor(5, width)?, device.tensor(6, width)?);
        device.index_select(&x, &[8, 0, 4, 4, 7], &mut some)?;
        device.index_select(&some, &[4, 3, 3, 0, 1, 2], &mut others)?;
        let mut numbers = all(device, &some)?;
        numbers.extend(all(device, &others)?);
        device.index_select(&x, &[], &mut others)?;
        numbers.extend(all(device, &others)?);
        Ok(numbers)
    }
}

/// Rows in any order, to the last bit; none at all.
pub fn gathers(emulator: &Emulator) -> Checked {
    for (precision, product) in
        [(Precision::F32, false), (Precision::Bf16, false), (Precision::Bf16, true)]
    {
        for width in WIDTHS.into_iter().filter(|&width| !product || width < 200) {
            let what = format!("{precision:?}, width {width}, of a product: {product}");
            compare!(emulator, precision, 0.0, what, Gathers { width, product })?;
        }
    }
    Ok(())
}

struct Pools {
    pool: Pool,
    normalize: bool,
    width: usize,
    product: bool,
    segments: Vec<usize>,
}

impl Pools {
    fn on<B: Backend>(&self, device: &mut B) -> Done<Vec<f32>> {
        let (rows, width) = (self.segments.iter().sum(), self.width);
        let mut x = numbers(10, rows * width);
        // A row of nothing stays nothing, whatever it is divided by.
        x[..width].fill(0.0);
        let mut x = tensor(device, &rounded(&x), width)?;
        if self.product {
            x = product(device, &x, (rows, width), Precision::Bf16)?;
        }
        let mut metadata = AttentionMetadata::default();
        self.segments.iter().for_each(|&rows| metadata.push(rows, []));
        let mut place = B::Metadata::default();
        device.upload_metadata(&metadata, &mut place)?;
        let mut out = device.tensor(self.segments.len(), width)?;
        device.pool(&x, &place, self.pool, self.normalize, &mut out)?;
        all(device, &out)
    }
}

/// Every way, over texts of many lengths.
pub fn pools(emulator: &Emulator) -> Checked {
    for (precision, product) in
        [(Precision::F32, false), (Precision::Bf16, false), (Precision::Bf16, true)]
    {
        for width in WIDTHS.into_iter().filter(|&width| !product || width < 200) {
            for pool in [Pool::Mean, Pool::First, Pool::Last] {
                for normalize in [false, true] {
                    let segments = vec![1, 7, 8, 9, 33];
                    let case = Pools { pool, normalize, width, product, segments };
                    let what = format!("{precision:?}, {width}, {pool:?}, normalised {normalize}");
                    let tolerance = if pool == Pool::Mean || normalize { 1e-6 } else { 0.0 };
                    compare!(emulator, precision, tolerance, what, case)?;
                }
            }
        }
    }
    Ok(())
}

/// A row has the same bits among any number of others.
pub fn bits(emulator: &Emulator) -> Checked {
    let width = 300;
    for precision in BOTH {
        let mut alone: Option<[Vec<f32>; 3]> = None;
        for rows in [1, 3, 17, 70] {
            let device = &mut gpu(emulator, precision);
            let mut x = numbers(11, 5 * width);
            x.extend(numbers(rows as u64, (rows - 1) * width));
            let norms = Norms {
                kind: NormKind::Layer,
                x: x[..rows * width].to_vec(),
                width,
                bias: true,
                precision,
            };
            let gates = Gates { activation: Activation::Gelu, width, product: false };
            let segments = [5].into_iter().chain(std::iter::repeat_n(2, rows / 2)).collect();
            let pools =
                Pools { pool: Pool::Mean, normalize: true, width, product: false, segments };
            let failed = |error: DeviceError| format!("{precision:?}, {rows} rows: {error}");
            let first = |all: Vec<f32>| all[..width].to_vec();
            let all = [norms.on(device), gates.on(device), pools.on(device)];
            let [norms, gates, pools] = all;
            let all = [norms, gates, pools].map(|all| all.map(first).map_err(failed));
            let [norms, gates, pools] = all;
            let all = [norms?, gates?, pools?];
            let alone = alone.get_or_insert_with(|| all.clone());
            for (what, (all, alone)) in ["norm", "gate", "pool"].iter().zip(all.iter().zip(alone)) {
                close(&format!("{what}, {precision:?}, {rows} rows"), all, alone, 0.0)?;
            }
        }
    }
    Ok(())
}

/// What does not fit together is refused in the same words as by the processor.
fn refused<T>(
    emulator: &Emulator,
    on_cpu: impl Fn(&mut Cpu) -> Done<T>,
    on_gpu: impl Fn(&mut Gpu<Emulator>) -> Done<T>,
) {
    let Err(expected) = on_cpu(&mut Cpu::default()) else { panic!("the processor took it") };
    let Err(got) = on_gpu(&mut gpu(emulator, Precision::Bf16)) else { panic!("it was taken") };
    assert_eq!(got, expected);
}

#[test]
fn embeddings_are_those_of_the_processor() {
    pass(embeds);
}

#[test]
fn norms_are_those_of_the_processor() {
    pass(norms);
}

#[test]
fn gates_are_those_of_the_processor() {
    pass(gates);
}

#[test]
fn gathered_rows_are_those_asked_for() {
    pass(gathers);
}

#[test]
fn pooled_rows_are_those_of_the_processor() {
    pass(pools);
}

#[test]
fn rows_keep_their_bits() {
    pass(bits);
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(emulator) = Emulator::start() else { return };
    let embeds = |tokens: &[u32], positions: &[u32]| Embeds {
        dtype: Dtype::F32,
        width: 3,
        first: Some(2),
        kind: true,
        scale: 1.0,
        tokens: tokens.to_vec(),
        positions: positions.to_vec(),
    };
    for case in
        [embeds(&[9], &[0]), embeds(&[8], &[5]), embeds(&[8, 1], &[0]), embeds(&[1; 6], &[1; 6])]
    {
        refused(&emulator, |cpu| case.on(cpu), |gpu| case.on(gpu));
    }
    fn gathers<B: Backend>(device: &mut B) -> Done<()> {
        let x = tensor(device, &[1.0; 6], 3)?;
        let mut out = device.tensor(2, 3)?;
        device.index_select(&x, &[1, 2], &mut out)
    }
    refused(&emulator, gathers, gathers);
    fn gates<B: Backend>(device: &mut B) -> Done<()> {
        let x = tensor(device, &[1.0; 6], 3)?;
        let mut out = device.tensor(2, 2)?;
        device.glu(&x, Activation::Silu, &mut out)
    }
    refused(&emulator, gates, gates);
    fn norms<B: Backend>(device: &mut B) -> Done<()> {
        let x = tensor(device, &[1.0; 6], 3)?;
        let weight = device.vector(&[1.0; 4])?;
        let mut out = device.tensor(2, 3)?;
        device.norm(&x, &Norm { kind: NormKind::Rms, weight, bias: None, eps: 0.0 }, &mut out)
    }
    refused(&emulator, norms, norms);
    fn pools<B: Backend>(device: &mut B) -> Done<()> {
        let x = tensor(device, &[1.0; 6], 3)?;
        let mut metadata = AttentionMetadata::default();
        metadata.push(1, []);
        let mut place = B::Metadata::default();
        device.upload_metadata(&metadata, &mut place)?;
        let mut out = device.tensor(2, 3)?;
        device.pool(&x, &place, Pool::Mean, false, &mut out)
    }
    refused(&emulator, pools, pools);
}

pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        kernel: "embed",
        source: "rows.cu",
        from: "((u64)place[row] + first_place) * width",
        to: "(u64)place[row] * width",
        check: embeds,
    },
    Mutation {
        kernel: "embed",
        source: "rows.cu",
        from: "left >= 4 && at % 4 == 0",
        to: "left >= 4",
        check: embeds,
    },
    Mutation {
        kernel: "norm_rows",
        source: "rows.cu",
        from: "float distance = i + j < width ?",
        to: "float distance = true ?",
        check: norms,
    },
    Mutation {
        kernel: "norm_rows",
        source: "rows.cu",
        from: "if (!rms) {",
        to: "if (rms) {",
        check: norms,
    },
    Mutation {
        kernel: "gate",
        source: "rows.cu",
        from: "row + width + i, width - i);",
        to: "row + stride + i, width - i);",
        check: gates,
    },
    Mutation {
        kernel: "gather",
        source: "rows.cu",
        from: "(u64)rows[blockIdx.x] * stride",
        to: "(u64)rows[blockIdx.x / 2] * stride",
        check: gathers,
    },
    Mutation {
        kernel: "pool",
        source: "rows.cu",
        from: "r += POOL_STRANDS",
        to: "r += 2 * POOL_STRANDS",
        check: pools,
    },
    Mutation { kernel: "pool", source: "rows.cu", from: "length == 0.f || ", to: "", check: pools },
    Mutation {
        kernel: "narrow",
        source: "rows.cu",
        from: "4ull * four, row_four(from, TYPE_F32",
        to: "4ull * four, row_four(to, TYPE_BF16",
        check: gathers,
    },
    Mutation {
        kernel: "widen",
        source: "rows.cu",
        from: "row_put_four(to, TYPE_F32, 4ull * four",
        to: "row_put_four(to, TYPE_F32, 8ull * (four / 2)",
        check: norms,
    },
];
