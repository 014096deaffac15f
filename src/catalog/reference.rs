//! Which run is meant: an id or its beginning, `latest`, a pipeline or one of its channels, or how many before.

use std::str::FromStr;

use futures::{TryStreamExt, stream};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{ChannelName, PipelineName, RunId};
use proofmill_base::suggest;
use proofmill_store::{LogFolder, Store, StoreError, run_ids};

use crate::audit::channels::channels;
use crate::audit::entry::BASELINE;
use crate::audit::history::History;
use crate::summary::{RunSummary, ended, summary};

/// Summaries that are read at the same time.
const READ_AHEAD: usize = 16;
/// Runs that an ambiguous beginning lists.
const LISTED_MAX: usize = 3;
/// The reference that most commands have by default.
pub const LATEST: &str = "latest";
/// What a reference may be.
const FORMS: &str = "name a run by its id or a prefix of it, by `latest`, or by the name of its pipeline; `~N` after \
                     either of the last two means the Nth before, and `PIPELINE@CHANNEL` the run of a channel";

/// A run as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunReference {
    /// `20261122-07`: an id, or the beginning of one.
    Id(String),
    /// `latest`, `latest~1`: the newest that succeeded of the pipeline that ran last, or so many before.
    Latest { back: usize },
    /// `nightly`, `nightly~1`: the newest that succeeded of a pipeline, or so many before.
    Of { pipeline: PipelineName, back: usize },
    /// `nightly@good`: the run that a channel of a pipeline names.
    Channel { pipeline: PipelineName, channel: ChannelName },
}

impl FromStr for RunReference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |message: String| Error::new(ErrorKind::Usage, message).with_hint(FORMS);
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            let fits =
                text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            return match fits {
                true => Ok(Self::Id(text.to_owned())),
                false => Err(refuse(format!("`{text}` is not the id of a run"))),
            };
        }
        if let Some((pipeline, channel)) = text.split_once('@') {
            let named = pipeline.parse().ok().zip(channel.parse().ok());
            let (pipeline, channel) = named
                .filter(|_| pipeline != LATEST)
                .ok_or_else(|| refuse(format!("`{text}` names no run")))?;
            return Ok(Self::Channel { pipeline, channel });
        }
        let (name, back) = match text.split_once('~') {
            Some((name, back)) => {
                let back = back.parse().map_err(|_| {
                    refuse(format!("`{text}`: expected a whole number after `~`, found `{back}`"))
                })?;
                (name, back)
            }
            None => (text, 0),
        };
        if name == LATEST {
            return Ok(Self::Latest { back });
        }
        let pipeline = name.parse().map_err(|_| refuse(format!("`{text}` names no run")))?;
        Ok(Self::Of { pipeline, back })
    }
}

impl RunReference {
    /// The run.
    ///
    /// # Errors
    ///
    /// If the store has none, or several that an id begins, or fails.
    pub async fn find(&self, store: &Store) -> Result<RunSummary> {
        match self.newest_and_back(store).await? {
            Ok((newest, back)) => succeeded(store, newest, back).await,
            Err(begin) => by_id(store, &begin).await,
        }
    }

    /// The run that gives all tables of `stages`: a run that lacks one, as it computed a part of the pipeline, is passed
    /// over, and so is one that did not succeed, unless its id is named.
    ///
    /// # Errors
    ///
    /// If the store has none that succeeded, or fails. Where no run has all of them, the newest that succeeded is given.
    pub async fn find_with(&self, store: &Store, stages: &[&str]) -> Result<RunSummary> {
        let (newest_run, back) = match self.newest_and_back(store).await? {
            Ok(found) => found,
            Err(begin) => return by_id(store, &begin).await,
        };
        let lacking = |run: &RunSummary| {
            let has =
                |stage: &str| run.stages.iter().any(|outcome| outcome.stage.as_str() == stage);
            stages.iter().copied().find(|stage| !has(stage)).map(str::to_owned)
        };
        let pipeline = newest_run.pipeline.clone();
        let good = |run: &RunSummary| is_good(run, &pipeline);
        let usual = succeeded(store, newest_run, back).await?;
        if !good(&usual) {
            let (ended, run) = (ended(&usual), &usual.run);
            let message = format!("no run of `{pipeline}` has succeeded: {run} is {ended}");
            return Err(Error::new(ErrorKind::Usage, message).with_hint(
                "tables of such a run can be read by its id: `proofmill runs` lists them",
            ));
        }
        let Some(missing) = lacking(&usual) else { return Ok(usual) };
        let whole = |run: &RunSummary| good(run) && lacking(run).is_none();
        let Some(found) = newest(store, Some(&pipeline), whole, back).await?.run else {
            return Ok(usual);
        };
        let note = format!(
            "run {} of `{pipeline}` has no table `{missing}`; this is the last one that has, {}",
            usual.run, found.run
        );
        Ok(usual.remark.into_iter().chain([note]).fold(found, RunSummary::remarked))
    }

