//! Exact inner product search over a large memory: time and memory to answer queries.
//!
//! `cargo bench -p proofmill-retrieval --bench dense -- [entries] [queries] [dimensions] [threads] [hits]`. Vectors are
//! drawn from a fixed seed, block by block as a stored index gives them; drawing them is not measured. With a path for
//! `hits` there is one search, and the ordinals that it found go there, a line for each query: `dense_peer.py` holds
//! them against faiss.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, and stops where it cannot go on"
)]

use std::time::{Duration, Instant};

use proofmill_retrieval::Hit;
use proofmill_retrieval::vectors::{Block, Nearest};

const BLOCK_BYTES: usize = 64 << 20;
const TOP_K: usize = 10;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    // `cargo bench` passes `--bench` to every bench.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let number = |i: usize, default: usize| args.get(i).map_or(Ok(default), |arg| arg.parse());
    let (entries, queries, dimensions) =
        (number(0, 1_000_000)?, number(1, 1_000)?, number(2, 384)?);
    let threads = number(3, std::thread::available_parallelism()?.get())?;

    let mut random = Random(42);
    let asked: Vec<Vec<f32>> = (0..queries).map(|_| random.vector(dimensions)).collect();
    row("entries", entries, "");
    row("queries", queries, "");
    row("dimensions", dimensions, "");
    row("vectors", entries * dimensions * size_of::<f32>() / 1_000_000, "MB");
    let mut counts = if args.len() > 4 { vec![threads] } else { vec![threads, 1] };
    counts.dedup();
    let mut all = Vec::new();
    for threads in counts {
        let (hits, seconds) = search(&asked, entries, dimensions, threads)?;
        let flops = 2.0 * (entries * queries * dimensions) as f64;
        row(&format!("search, {threads} threads"), format!("{seconds:.2}"), "s");
        row("", format!("{:.0}", queries as f64 / seconds), "queries/s");
        row("", format!("{:.1}", flops / seconds / 1e9), "GFLOP/s");
        row("memory", peak_mb(), "MB peak");
        all.push(hits);
    }
    if let Some(path) = args.get(4) {
        let line = |hits: &Vec<Hit>| {
            let ordinals: Vec<String> = hits.iter().map(|hit| hit.ordinal.to_string()).collect();
            ordinals.join(" ") + "\n"
        };
        std::fs::write(path, all[0].iter().map(line).collect::<String>())?;
    }
    if all.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err("hits differ between numbers of threads".into());
    }
    Ok(())
}

/// The hits, and the seconds that the search took.
fn search(
    queries: &[Vec<f32>],
    entries: usize,
    dimensions: usize,
    threads: usize,
) -> Result<(Vec<Vec<Hit>>, f64), Failure> {
    let vectors = queries.iter().map(Vec::as_slice);
    let mut nearest = Nearest::new(vectors, dimensions, TOP_K, threads)
        .map_err(|(query, flaw)| format!("query {query} {flaw}"))?;
    let mut random = Random(7);
    let mut block = Block::new(dimensions, BLOCK_BYTES)?;
    let (mut left, mut spent) = (entries, Duration::ZERO);
    while left > 0 {
        block.clear();
        while left > 0 && !block.is_full() {
            block.push(&random.vector(dimensions))?;
            left -= 1;
        }
        let started = Instant::now();
        nearest.add(&block)?;
        spent += started.elapsed();
    }
    let started = Instant::now();
    let hits = nearest.finish();
    Ok((hits, (spent + started.elapsed()).as_secs_f64()))
}

fn row(name: &str, value: impl ToString, unit: &str) {
    println!("{}", format!("{name:<24}{:>12} {unit}", value.to_string()).trim_end());
}

/// SplitMix64.
struct Random(u64);

impl Random {
    /// Numbers from -1 to 1.
    fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        (0..dimensions).map(|_| self.uniform() * 2.0 - 1.0).collect()
    }

    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 24) as f32
    }
}

/// Peak resident memory of this process, in MB; 0 where the system does not tell.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1000
}
