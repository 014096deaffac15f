//! BM25 over a large memory: time and memory to index synthetic facts and to answer queries.
//!
//! `cargo bench --bench retrieval -- [facts] [queries] [threads] [folder]`. Words follow Zipf's law
//! over 50,000 ranks, from a fixed seed. With a folder, corpus, queries and hits are left there as
//! text, one line each, so that another implementation can be compared on the same input.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, and stops where it cannot go on"
)]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use proofmill_retrieval::{Bm25Index, Hit, IndexBuilder, IndexSpec};

const VOCABULARY: usize = 50_000;
const MEMORY_BUDGET_BYTES: usize = 64 << 20;
const TOP_K: usize = 10;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    // `cargo bench` passes `--bench` to every bench.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let number = |i: usize, default: usize| args.get(i).map_or(Ok(default), |arg| arg.parse());
    let (facts, queries) = (number(0, 1_000_000)?, number(1, 10_000)?);
    let threads = number(2, std::thread::available_parallelism()?.get())?;

    let mut words = Zipf::new(VOCABULARY, 42);
    let corpus: Vec<String> = (0..facts).map(|_| words.text(6, 14)).collect();
    let queries: Vec<String> = (0..queries).map(|_| words.text(8, 16)).collect();
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let mut table = Table::default();
    table.row("facts", facts, "");
    table.row("queries", queries.len(), "");
    table.row("memory before", peak_mb(), "MB");

    let folder = tempfile::tempdir()?;
    let started = Instant::now();
    let mut builder =
        IndexBuilder::create(folder.path(), IndexSpec::default(), MEMORY_BUDGET_BYTES)?;
    for fact in &corpus {
        builder.add(fact)?;
    }
    let stats = builder.finish()?;
    let seconds = started.elapsed().as_secs_f64();
    table.row("index", format!("{seconds:.2}"), "s");
    table.row("", format!("{:.0}", facts as f64 / seconds), "facts/s");
    table.row("index size", stats.bytes / 1_000_000, "MB");
    table.row("terms", stats.terms, "");
    table.row("memory after index", peak_mb(), "MB peak");

    let started = Instant::now();
    let index = Bm25Index::open(folder.path())?;
    table.row("open", format!("{:.1}", started.elapsed().as_secs_f64() * 1e3), "ms");

    let cold = answer(&mut table, "cold, 1 thread", &index, &queries, 1)?;
    let warm = answer(&mut table, "warm, 1 thread", &index, &queries, 1)?;
    let label = format!("warm, {threads} threads");
    let parallel = answer(&mut table, &label, &index, &queries, threads)?;
    if cold != warm || warm != parallel {
        return Err("hits differ between runs".into());
    }
    table.row("memory at the end", peak_mb(), "MB peak");
    if let Some(folder) = args.get(3) {
        leave(Path::new(folder), &corpus, &queries, &warm)?;
    }
    print!("{}", table.text);
    Ok(())
}

fn answer(
    table: &mut Table,
    label: &str,
    index: &Bm25Index,
    queries: &[&str],
    threads: usize,
) -> Result<Vec<Vec<Hit>>, Failure> {
    let started = Instant::now();
    let hits = index.search_batch(queries, TOP_K, threads)?;
    let seconds = started.elapsed().as_secs_f64();
    table.row(label, format!("{seconds:.2}"), "s");
    table.row("", format!("{:.0}", queries.len() as f64 / seconds), "queries/s");
    Ok(hits)
}

fn leave(
    folder: &Path,
    corpus: &[String],
    queries: &[&str],
    hits: &[Vec<Hit>],
) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("corpus.txt"), corpus.join("\n"))?;
    std::fs::write(folder.join("queries.txt"), queries.join("\n"))?;
    let mut text = String::new();
    for hits in hits {
        for hit in hits {
            write!(text, "{}:{} ", hit.ordinal, hit.score)?;
        }
        text.push('\n');
    }
    std::fs::write(folder.join("hits.txt"), text)?;
    Ok(())
}

/// Aligned lines of name, value and unit.
#[derive(Default)]
struct Table {
    text: String,
}

impl Table {
    fn row(&mut self, name: &str, value: impl ToString, unit: &str) {
        let line = format!("{name:<24}{:>12} {unit}", value.to_string());
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}

/// Words whose rank `r` has probability proportional to `1 / r`.
struct Zipf {
    cumulative: Vec<f64>,
    state: u64,
}

impl Zipf {
    fn new(ranks: usize, seed: u64) -> Self {
        let mut sum = 0.0;
        let cumulative = (1..=ranks)
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        Self { cumulative, state: seed }
    }

    /// SplitMix64, as a number from 0 to 1.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Between `min` and `max` words.
    fn text(&mut self, min: usize, max: usize) -> String {
        let words = min + (self.uniform() * (max - min + 1) as f64) as usize;
        let mut text = String::new();
        for _ in 0..words {
            let point = self.uniform() * self.cumulative.last().copied().unwrap_or(0.0);
            let rank = self.cumulative.partition_point(|&sum| sum < point);
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&word(rank));
        }
        text
    }
}

/// A word for a rank: the rank in base 26.
fn word(mut rank: usize) -> String {
    let mut word = String::from("w");
    loop {
        word.push(char::from(b'a' + (rank % 26) as u8));
        rank /= 26;
        if rank == 0 {
            return word;
        }
    }
}

/// Peak resident memory of this process, in MB; 0 where the system does not tell.
fn peak_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1000
}
