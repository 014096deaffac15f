//! Parsers of foreign bytes on mutations of good inputs: a few seconds each. A failure says how to get
//! there again, and leaves the input in a file; what was found once lies in `tests/fuzz/found`.
//!
//! `PROOFMILL_FUZZ_SEED` and `PROOFMILL_FUZZ_SECONDS` choose other mutations, and more of them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use proofmill_base::rng::{Rng, SeededRng};

#[path = "../../fuzz/targets.rs"]
mod targets;

use targets::{TARGETS, Target};

/// Longest input, in bytes.
const BYTES_MAX: usize = 8 << 10;
/// Longest time for one input, on a busy machine without optimisation.
const INPUT_TIME_MAX: Duration = Duration::from_secs(20);
/// Fewest inputs of a target, however long they take.
const INPUTS_MIN: u64 = 12;
/// The stack of the program's own threads.
const STACK_BYTES: usize = 8 << 20;
/// Mutations of one input, at most.
const MUTATIONS_MAX: u64 = 6;
/// What grammars are made of.
const WORDS: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    "`",
    "\\",
    "\\u",
    "\\ud800",
    ":",
    ": ",
    ",",
    "\n",
    "\r\n",
    "\t",
    "  ",
    "- ",
    "&a ",
    "*a",
    "!!str ",
    "|\n",
    "{{ n }}",
    "null",
    "true",
    "1e999",
    "-0",
    "0.1",
    "18446744073709551615",
    "\u{feff}",
    "\u{1f600}",
    "\u{0}",
    "--",
    "/*",
    "SELECT ",
    " FROM ",
    "::",
    ";",
];
/// Numbers at which lengths and offsets go wrong.
const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, u64::MAX >> 1, u64::MAX];

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn below(rng: &SeededRng, bound: usize) -> usize {
    (rng.next_u64() % bound.max(1) as u64) as usize
}

/// One of the seeds, changed in a few places.
fn mutated(seeds: &[Vec<u8>], rng: &SeededRng) -> Vec<u8> {
    let mut bytes = seeds[below(rng, seeds.len())].clone();
    for _ in 0..=rng.next_u64() % MUTATIONS_MAX {
        let at = below(rng, bytes.len() + 1);
        let end = (at + below(rng, 33)).min(bytes.len());
        match rng.next_u64() % 8 {
            0 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << below(rng, 8);
                }
            }
            1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.next_u64() as u8;
                }
            }
            2 => drop(bytes.drain(at..end)),
            3 => {
                let again = bytes[at..end].repeat(1 + below(rng, 40));
                bytes.splice(at..at, again);
            }
            4 => drop(bytes.splice(at..at, WORDS[below(rng, WORDS.len())].bytes())),
            5 => {
                let number = NUMBERS[below(rng, NUMBERS.len())].to_le_bytes();
                let width = [1, 2, 4, 8][below(rng, 4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            6 => {
                let other = &seeds[below(rng, seeds.len())];
                let from = below(rng, other.len() + 1);
                let upto = (from + below(rng, 200)).min(other.len());
                bytes.splice(at..end, other[from..upto].iter().copied());
            }
            _ => bytes.truncate(at),
        }
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

/// Inputs that made a target fail before.
fn found(target: &Target) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/found").join(target.name);
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Runs a target until the time is over: how many inputs it took, or how it failed.
fn fuzz(target: Target, seed: u64, time: Duration) -> Result<u64, String> {
    let input = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", target.name));
    let failed = |how: &str| {
        format!("{}: {how}; the input is {}, the seed was {seed}", target.name, input.display())
    };
    let (sender, ended) = channel();
    let (path, began) = (input.clone(), Instant::now());
    let work = move || {
        let (seeds, rng) = ((target.seeds)(), SeededRng::new(seed));
        let known: Vec<Vec<u8>> = found(&target).into_iter().chain(seeds.iter().cloned()).collect();
        let mut inputs = 0u64;
        let fewest = INPUTS_MIN.max(known.len() as u64);
        while began.elapsed() < time || inputs < fewest {
            let bytes = match known.get(inputs as usize) {
                Some(bytes) => bytes.clone(),
                None => mutated(&seeds, &rng),
            };
            // Written before, since what kills the process leaves no time to.
            fs::write(&path, &bytes).unwrap();
            let done = catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes)));
            inputs += 1;
            // Whoever waited has gone when an input took too long.
            let over = done.is_err();
            if sender.send(done.map(|()| inputs)).is_err() || over {
                return;
            }
        }
    };
    thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap();
    let mut inputs = 0;
    loop {
        match ended.recv_timeout(INPUT_TIME_MAX) {
            Ok(Ok(count)) => inputs = count,
            Ok(Err(_)) => return Err(failed("panicked")),
            Err(RecvTimeoutError::Timeout) => return Err(failed("does not end")),
            Err(RecvTimeoutError::Disconnected) => return Ok(inputs),
        }
    }
}

#[test]
fn parsers_of_foreign_bytes_never_panic_and_always_end() {
    let only = std::env::var("PROOFMILL_FUZZ_TARGET").ok();
    let time = Duration::from_secs(setting("PROOFMILL_FUZZ_SECONDS", 2));
    let seed = setting("PROOFMILL_FUZZ_SEED", 1);
    let is_wanted = |it: &Target| only.as_ref().is_none_or(|only| only == it.name);
    let wanted: Vec<Target> = TARGETS.into_iter().filter(is_wanted).collect();
    assert!(!wanted.is_empty(), "there is no target {only:?}");
    // One after the other: each gets the machine, so that a slow one is seen.
    let failures: Vec<String> = wanted
        .into_iter()
        .filter_map(|target| match fuzz(target, seed, time) {
            Ok(inputs) => {
                println!("{}: {inputs} inputs", target.name);
                assert!(inputs >= INPUTS_MIN, "{} took {inputs} inputs only", target.name);
                None
            }
            Err(failure) => Some(failure),
        })
        .collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn each_target_has_its_program() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let programs = manifest.split("[[bin]]\nname = \"").skip(1);
    let programs: Vec<&str> = programs.filter_map(|tail| tail.split('"').next()).collect();
    assert_eq!(programs, TARGETS.map(|target| target.name));
}
