//! Products with packed weights, against the processor's product of the numbers that were packed.

use half::{bf16, f16};
use proofmill_engine::backend::{
    Activation, Backend, DeviceError, Embedding, Input, Linear, MatrixSource, Placement, Precision,
    Write,
};
use proofmill_engine::checkpoint::{Dtype, StoredTensor};
use proofmill_engine::cpu::Cpu;
use proofmill_engine::cuda::{Driver, GemmBackend, Gpu, Launch, Role};
use std::sync::Arc;

use crate::emulator::{Emulator, pass};
use crate::mutation::Mutation;

/// The emulator as a device of some processors, by which products choose their blocks, and on which
/// somebody multiplies.
#[derive(Clone)]
pub struct Sized(pub Emulator, pub usize, pub GemmBackend);

/// So many that no block is too small, and so few that none is too large.
pub const MANY: usize = 100_000;
const FEW: usize = 1;

impl Driver for Sized {
    type Memory = <Emulator as Driver>::Memory;
    type Download = <Emulator as Driver>::Download;

    fn alloc(&self, role: Role, bytes: usize) -> Result<Self::Memory, DeviceError> {
        self.0.alloc(role, bytes)
    }

    fn upload(&self, from: &[u8], to: &Self::Memory, offset: usize) -> Result<(), DeviceError> {
        self.0.upload(from, to, offset)
    }

    fn run(&self, launches: &[Launch]) -> Result<(), DeviceError> {
        self.0.run(launches)
    }

    fn download(
        &self,
        from: &Self::Memory,
        offset: usize,
        to: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.0.download(from, offset, to)
    }

    fn begin_download(
        &self,
        from: &Self::Memory,
        offset: usize,
        bytes: usize,
    ) -> Result<Self::Download, DeviceError> {
        self.0.begin_download(from, offset, bytes)
    }

    fn end_download(&self, copy: Self::Download, to: &mut [u8]) -> Result<(), DeviceError> {
        self.0.end_download(copy, to)
    }

    fn processors(&self) -> usize {
        self.1
    }

    fn shared_per_block(&self) -> usize {
        self.0.shared_per_block()
    }

    fn gemm(&self) -> GemmBackend {
        self.2
    }
}

/// Numbers that are exact in bf16, between -1 and 1, in an order that `seed` decides.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| bf16::from_f32(next()).to_f32()).collect()
}

/// `values` as they are stored in a type.
fn stored(values: &[f32], dtype: Dtype, shape: [usize; 2]) -> StoredTensor {
    let bytes: Vec<u8> = match dtype {
        Dtype::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Dtype::F16 => values.iter().flat_map(|&v| f16::from_f32(v).to_le_bytes()).collect(),
        Dtype::Bf16 => values.iter().flat_map(|&v| bf16::from_f32(v).to_le_bytes()).collect(),
    };
    let range = 0..bytes.len();
    StoredTensor::new(Arc::new(bytes), range, dtype, shape.to_vec()).expect("the shape fits")
}

/// One product.
#[derive(Clone)]
struct Case {
    rows: usize,
    k: usize,
    source: MatrixSource,
    bias: Option<Vec<f32>>,
    activation: Activation,
}

/// How the weights of a case lie in their checkpoint.
#[derive(Clone, Copy)]
enum Lying {
    Linear,
    Conv1d,
    /// In blocks of different types.
    Blocks,
}

impl Case {
    fn new(rows: usize, n: usize, k: usize, dtype: Dtype, lying: Lying) -> Self {
        let scale = (k as f32).sqrt().recip();
        // Not exact in bf16, so that packing rounds.
        let weights: Vec<f32> = numbers(3, n * k).iter().map(|w| w * 1.003 * scale).collect();
        let blocks = match lying {
            Lying::Linear => vec![Placement::OutputsByInputs(stored(&weights, dtype, [n, k]))],
            Lying::Conv1d => vec![Placement::InputsByOutputs(stored(&weights, dtype, [k, n]))],
            Lying::Blocks => {
                let (some, rest) = weights.split_at(5 * k);
                let (more, rest) = rest.split_at(20 * k);
                vec![
                    Placement::OutputsByInputs(stored(some, dtype, [5, k])),
                    Placement::InputsByOutputs(stored(more, Dtype::F16, [k, 20])),
                    Placement::OutputsByInputs(stored(rest, Dtype::F32, [n - 25, k])),
                ]
            }
        };
        let bias = Some(numbers(4, n));
        Self { rows, k, source: MatrixSource { blocks }, bias, activation: Activation::None }
    }

