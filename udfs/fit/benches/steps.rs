//! Steps a second, and arithmetic beside that of a product alone: `cargo bench -p proofmill-fit`, with `-- NAME` for the cases
//! whose names begin so.
//!
//! A T5 of the shape that ships (d_model 128, d_kv 32, d_ff 512, 4 heads, 2 and 2 blocks, 1,000 tokens; batches of 64 pairs of
//! 60 and 12 tokens), and a sentence encoder of MiniLM's shape with weights by chance (width 384, 6 blocks, 12 heads,
//! 1,536 inside, 30,522 tokens; batches of 64 pairs of 32 and 16 tokens), alone and with a decoder of 3 blocks behind it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, and stops where it cannot go on"
)]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use proofmill_fit::{Pair, Report, Run, Start, Tokens, fit};
use proofmill_gemm::{Multiplier, Operand, Sums};
use proofmill_settings::fit::{DecoderSizes, Objective, Sizes, Training};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize};
use serde_json::json;

const WIDTH: usize = 384;
const INSIDE: usize = 1536;
const BLOCKS: usize = 6;
/// Numbers of the matrices of a block: attention, and the feed-forward part.
const BLOCK: usize = 4 * WIDTH * WIDTH + 2 * WIDTH * INSIDE;

/// What is fitted.
struct Case {
    name: &'static str,
    start: Start,
    pairs: Vec<Pair>,
    settings: Training,
    /// Operations of the products with matrices in a step.
    operations: f64,
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    minilm(folder.path());
    let folder = folder.path();
    println!("a product alone, one thread: {:.1} GFLOP/s", product());
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = wanted.unwrap_or_default();
    let cases = [t5(), contrastive(folder), two_berts(folder)];
    for case in cases.iter().filter(|case| case.name.starts_with(&wanted)) {
        for threads in [1, 2] {
            let seconds = seconds(case, threads);
            println!(
                "{}, {threads} parts at a time: {:.3} s a step, {:.1} GFLOP/s in products of weights",
                case.name,
                seconds,
                case.operations / seconds / 1e9,
            );
        }
    }
}

/// A product as large as those of the encoder.
fn product() -> f64 {
    let (rows, a, b) = (512, vec![0.5; 512 * WIDTH], vec![0.25; WIDTH * INSIDE]);
    let mut out = vec![0.0; rows * INSIDE];
    let mut multiplier = Multiplier::default();
    let mut once = || {
        let (a, b) = (Operand::new(&a, rows, WIDTH), Operand::new(&b, WIDTH, INSIDE));
        multiplier.multiply(a, b, Sums::FromZero, black_box(&mut out)).unwrap();
    };
    once();
    let began = Instant::now();
    (0..100).for_each(|_| once());
    100.0 * 2.0 * (rows * WIDTH * INSIDE) as f64 / began.elapsed().as_secs_f64() / 1e9
}

fn t5() -> Case {
    let tokens = Tokens::Words { also: Vec::new() };
    let settings = Training { steps: 25, warmup: 0, ..Training::default() };
    // Two blocks on each side, where keys and values of cross attention are of the inputs, and the matrix of tokens.
    let (square, inside) = (128.0 * 128.0, 2.0 * 128.0 * 512.0);
    let reads = 2.0 * (4.0 * square + inside) + 2.0 * 2.0 * square;
    let writes = 2.0 * (6.0 * square + inside) + 128.0 * 1000.0;
    let operations = 6.0 * 64.0 * (60.0 * reads + 12.0 * writes);
    let pairs = pairs(59, 11);
    Case {
        name: "T5",
        start: Start::Scratch { sizes: Sizes::tiny(), tokens },
        pairs,
        settings,
        operations,
    }
}

fn contrastive(folder: &Path) -> Case {
    let settings = Training {
        objective: Objective::Contrastive,
        steps: 4,
        warmup: 0,
        learning_rate: 1e-5,
        ..Training::default()
    };
    let start = Start::Checkpoint { folder: folder.to_owned(), digested: None };
    // The way forward is made twice.
    let operations = 8.0 * 64.0 * 48.0 * (BLOCKS * BLOCK) as f64;
    Case { name: "contrastive", start, pairs: pairs(30, 14), settings, operations }
}

