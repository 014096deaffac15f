//! The entries of the log about one pipeline, latest first: by the indexes of the entries, and one by one where older
//! programs wrote none.

use proofmill_base::ids::PipelineName;
use proofmill_store::Store;

use crate::audit::earlier::{Earlier, topic};
use crate::audit::entry::{AuditEntry, AuditEvent};
use crate::audit::log::{AuditLog, AuditLogError, StoredAuditEntry};

/// Entries of an index that are read at the same time: first, and at most.
const WINDOW_MIN: usize = 4;
const WINDOW_MAX: usize = 16;
/// Entries without index that are read at the same time.
const BEFORE: u64 = 256;

/// Reads the entries about a pipeline, as far as they are wanted; after them, the entry that adopted the runs of a store older
/// than its log.
#[derive(Debug)]
pub struct Trail {
    log: AuditLog,
    pipeline: PipelineName,
    entries: u64,
    next: Next,
    window: usize,
}

/// What is to be read next.
#[derive(Debug)]
enum Next {
    Head,
    /// From the index of this entry on, the entry itself included.
    From(Box<StoredAuditEntry>),
    /// These entries about the pipeline, of indexes that cover the log from an entry on.
    Same {
        seqs: Vec<u64>,
        since: u64,
    },
    /// The entries before this one, one by one.
    Before(Box<AuditEntry>),
    Nothing,
}

impl Trail {
    /// The entries about a pipeline from the last one backwards.
    pub fn of(store: &Store, pipeline: &PipelineName) -> Self {
        Self::starting(store, pipeline, Next::Head)
    }

    /// The same where the last entry is known.
    pub fn from_last(store: &Store, pipeline: &PipelineName, last: &StoredAuditEntry) -> Self {
        let trail = Self::starting(store, pipeline, Next::From(Box::new(last.clone())));
        Self { entries: last.entry.seq + 1, ..trail }
    }

    fn starting(store: &Store, pipeline: &PipelineName, next: Next) -> Self {
        Self {
            log: AuditLog::of(store),
            pipeline: pipeline.clone(),
            entries: 0,
            next,
            window: WINDOW_MIN,
        }
    }

    /// How many entries the log had when the first was read.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The next entries, latest first; none at the end.
    ///
    /// # Errors
    ///
    /// If an entry is missing or damaged, or leads elsewhere than it says; a failure of the store.
    pub async fn next(&mut self) -> Result<Vec<StoredAuditEntry>, AuditLogError> {
        loop {
            let found = match std::mem::replace(&mut self.next, Next::Nothing) {
                Next::Nothing => return Ok(Vec::new()),
                Next::Head => match self.log.last().await? {
                    None => return Ok(Vec::new()),
                    Some(last) => {
                        self.entries = last.entry.seq + 1;
                        self.next = Next::From(Box::new(last));
                        continue;
                    }
                },
                Next::From(stored) => self.from(*stored).await?,
                Next::Same { seqs, since } => self.same(&seqs, since).await?,
                Next::Before(entry) => self.before(&entry).await?,
            };
            if !found.is_empty() {
                return Ok(found);
            }
        }
    }

    async fn from(
        &mut self,
        stored: StoredAuditEntry,
    ) -> Result<Vec<StoredAuditEntry>, AuditLogError> {
        self.next = match self.log.earlier(&stored, self.pipeline.as_str()).await? {
            Some(Earlier { same, since, .. }) => Next::Same { seqs: same, since },
            None => Next::Before(Box::new(stored.entry.clone())),
        };
        let is_last = matches!(self.next, Next::Before(_)) && self.is_wanted(&stored.entry);
        Ok(is_last.then_some(stored).into_iter().collect())
    }

    async fn same(
        &mut self,
        seqs: &[u64],
        since: u64,
    ) -> Result<Vec<StoredAuditEntry>, AuditLogError> {
        if seqs.is_empty() {
            let mut first = self.log.at(&[since]).await?;
            if since > 0 {
                self.next =
                    first.pop().map_or(Next::Nothing, |it| Next::Before(Box::new(it.entry)));
            }
            first.retain(|it| matches!(it.entry.event, AuditEvent::Adopted { .. }));
            return Ok(first);
        }
        let entries = self.log.at(&seqs[..seqs.len().min(self.window)]).await?;
        self.window = (self.window * 2).min(WINDOW_MAX);
        let of_others = entries.iter().find(|it| topic(&it.entry) != self.pipeline.as_str());
        if let Some(other) = of_others {
            let reason = "is about another pipeline than an index says";
            return Err(AuditLogError::of_entry(&other.entry, reason));
        }
        if let Some(last) = entries.last() {
            let index = Earlier::of(&last.entry);
            let index = index.map_err(|reason| AuditLogError::of_entry(&last.entry, &reason))?;
            let seqs = index.map(|index| index.same).unwrap_or_default();
            self.next = Next::Same { seqs, since };
        }
        Ok(entries)
    }

