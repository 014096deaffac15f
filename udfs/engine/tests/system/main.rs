//! [`System`] on a driver without a GPU (`cuda.c`), to test this side of the calls: arguments, order,
//! what is waited for and what is given back. A GPU shows the other side.
//!
//! The driver is opened by its name, once per process, so each test runs in a process of its own.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod gpu;
mod products;

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::thread;

use proofmill_engine::backend::DeviceError;
use proofmill_engine::checkpoint::Folder;
use proofmill_engine::cuda::system::{GraphCounts, OpenGpuError, System, gpus};
use proofmill_engine::cuda::{Driver, GemmBackend, Kernel, Launch, Memory, Role, SHARED_LEAST};
use proofmill_engine::model::{self, Claim, GpuInfo, Model, Settings};

const MIB: usize = 1 << 20;

/// Runs a test of this program, one of those that are ignored, with the driver of the test.
fn with_driver(test: &str, settings: &[(&str, &str)]) {
    let Some(folder) = driver() else { return };
    run_inside(test, folder.path(), settings);
}

/// A folder with the driver of the test; none, and a message, where there is no C compiler.
fn driver() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    compiled("cuda.c", &folder.path().join("libcuda.so"), &[]).then_some(folder)
}

/// Says that a test did not test, and why: past the test runner's capture, so that it is seen.
fn skipped(why: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// Makes a library of a source beside this one; says so where there is no C compiler.
fn compiled(source: &str, library: &Path, options: &[&str]) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/system").join(source);
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(library).arg(source).args(options);
    match compiler.output() {
        Err(error) => {
            skipped(&format!("there is no C compiler: {error}"));
            false
        }
        Ok(output) => {
            assert!(output.status.success(), "{output:?}");
            true
        }
    }
}

