//! Going on with a run that did not end well: only as what it was, and only if no process runs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::run::notice::{Notice, Observer as _};
use crate::run::pulse::RunPulse;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::RunId;
use proofmill_catalog::audit::completion::RunAudit;
use proofmill_catalog::event::Event;
use proofmill_catalog::outcomes::{Outcomes, sessions};
use proofmill_store::{
    Claim, Claimed, Entry, Outcome, RunLog, Session, Store, Trigger, manifest_key, read_log,
};

/// What a run did before it was taken over.
#[derive(Debug, Default)]
pub struct Earlier {
    /// Its stages that ended well.
    pub stages: Outcomes,
    /// When it was at work.
    pub sessions: Vec<Session>,
    /// What started it.
    pub trigger: Option<Trigger>,
}

/// Takes a run over that was `started` before. It must be the same pipeline with the same templates and
/// parameters; another build of the program is remarked on.
///
/// # Errors
///
/// When the run is alive, has succeeded, or was started otherwise; then it is left alone.
pub async fn take_over(
    store: &Store,
    run: &RunId,
    started: &Event,
    audit: &RunAudit,
    pulse: Arc<RunPulse>,
) -> Result<(RunLog<Event>, Claim, Earlier)> {
    // The owner of the run loses it only to a process that may have it.
    let is_published = store.size(&manifest_key(run)).await?.is_some();
    may_go_on(run, &read_log::<Event>(store, run).await?, started, is_published)?;
    if !store.is_local() {
        let text = "checking for up to 35 s whether the run's process is alive";
        pulse.notice(&Notice::Remark { text });
    }
    let claim = Claim::take_again(store, &Claimed::run(run), pulse.clone()).await?;
    let claim = claim.ok_or_else(|| alive(run))?;
    // Another process may have ended it before the claim was free. From here on, this one owns it.
    let is_published = store.size(&manifest_key(run)).await?.is_some();
    let entries = read_log::<Event>(store, run).await?;
    if let Err(error) = may_go_on(run, &entries, started, is_published) {
        claim.release().await;
        return Err(error);
    }
    // Entered by the process that will own the run, before anything of the run changes.
    if let Event::Started { pipeline, trigger, .. } = started {
        audit.began(run, pipeline, trigger).await?;
    }
    let (mut log, entries) = RunLog::<Event>::take_over(store, run).await?;
    if let Some(text) = other_code(&entries, started) {
        pulse.notice(&Notice::Remark { text: &text });
    }
    log.append(started).await?;
    let mut earlier = Earlier { sessions: sessions(&entries), ..Earlier::default() };
    for event in entries.iter().filter_map(Entry::event) {
        match event {
            Event::Stages(stages) => stages.iter().for_each(|outcome| earlier.stages.add(outcome)),
            Event::Started { trigger, .. } if earlier.trigger.is_none() => {
                earlier.trigger = Some(trigger.clone());
            }
            _ => {}
        }
    }
    Ok((log, claim, earlier))
}

/// That another process owns a run.
pub fn alive(run: &RunId) -> Error {
    Error::new(ErrorKind::Usage, format!("run `{run}` is alive"))
        .with_hint(format!("wait until it ends, or stop it: `proofmill runs stop {run}`"))
}

/// Fails if the run is published, or was started otherwise.
fn may_go_on(
    run: &RunId,
    entries: &[Entry<Event>],
    started: &Event,
    is_published: bool,
) -> Result<()> {
    let usage = |message: String| Error::new(ErrorKind::Usage, message);
    let succeeded = |e: &Event| matches!(e, Event::Finished { outcome: Outcome::Succeeded });
    // One that was killed between its last entry and its manifest still has to be published.
    if is_published && entries.iter().filter_map(Entry::event).any(succeeded) {
        return Err(usage(format!("run `{run}` has succeeded and cannot be resumed"))
            .with_hint("run the pipeline again; unchanged stages are taken from the store"));
    }
    let begun: Vec<&Event> = starts(entries).collect();
    let differs = |event: &&Event| difference(event, started);
    let Some(other) = begun.last().and_then(differs) else { return Ok(()) };
    Err(usage(format!("run `{run}` was started with {other}"))
        .with_hint("use the same ones, or start a new run without `--resume`"))
}

fn starts(entries: &[Entry<Event>]) -> impl Iterator<Item = &Event> {
    let events = entries.iter().filter_map(Entry::event);
    events.filter(|event| matches!(event, Event::Started { .. }))
}

/// What two starts of a run differ in that decides tables.
fn difference(then: &Event, now: &Event) -> Option<String> {
    let (
        Event::Started { pipeline, params, templates, .. },
        Event::Started { pipeline: our_pipeline, params: our_params, templates: ours, .. },
    ) = (then, now)
    else {
        return None;
    };
    if pipeline.yaml_sha256 != our_pipeline.yaml_sha256 {
        return Some("another file".to_owned());
    }
    if params != our_params {
        let names: Vec<String> = changed(params, our_params).map(|it| format!("`{it}`")).collect();
        return Some(format!("other parameters: {}", names.join(", ")));
    }
    let templates: Vec<String> = changed(templates, ours).map(|it| format!("`{it}`")).collect();
    (!templates.is_empty()).then(|| format!("other templates: {}", templates.join(", ")))
}

/// The keys whose values differ, or that only one side has.
fn changed<'a, V: PartialEq>(
    then: &'a BTreeMap<String, V>,
    now: &'a BTreeMap<String, V>,
) -> impl Iterator<Item = &'a String> {
    let gone = then.keys().filter(|key| !now.contains_key(*key));
    gone.chain(now.iter().filter(|(key, value)| then.get(*key) != Some(*value)).map(|(key, _)| key))
}

/// What to say if the run was begun by another build of the program.
fn other_code(entries: &[Entry<Event>], started: &Event) -> Option<String> {
    let (Some(Event::Started { code, .. }), Event::Started { code: ours, .. }) =
        (starts(entries).last(), started)
    else {
        return None;
    };
    let parts = changed(code, ours).map(|part| {
        let text = |code: &BTreeMap<String, String>| code.get(part).cloned().unwrap_or_default();
        format!("{part} {} instead of {}", text(ours), text(code))
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| {
        format!(
            "the run was started by another build and continues with {}; the log shows which stages \
             each computed",
            parts.join(", ")
        )
    })
}
