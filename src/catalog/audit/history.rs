//! The runs of a store, newest first, as the audit log lists them: those of one pipeline without a look at the others.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use proofmill_base::ids::{PipelineName, RunId};
use proofmill_store::{Manifest, Store, StoreError, Stored, Trigger, read_manifest, run_ids};

use crate::audit::entry::{AuditEntry, AuditEvent, Ending};
use crate::audit::log::{AuditLog, AuditLogError, Backwards, StoredAuditEntry};
use crate::audit::trail::Trail;

/// A run as the log knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedRun {
    pub run: RunId,
    /// `None` if only its records can say.
    pub pipeline: Option<PipelineName>,
    /// How it ended; `None` if it has not, or only its records can say.
    pub ended: Option<Ending>,
}

/// The runs of a store, newest first.
#[derive(Debug)]
pub struct History {
    store: Store,
    /// Runs that are known and not given yet.
    next: VecDeque<LoggedRun>,
    /// Endings of runs whose beginning is further down.
    ends: HashMap<RunId, Ending>,
    given: HashSet<RunId>,
    rest: Rest,
    /// Why the log ends before its first entry.
    broken: Option<AuditLogError>,
}

/// What is not read yet.
#[derive(Debug)]
enum Rest {
    Entries(Box<Backwards>),
    /// Entries about one pipeline.
    Trail(Box<Trail>),
    /// The folders of runs that no entry names.
    Folders,
    Nothing,
}

impl History {
    /// The runs of `store`.
    pub fn of(store: &Store) -> Self {
        Self::starting(store, Rest::Entries(Box::new(AuditLog::of(store).backwards())))
    }

    /// The runs of one pipeline, if it is named. Runs of others, and those whose pipeline only their records can say, may be
    /// among them; one that no entry of the log names is not, unless the store has no log or a broken one.
    pub fn of_pipeline(store: &Store, pipeline: Option<&PipelineName>) -> Self {
        let Some(pipeline) = pipeline else { return Self::of(store) };
        Self::starting(store, Rest::Trail(Box::new(Trail::of(store, pipeline))))
    }

    fn starting(store: &Store, rest: Rest) -> Self {
        Self {
            store: store.clone(),
            next: VecDeque::new(),
            ends: HashMap::new(),
            given: HashSet::new(),
            rest,
            broken: None,
        }
    }

    /// Why the rest of the runs is listed by their folders, if that is because the log is broken.
    pub fn broken(&self) -> Option<&AuditLogError> {
        self.broken.as_ref()
    }

    /// The next run, earlier than the one before; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the store fails. Where the log is broken, the folders of the other runs are listed instead, and
    /// [`Self::broken`] says why.
    pub async fn next(&mut self) -> Result<Option<LoggedRun>, StoreError> {
        loop {
            if let Some(run) = self.next.pop_front() {
                return Ok(Some(run));
            }
            match std::mem::replace(&mut self.rest, Rest::Nothing) {
                Rest::Entries(mut backwards) => {
                    if self.take_in(backwards.next().await)? {
                        self.rest = Rest::Entries(backwards);
                    }
                }
                Rest::Trail(mut trail) => {
                    if self.take_in(trail.next().await)? {
                        self.rest = Rest::Trail(trail);
                    } else if trail.entries() > 0 && self.broken.is_none() {
                        // A whole log names all runs; a store without one says nothing.
                        self.rest = Rest::Nothing;
                    }
                }
                Rest::Folders => {
                    let runs = run_ids(&self.store).await?.into_iter();
                    let unknown = runs.filter(|run| !self.given.contains(run));
                    self.next.extend(unknown.map(|run| LoggedRun {
                        run,
                        pipeline: None,
                        ended: None,
                    }));
                }
                Rest::Nothing => return Ok(None),
            }
        }
    }

    /// Takes in the next entries; false at their end, from where on folders are listed.
    fn take_in(
        &mut self,
        next: Result<Vec<StoredAuditEntry>, AuditLogError>,
    ) -> Result<bool, StoreError> {
        match next {
            Ok(entries) if !entries.is_empty() => {
                entries.iter().for_each(|stored| self.take(&stored.entry));
                return Ok(true);
            }
            Ok(_) => {}
            Err(AuditLogError::Store(error)) if !error.is_broken_record() && !error.is_newer() => {
                return Err(error);
            }
            Err(broken) => self.broken = Some(broken),
        }
        self.rest = Rest::Folders;
        Ok(false)
    }

