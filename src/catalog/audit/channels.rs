//! Channels: names for runs of a pipeline, which gates and people move. Each move is an entry of the audit log that names all
//! channels of its pipeline after it, so that the latest one tells them all.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use proofmill_base::ids::{ChannelName, PipelineName, RunId};
use proofmill_store::{Store, Trigger};

use crate::audit::entry::{AuditEvent, BASELINE, Channels, Judged, VerdictWord};
use crate::audit::log::{AuditLog, AuditLogError, LogHead};
use crate::audit::trail::Trail;
use crate::summary::RunSummary;

/// Times that a move is tried while other processes append.
const ATTEMPTS_MAX: usize = 64;

/// A run that people chose, with those who answer for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    pub pipeline: PipelineName,
    pub run: RunId,
    pub owner: String,
    pub reason: String,
}

/// The channels of a pipeline, the entry that says so, and how many entries the log had then.
struct Known {
    channels: Channels,
    last: Option<AuditEvent>,
    entries: u64,
}

/// The channels of a pipeline; none if no gate has judged it and no run is pinned.
///
/// # Errors
///
/// If the log is broken, or the store fails.
pub async fn channels(store: &Store, pipeline: &PipelineName) -> Result<Channels, AuditLogError> {
    Ok(known(store, pipeline).await?.channels)
}

/// How a channel came to its run.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    pub channel: ChannelName,
    pub run: RunId,
    pub at: DateTime<Utc>,
    pub event: AuditEvent,
}

/// The channels of a pipeline, each with the entry that moved it to its run.
///
/// # Errors
///
/// If the log is broken, or the store fails.
pub async fn moves(store: &Store, pipeline: &PipelineName) -> Result<Vec<Move>, AuditLogError> {
    let mut left = channels(store, pipeline).await?;
    let mut found: BTreeMap<ChannelName, Move> = BTreeMap::new();
    let mut trail = Trail::of(store, pipeline);
    while !left.is_empty() {
        let window = trail.next().await?;
        if window.is_empty() {
            break;
        }
        for entry in window.iter().map(|stored| &stored.entry) {
            let Some(then) = of(&entry.event, pipeline) else { continue };
            // The oldest entry since which the channel has been at its run is the one that moved it.
            left.retain(|channel, run| then.get(channel) == Some(run));
            for (channel, run) in &left {
                let (at, event) = (entry.t_utc, entry.event.clone());
                let moved = Move { channel: channel.clone(), run: run.clone(), at, event };
                found.insert(channel.clone(), moved);
            }
        }
    }
    Ok(found.into_values().collect())
}

/// The last verdict about a run; `None` if no gate judged it.
///
/// # Errors
///
/// If the log is broken, or the store fails.
pub async fn last_verdict(
    store: &Store,
    run: &RunSummary,
) -> Result<Option<Judged>, AuditLogError> {
    let Ok(pipeline) = run.pipeline.parse() else { return Ok(None) };
    let run = &run.run;
    let mut trail = Trail::of(store, &pipeline);
    loop {
        let window = trail.next().await?;
        for stored in &window {
            match &stored.entry.event {
                AuditEvent::Judged(judged) if judged.candidate == *run => {
                    return Ok(Some(judged.clone()));
                }
                // A run is judged after it began.
                AuditEvent::RunBegan { run: began, trigger, .. }
                    if began == run && *trigger != Trigger::Resume =>
                {
                    return Ok(None);
                }
                _ => {}
            }
        }
        if window.is_empty() {
            return Ok(None);
        }
    }
}

/// Enters a verdict, and moves `channel` to its run if it is a pass.
///
/// # Errors
///
/// If the log is broken, takes no entry, or the store fails.
pub async fn judged(
    store: &Store,
    writer: &str,
    judged: Judged,
    channel: Option<&ChannelName>,
) -> Result<Channels, AuditLogError> {
    let pipeline = judged.pipeline.clone();
    moved(store, writer, &pipeline, |mut channels| {
        channels.extend(channel.map(|name| (name.clone(), judged.candidate.clone())));
        AuditEvent::Judged(Judged { channels, ..judged.clone() })
    })
    .await
}

/// What is wrong with the channels that an entry names: those before it, with a move that its event cannot make. A pass moves
/// any channel but the baseline to its run, a pin moves the baseline, and nothing else moves one.
pub fn wrong_move(before: &Channels, event: &AuditEvent) -> Option<String> {
    let (now, run, is_pin) = match event {
        AuditEvent::Judged(judged) => {
            let passed = judged.word == VerdictWord::Pass;
            (&judged.channels, Some(&judged.candidate).filter(|_| passed), false)
        }
        AuditEvent::Pinned { run, channels, .. } => (channels, Some(run), true),
        _ => return None,
    };
    let names = before.keys().chain(now.keys());
    let mut moved = names.filter(|name| before.get(*name) != now.get(*name));
    let may = |name: &ChannelName| {
        (name.as_str() == BASELINE) == is_pin && run.is_some() && now.get(name) == run
    };
    let wrong = moved.find(|name| !may(name))?;
    Some(format!("it moves channel `{wrong}`, which only a pin or a pass moves, to its own run"))
}

