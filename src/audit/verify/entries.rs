//! The audit log entry by entry, the checkpoints beside it, and the anchors that were given.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use proofmill_base::digest::Digest;
use proofmill_base::ids::{PipelineName, RunId};
use proofmill_catalog::audit::channels::{channels_of, wrong_move};
use proofmill_catalog::audit::earlier::Indexed;
use proofmill_catalog::audit::entry::{
    AdoptedRun, AuditEntry, AuditEvent, Channels, Judged, LogState, RunEnd,
};
use proofmill_catalog::audit::log::StoredAuditEntry;
use proofmill_store::{
    Key, LogFolder, Numbered, Store, StoreError, StoredEntry, checkpoint_note_key, unseal,
};

use crate::checkpoint::{Anchor, Compared, kept};
use crate::finding::{Fault, Finding};
use crate::verify::scope::{Collected, Scope};

/// Entries that are read at a time.
const WINDOW: usize = 512;

/// What the log says of runs and tables.
#[derive(Debug, Default)]
pub(super) struct Logged {
    /// Runs that began, each with the number of the entry.
    pub began: BTreeMap<RunId, u64>,
    /// How each run ended last.
    pub ended: BTreeMap<RunId, RunEnd>,
    pub adopted: BTreeMap<RunId, AdoptedRun>,
    /// The last entries that the ledger and memories had when a run ended, with the runs.
    pub heads: BTreeMap<(String, u64), (Digest, Vec<RunId>)>,
    /// Roots of tables whose records have none, by the digests of the records.
    pub roots: HashMap<Digest, Digest>,
    /// The verdicts of gates, each with the number of the entry.
    pub verdicts: Vec<(Judged, u64)>,
    /// The channels of each pipeline so far.
    channels: BTreeMap<PipelineName, Channels>,
    /// True if the store has a log.
    pub exists: bool,
}

/// Reads the whole log, and compares it with checkpoints and anchors.
pub(super) async fn examine(
    store: &Store,
    scope: &Scope,
    found: &mut Collected,
) -> Result<Logged, StoreError> {
    let folder = LogFolder::of_audit();
    let mut numbers = BTreeSet::new();
    for key in store.list(&folder.prefix()).await? {
        if let Some(Numbered::Entry(seq)) = Numbered::of(&key) {
            numbers.insert(seq);
        }
    }
    let mut log = Logged { exists: !numbers.is_empty(), ..Logged::default() };
    let befores = std::iter::once(None).chain(numbers.iter().copied().map(Some));
    for (before, next) in befores.zip(&numbers) {
        let expected = before.map_or(0, |before| before + 1);
        if expected < *next {
            let more = next - expected;
            let detail = format!(
                "{more} entries of the audit log are missing from here on, and later ones exist"
            );
            found.add(Finding::new(folder.entry(expected).as_str(), Fault::Missing, detail));
        }
    }
    // Those up to the first that is missing or cannot be read: what anchors are compared with.
    let mut whole = Vec::new();
    let mut chain = Chain::default();
    let wanted: Vec<u64> = numbers.into_iter().collect();
    for window in wanted.chunks(WINDOW) {
        let keys: Vec<Key> = window.iter().map(|seq| folder.entry(*seq)).collect();
        for ((bytes, key), seq) in store.get_all(&keys).await?.into_iter().zip(&keys).zip(window) {
            let Some(bytes) = bytes else { continue };
            if let Some(stored) = chain.admit(*seq, key, &bytes, found)? {
                log.take(&stored);
                if let Some(wrong) = log.moved(&stored) {
                    found.add(Finding::new(key.as_str(), Fault::Contradicts, wrong));
                }
                found.examined.entries += 1;
                if *seq == whole.len() as u64 {
                    whole.push(stored);
                }
            }
        }
    }
    compare(store, scope, &whole, found).await?;
    Ok(log)
}

/// What the next entry must continue, as far as that is known.
#[derive(Debug, Default)]
struct Chain {
    /// The number of the last entry that could be read, its digest, and what it and those before say.
    last: Option<(u64, Digest, LogState)>,
    /// What the entries so far make of indexes; `None` behind one that could not be read.
    indexed: Option<Indexed>,
}

impl Chain {
    /// The entry in `bytes`, after findings for whatever is wrong with it; `None` if it cannot be read.
    fn admit(
        &mut self,
        seq: u64,
        key: &Key,
        bytes: &Bytes,
        found: &mut Collected,
    ) -> Result<Option<StoredAuditEntry>, StoreError> {
        let entry: AuditEntry = match unseal(key, bytes) {
            Ok(entry) => entry,
            Err(error) => {
                found.add(Finding::of(key, error)?);
                (self.last, self.indexed) = (None, None);
                return Ok(None);
            }
        };
        let mut wrong = |fault, detail: String| {
            found.add(Finding::new(key.as_str(), fault, detail));
        };
        if entry.seq != seq {
            let detail =
                format!("entry {seq} of the audit log says that it is entry {}", entry.seq);
            wrong(Fault::Contradicts, detail);
        }
        let says = LogState::before(&entry);
        match &self.last {
            Some((before, sha256, state)) if before + 1 == seq => {
                if entry.prev != Some(*sha256) {
                    let detail = format!(
                        "entry {seq} of the audit log does not continue entry {before}: one of the two was replaced"
                    );
                    wrong(Fault::ChainBroken, detail);
                } else if says.as_ref() != Some(state) {
                    let detail = format!(
                        "entry {seq} of the audit log says of those before it what they are not"
                    );
                    wrong(Fault::Contradicts, detail);
                }
            }
            None if seq == 0 && (entry.prev.is_some() || says != Some(LogState::default())) => {
                wrong(
                    Fault::ChainBroken,
                    "the first entry of the audit log continues another".into(),
                );
            }
            _ => {}
        }
        if seq == 0 {
            self.indexed = Some(Indexed::default());
        } else if self.last.as_ref().is_none_or(|(before, ..)| before + 1 != seq) {
            self.indexed = None;
        }
        if let Some(what) = self.indexed.as_mut().and_then(|indexed| indexed.add(&entry)) {
            wrong(Fault::Contradicts, format!("entry {seq} of the audit log {what}"));
        }
        let sha256 = Digest::of(bytes);
        let stored = StoredEntry { entry, sha256, bytes: bytes.clone() };
        let mut state = says.unwrap_or_default();
        state.add(&stored);
        self.last = Some((seq, sha256, state));
        Ok(Some(stored))
    }
}

