//! A claim: what one process holds at a time, such as a run, and its signs of life. `runs` tells from them whether a run is
//! alive, and a resume leaves a run alone that is. Nothing that is stored depends on it: who owns a run is decided by its log.
//!
//! In a folder a claim is a lock on a file, which the kernel gives back when the process ends, however that happens.
//! Elsewhere it is the beat: an object that is written again and again; it is alive while it changes. In both the beat tells
//! how far the holder is, and the holder listens for an order to stop.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::task::JoinHandle;

use crate::error::Result;
use crate::layout::Claimed;
use crate::{Key, Store, StoreError};
use proofmill_base::rng::random_name;

/// Time between two beats.
const BEAT: Duration = Duration::from_secs(10);
/// A beat that does not change for so long is of a process that is gone.
const SILENCE: Duration = Duration::from_secs(35);
/// Time between two looks at a beat of another process, or for an order to stop.
const LOOK: Duration = Duration::from_secs(5);
/// Looks for an order between two beats.
const LOOKS: u64 = BEAT.as_secs() / LOOK.as_secs();
/// Attempts at a lock: a process that only inspects it holds it for a moment.
const LOCK_ATTEMPTS: u32 = 20;
/// Time between two of them.
const LOCK_DELAY: Duration = Duration::from_millis(10);

/// Whether the process that holds a claim is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Alive,
    Dead,
    /// Its file system has no locks, or its store is the memory of a process.
    Unknown,
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Beat {
    /// The process, by a name that it made up.
    pub owner: String,
    /// Its number, from 0.
    pub beat: u64,
    /// How far the holder is, as [`Pulse::progress`] says it.
    #[serde(default)]
    pub progress: Json,
}

/// What the holder of a claim says and hears.
pub trait Pulse: Send + Sync {
    /// How far it is, for the next beat.
    fn progress(&self) -> Json;
    /// Somebody ordered it to stop.
    fn stop(&self);
}

/// Held by a process while it is alive.
#[derive(Debug)]
pub struct Claim {
    store: Store,
    claimed: Claimed,
    /// Beats, and listens for an order to stop.
    beating: JoinHandle<()>,
    /// In a folder.
    _lock: Option<File>,
}

