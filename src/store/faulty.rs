//! For tests: a store that fails as scripted, and a clock that does not wait.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result, UploadPart,
};
use tokio::sync::Notify;

use crate::{Location, Store};
use proofmill_base::clock::Clock;
use proofmill_base::retry::RetryPolicy;
use proofmill_base::rng::SeededRng;

/// What happens to one call. `F…` are the numbers of the fault list in `docs/specs/store.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// F1, F2, F3: the request fails and nothing was applied.
    FailBefore,
    /// F5, F6: the request was applied and its answer is lost.
    FailAfter,
    /// F4: applied, answered 503, and the client's own retry found the object.
    ExistsAfter,
    /// F7: 409 with nothing stored.
    ConflictBefore,
    /// Azure's answer to a create that meets an object, although nothing is stored.
    PreconditionBefore,
    /// F8: the body ends early.
    TruncatedBody,
    /// The connection breaks while the body is read.
    BrokenBody,
    /// F9: a bit of the body is flipped.
    FlippedBody,
    /// F11: not allowed.
    Denied,
}

/// The operations that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Any put, also the begin of a multipart upload.
    Put,
    Get,
    /// Any listing of all objects below a prefix.
    List,
    Delete,
}

/// A call that waits until the test lets it go on, as that of a process that sleeps before it.
#[derive(Clone, Debug, Default)]
pub struct Pause(Option<Arc<(Notify, Notify)>>);

impl Pause {
    /// Until the call has come.
    pub async fn begun(&self) {
        if let Some(pause) = &self.0 {
            pause.0.notified().await;
        }
    }

    pub fn end(&self) {
        if let Some(pause) = &self.0 {
            pause.1.notify_one();
        }
    }

    async fn sleep(self) {
        if let Some(pause) = &self.0 {
            pause.0.notify_one();
            pause.1.notified().await;
        }
    }
}

/// A store in which the nth call of an operation, from 0, meets a fault.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    script: Mutex<Vec<(Op, usize, Fault)>>,
    pause: Mutex<Option<(Op, usize, Pause)>>,
    calls: Mutex<[usize; 4]>,
}

impl FaultyStore {
    /// `inner` with the faults of `script`.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        let (script, pause, calls) = Default::default();
        Self { inner, script, pause, calls }
    }

    /// A store in memory whose faults the test scripts.
    pub async fn in_memory() -> (Arc<Self>, Store) {
        let objects = Arc::new(Self::new(Arc::new(InMemory::new())));
        let (clock, rng) = (Arc::new(StillClock::default()), Arc::new(SeededRng::new(1)));
        let url = Location::Memory.url().unwrap();
        let store = Store::over(objects.clone(), url, clock, rng, RetryPolicy::default()).await;
        (objects, store.unwrap())
    }

    /// Counts calls from 0 again, with other faults.
    pub fn script(&self, script: Vec<(Op, usize, Fault)>) {
        *self.calls.lock().unwrap() = [0; 4];
        *self.script.lock().unwrap() = script;
    }

    /// Counts calls from 0 again; the nth call of an operation sleeps until released.
    pub fn pause(&self, op: Op, nth: usize) -> Pause {
        self.script(vec![]);
        let pause = Pause(Some(Arc::default()));
        *self.pause.lock().unwrap() = Some((op, nth, pause.clone()));
        pause
    }

    /// Calls of an operation since the script was set.
    pub fn calls(&self, op: Op) -> usize {
        self.calls.lock().unwrap()[op as usize]
    }

    /// The fault of this call and its pause.
    fn next(&self, op: Op) -> (Option<Fault>, Pause) {
        let nth = {
            let mut calls = self.calls.lock().unwrap();
            calls[op as usize] += 1;
            calls[op as usize] - 1
        };
        let script = self.script.lock().unwrap();
        let fault = script.iter().find(|(of, at, _)| (*of, *at) == (op, nth));
        let pause = self.pause.lock().unwrap().take_if(|(of, at, _)| (*of, *at) == (op, nth));
        (fault.map(|it| it.2), pause.map(|it| it.2).unwrap_or_default())
    }
}

