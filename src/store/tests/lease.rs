//! Signs of life, in a folder and where objects are no files.

use std::sync::Arc;

use object_store::memory::InMemory;

use super::{on_disk, run};
use crate::faulty::StillClock;
use crate::{Lease, Life, Store, lease_key, life};
use proofmill_base::retry::RetryPolicy;
use proofmill_base::rng::SeededRng;

/// A store that is no folder; its clock passes only where somebody waits.
async fn remote() -> Store {
    let (clock, rng) = (Arc::new(StillClock::default()), Arc::new(SeededRng::new(1)));
    let url = "s3://bucket/prefix".parse().unwrap();
    Store::over(Arc::new(InMemory::new()), url, clock, rng, RetryPolicy::default()).await.unwrap()
}

#[tokio::test]
async fn a_lease_is_held_by_one() {
    let (_folder, disk) = on_disk().await;
    for store in [disk, remote().await] {
        assert_eq!(life(&store, &run(1)).await.unwrap(), Life::Dead, "no process took it");
        let first = Lease::take(&store, &run(1)).await.unwrap().unwrap();
        assert_eq!(life(&store, &run(1)).await.unwrap(), Life::Alive);
        assert_eq!(life(&store, &run(2)).await.unwrap(), Life::Dead, "of another run");
        assert!(Lease::take(&store, &run(1)).await.unwrap().is_none());
        assert!(Lease::take(&store, &run(2)).await.unwrap().is_some());
        first.release().await;
        assert_eq!(life(&store, &run(1)).await.unwrap(), Life::Dead);
        assert!(Lease::take(&store, &run(1)).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_lease_whose_process_is_gone_can_be_taken() {
    let (_folder, disk) = on_disk().await;
    for store in [disk, remote().await] {
        // A process that dies releases nothing: its lock goes, its object stays as it is.
        drop(Lease::take(&store, &run(1)).await.unwrap().unwrap());
        let before = store.get_opt(&lease_key(&run(1))).await.unwrap();
        let waited = store.clock().monotonic();
        let next = Lease::take(&store, &run(1)).await.unwrap();
        assert!(next.is_some());
        if before.is_some() {
            let waited = store.clock().monotonic() - waited;
            assert!(waited.as_secs() >= 30, "it was watched for {waited:?} only");
            assert_ne!(store.get_opt(&lease_key(&run(1))).await.unwrap(), before);
        }
    }
}
