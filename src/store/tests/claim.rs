//! Signs of life, in a folder and where objects are no files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use object_store::memory::InMemory;
use serde_json::{Value as Json, json};

use super::{on_disk, run};
use crate::faulty::StillClock;
use crate::{Claim, Claimed, Life, Pulse, Store, last_beat, life, order_stop};
use proofmill_base::retry::RetryPolicy;
use proofmill_base::rng::SeededRng;

/// A store that is no folder; its clock passes only where somebody waits.
async fn remote() -> Store {
    let (clock, rng) = (Arc::new(StillClock::default()), Arc::new(SeededRng::new(1)));
    let url = "s3://bucket/prefix".parse().unwrap();
    Store::over(Arc::new(InMemory::new()), url, clock, rng, RetryPolicy::default()).await.unwrap()
}

/// A holder that remembers whether it was to stop.
#[derive(Debug, Default)]
struct Holder(AtomicBool);

impl Pulse for Holder {
    fn progress(&self) -> Json {
        json!({ "ended": 3 })
    }

    fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn claimed(day: u64) -> Claimed {
    Claimed::run(&run(day))
}

async fn take(store: &Store, day: u64) -> Option<Claim> {
    Claim::take(store, &claimed(day), Arc::new(Holder::default())).await.unwrap()
}

#[tokio::test]
async fn a_claim_is_held_by_one() {
    let (_folder, disk) = on_disk().await;
    for store in [disk, remote().await] {
        assert_eq!(life(&store, &claimed(1)).await.unwrap(), Life::Dead, "no process took it");
        let first = take(&store, 1).await.unwrap();
        assert_eq!(life(&store, &claimed(1)).await.unwrap(), Life::Alive);
        assert_eq!(life(&store, &claimed(2)).await.unwrap(), Life::Dead, "another claim");
        assert!(take(&store, 1).await.is_none());
        assert!(take(&store, 2).await.is_some());
        first.release().await;
        assert_eq!(life(&store, &claimed(1)).await.unwrap(), Life::Dead);
        assert!(take(&store, 1).await.is_some());
    }
}

#[tokio::test]
async fn a_claim_whose_process_is_gone_can_be_taken() {
    let (_folder, disk) = on_disk().await;
    for store in [disk, remote().await] {
        // A process that dies releases nothing: its lock goes, its beat stays as it is.
        drop(take(&store, 1).await.unwrap());
        let before = last_beat(&store, &claimed(1)).await.unwrap();
        let waited = store.clock().monotonic();
        assert!(take(&store, 1).await.is_some());
        if before.is_some() && !store.is_local() {
            let waited = store.clock().monotonic() - waited;
            assert!(waited.as_secs() >= 30, "it was watched for {waited:?} only");
            assert_ne!(last_beat(&store, &claimed(1)).await.unwrap(), before);
        }
    }
}

#[tokio::test]
async fn a_beat_tells_how_far_the_holder_is_and_an_order_reaches_it() {
    let (_folder, disk) = on_disk().await;
    for store in [disk, remote().await] {
        let holder = Arc::new(Holder::default());
        let claim = Claim::take(&store, &claimed(1), holder.clone()).await.unwrap().unwrap();
        while last_beat(&store, &claimed(1)).await.unwrap().is_none_or(|beat| beat.beat < 2) {
            tokio::task::yield_now().await;
        }
        let beat = last_beat(&store, &claimed(1)).await.unwrap().unwrap();
        assert_eq!(beat.progress, json!({ "ended": 3 }));
        assert!(!holder.0.load(Ordering::Relaxed));
        order_stop(&store, &claimed(1)).await.unwrap();
        while !holder.0.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        claim.release().await;
        assert_eq!(last_beat(&store, &claimed(1)).await.unwrap(), None);

        // The order is over once a process goes on with it.
        let again = Arc::new(Holder::default());
        let claim = Claim::take_again(&store, &claimed(1), again.clone()).await.unwrap();
        while last_beat(&store, &claimed(1)).await.unwrap().is_none_or(|beat| beat.beat < 2) {
            tokio::task::yield_now().await;
        }
        assert!(!again.0.load(Ordering::Relaxed));
        drop(claim);
    }
}