/// Runs a test in a process of its own, with the driver in `folder`.
fn run_inside(test: &str, folder: &Path, settings: &[(&str, &str)]) {
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", test, "--ignored", "--nocapture"]);
    process.env("LD_LIBRARY_PATH", folder);
    process.env_remove("CUDA_HOME").env_remove("VIRTUAL_ENV").envs(settings.iter().copied());
    let output = process.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{output:#?}");
}

fn open() -> System {
    open_with(GemmBackend::Builtin).unwrap()
}

fn open_with(gemm: GemmBackend) -> Result<System, OpenGpuError> {
    System::open(1, gemm)
}

fn read(system: &System, memory: &<System as Driver>::Memory) -> Vec<u8> {
    let mut all = vec![1; memory.bytes()];
    system.download(memory, 0, &mut all).unwrap();
    all
}

/// `count` launches that note `first`, `first + 1` and so on.
fn list(log: &impl Memory, first: usize, count: usize) -> Vec<Launch> {
    let launch = |at| Launch::new(Kernel::Embed, [3, 2, 1], 64).at(log).u32(first + at);
    (0..count).map(launch).collect()
}

/// What the log holds after the numbers of `lists` were noted.
fn noted(lists: &[(usize, usize)]) -> Vec<u8> {
    let numbers = lists.iter().flat_map(|&(first, count)| first..first + count);
    let (count, all) = numbers.fold((0_u64, 0_u64), |(count, all), number| {
        (count + 1, all.wrapping_mul(31).wrapping_add(number as u64))
    });
    [count.to_le_bytes(), all.to_le_bytes()].concat()
}

#[test]
fn gpus_are_found() {
    with_driver("inside_gpus_are_found", &[]);
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_gpus_are_found() {
    let all = gpus().unwrap();
    assert_eq!(all.len(), 1, "the first is too old");
    assert_eq!((all[0].index, &*all[0].name, all[0].capability), (1, "Fake 1", (9, 0)));
    assert_eq!((all[0].bytes, all[0].cuda), (1 << 32, (12, 4)));
    let error = System::open(0, GemmBackend::Builtin).unwrap_err();
    assert_eq!(error, OpenGpuError::NotThisOne { index: 0, found: "1: Fake 1".to_owned() });
    let system = open();
    assert_eq!((system.capability(), system.processors()), ((9, 0), 114));
    assert_eq!(system.shared_per_block(), 232_448);
}

#[test]
fn a_gpu_of_99_kib_of_shared_memory_is_used_and_one_of_less_is_not() {
    with_driver("inside_99_kib", &[("FAKE_SHARED", "101376")]);
    with_driver("inside_less", &[("FAKE_SHARED", "65536")]);
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_99_kib() {
    let system = open();
    assert_eq!(system.shared_per_block(), SHARED_LEAST);
    let log = system.alloc(Role::Scratch, 16).unwrap();
    let launch = Launch::new(Kernel::Embed, [1, 1, 1], 64).at(&log).u32(1);
    system.run(&[launch.clone().shared(SHARED_LEAST - 1024)]).unwrap();
    let error = system.run(&[launch.shared(SHARED_LEAST)]).unwrap_err().to_string();
    assert!(error.contains("shared memory and this GPU gives it 100352"), "{error}");
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_less() {
    let error = open_with(GemmBackend::Builtin).unwrap_err().to_string();
    assert!(error.contains("Fake 1 gives a block 65536 bytes of shared memory"), "{error}");
}

#[test]
fn unlike_gpus_share_no_model() {
    with_driver("inside_unlike", &[("FAKE_GPUS", "80 90")]);
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_unlike() {
    let all = model::gpus().unwrap();
    let capabilities: Vec<_> = all.iter().map(|gpu| gpu.capability).collect();
    assert_eq!(capabilities, [(8, 0), (9, 0)]);
    assert_eq!(GpuInfo::newest(&all), all[1..]);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/data/gpt2");
    let folder = Arc::new(Folder::open(&data).unwrap());
    let open = |gpus: Vec<u32>| {
        let claim = Claim { gpus, kv_cache_bytes: Some(1 << 20), models: 1 };
        Model::open_on_gpus(&folder, &Settings::for_gpus(1), &claim).map(drop)
    };
    let error = open(vec![0, 1]).unwrap_err().to_string();
    assert!(error.contains("cuda:0 Fake 0 has compute capability 8.0, cuda:1 Fake 1"), "{error}");
    // One alone gets as far as its first kernel, which the driver of the test does not have.
    let error = open(vec![1]).unwrap_err().to_string();
    assert!(error.contains("arguments and takes 2"), "{error}");
}

#[test]
fn memory_begins_as_zeros_and_is_given_back_on_any_thread() {
    with_driver("inside_memory", &[("FAKE_BYTES", "100000")]);
    with_driver("inside_memory", &[("FAKE_BYTES", "100000"), ("FAKE_NO_POOLS", "1")]);
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_memory() {
    let system = open();
    let before = system.free_bytes().unwrap();
    let roles = [Role::Weights, Role::Scratch, Role::Cache, Role::Staging];
    let pieces: Vec<_> = roles
        .iter()
        .flat_map(|&role| [0, 1, 1000].map(|bytes| system.alloc(role, bytes).unwrap()))
        .collect();
    for piece in &pieces {
        assert!(read(&system, piece).iter().all(|&byte| byte == 0));
        assert!(system.upload(&vec![7; piece.bytes()], piece, 0).is_ok());
        assert!(system.upload(&[7], piece, piece.bytes()).is_err());
        assert!(system.download(piece, usize::MAX, &mut [0]).is_err());
    }
    assert!(read(&system, &pieces[2]).iter().all(|&byte| byte == 7));
    let (system, mut pieces) = thread::spawn(move || {
        drop(system.alloc(Role::Staging, 10).unwrap());
        (system, pieces)
    })
    .join()
    .unwrap();
    let pooled = pieces.split_off(9);
    thread::spawn(move || drop(pieces)).join().unwrap();
    system.upload(&[9; 1000], &pooled[2], 0).unwrap();
    drop(system);
    thread::spawn(move || drop(pooled)).join().unwrap();
    assert_eq!(open().free_bytes().unwrap(), before, "all of it was given back");
}

#[test]
fn uploads_arrive_however_many_there_are() {
    with_driver("inside_uploads", &[("FAKE_BYTES", "120000000")]);
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_uploads() {
    let system = open();
    let bytes = 100 * MIB + 123;
    let all: Vec<u8> = (0..bytes).map(|at| (at * 31 + at / 257) as u8).collect();
    let memory = system.alloc(Role::Weights, bytes).unwrap();
    let mut sizes = [1, 77, 3 * MIB, 8 * MIB, 8 * MIB + 1, 20 * MIB, 64, 0].into_iter().cycle();
    let mut at = 0;
    while at < bytes {
        let end = bytes.min(at + sizes.next().unwrap());
        system.upload(&all[at..end], &memory, at).unwrap();
        at = end;
    }
    assert!(read(&system, &memory) == all);
    let mut some = [0; 5];
    system.download(&memory, 9 * MIB, &mut some).unwrap();
    assert_eq!(some, all[9 * MIB..][..5]);
}

#[test]
fn launches_run_in_order_and_lists_that_come_again_as_graphs() {
    with_driver("inside_launches", &[]);
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_launches() {
    let system = open();
    let log = system.alloc(Role::Scratch, 16).unwrap();
    let lists = [(0, 20), (0, 20), (50, 9), (0, 20), (1, 2), (50, 9), (1, 2), (50, 9)];
    for (first, count) in lists {
        system.run(&list(&log, first, count)).unwrap();
    }
    assert_eq!(read(&system, &log), noted(&lists));
    let counts = GraphCounts { plain: 4, recorded: 2, replayed: 4, given_up: None };
    assert_eq!(system.graphs(), counts);

    let refused = |launch: Launch| match system.run(&[launch]) {
        Err(DeviceError::Failed(why)) => why,
        other => panic!("{other:?}"),
    };
    let launch = || Launch::new(Kernel::Embed, [1, 1, 1], 64).at(&log);
    assert!(refused(launch()).contains("given 1 arguments and takes 2"));
    assert!(refused(launch().u32(1).shared(227 * 1024)).contains("shared memory"));
    let message = refused(Launch::new(Kernel::Embed, [0, 1, 1], 64).at(&log).u32(1));
    assert!(message.contains("`embed` with [0, 1, 1] blocks of 64"), "{message}");
    assert_eq!(read(&system, &log), noted(&lists), "and nothing ran");
}

#[test]
fn copies_that_were_begun_hold_what_was_there_then() {
    with_driver("inside_copies", &[]);
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_copies() {
    let system = open();
    let log = system.alloc(Role::Scratch, 16).unwrap();
    let run = |first| {
        system.run(&list(&log, first, 20)).unwrap();
        system.begin_download(&log, 0, 16).unwrap()
    };
    let lists = [0, 50, 7, 90].map(|first| (first, 20));
    let ended = |copy| {
        let mut all = [0; 16];
        system.end_download(copy, &mut all).unwrap();
        all.to_vec()
    };
    let (first, second) = (run(0), run(50));
    assert_eq!(ended(second), noted(&lists[..2]));
    drop(run(7));
    let last = run(90);
    assert_eq!(ended(last), noted(&lists));
    assert_eq!(ended(first), noted(&lists[..1]), "however late it is read");
    // More than others took, and one that no caller waits for before the device is gone.
    let large = system.alloc(Role::Scratch, MIB).unwrap();
    system.upload(&[7; MIB], &large, 0).unwrap();
    let copy = system.begin_download(&large, 0, MIB).unwrap();
    let left = system.begin_download(&large, 5, 100).unwrap();
    let mut all = vec![0; MIB];
    system.end_download(copy, &mut all).unwrap();
    assert!(all.iter().all(|&byte| byte == 7));
    assert!(system.begin_download(&large, MIB, 1).is_err());
    drop((log, large));
    drop(system);
    drop(left);
}

#[test]
fn without_recording_launches_run_one_by_one() {
    with_driver("inside_no_recording", &[("FAKE_NO_CAPTURE", "1")]);
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_no_recording() {
    let reason = Arc::new(OnceLock::new());
    let system = open().telling(Arc::clone(&reason));
    assert_eq!(reason.get(), None);
    let log = system.alloc(Role::Scratch, 16).unwrap();
    let lists = [(0, 20); 4];
    for (first, count) in lists {
        system.run(&list(&log, first, count)).unwrap();
    }
    assert_eq!(read(&system, &log), noted(&lists));
    let GraphCounts { plain, recorded, replayed, given_up } = system.graphs();
    assert_eq!((plain, recorded, replayed), (4, 0, 0));
    assert!(given_up.unwrap().contains("while recording a graph"));
    assert!(reason.get().unwrap().contains("while recording a graph"));
    // What is too large for a kernel is an error, and nothing runs.
    let large = [list(&log, 0, 1), list(&log, u32::MAX as usize, 2)].concat();
    let error = system.run(&large).unwrap_err().to_string();
    assert!(error.contains("`embed` is to be told 4294967296"), "{error}");
    assert_eq!(read(&system, &log), noted(&lists));
}

#[test]
fn it_is_said_when_memory_is_out_and_what_the_pool_keeps_is_used_first() {
    with_driver("inside_out_of_memory", &[("FAKE_BYTES", "10000000")]);
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_out_of_memory() {
    let system = open();
    let staged = system.alloc(Role::Staging, 8_000_000).unwrap();
    let error = system.alloc(Role::Weights, 5_000_000).unwrap_err();
    assert_eq!(error, DeviceError::OutOfMemory { bytes: 5_000_192 });
    drop(staged);
    assert!(system.free_bytes().unwrap() < 5_000_000, "the pool keeps it for the next");
    let weights = system.alloc(Role::Weights, 5_000_000).unwrap();
    assert!(read(&system, &weights).iter().all(|&byte| byte == 0));
    let error = system.alloc(Role::Staging, 8_000_000).unwrap_err();
    assert_eq!(error, DeviceError::OutOfMemory { bytes: 8_000_000 });
}
