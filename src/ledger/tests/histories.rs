//! Random histories of two processes on one store that fails now and then, compared with a map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::sweeps::assert_nothing_leaks;
use super::{SMALL, entry, key, origin, text, texts};
use crate::{Ledger, Limits, Scope};
use proofmill_store::Store;
use proofmill_store::faulty::{Fault, FaultyStore, Op};

const KEYS: u64 = 24;

#[derive(Clone, Debug)]
enum Step {
    Record(Vec<u64>),
    Flush,
    /// The process ends without a flush and starts again.
    Restart,
    Refresh,
    Compact,
    LookUp,
    /// These answers count no more, or all of them.
    Forget(Option<Vec<u64>>),
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let record = prop::collection::vec(0..KEYS, 1..8).prop_map(Step::Record);
    let step = prop_oneof![
        6 => record,
        4 => Just(Step::Flush),
        1 => Just(Step::Restart),
        1 => Just(Step::Refresh),
        2 => Just(Step::Compact),
        2 => Just(Step::LookUp),
        2 => prop::option::weighted(0.7, prop::collection::vec(0..KEYS, 1..8)).prop_map(Step::Forget),
    ];
    (0..2_usize, step)
}

/// Failures that pass, so that every step succeeds in the end.
fn fault() -> impl Strategy<Value = (Op, Fault)> {
    prop::sample::select(vec![
        (Op::Put, Fault::FailBefore),
        (Op::Put, Fault::FailAfter),
        (Op::Put, Fault::ExistsAfter),
        (Op::Put, Fault::ConflictBefore),
        (Op::Get, Fault::FailBefore),
        (Op::Get, Fault::BrokenBody),
        (Op::List, Fault::FailBefore),
        (Op::Delete, Fault::FailBefore),
        (Op::Delete, Fault::FailAfter),
    ])
}

/// What a process should know.
#[derive(Clone, Default)]
struct Model {
    /// What was durable when it last read the log.
    seen: BTreeMap<u64, String>,
    buffered: BTreeMap<u64, String>,
}

impl Model {
    fn get(&self, n: u64) -> Option<String> {
        self.seen.get(&n).or_else(|| self.buffered.get(&n)).cloned()
    }
}

async fn play(store: &Store, limits: Limits, steps: Vec<(usize, Step)>) {
    let mut ledgers =
        [Ledger::with(store, limits).await.unwrap(), Ledger::with(store, limits).await.unwrap()];
    let mut models = [Model::default(), Model::default()];
    let mut durable = BTreeMap::new();
    for (at, (who, step)) in steps.into_iter().enumerate() {
        let (ledger, model) = (ledgers[who].clone(), &mut models[who]);
        let before = ledger.state().position.next;
        // A process whose segments are gone reads on by itself.
        let read_on = |model: &mut Model| {
            if ledger.state().position.next != before {
                model.seen.clone_from(&durable);
            }
        };
        match step {
            Step::Record(numbers) => {
                let said = format!("{at} by {who}");
                let entries = numbers.iter().map(|n| entry(*n, &said)).collect();
                let counts = ledger.record(entries).await.unwrap();
                read_on(model);
                for (n, count) in numbers.into_iter().zip(counts) {
                    let expected = model.get(n).unwrap_or_else(|| said.clone());
                    assert_eq!(text(&count), expected);
                    if !model.seen.contains_key(&n) {
                        model.buffered.insert(n, expected);
                    }
                }
            }
            Step::Flush => {
                ledger.flush().await.unwrap();
                if !model.buffered.is_empty() {
                    for (n, said) in std::mem::take(&mut model.buffered) {
                        durable.entry(n).or_insert(said);
                    }
                    model.seen.clone_from(&durable);
                }
            }
            Step::Restart => {
                ledgers[who] = Ledger::with(store, limits).await.unwrap();
                *model = Model { seen: durable.clone(), buffered: BTreeMap::new() };
            }
            Step::Refresh => {
                ledger.refresh().await.unwrap();
                model.seen.clone_from(&durable);
            }
            Step::Compact => {
                ledger.compact().await.unwrap();
                model.seen.clone_from(&durable);
                assert!(!ledger.is_fragmented());
            }
            Step::LookUp => {
                let found = texts(&ledger, 0..KEYS).await;
                read_on(model);
                assert_eq!(found, (0..KEYS).map(|n| model.get(n)).collect::<Vec<_>>());
            }
            Step::Forget(numbers) => {
                let scope = match &numbers {
                    Some(numbers) => Scope::Requests(numbers.iter().map(|n| key(*n)).collect()),
                    None => Scope::Models(vec![origin().model.to_string()]),
                };
                let stored = durable.len();
                durable.retain(|n, _| numbers.as_ref().is_some_and(|gone| !gone.contains(n)));
                let forgotten = ledger.forget(scope, "mia", "").await.unwrap();
                assert_eq!(forgotten, (stored - durable.len()) as u64);
                model.seen.clone_from(&durable);
            }
        }
    }
    let reopened = Ledger::with(store, limits).await.unwrap();
    let expected: Vec<_> = (0..KEYS).map(|n| durable.get(&n).cloned()).collect();
    assert_eq!(texts(&reopened, 0..KEYS).await, expected);
    assert_nothing_leaks(store).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_history_gives_what_the_map_gives(
        steps in prop::collection::vec(step(), 1..60),
        block_rows in 1usize..6,
        index_bytes in prop::sample::select(vec![0, 4_000, 1 << 20]),
        answer_bytes in prop::sample::select(vec![0, 1_000, 1 << 20]),
        margin in prop::sample::select(vec![0, 2, 9]),
        faults in prop::collection::btree_map(0usize..300, fault(), 0..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (objects, store) = FaultyStore::in_memory().await;
            objects.script(faults.into_iter().map(|(nth, (op, fault))| (op, nth, fault)).collect());
            let mut limits = Limits { index_bytes, answer_bytes, margin, ..SMALL };
            limits.blocks.rows = block_rows;
            play(&store, limits, steps).await;
        });
    }
}