    fn outputs(&self) -> usize {
        let outputs = |placement: &Placement| match placement {
            Placement::OutputsByInputs(stored) => stored.shape()[0],
            Placement::InputsByOutputs(stored) => stored.shape()[1],
        };
        self.source.blocks.iter().map(outputs).sum()
    }

    /// The weights `[n, k]` that are left of it in a precision, in f32.
    fn packed(&self, precision: Precision) -> Self {
        let mut all = Vec::new();
        for block in &self.source.blocks {
            match block {
                Placement::OutputsByInputs(stored) => all.extend(stored.values()),
                Placement::InputsByOutputs(stored) => {
                    let (values, n) = (stored.values(), stored.shape()[1]);
                    all.extend((0..n * self.k).map(|i| values[i % self.k * n + i / self.k]));
                }
            }
        }
        for row in all.chunks_mut(self.k) {
            match precision {
                Precision::F32 => {}
                Precision::Bf16 => row.iter_mut().for_each(|w| *w = bf16::from_f32(*w).to_f32()),
                Precision::Int8 => unreachable!("the processor multiplies bytes by itself"),
            }
        }
        let whole = stored(&all, Dtype::F32, [all.len() / self.k, self.k]);
        let source = MatrixSource { blocks: vec![Placement::OutputsByInputs(whole)] };
        Self { source, ..self.clone() }
    }

    /// The product on a device, onto rows of `before` or in the place of them.
    fn on<B: Backend>(
        &self,
        device: &mut B,
        precision: Precision,
        before: Option<f32>,
    ) -> Result<Vec<f32>, DeviceError> {
        let (rows, k, n) = (self.rows, self.k, self.outputs());
        let x = embedded(device, &numbers(1, rows * k), rows)?;
        let matrix = device.matrix(&self.source, precision)?;
        let bias = match &self.bias {
            Some(bias) => Some(device.vector(bias)?),
            None => None,
        };
        let linear = Linear { matrix, bias, outputs: n, inputs: k };
        let (mut out, write) = match before {
            None => (device.tensor(rows, n)?, Write::Store),
            Some(before) => (embedded(device, &vec![before; rows * n], rows)?, Write::Add),
        };
        device.linear(&x, &linear, self.activation, write, &mut out)?;
        let mut all = Vec::new();
        device.download(&out, &mut all)?;
        Ok(all)
    }

    /// Compares what kernels of this program make of it with what the processor makes of the same
    /// numbers.
    fn check(&self, emulator: &Emulator, precision: Precision, processors: usize) -> Checked {
        self.check_on(Sized(emulator.clone(), processors, GemmBackend::Builtin), precision)
    }

    /// The same on another device.
    fn check_on(&self, device: Sized, precision: Precision) -> Checked {
        let what = format!(
            "{} rows, {} outputs, {} inputs, {precision:?}, {} processors, {:?}",
            self.rows,
            self.outputs(),
            self.k,
            device.1,
            device.2,
        );
        let failed = |error: DeviceError| format!("{what}: {error}");
        let gpu = &mut Gpu::new(device, precision);
        let added = self.on(gpu, precision, Some(0.0)).map_err(failed)?;
        if precision == Precision::Int8 {
            // Sums of bytes are exact, and what becomes of them is the same on both.
            let expected = self.on(&mut Cpu::default(), precision, Some(0.0)).map_err(failed)?;
            same(&added, &expected).map_err(|error| format!("{what}, processor: {error}"))?;
        } else {
            let expected = self.packed(precision).on(&mut Cpu::default(), Precision::F32, None);
            for (index, (&got, &expected)) in
                added.iter().zip(&expected.map_err(failed)?).enumerate()
            {
                let close = (got - expected).abs() <= 2e-6 * (1.0 + expected.abs());
                if !(close || got.is_nan() && expected.is_nan()) {
                    return Err(format!("{what}: number {index} is {got} instead of {expected}"));
                }
            }
        }
        let stored = self.on(gpu, precision, None).map_err(failed)?;
        let halves = precision != Precision::F32;
        let rounded = |x: f32| if halves { bf16::from_f32(x).to_f32() } else { x };
        same(&stored, &added.iter().map(|&x| rounded(x)).collect::<Vec<_>>())
            .map_err(|error| format!("{what}, stored: {error}"))?;
        let onto = self.on(gpu, precision, Some(1.5)).map_err(failed)?;
        same(&onto, &added.iter().map(|&x| 1.5 + x).collect::<Vec<_>>())
            .map_err(|error| format!("{what}, added: {error}"))
    }
}

