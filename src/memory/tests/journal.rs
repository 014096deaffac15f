//! The chain in the store: durable, shared, and checked when it is read.

use std::sync::Arc;

use super::{add, force, lesson, negate, undo};
use crate::memory::{Action, Conflicts, Journal, Memories, MemoryError, Taught, catalog};
use proofmill_base::error::{Error, ErrorKind};
use proofmill_base::ids::MemoryName;
use proofmill_store::faulty::{Fault, FaultyStore, Op};
use proofmill_store::{LogFolder, Store};

fn science() -> MemoryName {
    "science".parse().unwrap()
}

async fn store() -> Store {
    FaultyStore::in_memory().await.1
}

async fn open(store: &Store) -> Journal {
    Journal::open(store, &science()).await.unwrap()
}

async fn teach(journal: &mut Journal, action: Action) -> Result<Taught, MemoryError> {
    journal.teach(&lesson(action), Conflicts::Show).await
}

async fn facts(store: &Store) -> Vec<String> {
    open(store).await.state().rows().iter().map(|row| row.text()).collect()
}

#[tokio::test]
async fn what_was_taught_is_read_back() {
    let store = store().await;
    let mut journal = open(&store).await;
    for n in 0..300 {
        let taught = teach(&mut journal, add(&format!("Star {n} is far."))).await.unwrap();
        assert_eq!(taught, Taught::Entry { seq: n + 1, conflicts: Vec::new() });
    }
    let again = open(&store).await;
    assert_eq!((again.entries(), again.state()), (journal.entries(), journal.state()));
    assert_eq!(again.state().rows().len(), 300);
    assert_eq!(catalog(&store).await.unwrap(), [(science(), 300)].into());
}

#[tokio::test]
async fn nothing_is_stored_for_what_is_known() {
    let store = store().await;
    let mut journal = open(&store).await;
    teach(&mut journal, add("Iron rusts.")).await.unwrap();
    let known = teach(&mut journal, add("iron  rusts")).await.unwrap();
    assert_eq!(known, Taught::Known { seq: 1 });
    assert_eq!(open(&store).await.entries().len(), 1);
}

#[tokio::test]
async fn the_slower_of_two_writers_reads_on_and_tries_again() {
    let store = store().await;
    let (mut ada, mut bob) = (open(&store).await, open(&store).await);
    teach(&mut ada, add("Iron rusts.")).await.unwrap();
    let taught = teach(&mut bob, add("Tin shines.")).await.unwrap();
    assert!(matches!(taught, Taught::Entry { seq: 2, .. }), "{taught:?}");
    assert_eq!(facts(&store).await, ["Iron rusts.", "Tin shines."]);
    assert_eq!(bob.entries(), open(&store).await.entries());
    // What the other said meanwhile is known, and what it undid is undone.
    assert_eq!(teach(&mut ada, add("tin shines")).await.unwrap(), Taught::Known { seq: 2 });
    teach(&mut ada, undo(1)).await.unwrap();
    let error = teach(&mut bob, undo(1)).await.unwrap_err();
    assert!(matches!(error, MemoryError::UndoneBefore { entry: 1, by: 3 }), "{error}");
    let error = teach(&mut bob, force("Iron rusts.", "Why?")).await.unwrap_err();
    assert!(matches!(error, MemoryError::UnknownFact { .. }), "{error}");
    assert_eq!(facts(&store).await, ["Tin shines."]);
}

#[tokio::test]
async fn many_writers_lose_nothing() {
    let store = Arc::new(store().await);
    let writers = (0..8).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut journal = open(&store).await;
            for n in 0..5 {
                teach(&mut journal, add(&format!("Star {n} of {writer} is far."))).await.unwrap();
            }
        })
    });
    futures::future::join_all(writers).await.into_iter().for_each(|done| done.unwrap());
    assert_eq!(open(&store).await.state().rows().len(), 40);
}

#[tokio::test]
async fn conflicts_are_reported_or_refused() {
    let store = store().await;
    let mut journal = open(&store).await;
    teach(&mut journal, add("A magnet can attract copper.")).await.unwrap();
    let denial = lesson(add("a magnet cannot attract copper"));
    let refused = journal.teach(&denial, Conflicts::Refuse).await.unwrap_err();
    assert!(refused.to_string().contains("entry 1"), "{refused}");
    assert_eq!(facts(&store).await.len(), 1);
    assert!(journal.state().conflicts().is_empty(), "what was refused is forgotten");
    let Taught::Entry { conflicts, .. } = journal.teach(&denial, Conflicts::Show).await.unwrap()
    else {
        panic!("it is new");
    };
    assert_eq!(conflicts[0].with.entry, 1);
    assert_eq!(journal.state().conflicts().len(), 1);
    // The negation retires what it would conflict with.
    let mut other = Journal::open(&store, &"other".parse().unwrap()).await.unwrap();
    teach(&mut other, add("A magnet can attract copper.")).await.unwrap();
    other.teach(&lesson(negate("a magnet can attract copper")), Conflicts::Refuse).await.unwrap();
    assert_eq!(other.state().rows().len(), 1);
}

