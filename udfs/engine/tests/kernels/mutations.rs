//! Every mutation of a kernel must be noticed, and every kernel must have one.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use proofmill_engine::cuda::{COMMON, Kernel, SOURCES};

use crate::compile::{Compiler, Unit, unit, units};
use crate::emulator::{Emulator, Order};
use crate::mutation::Mutation;
use crate::{ahead, attend, gemm, kv_write, nearest, rows, sampler};

/// Mutants under way at the same time.
const JOBS: usize = 2;

fn all() -> impl Iterator<Item = &'static Mutation> {
    let topics = [
        kv_write::MUTATIONS,
        attend::MUTATIONS,
        gemm::MUTATIONS,
        nearest::MUTATIONS,
        sampler::MUTATIONS,
        rows::MUTATIONS,
        ahead::MUTATIONS,
    ];
    topics.into_iter().flatten()
}

fn text(source: &str) -> Option<&'static str> {
    let mut texts = SOURCES.iter().chain([&("common.cu", COMMON)]);
    texts.find(|(name, _)| *name == source).map(|(_, text)| *text)
}

/// The source that has a kernel.
fn home(kernel: &str) -> Option<(&'static str, &'static str)> {
    let entry = format!("EMU_REGISTER({kernel})");
    SOURCES.into_iter().find(|(_, text)| text.contains(&entry))
}

/// The unit that a mutation changes, changed.
fn mutant(mutation: &Mutation) -> Unit {
    let changed = |source: &str, text: &str| {
        if source == mutation.source {
            text.replacen(mutation.from, mutation.to, 1)
        } else {
            text.to_owned()
        }
    };
    let (name, text) = home(mutation.kernel).expect("every kernel is in a source");
    unit(&changed("common.cu", COMMON), name, &changed(name, text))
}

/// What the check of a mutation says on its mutant: an error if it does not notice.
fn notice(compiler: &Compiler, mutation: &Mutation) -> Result<(), String> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let program = compiler.variant(&units(), &mutant(mutation), folder.path())?;
    let emulator = Emulator::of(&program, Order::Forward)?;
    match catch_unwind(AssertUnwindSafe(|| (mutation.check)(&emulator))) {
        Ok(Ok(())) => Err("the check did not notice".to_owned()),
        Ok(Err(_)) | Err(_) => Ok(()),
    }
}

/// Each mutation of a topic is noticed by its check, which has nothing to say otherwise.
fn are_noticed(mutations: &[Mutation]) {
    let Some(compiler) = Compiler::find() else { return };
    let mut sound = HashSet::new();
    let checks = mutations.iter().filter(|mutation| sound.insert(mutation.check as usize));
    let emulator = Emulator::start().expect("there is a compiler");
    for Mutation { kernel, check, .. } in checks {
        check(&emulator).unwrap_or_else(|error| panic!("{kernel}, as it is: {error}"));
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failures = Vec::new();
        while let Some(mutation) = mutations.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = notice(compiler, mutation) {
                let Mutation { kernel, from, to, .. } = mutation;
                failures.push(format!("{kernel}: {from:?} -> {to:?}: {error}"));
            }
        }
        failures
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..JOBS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(
        failures.is_empty(),
        "{} of {}:\n{}",
        failures.len(),
        mutations.len(),
        failures.join("\n")
    );
}

#[test]
fn append_is_watched() {
    are_noticed(kv_write::MUTATIONS);
}

#[test]
fn attend_is_watched() {
    are_noticed(attend::MUTATIONS);
}

#[test]
fn gemm_is_watched() {
    are_noticed(gemm::MUTATIONS);
}

#[test]
fn nearest_is_watched() {
    are_noticed(nearest::MUTATIONS);
}

#[test]
fn pick_is_watched() {
    are_noticed(sampler::MUTATIONS);
}

#[test]
fn rows_are_watched() {
    are_noticed(rows::MUTATIONS);
}

#[test]
fn every_kernel_has_a_mutation() {
    let mutated: HashSet<&str> = all().map(|mutation| mutation.kernel).collect();
    let names = Kernel::ALL.map(Kernel::name);
    let missing: Vec<_> = names.iter().filter(|name| !mutated.contains(*name)).collect();
    assert!(missing.is_empty(), "without a mutation: {missing:?}");
    assert!(mutated.iter().all(|name| names.contains(name)), "unknown: {mutated:?}");
}

#[test]
fn every_mutation_changes_one_place() {
    for Mutation { kernel, source, from, to, .. } in all() {
        let text = text(source).unwrap_or_else(|| panic!("{kernel}: there is no {source}"));
        assert_eq!(text.matches(from).count(), 1, "{kernel}: {from:?} in {source}");
        assert_ne!(from, to, "{kernel}");
        let (home, _) = home(kernel).unwrap_or_else(|| panic!("no source has {kernel}"));
        assert!([home, "common.cu"].contains(source), "{kernel} is in {home}, not in {source}");
    }
}
