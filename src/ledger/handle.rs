//! The ledger as the rest of the program holds it: looking up, recording, making durable.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as AsyncMutex;

use crate::LedgerError;
use crate::answer_cache::AnswerCache;
use crate::buffer::Buffer;
use crate::entry::{Answer, NewEntry, Row};
use crate::error::Result;
use crate::index_cache::IndexCache;
use crate::record::{Body, Forget, Segment};
use crate::segment_reader::OpenSegment;
use crate::segment_writer::{BlockLimits, Written, write_rows};
use crate::state::State;
use crate::tiers::Tiers;
use crate::{log, look_up};
use proofmill_base::digest::Digest;
use proofmill_base::rng::random_name;
use proofmill_store::{Key, Part, Store};

/// Times that a look-up starts anew because a segment was merged and removed meanwhile.
pub(crate) const LOOK_UPS_MAX: u32 = 8;
/// Times that answers are stored anew because a checkpoint came between their entry and the proof that it
/// counts.
const FLUSHES_MAX: u32 = 8;

/// How much the ledger holds in memory, and the sizes of what it stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of answers and requests that wait to become durable; at more, a segment is cut.
    pub buffer_bytes: usize,
    /// Bytes of opened indexes that stay in memory.
    pub index_bytes: usize,
    /// Bytes of looked-up answers that stay in memory.
    pub answer_bytes: usize,
    pub blocks: BlockLimits,
    pub tiers: Tiers,
    /// Entries of the log from which on compaction replaces them by a checkpoint.
    pub log_entries: usize,
    /// Entries of the log between a merge and the checkpoint with which the merged segments are removed, so
    /// that only a look-up that lasts longer than those finds a segment gone and has to start anew.
    pub margin: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            buffer_bytes: 64 << 20,
            index_bytes: 256 << 20,
            answer_bytes: 64 << 20,
            blocks: BlockLimits::default(),
            tiers: Tiers::default(),
            log_entries: 32,
            margin: 32,
        }
    }
}

/// The ledger of a store. Clones are cheap and share everything.
///
/// Answers that were recorded and not flushed are lost when the process ends. Any number of processes
/// may use the ledger of one store. What they recorded meanwhile shows after [`Ledger::flush`] has
/// stored something, after [`Ledger::compact`] and after [`Ledger::refresh`].
#[derive(Clone)]
pub struct Ledger {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    /// This process, in entries of the log and in rows.
    writer: Arc<str>,
    limits: Limits,
    shared: Mutex<Shared>,
    /// Held by the task that changes the state: one commit at a time, shared by all who wait for
    /// it.
    commits: AsyncMutex<()>,
    merges: AsyncMutex<()>,
    indexes: IndexCache,
    answers: AnswerCache,
}

/// Both change together, so that an answer is always in at least one of them.
struct Shared {
    state: Arc<State>,
    buffer: Buffer,
    /// Times that segments of other processes showed.
    arrivals: u64,
}

impl Ledger {
    /// Opens the ledger of `store`. Stores nothing.
    ///
    /// # Errors
    ///
    /// When the store fails, or the log of the ledger is damaged or newer than this program.
    pub async fn open(store: &Store) -> Result<Self> {
        Self::with(store, Limits::default()).await
    }

