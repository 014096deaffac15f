//! Speed of the kernels on this machine: `cargo bench -p proofmill-engine --bench cpu`, with the
//! fastest instruction set, or with the one named after `--` (avx512, avx2, portable).
//!
//! Every number is the best of many short repeats, because other work on the machine only ever slows
//! a kernel down. "2 thr" runs two devices that share the weights.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, and stops where it cannot go on"
)]

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use proofmill_engine::backend::{
    Activation, Attend, AttentionMetadata, Backend, BlockRef, CacheShape, Input, Linear,
    LoadWeights, MatrixSource, Placement, Precision, RelativeBias, RowSampling, SamplerOutput,
    SamplingMetadata, SamplingMethod, Write,
};
use proofmill_engine::checkpoint::StoredTensor;
use proofmill_engine::cpu::{Cpu, Isa};
use proofmill_engine::rng::CounterRng;

/// `m, n, k`
const PRODUCTS: [(usize, usize, usize); 12] = [
    (1, 2048, 512),
    (4, 2048, 512),
    (8, 2048, 512),
    (32, 512, 512),
    (32, 2048, 512),
    (32, 512, 2048),
    (64, 2048, 512),
    (64, 768, 3072),
    (256, 1152, 384),
    (1024, 1024, 1024),
    (2048, 3072, 768),
    (4096, 2048, 512),
];

const REPEATS: usize = 40;
/// Shorter than the time a busy machine leaves to one thread.
const REPEAT_SECONDS: f64 = 0.0015;

fn main() {
    let name = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let named =
        |isa: &Isa| name.as_ref().is_some_and(|name| *name == format!("{isa:?}").to_lowercase());
    let isa = Isa::ALL.into_iter().find(named).unwrap_or(Cpu::default().isa());
    products(isa);
    attention(isa);
    sampling(isa);
}

fn products(isa: Isa) {
    println!("\n{isa:?}: x W^T, GFLOP/s (f32) or GOP/s (int8)");
    println!("{:>18} {:>8} {:>8} {:>8} {:>8}", "m,n,k", "f32", "2 thr", "int8", "2 thr");
    for (m, n, k) in PRODUCTS {
        let mut line = format!("{:>18}", format!("{m},{n},{k}"));
        for precision in [Precision::F32, Precision::Int8] {
            let linear = linear(&cpu(isa), n, k, precision);
            let operations = 2.0 * (m * n * k) as f64;
            for threads in [1, 2] {
                let seconds = best(threads, || {
                    let mut cpu = cpu(isa);
                    let x = rows(&mut cpu, m, k);
                    let mut out = cpu.tensor(m, n).expect("memory");
                    let linear = &linear;
                    move || {
                        cpu.linear(&x, linear, Activation::None, Write::Store, &mut out)
                            .expect("sizes fit");
                        black_box(&out);
                    }
                });
                line += &format!(" {:>8.0}", threads as f64 * operations / seconds / 1e9);
            }
        }
        println!("{line}");
    }
}