#[tokio::test]
async fn lost_answers_of_the_store_do_no_harm() {
    for fault in [
        Fault::FailBefore,
        Fault::FailAfter,
        Fault::ExistsAfter,
        Fault::ConflictBefore,
        Fault::PreconditionBefore,
    ] {
        let (objects, store) = FaultyStore::in_memory().await;
        let mut journal = open(&store).await;
        objects.script(vec![(Op::Put, 0, fault), (Op::Get, 0, Fault::BrokenBody)]);
        let taught = teach(&mut journal, add("Iron rusts.")).await.unwrap();
        assert!(matches!(taught, Taught::Entry { seq: 1, .. }), "{fault:?}: {taught:?}");
        assert_eq!(facts(&store).await, ["Iron rusts."], "{fault:?}");
    }
}

#[tokio::test]
async fn what_was_not_stored_is_not_remembered() {
    let (objects, store) = FaultyStore::in_memory().await;
    let mut journal = open(&store).await;
    objects.script(vec![(Op::Put, 0, Fault::Denied)]);
    teach(&mut journal, add("Iron rusts.")).await.unwrap_err();
    assert!(journal.state().is_empty());
    let taught = teach(&mut journal, add("Iron rusts.")).await.unwrap();
    assert!(matches!(taught, Taught::Entry { seq: 1, .. }), "{taught:?}");
}

#[tokio::test]
async fn damage_is_found() {
    let store = store().await;
    let mut journal = open(&store).await;
    for n in 0..3 {
        teach(&mut journal, add(&format!("Star {n} is far."))).await.unwrap();
    }
    let key = |seq| LogFolder::of_memory(&science()).entry(seq);
    let second = store.get(&key(2)).await.unwrap();
    let name = science();
    let read = || Journal::open(&store, &name);

    store.delete(&key(2)).await.unwrap();
    let error = read().await.unwrap_err();
    assert!(matches!(error, MemoryError::Gap { seq: 2, .. }), "{error}");

    store.put(&key(2), store.get(&key(1)).await.unwrap().into()).await.unwrap();
    let error = read().await.unwrap_err();
    assert!(matches!(error, MemoryError::Broken { seq: 2, .. }), "{error}");

    // Sealed and numbered as it should be, but of another history.
    let other = FaultyStore::in_memory().await.1;
    let mut forged = open(&other).await;
    for n in 7..9 {
        teach(&mut forged, add(&format!("Star {n} is far."))).await.unwrap();
    }
    store.put(&key(2), other.get(&key(2)).await.unwrap().into()).await.unwrap();
    let error = read().await.unwrap_err();
    assert!(error.to_string().contains("does not continue"), "{error}");

    let edited = String::from_utf8(second.to_vec()).unwrap().replace("far", "fat");
    store.put(&key(2), edited.into()).await.unwrap();
    let error = Error::from(read().await.unwrap_err());
    assert_eq!(error.kind, ErrorKind::Store);
    assert!(error.message.contains("memories/science/") && error.hint.is_some(), "{error:?}");

    store.put(&key(2), second.into()).await.unwrap();
    assert_eq!(read().await.unwrap().entries().len(), 3);
}

#[tokio::test]
async fn a_memory_that_is_not_there_is_reported_with_the_nearest() {
    let store = store().await;
    teach(&mut open(&store).await, add("Iron rusts.")).await.unwrap();
    let error = Journal::open_known(&store, &"scence".parse().unwrap()).await.unwrap_err();
    assert!(error.hint().contains("`science`"), "{error}");
    let names = [science(), "scence".parse().unwrap()];
    let memories = Memories::read(&store, names.clone()).await.unwrap();
    assert_eq!(
        memories.get(&names[0]).map(|memory| (memory.len(), memory.near.clone())),
        Some((1, None))
    );
    let near = memories.get(&names[1]).and_then(|memory| memory.near.clone());
    assert_eq!(near.as_deref(), Some("science"));
    assert!(memories.get(&names[0]).unwrap().state(Some(0)).is_empty());
}
