//! The emulator itself: that it computes what a GPU would, and finds the mistakes it is there for.

use proofmill_engine::backend::DeviceError;
use proofmill_engine::cuda::{COMMON, Driver, Memory, Role};

use crate::compile;
use crate::emulator::{Emulator, Order, Piece};

const ORDERS: [Order; 3] = [Order::Forward, Order::Reversed, Order::Drawn(17)];

/// An emulator that has the kernels of `trials.cu` and no others.
fn trials(order: Order) -> Option<Emulator> {
    let unit = compile::unit(COMMON, "trials.cu", include_str!("trials.cu"));
    Emulator::made_of(&[unit], order).map(Result::unwrap)
}

fn memory(emulator: &Emulator, bytes: usize) -> Piece {
    emulator.alloc(Role::Scratch, bytes).unwrap()
}

fn numbers<const N: usize>(emulator: &Emulator, from: &Piece) -> Vec<[u8; N]> {
    let mut bytes = vec![0; from.bytes()];
    emulator.download(from, 0, &mut bytes).unwrap();
    bytes.chunks_exact(N).map(|chunk| chunk.try_into().unwrap()).collect()
}

fn longs(emulator: &Emulator, from: &Piece) -> Vec<u64> {
    numbers(emulator, from).into_iter().map(u64::from_le_bytes).collect()
}

fn floats(emulator: &Emulator, from: &Piece) -> Vec<f32> {
    numbers(emulator, from).into_iter().map(f32::from_le_bytes).collect()
}

fn words(emulator: &Emulator, from: &Piece) -> Vec<u32> {
    numbers(emulator, from).into_iter().map(u32::from_le_bytes).collect()
}

#[test]
fn memory_holds_what_was_put_there() {
    let Some(emulator) = Emulator::start() else { return };
    let memory = memory(&emulator, 1000);
    assert_eq!(memory.address() % 256, 0);
    emulator.upload(&[7; 10], &memory, 5).unwrap();
    let mut all = [1; 1000];
    emulator.download(&memory, 0, &mut all).unwrap();
    assert_eq!(all[..5], [0; 5]);
    assert_eq!(all[5..15], [7; 10]);
    assert_eq!(all[15..], [0; 985]);
    assert!(emulator.upload(&[7; 10], &memory, 991).is_err());
    assert!(emulator.download(&memory, usize::MAX, &mut all).is_err());
}

#[test]
fn room_comes_back_when_memory_goes() {
    let Some(emulator) = Emulator::with_memory(1000) else { return };
    let memory = emulator.alloc(Role::Cache, 600).unwrap();
    let Err(full) = emulator.alloc(Role::Cache, 500) else { panic!("there was room") };
    assert_eq!(full, DeviceError::OutOfMemory { bytes: 500 });
    drop(memory);
    assert!(emulator.alloc(Role::Cache, 500).is_ok());
}

#[test]
fn sums_are_the_same_in_any_order_of_threads() {
    let x: Vec<f32> = (0..3000).map(|i| (i as f32 * 0.37).sin()).collect();
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut results = Vec::new();
    for order in ORDERS {
        let Some(emulator) = trials(order) else { return };
        let (from, to) = (memory(&emulator, bytes.len()), memory(&emulator, 12));
        emulator.upload(&bytes, &from, 0).unwrap();
        let cells = [from.address(), to.address(), 1000];
        emulator.launch("sum_row", [3, 1, 1], 96, 0, &cells).unwrap();
        let sums = floats(&emulator, &to);
        for (sum, row) in sums.iter().zip(x.chunks(1000)) {
            assert!((sum - row.iter().sum::<f32>()).abs() < 1e-3, "{sums:?}");
        }
        results.push(numbers::<4>(&emulator, &to));
    }
    assert!(results.iter().all(|bits| *bits == results[0]));
}