impl Claim {
    /// Takes a claim; `None` if another process holds it. Where objects are no files, finding out that a process is gone takes
    /// as long as it may be silent.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn take(
        store: &Store,
        claimed: &Claimed,
        pulse: Arc<dyn Pulse>,
    ) -> Result<Option<Self>> {
        Self::acquire(store, claimed, pulse, false).await
    }

    /// The same of what was held before: an order to stop that it obeyed counts no more.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub async fn take_again(
        store: &Store,
        claimed: &Claimed,
        pulse: Arc<dyn Pulse>,
    ) -> Result<Option<Self>> {
        Self::acquire(store, claimed, pulse, true).await
    }

    async fn acquire(
        store: &Store,
        claimed: &Claimed,
        pulse: Arc<dyn Pulse>,
        is_again: bool,
    ) -> Result<Option<Self>> {
        let lock = match store.local() {
            Some(local) => match lock(&local.root().join(claimed.lock().as_str()), store).await? {
                Locked::Held(file) => Some(file),
                Locked::ByAnother => return Ok(None),
                Locked::Never => None,
            },
            None if is_shared(store) && !is_silent(store, &claimed.beat()).await? => {
                return Ok(None);
            }
            None => None,
        };
        if is_again {
            store.delete(&claimed.stop()).await?;
        }
        let beats = Beats {
            owner: random_name(store.rng().as_ref(), 10),
            store: store.clone(),
            claimed: claimed.clone(),
            pulse,
        };
        // A lock needs no first beat: most runs end before the second.
        if lock.is_none() && is_shared(store) {
            beats.put(0).await?;
        }
        let beating = tokio::spawn(beats.go_on());
        Ok(Some(Self { store: store.clone(), claimed: claimed.clone(), beating, _lock: lock }))
    }

    /// Gives a claim back that no process takes again: nothing of it stays.
    pub async fn end(self) {
        let lock = self.store.local().map(|local| local.root().join(self.claimed.lock().as_str()));
        self.release().await;
        if let Some(lock) = lock {
            // What cannot be removed is an empty file.
            let _ = std::fs::remove_file(&lock);
            let _ = lock.parent().map(std::fs::remove_dir);
        }
    }

    /// Gives the claim back.
    pub async fn release(self) {
        self.beating.abort();
        // What is left behind is silent, and soon counts as gone.
        let _ = self.store.delete(&self.claimed.beat()).await;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

/// What beats for a claim.
struct Beats {
    store: Store,
    claimed: Claimed,
    owner: String,
    pulse: Arc<dyn Pulse>,
}

impl Beats {
    async fn put(&self, beat: u64) -> Result<()> {
        let beat = Beat { owner: self.owner.clone(), beat, progress: self.pulse.progress() };
        let bytes = Bytes::from(json!(beat).to_string());
        self.store.put(&self.claimed.beat(), bytes.into()).await
    }

    async fn go_on(self) {
        let mut is_stopped = false;
        for look in 1.. {
            self.store.clock().sleep(LOOK).await;
            // A store that does not answer now is looked at again, and a beat that is lost is made up for by the next.
            if !is_stopped && is_stop_ordered(&self.store, &self.claimed).await.unwrap_or(false) {
                is_stopped = true;
                self.pulse.stop();
            }
            if look % LOOKS == 0 && is_shared(&self.store) {
                let _ = self.put(look / LOOKS).await;
            }
        }
    }
}

/// Whether other processes can see the store.
fn is_shared(store: &Store) -> bool {
    store.url().scheme() != "memory"
}

/// Whether the holder of a claim is there, as far as one look tells.
///
/// # Errors
///
/// When the store fails.
pub async fn life(store: &Store, claimed: &Claimed) -> Result<Life> {
    let Some(local) = store.local() else {
        if !is_shared(store) {
            return Ok(Life::Unknown);
        }
        let Some(age) = store.age(&claimed.beat()).await? else { return Ok(Life::Dead) };
        return Ok(if age < SILENCE { Life::Alive } else { Life::Dead });
    };
    let path = local.root().join(claimed.lock().as_str());
    let looked = match open(&path, false) {
        Ok(file) => file.try_lock_shared(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Life::Dead),
        Err(source) => return Err(failed(&path, source)),
    };
    match looked {
        Ok(()) => Ok(Life::Dead),
        Err(TryLockError::WouldBlock) => Ok(Life::Alive),
        Err(TryLockError::Error(_)) => Ok(Life::Unknown),
    }
}

/// The last beat of a claim; `None` if there is none, or it cannot be read: nothing depends on it.
///
/// # Errors
///
/// When the store fails.
pub async fn last_beat(store: &Store, claimed: &Claimed) -> Result<Option<Beat>> {
    let bytes = store.get_opt(&claimed.beat()).await?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Orders the holder of a claim to stop, wherever it is: it looks for the order every few seconds.
///
/// # Errors
///
/// When the store fails.
pub async fn order_stop(store: &Store, claimed: &Claimed) -> Result<()> {
    let order =
        json!({ "at": store.clock().now(), "nonce": random_name(store.rng().as_ref(), 16) });
    store.create(&claimed.stop(), Bytes::from(order.to_string())).await?;
    Ok(())
}

async fn is_stop_ordered(store: &Store, claimed: &Claimed) -> Result<bool> {
    Ok(store.size(&claimed.stop()).await?.is_some())
}

/// What became of a lock.
enum Locked {
    Held(File),
    ByAnother,
    /// The file system has none.
    Never,
}

async fn lock(path: &Path, store: &Store) -> Result<Locked> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|source| failed(path, source))?;
    }
    let file = open(path, true).map_err(|source| failed(path, source))?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(Locked::Held(file)),
            Err(TryLockError::WouldBlock) => store.clock().sleep(LOCK_DELAY).await,
            Err(TryLockError::Error(_)) => return Ok(Locked::Never),
        }
    }
    Ok(Locked::ByAnother)
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    // Links below the root of a store are not followed.
    let flags = OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().read(true).write(create).create(create).custom_flags(flags).open(path)
}

fn failed(path: &Path, source: io::Error) -> StoreError {
    StoreError::Folder { path: PathBuf::from(path).display().to_string(), source }
}

/// Whether nothing is said under a key for as long as a process may be silent, or at all.
async fn is_silent(store: &Store, beat: &Key) -> Result<bool> {
    let Some(before) = store.get_opt(beat).await? else { return Ok(true) };
    let clock = store.clock();
    let began = clock.monotonic();
    while clock.monotonic().saturating_sub(began) < SILENCE {
        clock.sleep(LOOK).await;
        match store.get_opt(beat).await? {
            Some(now) if now != before => return Ok(false),
            Some(_) => {}
            None => break,
        }
    }
    Ok(true)
}

/// Watches the holder of a claim from outside, over several looks.
#[derive(Debug)]
pub struct ClaimWatch {
    claimed: Claimed,
    last: Option<Beat>,
    /// Since when the beat has been the same, by the clock of this process.
    since: Duration,
}

impl ClaimWatch {
    pub fn new(store: &Store, claimed: Claimed) -> Self {
        Self { claimed, last: None, since: store.clock().monotonic() }
    }

    /// Whether the holder is gone: its lock is free, or it has been silent for too long.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn is_gone(&mut self, store: &Store) -> Result<bool> {
        if store.is_local() && life(store, &self.claimed).await? == Life::Dead {
            return Ok(true);
        }
        let beat = last_beat(store, &self.claimed).await?;
        let now = store.clock().monotonic();
        if beat != self.last {
            (self.last, self.since) = (beat, now);
        }
        Ok(now.saturating_sub(self.since) >= SILENCE)
    }
}