type Checked = Result<(), String>;

/// A tensor that holds `values`.
fn embedded<B: Backend>(
    device: &mut B,
    values: &[f32],
    rows: usize,
) -> Result<B::Tensor, DeviceError> {
    let width = values.len() / rows;
    let tokens = device.table(&stored(values, Dtype::F32, [rows, width]))?;
    let embedding = Embedding { tokens, scale: 1.0, positions: None, kind: None, width };
    let input = Input { tokens: (0..rows as u32).collect(), ..Input::default() };
    let mut place = B::Input::default();
    device.upload_input(&input, None, &mut place)?;
    let mut out = device.tensor(rows, width)?;
    device.embed(&place, &embedding, &mut out)?;
    // What is only planned yet needs the table and the input, which end here.
    device.download(&out, &mut Vec::new())?;
    Ok(out)
}

/// The same bits.
fn same(left: &[f32], right: &[f32]) -> Checked {
    let differs = |(l, r): (&f32, &f32)| l.to_bits() != r.to_bits() && !(l.is_nan() && r.is_nan());
    match left.iter().zip(right).position(differs) {
        None => Ok(()),
        Some(at) => Err(format!("number {at} is {:e} and {:e}", left[at], right[at])),
    }
}

const TENSOR_CORES: [Precision; 2] = [Precision::Bf16, Precision::Int8];

/// Sizes that are multiples of nothing, and those around the sizes of blocks.
pub fn sizes(emulator: &Emulator) -> Checked {
    for precision in TENSOR_CORES {
        for (rows, n, k, processors) in [
            (1, 1, 1, MANY),
            (2, 37, 40, MANY),
            (15, 40, 33, FEW),
            (16, 33, 250, MANY),
            (17, 70, 300, MANY),
            (48, 90, 64, FEW),
            (64, 17, 290, FEW),
            (65, 130, 100, FEW),
            (130, 40, 300, FEW),
        ] {
            Case::new(rows, n, k, Dtype::F32, Lying::Linear)
                .check(emulator, precision, processors)?;
        }
    }
    Ok(())
}

/// The same without tensor cores.
pub fn plain(emulator: &Emulator) -> Checked {
    for (rows, n, k) in [(1, 1, 1), (3, 70, 45), (65, 130, 64), (70, 25, 33)] {
        for lying in [Lying::Linear, Lying::Conv1d] {
            Case::new(rows, n, k, Dtype::F32, lying).check(emulator, Precision::F32, MANY)?;
        }
    }
    Case::new(3, 70, 45, Dtype::F16, Lying::Blocks).check(emulator, Precision::F32, MANY)
}

/// Types, transposed weights, and several blocks in a matrix.
pub fn sources(emulator: &Emulator) -> Checked {
    for precision in TENSOR_CORES {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
            for lying in [Lying::Linear, Lying::Conv1d, Lying::Blocks] {
                Case::new(3, 43, 70, dtype, lying).check(emulator, precision, MANY)?;
            }
        }
    }
    Ok(())
}

/// Every activation, with bias and without.
pub fn epilogues(emulator: &Emulator) -> Checked {
    use Activation::{Gelu, GeluTanh, None as Nothing, Relu, Silu, Tanh};
    for (precision, rows, processors) in
        [(Precision::F32, 5, FEW), (Precision::Bf16, 5, MANY), (Precision::Int8, 65, FEW)]
    {
        for activation in [Nothing, Relu, Gelu, GeluTanh, Silu, Tanh] {
            let mut case = Case::new(rows, 20, 33, Dtype::F32, Lying::Linear);
            case.activation = activation;
            case.check(emulator, precision, processors)?;
            case.bias = None;
            case.check(emulator, precision, processors)?;
        }
    }
    Ok(())
}