#[test]
fn lanes_hear_from_each_other() {
    for order in ORDERS {
        let Some(emulator) = trials(order) else { return };
        let out = memory(&emulator, 64 * 12 * 4);
        emulator.launch("lanes", [1, 1, 1], 64, 0, &[out.address()]).unwrap();
        for (thread, own) in words(&emulator, &out).chunks(12).enumerate() {
            let lane = thread as u32 % 32;
            let expected = [
                5,
                lane / 8 * 8 + 3,
                lane ^ 9,
                if lane % 16 < 13 { lane + 3 } else { lane },
                if lane < 2 { lane } else { lane - 2 },
                (0..32).filter(|lane| lane % 3 == 0).map(|lane| 1 << lane).sum(),
                1,
                496 + 31_000,
                if lane < 4 { lane ^ 1 } else { 6 },
                4,
                2 + 100,
                lane ^ 2,
            ];
            assert_eq!(own, expected, "thread {thread}");
        }
    }
}

#[test]
fn atomics_lose_nothing() {
    for order in ORDERS {
        let Some(emulator) = trials(order) else { return };
        let pieces = [4, 8, 24].map(|bytes| memory(&emulator, bytes));
        let cells = pieces.each_ref().map(Memory::address);
        emulator.launch("numbers", [2, 1, 3], 32, 0, &cells).unwrap();
        assert_eq!(words(&emulator, &pieces[0]), [192]);
        assert_eq!(longs(&emulator, &pieces[1]), [191 << 33]);
        assert_eq!(words(&emulator, &pieces[2]), [u32::MAX; 6]);
    }
}

#[test]
fn a_tile_is_a_product() {
    let value = |i: usize| (i * 7 % 13) as f32 - 6.0;
    let half = |x: f32| ((x.to_bits() >> 16) as u16).to_le_bytes();
    let (a, b): (Vec<f32>, Vec<f32>) =
        ((0..256).map(value).collect(), (5..133).map(value).collect());
    for order in ORDERS {
        let Some(emulator) = trials(order) else { return };
        let pieces = [512, 256, 512].map(|bytes| memory(&emulator, bytes));
        for (piece, values) in pieces.iter().zip([&a, &b]) {
            let bytes: Vec<u8> = values.iter().flat_map(|&x| half(x)).collect();
            emulator.upload(&bytes, piece, 0).unwrap();
        }
        let cells = pieces.each_ref().map(Memory::address);
        emulator.launch("tile", [1, 1, 1], 32, 0, &cells).unwrap();
        let ours = floats(&emulator, &pieces[2]);
        for (place, &sum) in ours.iter().enumerate() {
            let (row, column) = (place / 8, place % 8);
            let expected: f32 = (0..16).map(|k| a[row * 16 + k] * b[k * 8 + column]).sum();
            assert_eq!(sum, expected, "row {row}, column {column}");
        }
    }
}

#[test]
fn a_tile_of_bytes_is_a_product() {
    let bytes = |from: i32, count: i32| -> Vec<i8> {
        (from..from + count).map(|i| (i * 37 % 255 - 127) as i8).collect()
    };
    let (a, b) = (bytes(0, 512), bytes(91, 256));
    for order in ORDERS {
        let Some(emulator) = trials(order) else { return };
        let pieces = [512, 256, 512].map(|bytes| memory(&emulator, bytes));
        for (piece, values) in pieces.iter().zip([&a, &b]) {
            let bytes: Vec<u8> = values.iter().map(|&value| value as u8).collect();
            emulator.upload(&bytes, piece, 0).unwrap();
        }
        let cells = pieces.each_ref().map(Memory::address);
        emulator.launch("tile_of_bytes", [1, 1, 1], 32, 0, &cells).unwrap();
        for (place, sum) in words(&emulator, &pieces[2]).into_iter().enumerate() {
            let (row, column) = (place / 8, place % 8);
            let product = |k: usize| i32::from(a[row * 32 + k]) * i32::from(b[column * 32 + k]);
            let expected: i32 = (0..32).map(product).sum();
            assert_eq!(sum as i32, expected, "row {row}, column {column}");
        }
    }
}

#[test]
fn a_missing_barrier_shows_in_another_order() {
    let mut results = Vec::new();
    for order in ORDERS {
        let Some(emulator) = trials(order) else { return };
        let out = memory(&emulator, 256);
        emulator.launch("race", [1, 1, 1], 64, 0, &[out.address()]).unwrap();
        results.push(words(&emulator, &out));
    }
    assert_ne!(results[0], results[1]);
}

