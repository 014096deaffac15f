//! The log of the ledger: numbered entries, each created once, by any of several processes.
//!
//! No process owns it. A writer reads to the head and creates the next entry; a writer that finds
//! its place taken reads on and tries again. Log order decides which of two answers came first; no
//! clock does.
//!
//! From time to time a checkpoint records what the log amounts to, and the entries up to it are removed.
//! A process that slept meanwhile could then create an entry in a place that is empty again and that
//! no process reads any more. So an entry counts only if, after it was created, there is still no
//! checkpoint at its number or later: checkpoints are written before entries are removed. Readers
//! ask the same after they read entries.
//!
//! The entries of merges say which segments are merged. They stay until those segments are removed, by
//! the process that writes a checkpoint far enough behind them.

use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::LedgerError;
use crate::error::Result;
use crate::record::{Body, Checkpoint, LEDGER_VERSION, LogEntry, log};
use crate::state::State;
use proofmill_base::rng::random_name;
use proofmill_store::{Created, Extent, Key, Numbered, Store, StoreError, seal, unseal};

/// Entries that a reader asks for at a time.
const WINDOW_MAX: u64 = 128;
/// Times that an append is tried because others were faster, and that a reading starts anew because
/// entries were removed meanwhile.
const ATTEMPTS_MAX: u32 = 256;
/// Removals under way at a time.
const REMOVALS_AT_ONCE: usize = 16;

/// Objects that a checkpoint made superfluous, and that are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Removed {
    /// Entries and earlier checkpoints.
    pub log_objects: usize,
    /// Merged segments.
    pub segments: usize,
}

/// Reads on from `state` to the head of the log.
pub(crate) async fn read_on(store: &Store, state: &State) -> Result<State> {
    for _ in 0..ATTEMPTS_MAX {
        let extent = log().folder.extent(store).await?;
        let Some(mut state) = from_checkpoint(store, state, extent).await? else { continue };
        let first = state.position.next;
        read_entries(store, &mut state, extent).await?;
        if state.position.next > first && covers(store, first).await? {
            continue;
        }
        if extent.entry.is_none_or(|last| last < state.position.next) {
            return Ok(state);
        }
        // An entry before the last one is missing: lost, unless a checkpoint replaced it meanwhile.
        let seq = state.position.next;
        if !covers(store, seq).await? && store.get_opt(&log().folder.entry(seq)).await?.is_none() {
            return Err(LedgerError::Gap { seq });
        }
    }
    Err(LedgerError::Contended { attempts: ATTEMPTS_MAX })
}

/// Appends what `body` makes of the newest state, and returns the state after it. When this returns, the
/// entry is durable and counts, unless `body` found that nothing is left to append, or the entry is an
/// append whose fate is unknown: then the state does not name its segment, and the caller has to store the
/// answers under another key. `included` tells whether a state has taken in what was to be appended.
pub(crate) async fn append(
    store: &Store,
    writer: &str,
    state: &State,
    body: impl Fn(&State) -> Option<Body> + Send,
    included: impl Fn(&State) -> bool + Send,
) -> Result<State> {
    let mut state = read_on(store, state).await?;
    for _ in 0..ATTEMPTS_MAX {
        let Some(body) = body(&state).filter(|_| !included(&state)) else { return Ok(state) };
        let seq = state.position.next;
        let is_append = matches!(body, Body::Append(_));
        let created = log().create(store, &entry(store, writer, &state, body)).await?;
        if let Some(bytes) = &created
            && !covers(store, seq).await?
        {
            state.admit(bytes)?;
            return Ok(state);
        }
        state = read_on(store, &state).await?;
        if created.is_some() && is_append {
            // It may have counted, and its segment may be merged and removed since: no key is appended twice.
            return Ok(state);
        }
    }
    Err(LedgerError::Contended { attempts: ATTEMPTS_MAX })
}