fn two_berts(folder: &Path) -> Case {
    let settings = Training { steps: 4, warmup: 0, learning_rate: 1e-5, ..Training::default() };
    let decoder = DecoderSizes { layers: 3, heads: None, d_ff: None };
    let start = Start::WithDecoder { folder: folder.to_owned(), digested: None, decoder };
    // Queries and results of cross attention are of the outputs, keys and values of the inputs.
    let encoder = BLOCKS * BLOCK + 3 * 2 * WIDTH * WIDTH;
    let writes = 3 * (BLOCK + 2 * WIDTH * WIDTH) + WIDTH * (WIDTH + 30_522);
    let operations = 6.0 * 64.0 * (32.0 * encoder as f64 + 16.0 * writes as f64);
    Case { name: "two BERTs", start, pairs: pairs(30, 15), settings, operations }
}

/// Seconds of a step, without the first.
fn seconds(case: &Case, threads: usize) -> f64 {
    let began = Instant::now();
    let mut first = Duration::ZERO;
    let mut progress = |report: &Report| {
        if report.step == 1 {
            first = began.elapsed();
        }
    };
    let run = Run {
        threads,
        state: None,
        scratch: Path::new(""),
        cancel: &AtomicBool::new(false),
        clock: &|| began.elapsed(),
        progress: &mut progress,
    };
    fit(&case.settings, &case.start, &case.pairs, &[], run).expect("the fit fails");
    (began.elapsed() - first).as_secs_f64() / f64::from(case.settings.steps - 1)
}

/// Words by a linear congruence, 997 of them, or syllables; each text of one length.
fn pairs(input: usize, output: usize) -> Vec<Pair> {
    let mut word = 1_u32;
    let mut text = |words: usize| {
        let mut next = || {
            word = (word * 17 + 3) % 997;
            // One token for a tokenizer of words, and one for that of the tests' BERT.
            if input > 40 { format!("w{word}") } else { syllable(word) }
        };
        (0..words).map(|_| next()).collect::<Vec<_>>().join(" ")
    };
    (0..1024).map(|_| Pair::new(text(input), text(output))).collect()
}

fn syllable(number: u32) -> String {
    let one = |letters: &str, at: u32| letters.chars().nth(at as usize % letters.len()).unwrap();
    format!("{}{}", one("bcdfghjklmnpqrstvwxz", number / 5), one("aeiou", number))
}

/// A folder with a BERT of MiniLM's shape.
fn minilm(folder: &Path) {
    let mut tensors: Vec<(String, Vec<usize>)> = Vec::new();
    let mut add = |name: String, dims: &[usize]| tensors.push((name, dims.to_vec()));
    for (name, rows) in [("word", 30_522), ("position", 512), ("token_type", 2)] {
        add(format!("embeddings.{name}_embeddings.weight"), &[rows, WIDTH]);
    }
    let mut norms = vec!["embeddings.LayerNorm".to_owned()];
    for block in 0..BLOCKS {
        let at = format!("encoder.layer.{block}");
        let square = ["self.query", "self.key", "self.value", "output.dense"];
        let square = square.map(|name| (format!("attention.{name}"), WIDTH, WIDTH));
        let inside = ("intermediate.dense".to_owned(), INSIDE, WIDTH);
        let down = ("output.dense".to_owned(), WIDTH, INSIDE);
        for (name, outputs, inputs) in square.into_iter().chain([inside, down]) {
            add(format!("{at}.{name}.weight"), &[outputs, inputs]);
            add(format!("{at}.{name}.bias"), &[outputs]);
        }
        norms.extend(["attention.output", "output"].map(|name| format!("{at}.{name}.LayerNorm")));
    }
    for norm in norms {
        add(format!("{norm}.weight"), &[WIDTH]);
        add(format!("{norm}.bias"), &[WIDTH]);
    }
    let mut seed = 1_u32;
    let mut number = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / 16_777_216.0 * 0.1 - 0.05
    };
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, dims)| (0..dims.iter().product()).flat_map(|_| number().to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, dims), bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, dims.clone(), bytes).unwrap())
    });
    std::fs::write(folder.join("model.safetensors"), serialize(views, None).unwrap()).unwrap();
    let config = json!({
        "architectures": ["BertModel"], "model_type": "bert", "vocab_size": 30_522, "hidden_size": WIDTH,
        "num_hidden_layers": BLOCKS, "num_attention_heads": 12, "intermediate_size": INSIDE,
        "max_position_embeddings": 512,
    });
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let tokenizer = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../engine/tests/parity/data/bert/tokenizer.json");
    std::fs::copy(tokenizer, folder.join("tokenizer.json")).unwrap();
}