    fn take(&mut self, entry: &AuditEntry) {
        match &entry.event {
            AuditEvent::RunEnded(end) => {
                // Of a run that was resumed, the last ending counts.
                self.ends.entry(end.run.clone()).or_insert(end.how);
            }
            // Of a run that was resumed, the first beginning counts.
            AuditEvent::RunBegan { trigger: Trigger::Resume, .. } => {}
            // What might have been is no part of what was: only its id finds it.
            AuditEvent::RunBegan { run, trigger: Trigger::Counterfactual { .. }, .. } => {
                self.given.insert(run.clone());
            }
            AuditEvent::RunBegan { run, pipeline, .. } => {
                let ended = self.ends.remove(run);
                self.give(LoggedRun {
                    run: run.clone(),
                    pipeline: Some(pipeline.name.clone()),
                    ended,
                });
            }
            AuditEvent::Adopted { runs } => {
                for adopted in runs.iter().rev() {
                    let ended = self.ends.remove(&adopted.run).or(adopted.how);
                    let (run, pipeline) = (adopted.run.clone(), adopted.pipeline.clone());
                    self.give(LoggedRun { run, pipeline, ended });
                }
            }
            AuditEvent::Forgot { .. }
            | AuditEvent::RowsRoot { .. }
            | AuditEvent::Judged(_)
            | AuditEvent::Pinned { .. }
            | AuditEvent::Key { .. } => {}
        }
    }

    fn give(&mut self, run: LoggedRun) {
        if self.given.insert(run.run.clone()) {
            self.next.push_back(run);
        }
    }
}

/// The newest finished run of a pipeline, as far as its manifests can be read.
#[derive(Debug, Default)]
pub struct Latest {
    /// Its manifest; `None` if no run has finished.
    pub manifest: Option<Stored<Manifest>>,
    /// Newer manifests that cannot be read: one of them could be the one sought.
    pub unreadable: Vec<StoreError>,
}

/// The manifest of the newest finished run of a pipeline.
///
/// # Errors
///
/// When the store fails. A manifest that cannot be trusted is passed over and reported.
pub async fn latest_manifest(store: &Store, pipeline: &PipelineName) -> Result<Latest, StoreError> {
    let mut latest = Latest::default();
    let mut history = History::of_pipeline(store, Some(pipeline));
    while let Some(logged) = history.next().await? {
        let is_other = logged.pipeline.as_ref().is_some_and(|name| name != pipeline);
        let has_none = logged.ended.is_some_and(|ended| ended != Ending::Succeeded);
        if is_other || has_none {
            continue;
        }
        match read_manifest(store, &logged.run).await {
            Ok(Some(manifest)) if manifest.record.pipeline.name == *pipeline => {
                latest.manifest = Some(manifest);
                return Ok(latest);
            }
            Ok(_) => {}
            Err(error @ (StoreError::Damaged { .. } | StoreError::Newer { .. })) => {
                latest.unreadable.push(error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(latest)
}

/// The run of the latest id that the last entries of the log name; `None` if they name none. Each run gets an id behind those
/// before it, so that an earlier entry names no later one.
///
/// # Errors
///
/// If the store fails. Where the log is broken, its entries name none.
pub async fn newest_run(store: &Store) -> Result<Option<RunId>, StoreError> {
    let mut backwards = AuditLog::of(store).backwards();
    let mut newest: Option<RunId> = None;
    // The head, and the entries before it that are read at once.
    for _ in 0..2 {
        let entries = match backwards.next().await {
            Ok(entries) => entries,
            Err(AuditLogError::Store(error)) if !error.is_broken_record() && !error.is_newer() => {
                return Err(error);
            }
            Err(_) => return Ok(None),
        };
        let named = entries.iter().filter_map(|stored| stored.entry.event.run());
        newest = newest.max(named.max().cloned());
        let open = entries.first().map(|stored| stored.entry.open.as_slice()).unwrap_or_default();
        newest = newest.max(open.iter().map(|open| open.run.clone()).max());
    }
    Ok(newest)
}

/// How many runs of each pipeline have ended without success since its last published one; all, if none is published.
/// Pipelines without such runs are left out.
///
/// # Errors
///
/// If the store fails.
pub async fn unsuccessful_since_published(
    store: &Store,
    pipelines: &BTreeSet<PipelineName>,
) -> Result<BTreeMap<PipelineName, usize>, StoreError> {
    // Looked for once: in a bucket that takes longer than the way from there to a pipeline.
    let last = AuditLog::of(store).last().await.ok().flatten();
    let mut counts = BTreeMap::new();
    for pipeline in pipelines {
        let mut history = match &last {
            Some(last) => {
                let trail = Trail::from_last(store, pipeline, last);
                History::starting(store, Rest::Trail(Box::new(trail)))
            }
            None => History::of_pipeline(store, Some(pipeline)),
        };
        let mut count = 0;
        while let Some(logged) = history.next().await? {
            match logged.ended {
                _ if logged.pipeline.as_ref() != Some(pipeline) => {}
                Some(Ending::Succeeded) => break,
                Some(_) => count += 1,
                None => {}
            }
        }
        if count > 0 {
            counts.insert(pipeline.clone(), count);
        }
    }
    Ok(counts)
}
