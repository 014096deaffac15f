//! The records of runs, against each other and against the audit log, and all that they name.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use proofmill_base::digest::Digest;
use proofmill_base::ids::{Fingerprint, RunId};
use proofmill_catalog::audit::entry::Ending;
use proofmill_catalog::event::Event;
use proofmill_store::{
    Artifact, Entry, Head, Key, LogFolder, RecordRef, SourceRefs, StageOutcome, Store, StoreError,
    Stored, find_current, find_exact, manifest_key, read_log_to_head, read_manifest, run_ids,
};

use crate::finding::{Fault, Finding};
use crate::verify::entries::Logged;
use crate::verify::objects::{Named, Objects};
use crate::verify::scope::{Collected, Phase, Scope, Step, Watcher};

/// Records of tables that are read at a time.
const WINDOW: usize = 512;

/// What the records of runs name.
#[derive(Debug, Default)]
pub(super) struct Examined {
    pub objects: Objects,
    /// Records of tables, by their digests.
    pub tables: BTreeMap<Digest, Fingerprint>,
    /// The stages of each run that have a record.
    pub stages: StagesOfRuns,
}

/// The stages of runs that have a record, and whether each has metrics.
pub(super) type StagesOfRuns = BTreeMap<RunId, Vec<(StageOutcome, bool)>>;

/// Examines the records of the runs in scope.
pub(super) async fn examine(
    store: &Store,
    scope: &Scope,
    log: &Logged,
    watcher: &dyn Watcher,
    found: &mut Collected,
) -> Result<Examined, StoreError> {
    let there: BTreeSet<RunId> = run_ids(store).await?.into_iter().collect();
    let runs: BTreeSet<RunId> = match &scope.run {
        Some(run) => BTreeSet::from([run.clone()]),
        None => {
            let named = log.began.keys().chain(log.adopted.keys()).cloned();
            there.iter().cloned().chain(named).collect()
        }
    };
    let (mut examined, mut records) = (Examined::default(), HashSet::new());
    let all = runs.len() as u64;
    for run in runs {
        let done = found.examined.runs;
        watcher.step(Step { phase: Phase::Runs, done, all, bytes: (0, 0) });
        found.examined.runs += 1;
        let contents = of_run(store, &run, log, there.contains(&run), found).await?;
        for (name, source) in contents.sources.iter().filter(|(_, source)| source.stored) {
            let (sha256, bytes) = (source.sha256, source.bytes);
            let what = format!("the text `{name}`");
            Named::add(&mut examined.objects, source.key(), sha256, bytes, what, &run);
        }
        let ended = contents.stages.iter().map(|(ended, _)| ended);
        let new: Vec<Table<'_>> = ended
            .filter_map(Table::of)
            .filter(|table| records.insert(table.named.sha256))
            .collect();
        for tables in new.chunks(WINDOW) {
            read_tables(store, &run, tables, &mut examined, found).await?;
        }
        examined.stages.insert(run, contents.stages);
    }
    found.examined.records = examined.tables.len() as u64;
    Ok(examined)
}

/// What the records of a run say.
#[derive(Debug, Default)]
struct RunContents {
    sources: SourceRefs,
    stages: Vec<(StageOutcome, bool)>,
}

async fn of_run(
    store: &Store,
    run: &RunId,
    log: &Logged,
    is_there: bool,
    found: &mut Collected,
) -> Result<RunContents, StoreError> {
    let own = std::slice::from_ref(run);
    let (at, folder) = (manifest_key(run), LogFolder::of_run(run));
    let manifest = found.take(&at, read_manifest(store, run).await, own)?;
    let is_read = manifest.is_some();
    let manifest = manifest.flatten();
    let entries = found.take(&folder.entry(0), read_log_to_head::<Event>(store, run).await, own)?;
    let mut contradiction = |object: &Key, detail: String| {
        let finding = Finding::new(object.as_str(), Fault::Contradicts, detail);
        found.add(finding.of_runs([run.clone()]));
    };
    if let (Some(manifest), Some((entries, head))) = (&manifest, &entries) {
        // The log ends with the entry that the manifest names.
        if *head != Some(manifest.record.log) {
            let named = manifest.record.log.seq;
            let detail = format!(
                "it names entry {named} as the end of the log of run {run}, which has {} entries",
                entries.len()
            );
            contradiction(&at, detail);
        }
    }
    let head: Option<Head> = entries.as_ref().and_then(|(_, head)| *head);
    let ended = log.ended.get(run);
    let adopted = || log.adopted.get(run).filter(|adopted| adopted.how.is_some());
    let named = ended.map(|end| end.manifest).or_else(|| Some(adopted()?.manifest));
    match (named, &manifest) {
        (Some(Some(sha256)), Some(manifest)) if manifest.sha256 != sha256 => {
            let detail = format!(
                "the audit log names another manifest of run {run}, with SHA-256 {sha256}: it was replaced"
            );
            contradiction(&at, detail);
        }
        (Some(Some(sha256)), None) if is_read => {
            let detail = format!("run {run} was published, with a manifest of SHA-256 {sha256}");
            let finding = Finding::new(at.as_str(), Fault::Missing, detail);
            found.add(finding.of_runs([run.clone()]));
        }
        (Some(None), Some(_)) => {
            let how = ended.map_or("not published", |end| end.how.word());
            let detail = format!(
                "the audit log says that run {run} ended otherwise ({how}), but it has a manifest"
            );
            contradiction(&at, detail);
        }
        _ => {}
    }
    if let Some(end) = ended
        && end.how != Ending::NotBegun
        && entries.is_some()
        && end.log.is_some()
        && head != end.log
    {
        let detail = match head {
            None => format!("the log of run {run} is missing"),
            Some(_) => format!("the log of run {run} does not end where the audit log says"),
        };
        let fault = if head.is_none() { Fault::Missing } else { Fault::Contradicts };
        found.add(Finding::new(folder.entry(0).as_str(), fault, detail).of_runs([run.clone()]));
    }
    let has_records = manifest.is_some() || head.is_some() || entries.is_none() || !is_read;
    if log.exists && is_there && has_records && !log.names(run) {
        let detail = format!("run {run} is in the store, but no entry of the audit log names it");
        let object = if manifest.is_some() { at.to_string() } else { folder.entry(0).to_string() };
        found.add(Finding::new(object, Fault::NotLogged, detail).of_runs([run.clone()]));
    }
    Ok(contents(
        manifest.as_ref().map(|stored| stored.record.as_ref()),
        entries.as_ref().map(|(entries, _)| entries),
    ))
}

