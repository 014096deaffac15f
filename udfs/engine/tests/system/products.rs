//! Products by a cuBLASLt without a GPU (`cublaslt.c`), beside the driver of the test.

use std::fs;

use half::bf16;
use proofmill_engine::backend::DeviceError;
use proofmill_engine::cuda::system::{GraphCounts, System};
use proofmill_engine::cuda::{Driver, GemmBackend, Kernel, Launch, Memory, Role};

use crate::{compiled, driver, open_with, run_inside, skipped, with_driver};

type Piece = <System as Driver>::Memory;

/// Runs a test of this file with the library in a folder of CUDA, where the loader does not look.
fn with_library(test: &str, settings: &[(&str, &str)]) {
    let Some(folder) = driver() else { return };
    let home = folder.path().join("home");
    fs::create_dir_all(home.join("lib64")).unwrap();
    let (driver, home) = (folder.path().to_str().unwrap(), home.to_str().unwrap());
    let library = folder.path().join("home/lib64/libcublasLt.so.12");
    let options = ["-Wl,-soname,libcublasLt.so.12", "-L", driver, "-lcuda"];
    assert!(compiled("cublaslt.c", &library, &options));
    let settings: Vec<_> = settings.iter().copied().chain([("CUDA_HOME", home)]).collect();
    run_inside(&format!("products::{test}"), folder.path(), &settings);
}

/// Whole numbers, so that sums are exact in any order.
fn numbers(count: usize, step: usize) -> Vec<f32> {
    (0..count).map(|at| (at * step % 13) as f32 - 6.0).collect()
}

fn halves(system: &System, numbers: &[f32]) -> Piece {
    let bytes: Vec<u8> =
        numbers.iter().flat_map(|&number| bf16::from_f32(number).to_le_bytes()).collect();
    let piece = system.alloc(Role::Scratch, bytes.len()).unwrap();
    system.upload(&bytes, &piece, 0).unwrap();
    piece
}

/// A matrix `[n, k]`, and rows to be multiplied by it.
struct Task {
    n: usize,
    k: usize,
    x: Vec<f32>,
    weights: Vec<f32>,
    on_device: [Piece; 3],
}

/// Rows of a task.
const ROWS: usize = 70;

impl Task {
    fn new(system: &System, n: usize, k: usize) -> Self {
        let (x, weights) = (numbers(ROWS * k, 7), numbers(n * k, 5));
        let out = system.alloc(Role::Scratch, ROWS * n.next_multiple_of(32) * 4).unwrap();
        let on_device = [halves(system, &x), halves(system, &weights), out];
        Self { n, k, x, weights, on_device }
    }

    /// The product of the first rows, as `gemm.cu` describes its arguments.
    fn launch(&self, rows: usize) -> Launch {
        let [x, weights, out] = &self.on_device;
        let stride = self.n.next_multiple_of(32);
        Launch::new(Kernel::Product, [rows, 1, 1], 256)
            .at(x)
            .u32(self.k)
            .at(weights)
            .at(out)
            .u32(stride)
            .u32(rows)
            .u32(self.n)
            .u32(self.k)
    }

    /// What the result must be: zeros where nothing was written.
    fn expected(&self, rows: usize) -> Vec<f32> {
        let stride = self.n.next_multiple_of(32);
        let mut all = vec![0.0; ROWS * stride];
        for (row, out) in all.chunks_mut(stride).take(rows).enumerate() {
            for (column, out) in out.iter_mut().take(self.n).enumerate() {
                let (x, w) = (&self.x[row * self.k..], &self.weights[column * self.k..]);
                *out = x.iter().zip(w).take(self.k).map(|(x, w)| x * w).sum();
            }
        }
        all
    }

    /// The result; zeros afterwards.
    fn taken(&self, system: &System) -> Vec<f32> {
        let out = &self.on_device[2];
        let mut bytes = vec![1; out.bytes()];
        system.download(out, 0, &mut bytes).unwrap();
        system.upload(&vec![0; out.bytes()], out, 0).unwrap();
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
    }
}