fn failed() -> Error {
    Error::Generic { store: "FaultyStore", source: "connection reset".into() }
}

fn exists(at: &Path) -> Error {
    Error::AlreadyExists { path: at.to_string(), source: "409".into() }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(
        &self,
        at: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let create = options.mode == PutMode::Create;
        let (fault, pause) = self.next(Op::Put);
        pause.sleep().await;
        match fault {
            None => self.inner.put_opts(at, payload, options).await,
            Some(Fault::FailAfter) => {
                self.inner.put_opts(at, payload, options).await?;
                Err(failed())
            }
            Some(Fault::ExistsAfter) if create => {
                self.inner.put_opts(at, payload, options).await?;
                Err(exists(at))
            }
            Some(Fault::ConflictBefore) if create => Err(exists(at)),
            Some(Fault::PreconditionBefore) if create => {
                Err(Error::Precondition { path: at.to_string(), source: "412".into() })
            }
            Some(Fault::Denied) => {
                Err(Error::PermissionDenied { path: at.to_string(), source: "403".into() })
            }
            Some(_) => Err(failed()),
        }
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        match self.next(Op::Put).0 {
            None => {
                let inner = self.inner.put_multipart_opts(at, options).await?;
                Ok(Box::new(SlowUpload { inner, begun: 0, arrived: Arc::default() }))
            }
            Some(_) => Err(failed()),
        }
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        let (fault, pause) = self.next(Op::Get);
        pause.sleep().await;
        let fault = match fault {
            None => return self.inner.get_opts(at, options).await,
            Some(Fault::Denied) => {
                return Err(Error::PermissionDenied { path: at.to_string(), source: "403".into() });
            }
            Some(fault) => fault,
        };
        let got = self.inner.get_opts(at, options).await?;
        let (meta, range, attributes) =
            (got.meta.clone(), got.range.clone(), got.attributes.clone());
        let body = got.bytes().await?;
        let pieces: Vec<Result<Bytes>> = match fault {
            Fault::TruncatedBody => vec![Ok(body.slice(..body.len() / 2))],
            Fault::BrokenBody => vec![Ok(body.slice(..body.len() / 2)), Err(failed())],
            Fault::FlippedBody => {
                let mut flipped = body.to_vec();
                let middle = flipped.len() / 2;
                flipped[middle] ^= 1;
                vec![Ok(flipped.into())]
            }
            _ => return Err(failed()),
        };
        let payload = GetResultPayload::Stream(stream::iter(pieces).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(at, ranges).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.next(Op::Delete).0 {
            None => self.inner.delete_stream(locations),
            Some(Fault::FailAfter) => {
                self.inner.delete_stream(locations).map(|_| Err(failed())).boxed()
            }
            Some(_) => stream::once(async { Err(failed()) }).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (fault, pause) = self.next(Op::List);
        if fault.is_some() {
            return stream::once(async { Err(failed()) }).boxed();
        }
        let (inner, prefix) = (Arc::clone(&self.inner), prefix.cloned());
        stream::once(async move {
            pause.sleep().await;
            inner.list(prefix.as_ref())
        })
        .flatten()
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// An upload whose pieces take their time, and which must not be completed before all have arrived.
#[derive(Debug)]
struct SlowUpload {
    inner: Box<dyn MultipartUpload>,
    begun: usize,
    arrived: Arc<AtomicUsize>,
}

#[async_trait]
impl MultipartUpload for SlowUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        self.begun += 1;
        let (put, arrived) = (self.inner.put_part(data), self.arrived.clone());
        async move {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            put.await?;
            arrived.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        assert_eq!(self.arrived.load(Ordering::Relaxed), self.begun, "completed too early");
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyStore({})", self.inner)
    }
}

/// A clock that stands still; waiting only counts.
#[derive(Debug, Default)]
pub struct StillClock {
    waited: Mutex<Duration>,
}

#[async_trait]
impl Clock for StillClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        *self.waited.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        *self.waited.lock().unwrap() += duration;
        tokio::task::yield_now().await;
    }
}