impl Logged {
    fn take(&mut self, stored: &StoredAuditEntry) {
        match &stored.entry.event {
            AuditEvent::RunBegan { run, .. } => {
                self.began.entry(run.clone()).or_insert(stored.entry.seq);
                self.ended.remove(run);
            }
            AuditEvent::RunEnded(end) => {
                for (log, head) in &end.heads {
                    let new = || (head.sha256, Vec::new());
                    let known = self.heads.entry((log.clone(), head.seq)).or_insert_with(new);
                    known.1.push(end.run.clone());
                }
                self.ended.insert(end.run.clone(), end.clone());
            }
            AuditEvent::Adopted { runs } => {
                let runs = runs.iter().map(|adopted| (adopted.run.clone(), adopted.clone()));
                self.adopted.extend(runs);
            }
            AuditEvent::RowsRoot { artifact, root, .. } => {
                self.roots.insert(*artifact, *root);
            }
            AuditEvent::Judged(judged) => {
                self.verdicts.push((judged.clone(), stored.entry.seq));
            }
            AuditEvent::Forgot { .. } | AuditEvent::Pinned { .. } | AuditEvent::Key { .. } => {}
        }
    }

    /// Notes the channels that an entry names; what is wrong with them.
    fn moved(&mut self, stored: &StoredAuditEntry) -> Option<String> {
        let event = &stored.entry.event;
        let now = channels_of(event)?;
        let before = self.channels.entry(event.pipeline()?.clone()).or_default();
        let wrong = wrong_move(before, event);
        *before = now.clone();
        wrong
    }

    /// Whether the log names a run.
    pub fn names(&self, run: &RunId) -> bool {
        self.began.contains_key(run) || self.adopted.contains_key(run)
    }
}

async fn compare(
    store: &Store,
    scope: &Scope,
    entries: &[StoredAuditEntry],
    found: &mut Collected,
) -> Result<(), StoreError> {
    let mut anchors: Vec<(String, Anchor)> = Vec::new();
    for (key, anchor) in kept(store).await? {
        match anchor {
            Ok(anchor) if checkpoint_note_key(anchor.checkpoint.size) != key => {
                let detail = format!("it is the checkpoint of {} entries", anchor.checkpoint.size);
                found.add(Finding::new(key.as_str(), Fault::Contradicts, detail));
            }
            Ok(anchor) => anchors.push((key.to_string(), anchor)),
            Err(error) => found.add(Finding::new(key.as_str(), Fault::Damaged, error.to_string())),
        }
    }
    let inside = anchors.len();
    anchors.extend(scope.anchors.iter().cloned());
    let mut counted = 0;
    for (at, (name, anchor)) in anchors.iter().enumerate() {
        let size = anchor.checkpoint.size;
        let (fault, detail) = match anchor.compare(store.format(), entries) {
            Compared::Continued => {
                if let Some(key) = &scope.key
                    && let Err(error) = anchor.verify(key)
                {
                    let detail = format!("the checkpoint of {size} entries: {error}");
                    found.add(Finding::new(name, Fault::BadSignature, detail));
                } else if at >= inside {
                    found.attested.push(attested(name, anchor, scope));
                } else {
                    counted += 1;
                }
                continue;
            }
            Compared::OtherLog => (
                Fault::OtherLog,
                format!(
                    "it is of the log `{}`, which is not that of this store",
                    anchor.checkpoint.origin
                ),
            ),
            Compared::Shorter => (
                Fault::CutOff,
                format!(
                    "it names {size} entries of the audit log, of which the first {} can be read",
                    entries.len()
                ),
            ),
            Compared::Rewritten => (
                Fault::Rewritten,
                format!(
                    "the first {size} entries of the audit log are not those that it names: the log is a fork"
                ),
            ),
        };
        found.add(Finding::new(name, fault, detail));
    }
    if counted > 0 {
        let by = match &scope.key {
            Some(key) => format!("signed by `{}`", key.name()),
            None => "whose signatures were not checked: no `--key` was given".to_owned(),
        };
        let fit = if counted == 1 {
            "checkpoint in the store fits"
        } else {
            "checkpoints in the store fit"
        };
        found.attested.push(format!("{counted} {fit} the log, {by}"));
    }
    Ok(())
}

fn attested(name: &str, anchor: &Anchor, scope: &Scope) -> String {
    let by = match (&scope.key, anchor.is_signed()) {
        (Some(key), _) => format!("signed by `{}`", key.name()),
        (None, true) => "whose signature was not checked: no `--key` was given".to_owned(),
        (None, false) => "unsigned: as good as the place where it was kept".to_owned(),
    };
    format!("`{name}`: the first {} entries are those of the anchor, {by}", anchor.checkpoint.size)
}