fn refused(system: &System, launch: Launch) -> String {
    match system.run(&[launch]) {
        Err(DeviceError::Failed(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn products_are_right_with_any_number_of_rows_and_as_graphs() {
    with_library("inside_products", &[]);
}

#[test]
#[ignore = "needs the libraries of the test"]
fn inside_products() {
    let system = open_with(GemmBackend::CublasLt).unwrap();
    assert_eq!(system.gemm(), GemmBackend::CublasLt);
    let tasks = [(37, 64), (96, 32)].map(|(n, k)| Task::new(&system, n, k));
    for rows in [1, 3, 64, ROWS] {
        for task in &tasks {
            system.run(&[task.launch(rows)]).unwrap();
            assert!(task.taken(&system) == task.expected(rows), "{rows} rows");
        }
    }
    let list: Vec<Launch> = tasks.iter().cycle().take(10).map(|task| task.launch(ROWS)).collect();
    for _ in 0..3 {
        system.run(&list).unwrap();
        assert!(tasks.iter().all(|task| task.taken(&system) == task.expected(ROWS)));
    }
    let counts = GraphCounts { plain: 9, recorded: 1, replayed: 2, given_up: None };
    assert_eq!(system.graphs(), counts);
    // Others are kernels still.
    let log = system.alloc(Role::Scratch, 16).unwrap();
    system.run(&[Launch::new(Kernel::Embed, [1, 1, 1], 1).at(&log).u32(5)]).unwrap();
    let crooked = tasks[0].launch(1).args[0] + 2;
    let mut launch = tasks[0].launch(1);
    launch.args[0] = crooked;
    assert!(refused(&system, launch).contains("not aligned"));
    let (system, tasks) = std::thread::spawn(move || {
        system.run(&[tasks[0].launch(5)]).unwrap();
        (system, tasks)
    })
    .join()
    .unwrap();
    assert!(tasks[0].taken(&system) == tasks[0].expected(5));
}

#[test]
fn an_algorithm_that_cuts_sums_is_not_taken() {
    with_library("inside_no_algorithm", &[("FAKE_NO_ALGORITHM", "1")]);
}

#[test]
#[ignore = "needs the libraries of the test"]
fn inside_no_algorithm() {
    let system = open_with(GemmBackend::CublasLt).unwrap();
    let why = refused(&system, Task::new(&system, 37, 64).launch(1));
    assert!(why.contains("while choosing how to multiply Shape { n: 37, depth: 64"), "{why}");
    assert!(why.contains("NOT_SUPPORTED; leaving `gemm` out"), "{why}");
}

#[test]
fn an_algorithm_is_not_exchanged_for_another_number_of_rows() {
    with_library("inside_picky", &[("FAKE_PICKY", "1")]);
}

#[test]
#[ignore = "needs the libraries of the test"]
fn inside_picky() {
    let system = open_with(GemmBackend::CublasLt).unwrap();
    let task = Task::new(&system, 37, 64);
    let why = refused(&system, task.launch(2));
    assert!(why.contains("while preparing to multiply 2 rows"), "{why}");
    system.run(&[task.launch(1)]).unwrap();
    assert!(task.taken(&system) == task.expected(1));
}

#[test]
fn without_the_library_it_is_said_what_to_do() {
    with_driver("products::inside_without", &[]);
}

#[test]
#[ignore = "needs the driver of the test"]
fn inside_without() {
    match open_with(GemmBackend::CublasLt) {
        Ok(_) => skipped(&"this machine has cuBLASLt"),
        Err(why) => {
            let why = why.to_string();
            assert!(why.contains("`gemm: cublaslt` needs NVIDIA's library"), "{why}");
            assert!(why.contains("leave `gemm` out"), "{why}");
        }
    }
}