/// Enters the run that others are compared with from now on.
///
/// # Errors
///
/// If the log is broken, takes no entry, or the store fails.
pub async fn pin(store: &Store, writer: &str, pin: &Pin) -> Result<Channels, AuditLogError> {
    moved(store, writer, &pin.pipeline, |mut channels| {
        let Pin { pipeline, run, owner, reason } = pin.clone();
        channels.extend(BASELINE.parse().ok().map(|name| (name, run.clone())));
        AuditEvent::Pinned { pipeline, run, owner, reason, channels }
    })
    .await
}

async fn known(store: &Store, pipeline: &PipelineName) -> Result<Known, AuditLogError> {
    let mut trail = Trail::of(store, pipeline);
    loop {
        let window = trail.next().await?;
        let entries = trail.entries();
        let found = window.iter().find_map(|stored| {
            let event = &stored.entry.event;
            Some((of(event, pipeline)?.clone(), event.clone()))
        });
        if let Some((channels, event)) = found {
            return Ok(Known { channels, last: Some(event), entries });
        }
        if window.is_empty() {
            return Ok(Known { channels: Channels::new(), last: None, entries });
        }
    }
}

/// The channels that an event names; `None` if it is about none.
pub fn channels_of(event: &AuditEvent) -> Option<&Channels> {
    match event {
        AuditEvent::Judged(judged) => Some(&judged.channels),
        AuditEvent::Pinned { channels, .. } => Some(channels),
        _ => None,
    }
}

/// What an event says of the channels of a pipeline.
fn of<'a>(event: &'a AuditEvent, wanted: &PipelineName) -> Option<&'a Channels> {
    channels_of(event).filter(|_| event.pipeline() == Some(wanted))
}

/// Appends what `event` makes of the channels of a pipeline, with no entry between reading them and that.
async fn moved(
    store: &Store,
    writer: &str,
    pipeline: &PipelineName,
    event: impl Fn(Channels) -> AuditEvent + Send + Sync,
) -> Result<Channels, AuditLogError> {
    let log = AuditLog::of(store);
    for _ in 0..ATTEMPTS_MAX {
        let Known { channels, last, entries } = known(store, pipeline).await?;
        let new = event(channels);
        // Of two processes that enter the same, one does.
        if last.is_some_and(|last| last == new) {
            return Ok(of(&new, pipeline).cloned().unwrap_or_default());
        }
        let is_next = |head: Option<&LogHead>| {
            let found = head.map_or(0, |head| head.last.entry.seq + 1);
            (found == entries).then(|| new.clone())
        };
        if log.append(writer, is_next).await?.is_some() {
            return Ok(of(&new, pipeline).cloned().unwrap_or_default());
        }
    }
    Err(AuditLogError::Contended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_move_by_a_pass_or_a_pin_and_to_its_run_only() {
        let (one, two) = ("20261121-021500123-k3f9qa", "20261122-021500123-k3f9qa");
        let map = |all: &[(&str, &str)]| -> Channels {
            all.iter().map(|(name, run)| (name.parse().unwrap(), run.parse().unwrap())).collect()
        };
        let judged = |word, channels| {
            let role = proofmill_store::SourceRole::Verdict;
            let sha256 = proofmill_base::digest::Digest::of(b"");
            AuditEvent::Judged(Judged {
                gate: "g".parse().unwrap(),
                pipeline: "p".parse().unwrap(),
                candidate: two.parse().unwrap(),
                baseline: None,
                word,
                verdict: proofmill_store::SourceRef { role, sha256, bytes: 0, stored: true },
                channels,
            })
        };
        let pinned = |channels| AuditEvent::Pinned {
            pipeline: "p".parse().unwrap(),
            run: two.parse().unwrap(),
            owner: "a".to_owned(),
            reason: "b".to_owned(),
            channels,
        };
        let before = map(&[("baseline", one), ("good", one)]);
        let (pass, fail) = (VerdictWord::Pass, VerdictWord::Fail);
        for (event, is_right) in [
            (judged(fail, before.clone()), true),
            (judged(pass, before.clone()), true),
            (judged(pass, map(&[("baseline", one), ("good", two), ("new", two)])), true),
            (judged(fail, map(&[("baseline", one), ("good", two)])), false),
            (judged(pass, map(&[("baseline", two), ("good", one)])), false),
            (judged(pass, map(&[("baseline", one)])), false),
            (pinned(map(&[("baseline", two), ("good", one)])), true),
            (pinned(map(&[("baseline", two), ("good", two)])), false),
            (pinned(map(&[("baseline", one), ("good", one), ("new", one)])), false),
        ] {
            assert_eq!(wrong_move(&before, &event).is_none(), is_right, "{event:?}");
        }
    }
}