fn contents(
    manifest: Option<&proofmill_store::Manifest>,
    entries: Option<&Vec<Entry<Event>>>,
) -> RunContents {
    if let Some(manifest) = manifest {
        let measures: HashSet<&str> =
            manifest.metrics.iter().filter_map(|row| row.get("stage")?.as_str()).collect();
        let stages = manifest.stages.iter();
        let stages = stages.map(|it| (it.clone(), measures.contains(it.stage.as_str()))).collect();
        return RunContents { sources: manifest.sources.clone(), stages };
    }
    let mut contents = RunContents::default();
    for event in entries.into_iter().flatten().filter_map(Entry::event) {
        match event {
            Event::Started { sources, .. } => contents.sources = sources.clone(),
            Event::Stages(ended) => {
                contents.stages.extend(ended.iter().map(|it| (it.clone(), false)))
            }
            Event::Failed { failures } => {
                let kept = failures.iter().filter_map(|failure| failure.outcome.clone());
                contents.stages.extend(kept.map(|ended| (ended, false)));
            }
            Event::Finished { .. } => {}
        }
    }
    contents
}

/// The table of a stage, as a run names it.
#[derive(Clone, Copy)]
struct Table<'a> {
    ended: &'a StageOutcome,
    fingerprint: Fingerprint,
    named: &'a RecordRef,
}

impl<'a> Table<'a> {
    fn of(ended: &'a StageOutcome) -> Option<Self> {
        Some(Self { ended, fingerprint: ended.fingerprint?, named: ended.artifact.as_ref()? })
    }
}

/// The records of tables, and the objects that they name.
async fn read_tables(
    store: &Store,
    run: &RunId,
    tables: &[Table<'_>],
    examined: &mut Examined,
    found: &mut Collected,
) -> Result<(), StoreError> {
    let named: Vec<_> = tables.iter().map(|it| (it.fingerprint, it.named.sha256)).collect();
    for (table, current) in tables.iter().zip(find_current(store, &named).await?) {
        let record = match current {
            Some(record) => {
                found.read.insert(record.key.clone());
                record
            }
            None => {
                let record = read_copy(store, table).await;
                match found.take(&table.named.key, record, std::slice::from_ref(run))? {
                    Some(record) => record,
                    None => continue,
                }
            }
        };
        admit(&record, table, run, examined, found);
    }
    Ok(())
}

/// The record of a table that another one took the place of since.
async fn read_copy(store: &Store, table: &Table<'_>) -> Result<Stored<Artifact>, StoreError> {
    match find_exact(store, &table.fingerprint, table.named.sha256).await {
        Err(StoreError::Replaced { key, .. }) if store.size(&table.named.key).await?.is_none() => {
            Err(StoreError::Missing { key })
        }
        found => found,
    }
}

fn admit(
    record: &Stored<Artifact>,
    Table { ended, fingerprint, named }: &Table<'_>,
    run: &RunId,
    examined: &mut Examined,
    found: &mut Collected,
) {
    if (record.record.rows, record.record.bytes) != (ended.rows, ended.bytes) {
        let detail = format!(
            "run {run} says of `{}` {} rows and {} bytes",
            ended.stage, ended.rows, ended.bytes
        );
        found.add(
            Finding::new(named.key.as_str(), Fault::Contradicts, detail).of_runs([run.clone()]),
        );
    }
    examined.tables.insert(named.sha256, *fingerprint);
    objects_of(&record.record, run, &mut examined.objects);
}

/// Adds the objects that a record names.
pub(super) fn objects_of(record: &Artifact, run: &RunId, objects: &mut Objects) {
    let stage = &record.stage;
    for (what, parts) in [("rows", &record.parts), ("error rows", &record.errors)] {
        for part in parts {
            let what = format!("{what} of `{stage}`");
            Named::add(objects, part.key.clone(), part.sha256, part.bytes, what, run);
        }
    }
    for file in &record.files {
        let what = format!("the file `{}` of `{stage}`", file.name);
        Named::add(objects, file.key.clone(), file.sha256, file.bytes, what, run);
    }
}