    /// The newest run of the pipeline that is meant, and how many before that; the beginning of an id where that is given.
    async fn newest_and_back(
        &self,
        store: &Store,
    ) -> Result<std::result::Result<(RunSummary, usize), String>> {
        Ok(match self {
            Self::Id(begin) => Err(begin.clone()),
            Self::Latest { back } => {
                let newest =
                    newest(store, None, |run| run.origin.is_some(), 0).await?.or(|| {
                        Error::new(ErrorKind::Usage, "the store has no run")
                            .with_hint("run a pipeline first")
                    })?;
                Ok((newest, *back))
            }
            Self::Of { pipeline, back } => Ok((newest_of(store, pipeline.as_str()).await?, *back)),
            Self::Channel { pipeline, channel } => {
                match channels(store, pipeline).await.map_err(Error::from)?.remove(channel) {
                    Some(run) => Err(run.into()),
                    None => {
                        let missing = missing(pipeline, channel);
                        return Err(Error::new(ErrorKind::Usage, missing).with_hint(format!(
                            "`{pipeline}` names the newest run that succeeded; a gate with `channel` moves a channel"
                        )));
                    }
                }
            }
        })
    }

    /// The pipeline whose run is meant, where the reference names it.
    pub fn pipeline(&self) -> Option<&PipelineName> {
        match self {
            Self::Of { pipeline, .. } | Self::Channel { pipeline, .. } => Some(pipeline),
            Self::Id(_) | Self::Latest { .. } => None,
        }
    }

    /// Why a channel names no run, if it names none yet.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn missing_channel(&self, store: &Store) -> Result<Option<String>> {
        let Self::Channel { pipeline, channel } = self else { return Ok(None) };
        let known = channels(store, pipeline).await.map_err(Error::from)?;
        Ok((!known.contains_key(channel)).then(|| missing(pipeline, channel)))
    }
}

fn missing(pipeline: &PipelineName, channel: &ChannelName) -> String {
    match channel.as_str() {
        BASELINE => format!("no run of `{pipeline}` is pinned: `proofmill channel pin` pins one"),
        channel => format!("no run of `{pipeline}` has passed a gate into the channel `{channel}`"),
    }
}

fn is_good(run: &RunSummary, pipeline: &str) -> bool {
    run.pipeline == pipeline && run.is_good()
}

/// The newest run of a pipeline, however it ended.
///
/// # Errors
///
/// If there is none, or the store fails.
pub async fn newest_of(store: &Store, pipeline: &str) -> Result<RunSummary> {
    newest(store, Some(pipeline), |run| run.pipeline == pipeline, 0).await?.or(|| {
        Error::new(ErrorKind::Usage, format!("the store has no run of a pipeline `{pipeline}`"))
            .with_hint("`proofmill runs` lists them")
    })
}

async fn by_id(store: &Store, begin: &str) -> Result<RunSummary> {
    // A whole id needs no list of all runs.
    if let Ok(run) = begin.parse::<RunId>()
        && store.size(&LogFolder::of_run(&run).entry(0)).await.map_err(Error::from)?.is_some()
    {
        return Ok(summary(store, &run).await?);
    }
    let runs = run_ids(store).await?;
    let found: Vec<&RunId> = runs.iter().filter(|run| run.as_str().starts_with(begin)).collect();
    match found.as_slice() {
        [] => {
            let near = suggest::nearest(begin, runs.iter().map(RunId::as_str));
            let help = near.map(|run| format!("did you mean `{run}`?"));
            let help = help.unwrap_or_else(|| "`proofmill runs` lists them".to_owned());
            let message = format!("the store has no run `{begin}`");
            Err(Error::new(ErrorKind::Usage, message).with_hint(help))
        }
        [run] => Ok(summary(store, run).await?),
        several => {
            let listed: Vec<String> =
                several.iter().take(LISTED_MAX).map(|run| format!("`{run}`")).collect();
            let message = format!("{} runs begin with `{begin}`", several.len());
            let help = format!("among them {}: give a longer prefix", listed.join(", "));
            Err(Error::new(ErrorKind::Usage, message).with_hint(help))
        }
    }
}

/// What a search among the runs of a store gave.
struct Search {
    run: Option<RunSummary>,
    /// Runs newer than it of which nothing is known any more.
    damaged: Vec<RunId>,
}

impl Search {
    /// The run, with a remark on newer ones that may be the one meant; or `missing`.
    fn or(self, missing: impl FnOnce() -> Error) -> Result<RunSummary> {
        let lost = self.lost();
        match self.run {
            Some(run) => Ok(lost.into_iter().fold(run, RunSummary::remarked)),
            None => Err(lost.into_iter().fold(missing(), |error, lost| Error {
                message: format!("{}; {lost}", error.message),
                ..error
            })),
        }
    }