/// Products in two steps, as cuBLASLt takes part in them: sizes, sources and epilogues.
pub fn in_two_steps(emulator: &Emulator) -> Checked {
    use Activation::{Gelu, GeluTanh, None as Nothing, Relu, Silu, Tanh};
    let device = || Sized(emulator.clone(), MANY, GemmBackend::CublasLt);
    for (rows, n, k) in [(1, 1, 1), (2, 37, 40), (17, 300, 33), (65, 130, 290)] {
        let case = Case::new(rows, n, k, Dtype::F32, Lying::Linear);
        case.check_on(device(), Precision::Bf16)?;
    }
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16] {
        for lying in [Lying::Linear, Lying::Conv1d, Lying::Blocks] {
            Case::new(3, 43, 290, dtype, lying).check_on(device(), Precision::Bf16)?;
        }
    }
    for activation in [Nothing, Relu, Gelu, GeluTanh, Silu, Tanh] {
        let mut case = Case::new(5, 20, 33, Dtype::F32, Lying::Linear);
        case.activation = activation;
        case.check_on(device(), Precision::Bf16)?;
        case.bias = None;
        case.check_on(device(), Precision::Bf16)?;
    }
    // Other weights than those of 16 bits are multiplied by the kernels of this program.
    for precision in [Precision::F32, Precision::Int8] {
        Case::new(3, 43, 70, Dtype::F32, Lying::Linear).check_on(device(), precision)?;
    }
    Ok(())
}

/// Weights that are no numbers spoil their outputs, and only those.
pub fn spoilt(emulator: &Emulator) -> Checked {
    for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
        for no_number in [f32::NAN, f32::INFINITY] {
            let mut weights = numbers(8, 20 * 40);
            weights[7 * 40 + 39] = no_number;
            let whole = Placement::OutputsByInputs(stored(&weights, Dtype::F32, [20, 40]));
            let mut case = Case::new(2, 20, 40, Dtype::F32, Lying::Linear);
            case.source.blocks = vec![whole];
            let gpu = &mut Gpu::new(emulator.clone(), precision);
            let all = case.on(gpu, precision, Some(0.0)).map_err(|error| error.to_string())?;
            for (index, x) in all.iter().enumerate() {
                if x.is_finite() == (index % 20 == 7) {
                    return Err(format!("{precision:?}, {no_number}: number {index} is {x}"));
                }
            }
        }
    }
    Ok(())
}

/// A row has the same bits among any number of others, and in blocks of any size.
pub fn bits(emulator: &Emulator) -> Checked {
    let (n, k) = (40, 500);
    for precision in TENSOR_CORES {
        let mut first: Option<Vec<f32>> = None;
        for (rows, processors) in
            [(1, MANY), (3, FEW), (17, MANY), (40, FEW), (64, MANY), (65, FEW), (66, MANY)]
        {
            let case = Case::new(rows, n, k, Dtype::F32, Lying::Linear);
            let gpu =
                &mut Gpu::new(Sized(emulator.clone(), processors, GemmBackend::Builtin), precision);
            let all = case.on(gpu, precision, Some(0.0)).map_err(|error| error.to_string())?;
            let row = first.get_or_insert_with(|| all[..n].to_vec());
            same(row, &all[..n]).map_err(|error| {
                format!("{precision:?}, among {rows} rows, {processors} processors: {error}")
            })?;
        }
    }
    Ok(())
}

/// Whichever blocks share the inputs, all numbers have the same bits.
pub fn parts(emulator: &Emulator) -> Checked {
    // The second leaves one of eight slices without inputs, as bytes two.
    for (n, k, parts) in [(40, 4200, vec![1, 2, 4, 8]), (70, 1056, vec![1, 3])] {
        for precision in TENSOR_CORES {
            let mut first: Option<Vec<f32>> = None;
            for processors in parts.iter().copied().chain([MANY]) {
                let mut case = Case::new(40, n, k, Dtype::F32, Lying::Linear);
                case.activation = Activation::Relu;
                let sized = Sized(emulator.clone(), processors, GemmBackend::Builtin);
                let gpu = &mut Gpu::new(sized, precision);
                let all = case.on(gpu, precision, Some(0.5)).map_err(|error| error.to_string())?;
                same(first.get_or_insert_with(|| all.clone()), &all).map_err(|error| {
                    format!("{precision:?}, {n} by {k}, {processors} processors: {error}")
                })?;
            }
        }
    }
    Case::new(40, 70, 1056, Dtype::F32, Lying::Linear).check(emulator, Precision::Int8, 3)
}