/// What, texts, rows of each, keys of each, heads, key heads, causal, biased.
type Case = (&'static str, usize, usize, usize, usize, usize, bool, bool);

fn attention(isa: Isa) {
    let cases: [Case; 6] = [
        ("encoder, 128 tokens", 8, 128, 128, 8, 8, false, true),
        ("prompt, 512 tokens", 2, 512, 512, 8, 8, true, false),
        ("prompt, 4 heads a key", 2, 512, 512, 8, 2, true, false),
        ("step, 72 cross keys", 32, 1, 72, 8, 8, false, false),
        ("step, 16 own keys", 32, 1, 16, 8, 8, true, true),
        ("FiD, 25,600 keys", 1, 1, 25_600, 8, 8, false, false),
    ];
    println!("\n{isa:?}: attention, heads of 64");
    println!("{:>24} {:>10} {:>10}", "", "us", "GFLOP/s");
    for (name, texts, own, keys, heads, kv_heads, causal, biased) in cases {
        let blocks = keys.div_ceil(16);
        let mut metadata = AttentionMetadata::default();
        for text in 0..texts {
            metadata.push(
                own,
                (0..blocks).map(|block| BlockRef {
                    block: (text * blocks + block) as u32,
                    used: (keys - 16 * block).min(16) as u32,
                }),
            );
        }
        let seconds = best(1, || {
            let mut cpu = cpu(isa);
            let shape = CacheShape {
                layers: 1,
                blocks: texts * blocks,
                kv_heads,
                head_dim: 64,
                precision: Precision::F32,
            };
            let cache = cpu.cache(shape).expect("memory");
            let q = rows(&mut cpu, texts * own, heads * 64);
            let mut out = cpu.tensor(texts * own, heads * 64).expect("memory");
            let bias = RelativeBias {
                weights: cpu.vector(&vec![0.5; heads * 257]).expect("memory"),
                reach: 128,
            };
            let metadata = &metadata;
            move || {
                let attend = Attend {
                    heads,
                    kv_heads,
                    head_dim: 64,
                    scale: 0.125,
                    causal,
                    bias: biased.then_some(&bias),
                };
                cpu.attend(&q, metadata, &attend, &cache, 0, &mut out).expect("sizes fit");
                black_box(&out);
            }
        });
        let pairs = if causal && own > 1 { own * (own + 1) / 2 } else { own * keys };
        let operations = (4 * texts * pairs * heads * 64) as f64;
        println!("{name:>24} {:>10.1} {:>10.0}", seconds * 1e6, operations / seconds / 1e9);
    }
}

fn sampling(isa: Isa) {
    println!("\n{isa:?}: pick of 32 rows from 32,128 tokens, width 512, ms");
    println!("{:>24} {:>10} {:>10}", "", "f32", "int8");
    let rng = CounterRng::new(1, 2, 3, 4);
    let sample = |top_k, top_p| SamplingMethod::Sample { temperature: 0.8, top_k, top_p, rng };
    let ways = [
        ("greedy", SamplingMethod::Greedy),
        ("given", SamplingMethod::Score { token: 17 }),
        ("top 8", SamplingMethod::TopK { count: 8 }),
        ("sample", sample(0, 1.0)),
        ("sample, top_k 50", sample(50, 1.0)),
        ("sample, top_p 0.9", sample(0, 0.9)),
    ];
    let heads = [Precision::F32, Precision::Int8]
        .map(|precision| linear(&cpu(isa), 32_128, 512, precision));
    for (name, method) in ways {
        let sampling = SamplingMetadata {
            rows: vec![RowSampling::new(method); 32],
            ..SamplingMetadata::default()
        };
        let mut line = format!("{name:>24}");
        for head in &heads {
            let seconds = best(1, || {
                let mut cpu = cpu(isa);
                let x = rows(&mut cpu, 32, 512);
                let (sampling, mut out) = (&sampling, SamplerOutput::default());
                move || {
                    let sampled = cpu.sample(&x, head, 0.3, sampling, None).expect("sizes fit");
                    cpu.read_sampled(sampled, &mut out).expect("it is there");
                    black_box(&out);
                }
            });
            line += &format!(" {:>10.2}", seconds * 1e3);
        }
        println!("{line}");
    }
}

fn cpu(isa: Isa) -> Cpu {
    Cpu::with(isa).expect("only available sets are requested")
}

/// Numbers that look random.
fn numbers(count: usize) -> Vec<f32> {
    let rng = CounterRng::new(0, count as u64, 0, 0);
    (0..count).map(|i| rng.uniform(i as u32) as f32 * 2.0 - 1.0).collect()
}

fn stored(rows: usize, width: usize) -> StoredTensor {
    StoredTensor::from_f32(&numbers(rows * width), vec![rows, width]).expect("the shape fits")
}

fn linear(cpu: &Cpu, n: usize, k: usize, precision: Precision) -> Linear<Cpu> {
    let source = MatrixSource { blocks: vec![Placement::OutputsByInputs(stored(n, k))] };
    let matrix = cpu.matrix(&source, precision).expect("memory");
    Linear { matrix, bias: None, outputs: n, inputs: k }
}

/// A tensor of numbers.
fn rows(cpu: &mut Cpu, rows: usize, width: usize) -> <Cpu as Backend>::Tensor {
    let embedding = proofmill_engine::backend::Embedding {
        tokens: cpu.table(&stored(rows, width)).expect("memory"),
        scale: 1.0,
        positions: None,
        kind: None,
        width,
    };
    let mut input = Input::default();
    (0..rows).for_each(|row| input.push(row as u32, 0, 0));
    let mut out = cpu.tensor(rows, width).expect("memory");
    cpu.embed(&input, &embedding, &mut out).expect("sizes fit");
    out
}

/// The least time of one call, in seconds, while `threads` threads call what `make` made them.
fn best<F: FnMut()>(threads: usize, make: impl Fn() -> F + Sync) -> f64 {
    let barrier = Barrier::new(threads);
    let work = || {
        let mut call = make();
        call();
        let start = Instant::now();
        call();
        let calls = (REPEAT_SECONDS / start.elapsed().as_secs_f64()).ceil().max(1.0) as usize;
        let mut least = f64::INFINITY;
        for _ in 0..REPEATS {
            barrier.wait();
            let start = Instant::now();
            (0..calls).for_each(|_| call());
            least = least.min(start.elapsed().as_secs_f64() / calls as f64);
        }
        least
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut slowest = work();
        for other in others {
            slowest = slowest.max(other.join().expect("a thread finished"));
        }
        slowest
    })
}