    /// [`Ledger::open`] with other limits.
    ///
    /// # Errors
    ///
    /// As [`Ledger::open`].
    pub async fn with(store: &Store, limits: Limits) -> Result<Self> {
        let state = Arc::new(log::read_on(store, &State::default()).await?);
        let name = random_name(store.rng().as_ref(), 10);
        let inner = Inner {
            store: store.clone(),
            writer: format!("{}-{name}", std::process::id()).into(),
            limits,
            shared: Mutex::new(Shared { state, buffer: Buffer::default(), arrivals: 0 }),
            commits: AsyncMutex::new(()),
            merges: AsyncMutex::new(()),
            indexes: IndexCache::new(limits.index_bytes),
            answers: AnswerCache::new(limits.answer_bytes),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The answers to those requests that have one, in the order of `keys`.
    ///
    /// # Errors
    ///
    /// When the store fails, or a segment is missing or damaged: the error names it.
    pub async fn look_up(&self, keys: &[Digest]) -> Result<Vec<Option<Arc<Answer>>>> {
        Ok(self.look_up_in_state(keys).await?.0)
    }

    /// Adds answers; returns for each entry, in order, the answer that counts: the first one that this
    /// process knows. Waits for a flush when too much is buffered.
    ///
    /// Another process may record another answer to the same request and flush it earlier; then theirs
    /// is the one that every later look-up gives.
    ///
    /// # Errors
    ///
    /// As [`Ledger::look_up`] and [`Ledger::flush`]. What was recorded before the failure stays.
    pub async fn record(&self, entries: Vec<NewEntry>) -> Result<Vec<Arc<Answer>>> {
        let keys: Vec<Digest> = entries.iter().map(NewEntry::key).collect();
        let now = self.inner.store.clock().now();
        let row = |entry| Row::new(entry, self.inner.writer.clone(), now);
        let mut rows: Vec<Row> = entries.into_iter().map(row).collect();
        loop {
            let (known, state) = self.look_up_in_state(&keys).await?;
            match self.insert(rows, known, &state) {
                Ok(counts) => {
                    if self.shared().buffer.bytes() > self.inner.limits.buffer_bytes {
                        self.flush().await?;
                    }
                    return Ok(counts);
                }
                Err(again) => rows = again,
            }
        }
    }

    /// [`Ledger::record`] and [`Ledger::flush`]: what is returned is durable, and it is what every later
    /// look-up of every process gives.
    ///
    /// # Errors
    ///
    /// As [`Ledger::record`].
    pub async fn record_durably(&self, entries: Vec<NewEntry>) -> Result<Vec<Arc<Answer>>> {
        let keys: Vec<Digest> = entries.iter().map(NewEntry::key).collect();
        let arrivals = self.shared().arrivals;
        let counts = self.record(entries).await?;
        self.flush().await?;
        if self.shared().arrivals == arrivals {
            return Ok(counts);
        }
        let stored = self.look_up(&keys).await?;
        Ok(stored.into_iter().zip(counts).map(|(stored, ours)| stored.unwrap_or(ours)).collect())
    }

    /// Buffers the rows whose answer is not known. Gives them back when the state is another one than
    /// that in which they were looked up: an answer may have left the buffer meanwhile.
    pub(crate) fn insert(
        &self,
        rows: Vec<Row>,
        known: Vec<Option<Arc<Answer>>>,
        state: &Arc<State>,
    ) -> Result<Vec<Arc<Answer>>, Vec<Row>> {
        let mut shared = self.shared();
        if !Arc::ptr_eq(state, &shared.state) {
            return Err(rows);
        }
        let rows = rows.into_iter().zip(known);
        Ok(rows.map(|(row, known)| known.unwrap_or_else(|| shared.buffer.insert(row))).collect())
    }

    /// Makes everything durable that was recorded before. Calls that come together share a commit.
    ///
    /// # Errors
    ///
    /// When the store fails: the answers stay in memory, and the next call tries again.
    pub async fn flush(&self) -> Result<()> {
        let mark = self.shared().buffer.mark();
        let commits = self.inner.commits.lock().await;
        let (rows, count) = {
            let shared = self.shared();
            if shared.buffer.is_durable(mark) {
                return Ok(());
            }
            shared.buffer.sorted()
        };
        let (store, limits) = (&self.inner.store, self.inner.limits);
        for _ in 0..FLUSHES_MAX {
            let written = write_rows(store, &rows, limits.blocks).await?;
            let segment = written.segment.clone();
            let body = |_: &State| Some(Body::Append(segment.as_ref().clone()));
            if self.commit(written, body, count).await? {
                drop(commits);
                return Ok(());
            }
        }
        Err(LedgerError::Contended { attempts: FLUSHES_MAX })
    }

    /// Takes in what other processes have made durable.
    ///
    /// # Errors
    ///
    /// As [`Ledger::open`].
    pub async fn refresh(&self) -> Result<()> {
        let commits = self.inner.commits.lock().await;
        let state = log::read_on(&self.inner.store, &self.state()).await?;
        self.install(state, None, 0);
        drop(commits);
        Ok(())
    }

    /// Reads on because an object of `state` was gone; that was the end of it when the log says nothing new.
    pub(crate) async fn refresh_after(&self, state: &State, missing: LedgerError) -> Result<()> {
        self.refresh().await?;
        if *self.state() == *state { Err(missing) } else { Ok(()) }
    }

    /// The segments that count, in the order of the log, as this process knows it: for queries
    /// that read them as tables. The first answer to a request counts.
    pub fn parts(&self) -> Vec<Part> {
        let part = |segment: &Arc<Segment>| Part {
            key: segment.key.clone(),
            sha256: segment.sha256,
            bytes: segment.bytes,
            rows: segment.rows,
        };
        self.state().live.iter().map(part).collect()
    }

    /// The store behind the ledger.
    pub(crate) fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The limits of this ledger.
    pub(crate) fn limits(&self) -> Limits {
        self.inner.limits
    }

    /// Bytes of opened indexes that are in memory.
    #[cfg(test)]
    pub(crate) fn index_bytes(&self) -> usize {
        self.inner.indexes.bytes()
    }

    /// Held by the task that merges: one merge at a time in this process.
    pub(crate) fn merges(&self) -> &AsyncMutex<()> {
        &self.inner.merges
    }

    /// What this process knows of the log.
    pub(crate) fn state(&self) -> Arc<State> {
        self.shared().state.clone()
    }

    /// Appends an entry that puts `written` in place of the neighbours that `body` finds in the newest
    /// state; false when it finds them no more.
    pub(crate) async fn commit_merge(
        &self,
        written: Written,
        body: impl Fn(&State) -> Option<Body> + Send,
    ) -> Result<bool> {
        let commits = self.inner.commits.lock().await;
        let merged = self.commit(written, body, 0).await?;
        drop(commits);
        Ok(merged)
    }

    /// Appends an entry after which answers count no more.
    pub(crate) async fn commit_forget(&self, forget: Forget) -> Result<()> {
        let (inner, commits) = (&self.inner, self.inner.commits.lock().await);
        let body = |_: &State| Some(Body::Forget(forget.clone()));
        let included = |state: &State| state.forgotten.iter().any(|it| it.forget.id == forget.id);
        let state = log::append(&inner.store, &inner.writer, &self.state(), body, included).await?;
        self.install(state, None, 0);
        drop(commits);
        Ok(())
    }

    /// Appends an entry that names `written`; then the first `count` buffered rows are durable. False when
    /// the state after does not name it: nothing is durable then. The caller holds `commits`.
    async fn commit(
        &self,
        written: Written,
        body: impl Fn(&State) -> Option<Body> + Send,
        count: usize,
    ) -> Result<bool> {
        let (inner, key) = (&self.inner, &written.segment.key);
        let included = |state: &State| state.names(key);
        let state = self.state();
        let state = log::append(&inner.store, &inner.writer, &state, body, included).await?;
        let named = state.names(key);
        if named {
            let open = OpenSegment::with_tail(written.segment.clone(), &written.tail)?;
            inner.indexes.put(Arc::new(open));
        }
        self.install(state, Some(key), if named { count } else { 0 });
        if !named {
            // It never counted, or it was merged meanwhile: no later state names it either.
            inner.store.delete(key).await?;
        }
        Ok(named)
    }

    /// Goes on with a newer state, in which this process wrote `ours` and with which the first
    /// `durable` rows of the buffer are durable.
    fn install(&self, state: State, ours: Option<&Key>, durable: usize) {
        let live: HashSet<&Key> = state.live.iter().map(|segment| &segment.key).collect();
        self.inner.indexes.retain(|key| live.contains(key));
        let mut shared = self.shared();
        let known: HashSet<&Key> =
            shared.state.live.iter().map(|segment| &segment.key).chain(ours).collect();
        if !live.is_subset(&known) {
            shared.arrivals += 1;
        }
        shared.state = Arc::new(state);
        shared.buffer.remove(durable);
    }

    /// The answers and the state in which they were looked up.
    pub(crate) async fn look_up_in_state(
        &self,
        keys: &[Digest],
    ) -> Result<(Vec<Option<Arc<Answer>>>, Arc<State>)> {
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (state, buffered) = {
                let shared = self.shared();
                let get = |key: &Digest| shared.buffer.get(key);
                (shared.state.clone(), sorted.iter().map(get).collect::<Vec<_>>())
            };
            let (store, indexes) = (&self.inner.store, &self.inner.indexes);
            let forgotten = state.forgotten.len();
            let mut stored = self.inner.answers.get(&sorted, forgotten);
            let unknown = |(key, known): (&Digest, &Option<_>)| known.is_none().then_some(*key);
            let unknown: Vec<Digest> = sorted.iter().zip(&stored).filter_map(unknown).collect();
            let found = match look_up::look_up(store, indexes, &state, &unknown).await {
                Err(error) if error.is_missing() && attempts < LOOK_UPS_MAX => {
                    self.refresh_after(&state, error).await?;
                    continue;
                }
                found => found?,
            };
            self.inner.answers.put(found.iter().flatten(), forgotten);
            let mut found = found.into_iter();
            let open = stored.iter_mut().filter(|known| known.is_none());
            open.for_each(|known| *known = found.next().flatten());
            // A stored answer came before one that is still buffered.
            let answers: Vec<_> =
                stored.into_iter().zip(buffered).map(|(first, second)| first.or(second)).collect();
            let answer =
                |key: &Digest| sorted.binary_search(key).ok().and_then(|at| answers[at].clone());
            return Ok((keys.iter().map(answer).collect(), state));
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.inner.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says where the ledger is and shows no answers.
impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ledger({})", self.inner.store.url())
    }
}