    async fn before(
        &mut self,
        earliest: &AuditEntry,
    ) -> Result<Vec<StoredAuditEntry>, AuditLogError> {
        let from = earliest.seq.saturating_sub(BEFORE);
        let mut entries = self.log.before(from, earliest).await?;
        entries.reverse();
        // From the first one that has an index on, the others need not be read.
        let has_index = |it: &StoredAuditEntry| matches!(Earlier::of(&it.entry), Ok(Some(_)));
        let rest = entries.iter().position(has_index).map(|at| entries.split_off(at));
        self.next = match (rest.and_then(|rest| rest.into_iter().next()), entries.last()) {
            (Some(indexed), _) => Next::From(Box::new(indexed)),
            (None, Some(last)) => Next::Before(Box::new(last.entry.clone())),
            (None, None) => Next::Nothing,
        };
        entries.retain(|it| self.is_wanted(&it.entry));
        Ok(entries)
    }

    fn is_wanted(&self, entry: &AuditEntry) -> bool {
        topic(entry) == self.pipeline.as_str() || matches!(entry.event, AuditEvent::Adopted { .. })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::executor::block_on;
    use proofmill_base::clock::SystemClock;
    use proofmill_base::rng::{Rng as _, SeededRng};
    use proofmill_store::{LogFolder, seal, writer_name};

    use super::*;
    use crate::audit::earlier::{Descent, EARLIER, Indexed};

    async fn store(seed: u64) -> Store {
        let (clock, rng) = (SystemClock::default(), SeededRng::new(seed));
        Store::in_memory(Arc::new(clock), Arc::new(rng)).await.unwrap()
    }

    /// An event about one of `names` pipelines, or about none.
    fn event(number: u64, names: u64) -> AuditEvent {
        if number.is_multiple_of(7) {
            return AuditEvent::Key { verifier: number.to_string() };
        }
        AuditEvent::Pinned {
            pipeline: format!("p{}", number % names).parse().unwrap(),
            run: "20261121-021500123-k3f9qa".parse().unwrap(),
            owner: number.to_string(),
            reason: String::new(),
            channels: Default::default(),
        }
    }

    /// Appends an entry without index, as an older program does.
    async fn add_without_index(store: &Store, event: AuditEvent) {
        let (log, writer) = (AuditLog::of(store), writer_name(store));
        let head = log.append(&writer, |_| Some(event.clone())).await.unwrap().unwrap();
        let key = LogFolder::of_audit().entry(head.last.entry.seq);
        let mut entry = head.last.entry;
        entry.extensions.remove(EARLIER).unwrap();
        store.delete(&key).await.unwrap();
        store.create(&key, seal(&key, &entry).unwrap()).await.unwrap();
    }

    /// The numbers of the entries that a trail gives.
    async fn followed(store: &Store, pipeline: &PipelineName) -> Vec<u64> {
        let (mut trail, mut found) = (Trail::of(store, pipeline), Vec::new());
        loop {
            let next = trail.next().await.unwrap();
            if next.is_empty() {
                return found;
            }
            found.extend(next.iter().map(|stored| stored.entry.seq));
        }
    }

    #[test]
    fn trails_lead_to_all_entries_about_a_pipeline_written_by_any_program() {
        // How many of ten entries older programs write, and how many pipelines there are.
        for (seed, (old, names)) in
            [(0, 1), (0, 40), (1, 5), (5, 9), (10, 3)].into_iter().enumerate()
        {
            let store = block_on(store(seed as u64));
            let (log, rng, writer) = (AuditLog::of(&store), SeededRng::new(9), writer_name(&store));
            for _ in 0..150 {
                let event = event(rng.next_u64() % 1000, names);
                match rng.next_u64() % 10 < old {
                    true => block_on(add_without_index(&store, event)),
                    false => drop(block_on(log.append(&writer, |_| Some(event.clone()))).unwrap()),
                }
            }
            let mut all = block_on(log.all()).unwrap();
            let mut indexed = Indexed::default();
            for stored in &all {
                assert_eq!(indexed.add(&stored.entry), None, "entry {}", stored.entry.seq);
            }
            all.reverse();
            for name in 0..=names {
                let pipeline: PipelineName = format!("p{name}").parse().unwrap();
                let about = all.iter().filter(|it| topic(&it.entry) == pipeline.as_str());
                let expected: Vec<u64> = about.map(|it| it.entry.seq).collect();
                assert_eq!(
                    block_on(followed(&store, &pipeline)),
                    expected,
                    "{pipeline}, old: {old}"
                );
            }
        }
    }

    #[test]
    fn a_trail_reads_as_many_entries_as_it_needs() {
        let store = block_on(store(1));
        let (log, writer) = (AuditLog::of(&store), writer_name(&store));
        for number in 1..400 {
            let event = event(if number % 100 == 1 { 1 } else { number * 7 + 2 }, 50);
            block_on(log.append(&writer, |_| Some(event.clone()))).unwrap();
        }
        let all = block_on(log.all()).unwrap();
        let (last, pipeline) = (all.last().unwrap(), "p1");
        let mut descent = Descent::to(pipeline);
        let (mut at, mut steps) = (last.entry.clone(), 0);
        while let Some(next) = descent.step(&at, &Earlier::of(&at).unwrap().unwrap()).unwrap() {
            at = all[next as usize].entry.clone();
            steps += 1;
        }
        assert!(steps <= 12, "{steps} of 400 entries");
        let sizes = all.iter().map(|it| it.entry.extensions[EARLIER].to_string().len());
        assert!(sizes.max().unwrap() < 300);
    }
}
