//! [`System`] on a GPU, where there is one.

use std::thread;

use half::bf16;
use proofmill_engine::cuda::system::{Disk, GraphCounts, KernelSource, Piece, System, gpus};
use proofmill_engine::cuda::{Driver, Kernel, Launch, Memory, Role};

/// Numbers that are computed with: a multiple of four, more than one block has threads for.
const NUMBERS: usize = 1 << 20;
/// Threads of a block of the kernels that are launched.
const THREADS: usize = 256;

/// A GPU, and the folder in which its kernels are kept.
fn open() -> Option<(System, tempfile::TempDir)> {
    let cache = tempfile::tempdir().unwrap();
    match gpus() {
        Ok(gpus) => {
            let system = System::open(gpus[0].index, cache.path()).unwrap();
            eprintln!("{}: {}", gpus[0].name, system.kernels());
            Some((system, cache))
        }
        Err(why) => {
            eprintln!("SKIPPED: {why}");
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
    let Some((system, _cache)) = open() else { return };
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
    let Some((system, _cache)) = open() else { return };
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

#[test]
fn kernels_that_were_compiled_once_are_kept() {
    let Some((system, cache)) = open() else { return };
    match system.kernels().clone() {
        KernelSource::Ptx { why } => eprintln!("SKIPPED: nothing is compiled here, because {why}"),
        KernelSource::Nvrtc { version, architecture, disk } => {
            assert_eq!(disk, Disk::Kept);
            let again = System::open(gpus().unwrap()[0].index, cache.path()).unwrap();
            let found = KernelSource::Nvrtc { version, architecture, disk: Disk::Found };
            assert_eq!(*again.kernels(), found);
        }
    }
}