#[test]
fn shared_memory_that_nobody_wrote_is_not_a_number() {
    let Some(emulator) = trials(Order::Forward) else { return };
    let out = memory(&emulator, 8);
    emulator.launch("unwritten", [2, 1, 1], 1, 4, &[out.address()]).unwrap();
    assert!(floats(&emulator, &out).iter().all(|number| number.is_nan()));
}

/// What the emulator says when a kernel is run with one word of output and some more arguments.
fn report(name: &str, threads: u32, shared: u32, more: &[u64]) -> Option<String> {
    let emulator = trials(Order::Forward)?;
    let out = memory(&emulator, 4 * threads as usize);
    let cells = [&[out.address()], more].concat();
    match emulator.launch(name, [1, 1, 1], threads, shared, &cells) {
        Err(DeviceError::Failed(report)) => Some(report),
        other => panic!("{name}: {other:?}"),
    }
}

fn found(name: &str, threads: u32, shared: u32, more: &[u64], words: &str) {
    if let Some(report) = report(name, threads, shared, more) {
        assert!(report.contains(words), "{report}");
        let says_where = report.contains("trials.cu") || report.contains(name);
        assert!(says_where, "{report}");
    }
}

#[test]
fn mistakes_are_found() {
    found("beyond_dynamic", 1, 12, &[12], "use-after-poison");
    found("beyond_dynamic", 1, 0, &[0], "use-after-poison");
    found("divergent", 32, 0, &[], "divergent barrier");
    found("left_early", 32, 0, &[], "does not take part");
    found("beyond_shared", 1, 0, &[4], "index 4 out of bounds");
}

#[test]
fn memory_ends_where_it_ends() {
    for (place, words) in
        [(0, None), (8, None), (12, Some("heap-buffer-overflow")), (2, Some("misaligned"))]
    {
        let Some(emulator) = trials(Order::Forward) else { return };
        let (x, out) = (memory(&emulator, 13 * 4), memory(&emulator, 4));
        let cells = [x.address(), place, out.address()];
        let done = emulator.launch("vector_load", [1, 1, 1], 1, 0, &cells);
        match (done, words) {
            (Ok(()), None) => {}
            (Err(DeviceError::Failed(report)), Some(words)) => {
                assert!(report.contains(words) && report.contains("trials.cu"), "{report}");
                // A process that has ended stays so, and says why again.
                assert!(emulator.alloc(Role::Cache, 4).is_err());
            }
            (other, _) => panic!("{place}: {other:?}"),
        }
    }
}

#[test]
fn launches_that_a_gpu_would_refuse_are_refused() {
    let Some(emulator) = trials(Order::Forward) else { return };
    let out = memory(&emulator, 256);
    let at = out.address();
    let refused = |name, grid, threads, shared, cells: &[u64], words| {
        let Err(error) = emulator.launch(name, grid, threads, shared, cells) else {
            panic!("{words}: it ran");
        };
        assert!(error.to_string().contains(words), "{error}");
    };
    refused("nothing", [1, 1, 1], 1, 0, &[], "there is no such kernel");
    refused("race", [1, 1, 1], 1, 0, &[], "it has 1 arguments, not 0");
    refused("race", [1, 1, 1], 1, 0, &[5], "pointer to no memory");
    refused("race", [1, 1, 1], 1, 0, &[at + 257], "pointer to no memory");
    refused("beyond_shared", [1, 1, 1], 1, 0, &[at, 1 << 32], "a number of 4 bytes");
    refused("race", [1, 1, 1], 0, 0, &[at], "1 to 1024 threads");
    refused("race", [1, 1, 1], 1025, 0, &[at], "1 to 1024 threads");
    refused("race", [1, 65536, 1], 1, 0, &[at], "the grid");
    refused("race", [1, 1, 0], 1, 0, &[at], "the grid");
    refused("race", [1, 1, 1], 1, 101_377, &[at], "101376 bytes of shared memory");
    emulator.launch("race", [1, 1, 1], 64, 101_376, &[at]).unwrap();
    let Some(larger) = trials(Order::Reversed) else { return };
    let at = memory(&larger, 256);
    larger.launch("race", [1, 1, 1], 64, 232_448, &[at.address()]).unwrap();
    assert!(larger.launch("race", [1, 1, 1], 64, 232_449, &[at.address()]).is_err());
}
