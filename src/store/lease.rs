//! A sign of life of the process that owns a run: `runs` tells from it whether a run is alive, and a
//! resume leaves a run alone that is. Nothing that is stored depends on it: who owns a run is decided
//! by its log.
//!
//! In a folder it is a lock on a file, which the kernel gives back when the process ends, however that
//! happens. Elsewhere it is an object that is written again and again; it is alive while it changes.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::OFlags;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::error::Result;
use crate::{Key, Store, StoreError, lease_key, lock_key, stop_key};
use proofmill_base::ids::RunId;
use proofmill_base::rng::random_name;

/// Time between two signs of life of an object.
const BEAT: Duration = Duration::from_secs(10);
/// An object that does not change for so long belongs to a process that is gone.
const SILENCE: Duration = Duration::from_secs(35);
/// Time between two looks at an object.
const LOOK: Duration = Duration::from_secs(5);
/// Attempts at a lock: a process that only inspects it holds it for a moment.
const LOCK_ATTEMPTS: u32 = 20;
/// Time between two of them.
const LOCK_DELAY: Duration = Duration::from_millis(10);

/// Whether the process that owns a run is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Alive,
    Dead,
    /// Its file system has no locks, or its store is the memory of a process.
    Unknown,
}

/// Held by the process that owns a run while it is alive.
#[derive(Debug)]
pub struct Lease(Sign);

#[derive(Debug)]
enum Sign {
    Lock {
        _file: File,
    },
    /// A task that writes an object.
    Beats {
        store: Store,
        key: Key,
        task: JoinHandle<()>,
    },
    /// There are no locks here.
    Nothing,
}

impl Lease {
    /// Takes the lease of `run`; `None` if another process holds it. Where objects are no files, finding
    /// out that a process is gone takes as long as it may be silent.
    ///
    /// # Errors
    ///
    /// When the store fails.
    pub async fn take(store: &Store, run: &RunId) -> Result<Option<Self>> {
        match store.local() {
            Some(local) => take_lock(&local.root().join(lock_key(run).as_str()), store).await,
            None if store.url().scheme() == "memory" => Ok(Some(Self(Sign::Nothing))),
            None => take_object(store, lease_key(run)).await,
        }
    }

    /// Gives the lease back.
    pub async fn release(mut self) {
        if let Sign::Beats { store, key, task } = &mut self.0 {
            task.abort();
            // What is left behind is silent, and soon counts as gone.
            let _ = store.delete(key).await;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Sign::Beats { task, .. } = &self.0 {
            task.abort();
        }
    }
}

/// Whether the process that owns `run` is there, as far as one look tells.
///
/// # Errors
///
/// When the store fails.
pub async fn life(store: &Store, run: &RunId) -> Result<Life> {
    let Some(local) = store.local() else {
        if store.url().scheme() == "memory" {
            return Ok(Life::Unknown);
        }
        let Some(age) = store.age(&lease_key(run)).await? else { return Ok(Life::Dead) };
        return Ok(if age < SILENCE { Life::Alive } else { Life::Dead });
    };
    let path = local.root().join(lock_key(run).as_str());
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

/// Orders the process that owns `run` to stop it, wherever it is: it looks for the order every few seconds.
///
/// # Errors
///
/// When the store fails.
pub async fn order_stop(store: &Store, run: &RunId) -> Result<()> {
    let order = json!({ "run": run, "at": store.clock().now(), "nonce": random_name(store.rng().as_ref(), 16) });
    store.create(&stop_key(run), Bytes::from(order.to_string())).await?;
    Ok(())
}

/// Whether somebody ordered `run` to stop.
///
/// # Errors
///
/// When the store fails.
pub async fn is_stop_ordered(store: &Store, run: &RunId) -> Result<bool> {
    Ok(store.size(&stop_key(run)).await?.is_some())
}

/// Takes the order to stop `run` back, so that it can be resumed.
///
/// # Errors
///
/// When the store fails.
pub async fn withdraw_stop(store: &Store, run: &RunId) -> Result<()> {
    store.delete(&stop_key(run)).await
}

async fn take_lock(path: &Path, store: &Store) -> Result<Option<Lease>> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|source| failed(path, source))?;
    }
    let file = open(path, true).map_err(|source| failed(path, source))?;
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(()) => return Ok(Some(Lease(Sign::Lock { _file: file }))),
            Err(TryLockError::WouldBlock) => store.clock().sleep(LOCK_DELAY).await,
            Err(TryLockError::Error(_)) => return Ok(Some(Lease(Sign::Nothing))),
        }
    }
    Ok(None)
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    // Links below the root of a store are not followed.
    let flags = OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().read(true).write(create).create(create).custom_flags(flags).open(path)
}

fn failed(path: &Path, source: io::Error) -> StoreError {
    StoreError::Folder { path: PathBuf::from(path).display().to_string(), source }
}

async fn take_object(store: &Store, key: Key) -> Result<Option<Lease>> {
    if let Some(before) = store.get_opt(&key).await? {
        let clock = store.clock();
        let began = clock.monotonic();
        while clock.monotonic().saturating_sub(began) < SILENCE {
            clock.sleep(LOOK).await;
            match store.get_opt(&key).await? {
                Some(now) if now != before => return Ok(None),
                Some(_) => {}
                None => break,
            }
        }
    }
    let owner = random_name(store.rng().as_ref(), 10);
    let sign = move |beat: u64| Bytes::from(json!({"owner": owner, "beat": beat}).to_string());
    store.put(&key, sign(0).into()).await?;
    let (beating, beaten) = (store.clone(), key.clone());
    let task = tokio::spawn(async move {
        for beat in 1.. {
            beating.clock().sleep(BEAT).await;
            // A beat that is lost is made up for by the next.
            let _ = beating.put(&beaten, sign(beat).into()).await;
        }
    });
    Ok(Some(Lease(Sign::Beats { store: store.clone(), key, task })))
}