    /// That runs are left out of the search.
    fn lost(&self) -> Option<String> {
        let listed: Vec<_> = self.damaged.iter().take(LISTED_MAX).map(RunId::as_str).collect();
        let left = match self.damaged.len().saturating_sub(LISTED_MAX) {
            0 => String::new(),
            left => format!(" and {left} more"),
        };
        let what = match listed.as_slice() {
            [] => return None,
            [_] if left.is_empty() => "the newer run",
            _ => "the newer runs",
        };
        Some(format!(
            "the records of {what} {}{left} are damaged, so that the pipeline is unknown",
            listed.join(", ")
        ))
    }
}

/// The newest run that fits, or the one so many before; of one pipeline if it is named.
///
/// # Errors
///
/// If the records of a newer run cannot be read now: it may be the one meant.
async fn newest(
    store: &Store,
    pipeline: Option<&str>,
    fits: impl Fn(&RunSummary) -> bool,
    mut back: usize,
) -> Result<Search> {
    let named = pipeline.and_then(|name| name.parse().ok());
    let history = History::of_pipeline(store, named.as_ref());
    let runs = stream::try_unfold(history, |mut history| async move {
        Ok::<_, StoreError>(history.next().await?.map(|logged| (logged, history)))
    });
    let runs = runs.try_filter(|logged| {
        let name = logged.pipeline.as_ref().map(PipelineName::as_str);
        std::future::ready(name.is_none() || pipeline.is_none() || name == pipeline)
    });
    let summaries = runs.map_ok(|logged| async move {
        let run = logged.run;
        Ok((summary(store, &run).await, run))
    });
    let mut summaries = std::pin::pin!(summaries.try_buffered(READ_AHEAD));
    let mut damaged = Vec::new();
    while let Some((summary, run)) = summaries.try_next().await? {
        match summary {
            Ok(found) if fits(&found) && back == 0 => {
                return Ok(Search { run: Some(found), damaged });
            }
            Ok(found) => back -= usize::from(fits(&found)),
            Err(error) if error.is_broken_record() => damaged.push(run),
            Err(error) => {
                let error = Error::from(error);
                let message = format!("run {run} may match, but cannot be read: {error}");
                return Err(Error { message, ..error }.with_hint(
                    "repeat the command once the store answers, or name a run by its id: `proofmill runs` lists them",
                ));
            }
        }
    }
    Ok(Search { run: None, damaged })
}

/// The newest run of the pipeline of `newest` that succeeded, or the one so many before. If none did, the
/// newest itself. What is newer and did not succeed is remarked on.
async fn succeeded(store: &Store, newest_run: RunSummary, back: usize) -> Result<RunSummary> {
    let pipeline = newest_run.pipeline.clone();
    let search = newest(store, Some(&pipeline), |run| is_good(run, &pipeline), back).await?;
    let state = ended(&newest_run);
    if search.run.is_none() && back == 0 {
        let note = format!(
            "run {} of `{pipeline}` did not succeed ({state}): only stages that succeeded have \
             tables",
            newest_run.run
        );
        return Ok(newest_run.remarked(note));
    }
    let found = search.or(|| {
        let message = format!("fewer than {} runs of `{pipeline}` have succeeded", back + 1);
        Error::new(ErrorKind::Usage, message).with_hint("`proofmill runs` lists them")
    })?;
    if back > 0 || found.run == newest_run.run {
        return Ok(found);
    }
    let note = format!(
        "the latest run of `{pipeline}`, {}, did not succeed ({state}); this is the last one \
         that did, {}",
        newest_run.run, found.run
    );
    Ok(found.remarked(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_distinguished_by_their_form() {
        let read = |text: &str| text.parse::<RunReference>();
        let of = |name: &str, back| RunReference::Of { pipeline: name.parse().unwrap(), back };
        assert_eq!(read("latest").unwrap(), RunReference::Latest { back: 0 });
        assert_eq!(read("latest~2").unwrap(), RunReference::Latest { back: 2 });
        assert_eq!(read("nightly").unwrap(), of("nightly", 0));
        assert_eq!(read("nightly~1").unwrap(), of("nightly", 1));
        let (pipeline, channel) = ("nightly".parse().unwrap(), "good".parse().unwrap());
        let of_channel = RunReference::Channel { pipeline, channel };
        assert_eq!(read("nightly@good").unwrap(), of_channel);
        assert_eq!(read("20261122-0").unwrap(), RunReference::Id("20261122-0".into()));
        for text in [
            "",
            "~1",
            "latest~",
            "latest~x",
            "latest~-1",
            "Nightly",
            "a b",
            "2026/x",
            "a@",
            "@good",
            "latest@good",
            "a@good~1",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