#[test]
fn products_of_all_sizes() {
    pass(sizes);
}

#[test]
fn products_without_tensor_cores() {
    pass(plain);
}

#[test]
fn products_of_all_sources() {
    pass(sources);
}

#[test]
fn products_with_all_epilogues() {
    pass(epilogues);
}

#[test]
fn products_in_two_steps() {
    pass(in_two_steps);
}

#[test]
fn spoilt_weights_spoil_their_outputs() {
    pass(spoilt);
}

#[test]
fn rows_keep_their_bits() {
    pass(bits);
}

#[test]
fn parts_keep_their_bits() {
    pass(parts);
}

pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        kernel: "pack_bf16",
        source: "pack.cu",
        from: "output % 16 * 4 + lane % 4]",
        to: "output % 16 * 4 + 3 - lane % 4]",
        check: sources,
    },
    Mutation {
        kernel: "pack_int8",
        source: "pack.cu",
        from: "part * 16 + l * 4 + byte",
        to: "part * 16 + byte * 4 + l",
        check: sources,
    },
    Mutation {
        kernel: "pack_int8",
        source: "pack.cu",
        from: "if (!(size < INFINITE)) spoilt = 1.f;",
        to: "",
        check: spoilt,
    },
    Mutation {
        kernel: "pack_f32",
        source: "pack.cu",
        from: "group * depth + input",
        to: "group * k + input",
        check: plain,
    },
    Mutation {
        kernel: "pack_plain",
        source: "pack.cu",
        from: "(first + output) * depth + input",
        to: "(first + output) * k + input",
        check: in_two_steps,
    },
    Mutation {
        kernel: "product",
        source: "gemm_plain.cu",
        from: "fmaf(widened(inputs[i]), widened(of_column[i]), sum)",
        to: "fmaf(widened(inputs[i]), widened(of_column[0]), sum)",
        check: in_two_steps,
    },
    Mutation {
        kernel: "finish",
        source: "gemm_plain.cu",
        from: "sums[(u64)row * sums_stride + column]",
        to: "sums[(u64)row * n + column]",
        check: in_two_steps,
    },
    Mutation {
        kernel: "gemm_f32",
        source: "gemm_plain.cu",
        from: "input < 32; input++",
        to: "input < 31; input++",
        check: plain,
    },
    Mutation {
        kernel: "gemm_narrow_bf16",
        source: "gemm.cu",
        from: "first_column + column, 8,",
        to: "first_column + column, 7,",
        check: sizes,
    },
    Mutation {
        kernel: "gemm_narrow_int8",
        source: "gemm.cu",
        from: "__float_as_int(total.at[i]) + __float_as_int(next.at[i])",
        to: "__float_as_int(next.at[i])",
        check: sizes,
    },
    Mutation {
        kernel: "gemm_middle_bf16",
        source: "gemm.cu",
        from: "finish_block<Number, 64, 64, 128>(p, (const float*)shared, 72,",
        to: "finish_block<Number, 64, 64, 128>(p, (const float*)shared, 64,",
        check: sizes,
    },
    Mutation {
        kernel: "gemm_middle_int8",
        source: "gemm.cu",
        from: "put_slice(blockIdx.z)",
        to: "put_slice(0)",
        check: parts,
    },
    Mutation {
        kernel: "add_slices_bf16",
        source: "gemm.cu",
        from: "of_first + (u64)s * p.m * stride",
        to: "of_first + (u64)(count - 1 - s) * p.m * stride",
        check: parts,
    },
    Mutation {
        kernel: "add_slices_int8",
        source: "gemm.cu",
        from: "(blockIdx.x * 128 + threadIdx.x) * 8",
        to: "(blockIdx.x * 128 + threadIdx.x) * 4",
        check: parts,
    },
    Mutation {
        kernel: "quantise",
        source: "rows.cu",
        from: "? 127.f / largest : 0.f;\n  for",
        to: "? 126.f / largest : 0.f;\n  for",
        check: sizes,
    },
    Mutation {
        kernel: "gemm_wide_bf16",
        source: "gemm.cu",
        from: "(--left != 0 && begin",
        to: "(begin",
        check: bits,
    },
    Mutation {
        kernel: "gemm_wide_int8",
        source: "gemm.cu",
        from: "(row_scale * worth.at[i])",
        to: "(worth.at[i])",
        check: sizes,
    },
];
