//! Whole networks on the emulator, against the processor: tiny checkpoints of every family.

use std::path::{Path, PathBuf};

use proofmill_engine::architecture;
use proofmill_engine::backend::{Backend, DeviceError, Precision};
use proofmill_engine::checkpoint::{Folder, Special};
use proofmill_engine::cpu::Cpu;
use proofmill_engine::cuda::{Driver, GemmBackend, Gpu};
use proofmill_engine::network::{Network, Transformer};
use serde::Deserialize;

use crate::emulator::Emulator;
use crate::gemm::Sized;
use crate::pass::{ROWS, classes, logprobs, states};

/// One checkpoint of each family.
const CHECKPOINTS: [&str; 15] = [
    "t5",
    "flan-t5",
    "bart",
    "bert2bert",
    "bert",
    "dpr",
    "roberta",
    "bert-classifier",
    "roberta-classifier",
    "opt",
    "gpt2",
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
];
/// Tokens that are read and written.
const TOKENS: usize = 24;
/// Which texts of the goldens.
const TEXTS: [usize; 2] = [2, 3];

/// What is read of the goldens: texts only, they are compared with what the processor makes of them.
#[derive(Deserialize)]
struct Golden {
    texts: Vec<Text>,
    #[serde(default)]
    forward: Vec<Forward>,
}

#[derive(Deserialize)]
struct Text {
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Forward {
    text: usize,
    forced: Vec<u32>,
}

/// Tokens for an encoder, and for a decoder.
type Example = (Vec<u32>, Vec<u32>);

fn open(name: &str) -> Folder {
    let here = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/data");
    // Where the tests run on another machine than they were built on.
    let data = std::env::var_os("PROOFMILL_PARITY_DATA").map_or_else(here, PathBuf::from);
    Folder::open(&data.join(name)).unwrap()
}

fn examples(name: &str) -> Vec<Example> {
    let folder = open(name);
    let text = std::fs::read_to_string(folder.file("golden.json")).unwrap();
    let golden: Golden = serde_json::from_str(&text).unwrap();
    let start = Special::read(&folder).unwrap().start;
    let short = |tokens: &[u32]| tokens[..tokens.len().min(TOKENS)].to_vec();
    if golden.forward.is_empty() {
        return TEXTS.map(|text| (short(&golden.texts[text].ids), Vec::new())).to_vec();
    }
    let example = |it: &Forward| {
        let read = short(&golden.texts[it.text].ids);
        if it.forced.is_empty() {
            (Vec::new(), read)
        } else {
            (read, short(&[&[start.unwrap()], &it.forced[..]].concat()))
        }
    };
    TEXTS.map(|text| example(&golden.forward[text])).to_vec()
}

/// All numbers that a network gives: logits less their mean, states, or classes.
fn numbers<B: Backend>(
    backend: &mut B,
    network: &Network<B>,
    (read, written): &Example,
) -> Result<Vec<f32>, DeviceError> {
    match network.transformer {
        Transformer::Encoder(_) if network.classifier.is_some() => {
            classes(backend, network, read, true)
        }
        Transformer::Encoder(_) => states(backend, network, read),
        _ => {
            let rows = logprobs(backend, network, read, written, written.len())?;
            Ok(rows.iter().flat_map(|row| centred(row)).collect())
        }
    }
}

/// What log-probabilities and logits have in common: a row without its mean.
fn centred(row: &[f32]) -> impl Iterator<Item = f32> {
    let mean = row.iter().copied().map(f64::from).sum::<f64>() / row.len() as f64;
    row.iter().map(move |&x| (f64::from(x) - mean) as f32)
}

fn relative_error(ours: &[f32], theirs: &[f32]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let square = |x: f32| f64::from(x) * f64::from(x);
    let apart: f64 = ours.iter().zip(theirs).map(|(a, b)| square(a - b)).sum();
    (apart / theirs.iter().copied().map(square).sum::<f64>()).sqrt()
}

/// The largest error of a checkpoint's examples, relative to the processor in f32.
fn error(name: &str, driver: &Sized, precision: Precision) -> f64 {
    let folder = open(name);
    let mut cpu = Cpu::default();
    let expected = architecture::load(&folder, &cpu, Precision::F32, ROWS).unwrap();
    let mut gpu = Gpu::new(driver.clone(), precision);
    let network = architecture::load(&folder, &gpu, precision, ROWS).unwrap();
    let errors = examples(name).into_iter().map(|example| {
        let theirs = numbers(&mut cpu, &expected, &example).unwrap();
        let ours = numbers(&mut gpu, &network, &example).unwrap();
        relative_error(&ours, &theirs)
    });
    errors
        .fold(0.0, |largest, error| if error > largest || error.is_nan() { error } else { largest })
}

fn are_near(precision: Precision, gemm: GemmBackend, tolerance: f64) {
    let Some(emulator) = Emulator::start() else { return };
    let processors = emulator.processors();
    let driver = Sized(emulator, processors, gemm);
    let errors = CHECKPOINTS.map(|name| (name, error(name, &driver, precision)));
    let listed = errors.map(|(name, error)| format!("{name} {error:.1e}")).join(", ");
    // Seen with `--nocapture`.
    println!("{precision:?}: {listed}");
    assert!(errors.iter().all(|(_, error)| *error < tolerance), "{precision:?}: {listed}");
}

#[test]
fn f32_gives_what_the_processor_gives() {
    are_near(Precision::F32, GemmBackend::Builtin, 1e-5);
}

/// torch's own bf16 is no nearer to its f32. Logits of the same texts less their mean: `flan-t5` 1.6e-2,
/// `qwen3` and `qwen2` 1.3e-2, `llama` 1.0e-2; here 1.2e-2, 1.1e-2, 8.2e-3 and 6.8e-3.
#[test]
fn bf16_is_near() {
    are_near(Precision::Bf16, GemmBackend::Builtin, 1.5e-2);
    are_near(Precision::Bf16, GemmBackend::CublasLt, 1.5e-2);
}

/// A weight, and an activation that it multiplies, is rounded by up to half of the largest of its row
/// over 127: 0.7 percent of the row's length where numbers are drawn from a normal distribution, as
/// weights are here. Some ten products, one after the other, make 1.5e-2 (`bert`) to 4.5e-2 (`flan-t5`)
/// of it.
#[test]
fn int8_is_near() {
    are_near(Precision::Int8, GemmBackend::Builtin, 5e-2);
}