/// Records what the log up to `state` amounts to. Removes the entries before, but those of the last `margin`
/// entries that merge segments, and the segments that were merged by those it removes.
pub(crate) async fn checkpoint(store: &Store, state: &State, margin: u64) -> Result<Removed> {
    let Some(record) = state.checkpoint() else { return Ok(Removed::default()) };
    let key = log().folder.checkpoint(record.seq);
    let bytes = seal(&key, &record)?;
    if store.create(&key, bytes).await? != Created::Won {
        let reason = "it does not match the log".to_owned();
        return Err(StoreError::Damaged { key: key.to_string(), reason }.into());
    }
    let (mut entries, mut checkpoints) = (Vec::new(), Vec::new());
    for key in store.list(&log().folder.prefix()).await? {
        match Numbered::of(&key) {
            Some(Numbered::Entry(seq)) if seq <= record.seq => entries.push(key),
            Some(Numbered::Checkpoint(seq)) if seq < record.seq => checkpoints.push(key),
            _ => {}
        }
    }
    let mut merged = Vec::new();
    let mut covered = Vec::with_capacity(entries.len());
    for (key, bytes) in entries.iter().zip(store.get_all(&entries).await?) {
        // What is not readable names nothing. What was merged once is never named again: neither an entry
        // that was created too late to count nor an older state than the newest misleads.
        let entry = bytes.and_then(|bytes| unseal::<LogEntry>(key, &bytes).ok());
        if let Some(LogEntry { seq, body: Body::Merge { from, .. }, .. }) = entry {
            if seq.saturating_add(margin) > record.seq {
                continue;
            }
            merged.extend(from.into_iter().filter(|key| !state.names(key)));
        }
        covered.push(key.clone());
    }
    covered.extend(checkpoints);
    // Segments first: who dies in between leaves the entries that name them.
    remove(store, &merged).await?;
    remove(store, &covered).await?;
    Ok(Removed { log_objects: covered.len(), segments: merged.len() })
}

async fn remove(store: &Store, keys: &[Key]) -> Result<()> {
    let removals: Vec<_> = keys.iter().map(|key| store.delete(key)).collect();
    stream::iter(removals).buffer_unordered(REMOVALS_AT_ONCE).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// Entries that lie in the store and that no checkpoint covers.
pub(crate) async fn entries(store: &Store) -> Result<usize> {
    let extent = log().folder.extent(store).await?;
    let first = extent.checkpoint.map_or(0, |seq| seq + 1);
    let count = extent.entry.map_or(0, |last| (last + 1).saturating_sub(first));
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// True when there is a checkpoint at an entry or later.
async fn covers(store: &Store, seq: u64) -> Result<bool> {
    Ok(log().folder.extent(store).await?.checkpoint.is_some_and(|newest| newest >= seq))
}

fn entry(store: &Store, writer: &str, state: &State, body: Body) -> LogEntry {
    LogEntry {
        v: LEDGER_VERSION,
        seq: state.position.next,
        prev: state.position.head,
        writer: writer.to_owned(),
        nonce: random_name(store.rng().as_ref(), 16),
        t_utc: store.clock().now(),
        body,
    }
}

/// `state`, or that of the newest checkpoint when it is later; none when that was replaced meanwhile.
async fn from_checkpoint(store: &Store, state: &State, extent: Extent) -> Result<Option<State>> {
    let Some(seq) = extent.checkpoint.filter(|seq| *seq >= state.position.next) else {
        return Ok(Some(state.clone()));
    };
    let key = log().folder.checkpoint(seq);
    let Some(bytes) = store.get_opt(&key).await? else { return Ok(None) };
    let record: Checkpoint = unseal(&key, &bytes)?;
    if record.seq != seq {
        let reason = format!("it is the checkpoint of entry {}", record.seq);
        return Err(StoreError::Damaged { key: key.to_string(), reason }.into());
    }
    Ok(Some(State::of(record)))
}

/// Takes in entries until one is missing. Asks for one more than were listed.
async fn read_entries(store: &Store, state: &mut State, extent: Extent) -> Result<()> {
    loop {
        let listed = extent.entry.map_or(0, |last| (last + 1).saturating_sub(state.position.next));
        let window = (listed + 1).min(WINDOW_MAX);
        let keys = state.position.next..state.position.next + window;
        let keys: Vec<Key> = keys.map(|seq| log().folder.entry(seq)).collect();
        for bytes in store.get_all(&keys).await? {
            let Some(bytes) = bytes else { return Ok(()) };
            state.admit(&bytes)?;
        }
    }
}
