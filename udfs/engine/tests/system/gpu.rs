//! [`System`] on a GPU, where there is one.

use std::sync::Arc;
use std::thread;

use half::bf16;
use proofmill_engine::backend::{
    Activation, Backend, Embedding, Input, Linear, LoadWeights, MatrixSource, Placement, Precision,
    Write,
};
use proofmill_engine::checkpoint::{Dtype, StoredTensor};
use proofmill_engine::cuda::system::{GraphCounts, Piece, System, gpus};
use proofmill_engine::cuda::{Driver, GemmBackend, Gpu, Kernel, Launch, Memory, Role};

use crate::skipped;

/// Numbers that are computed with: a multiple of four, more than one block has threads for.
const NUMBERS: usize = 1 << 20;
/// Threads of a block of the kernels that are launched.
const THREADS: usize = 256;

fn open() -> Option<System> {
    match gpus() {
        Ok(gpus) => Some(System::open(gpus[0].index, GemmBackend::Builtin).unwrap()),
        Err(why) => {
            skipped(&why);
            None
        }
    }
}

fn floats(system: &System, from: &Piece) -> Vec<f32> {
    let mut bytes = vec![1; from.bytes()];
    system.download(from, 0, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

#[test]
fn memory_begins_as_zeros_and_holds_what_was_put_there() {
    let Some(system) = open() else { return };
    for role in [Role::Weights, Role::Scratch, Role::Cache, Role::Staging] {
        let piece = system.alloc(role, 50_000_004).unwrap();
        assert_eq!(piece.address() % 256, 0);
        assert!(floats(&system, &piece).iter().all(|&number| number == 0.0), "{role:?}");
        let numbers: Vec<f32> = (0..piece.bytes() / 4).map(|at| at as f32).collect();
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let (begin, end) = bytes.split_at(12_345);
        system.upload(end, &piece, begin.len()).unwrap();
        system.upload(begin, &piece, 0).unwrap();
        assert!(floats(&system, &piece) == numbers, "{role:?}");
    }
}

#[test]
fn launches_and_graphs_compute_the_same_on_any_thread() {
    let Some(system) = open() else { return };
    let numbers: Vec<f32> = (0..NUMBERS).map(|at| (at as f32).sin() * 1e3).collect();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let rounded: Vec<f32> = numbers.iter().map(|&number| bf16::from_f32(number).to_f32()).collect();
    let room = |size: usize| system.alloc(Role::Scratch, NUMBERS * size).unwrap();
    let (from, halves, to) = (room(4), room(2), room(4));
    let convert = |kernel, from: &Piece, to: &Piece| {
        let fours = NUMBERS / 4;
        Launch::new(kernel, [fours.div_ceil(THREADS), 1, 1], THREADS).at(from).at(to).u32(fours)
    };
    // Rounding what is rounded changes nothing.
    let mut list = vec![convert(Kernel::Narrow, &from, &halves)];
    for _ in 0..5 {
        list.push(convert(Kernel::Widen, &halves, &to));
        list.push(convert(Kernel::Narrow, &to, &halves));
    }
    system.upload(&bytes, &from, 0).unwrap();
    for _ in 0..3 {
        system.upload(&vec![0; to.bytes()], &to, 0).unwrap();
        system.run(&list).unwrap();
        assert!(floats(&system, &to) == rounded);
    }
    thread::spawn(move || {
        system.upload(&vec![0; to.bytes()], &to, 0).unwrap();
        system.run(&list).unwrap();
        assert!(floats(&system, &to) == rounded);
        let counts = GraphCounts { plain: 1, recorded: 1, replayed: 3, given_up: None };
        assert_eq!(system.graphs(), counts);
    })
    .join()
    .unwrap();
}

/// Numbers between -1 and 1 that are exact in bf16.
fn numbers(count: usize, seed: f32) -> Vec<f32> {
    (0..count).map(|at| bf16::from_f32((at as f32 * seed).sin()).to_f32()).collect()
}

fn stored(values: &[f32], shape: [usize; 2]) -> StoredTensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let range = 0..bytes.len();
    StoredTensor::new(Arc::new(bytes), range, Dtype::F32, shape.to_vec()).unwrap()
}

/// f32 products with weights `[n, k]`, added to zeros, of the first `rows` rows of `x`.
fn product(gpu: &mut Gpu<System>, x: &[f32], rows: usize, n: usize, k: usize) -> Vec<f32> {
    let mut held = |values: &[f32], width: usize| {
        let tokens = gpu.table(&stored(values, [rows, width])).unwrap();
        let embedding = Embedding { tokens, scale: 1.0, positions: None, kind: None, width };
        let input = Input { tokens: (0..rows as u32).collect(), ..Input::default() };
        let mut place = Default::default();
        gpu.upload_input(&input, None, &mut place).unwrap();
        let mut out = gpu.tensor(rows, width).unwrap();
        gpu.embed(&place, &embedding, &mut out).unwrap();
        // What is only planned yet needs the table and the input, which end here.
        gpu.download(&out, &mut Vec::new()).unwrap();
        out
    };
    let (x, mut out) = (held(&x[..rows * k], k), held(&vec![0.0; rows * n], n));
    let weights = Placement::OutputsByInputs(stored(&numbers(n * k, 0.37), [n, k]));
    let source = MatrixSource { blocks: vec![weights] };
    let matrix = gpu.matrix(&source, Precision::Bf16).unwrap();
    let linear = Linear { matrix, bias: None, outputs: n, inputs: k };
    gpu.linear(&x, &linear, Activation::None, Write::Add, &mut out).unwrap();
    let mut all = Vec::new();
    gpu.download(&out, &mut all).unwrap();
    all
}

/// What nothing but a GPU shows: that cuBLASLt keeps what is requested of it.
#[test]
fn a_row_multiplied_by_cublaslt_has_the_same_bits_among_any_others() {
    let Some(own) = open() else { return };
    let index = gpus().unwrap()[0].index;
    let system = match System::open(index, GemmBackend::CublasLt) {
        Ok(system) => system,
        Err(why) => return skipped(&why),
    };
    let own = &mut Gpu::new(own, Precision::Bf16);
    let gpu = &mut Gpu::new(system, Precision::Bf16);
    for (n, k) in [(500, 777), (2304, 768), (768, 3072)] {
        let x = numbers(1500 * k, 0.73);
        let all = product(gpu, &x, 1500, n, k);
        for (at, (got, expected)) in all.iter().zip(product(own, &x, 1500, n, k)).enumerate() {
            let close = (got - expected).abs() <= 1e-4 * (k as f32).sqrt();
            assert!(close, "{n} by {k}: number {at} is {got} instead of {expected}");
        }
        for rows in [1, 2, 3, 7, 16, 30, 64, 100, 256, 700] {
            let some = product(gpu, &x, rows, n, k);
            let same = some.iter().zip(&all).all(|(l, r)| l.to_bits() == r.to_bits());
            assert!(same, "{n} by {k}: bits depend on whether there are {rows} rows or 1500");
        }
    }
}
