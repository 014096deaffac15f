//! Which run is meant: an id or its beginning, `latest`, a pipeline, or how many before.

use std::str::FromStr;

use futures::{StreamExt, stream};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::{PipelineName, RunId};
use proofmill_base::suggest;
use proofmill_store::{Outcome, Store, run_ids};

use crate::run::history::{RunSummary, ended, summary};

/// Summaries that are read at the same time.
const READ_AHEAD: usize = 16;
/// Runs that an ambiguous beginning lists.
const LISTED_MAX: usize = 3;
/// What a reference may be.
const FORMS: &str = "name a run by its id or the beginning of it, by `latest`, by the name of its pipeline, or by \
                     either with `~N` for the Nth before";

/// A run as people name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunReference {
    /// `20261122-07`: an id, or the beginning of one.
    Id(String),
    /// `latest`, `latest~1`: the newest that succeeded of the pipeline that ran last, or so many before.
    Latest { back: usize },
    /// `nightly`, `nightly~1`, `nightly@good`: the newest that succeeded of a pipeline, or so many before.
    Of { pipeline: PipelineName, back: usize },
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
        let (name, back) = match text.split_once('~') {
            Some((name, back)) => {
                let back = back.parse().map_err(|_| {
                    refuse(format!("`{text}`: expected a whole number after `~`, found `{back}`"))
                })?;
                (name, back)
            }
            None => (text.strip_suffix("@good").unwrap_or(text), 0),
        };
        if name == "latest" {
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
        match self {
            Self::Id(begin) => by_id(store, begin).await,
            Self::Latest { back } => match newest(store, |_| true, 0).await? {
                Some(newest) => succeeded(store, newest, *back).await,
                None => Err(Error::new(ErrorKind::Usage, "the store has no run")
                    .with_hint("run a pipeline first")),
            },
            Self::Of { pipeline, back } => {
                succeeded(store, newest_of(store, pipeline.as_str()).await?, *back).await
            }
        }
    }
}

/// The newest run of a pipeline, however it ended.
///
/// # Errors
///
/// If there is none, or the store fails.
pub async fn newest_of(store: &Store, pipeline: &str) -> Result<RunSummary> {
    let found = newest(store, |run| run.pipeline == pipeline, 0).await?;
    found.ok_or_else(|| {
        Error::new(ErrorKind::Usage, format!("the store has no run of a pipeline `{pipeline}`"))
            .with_hint("`proofmill runs` lists them")
    })
}

async fn by_id(store: &Store, begin: &str) -> Result<RunSummary> {
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
        [run] => summary(store, run).await,
        several if several.iter().any(|run| run.as_str() == begin) => {
            summary(store, several[0]).await
        }
        several => {
            let listed: Vec<String> =
                several.iter().take(LISTED_MAX).map(|run| format!("`{run}`")).collect();
            let message = format!("{} runs begin with `{begin}`", several.len());
            let help = format!("among them {}: write more of it", listed.join(", "));
            Err(Error::new(ErrorKind::Usage, message).with_hint(help))
        }
    }
}

/// The newest run that fits, or the one so many before; one whose records cannot be read does not fit.
async fn newest(
    store: &Store,
    fits: impl Fn(&RunSummary) -> bool,
    back: usize,
) -> Result<Option<RunSummary>> {
    let runs = run_ids(store).await?;
    let summaries = stream::iter(runs).map(|run| async move { summary(store, &run).await.ok() });
    let summaries = summaries.buffered(READ_AHEAD).filter_map(std::future::ready);
    let found = summaries.filter(|run| std::future::ready(fits(run))).skip(back);
    Ok(std::pin::pin!(found).next().await)
}

/// The newest run of the pipeline of `newest` that succeeded, or the one so many before. If none did, the
/// newest itself. What is newer and did not succeed is remarked on.
async fn succeeded(store: &Store, newest_run: RunSummary, back: usize) -> Result<RunSummary> {
    let pipeline = newest_run.pipeline.clone();
    let good =
        |run: &RunSummary| run.pipeline == pipeline && run.outcome == Some(Outcome::Succeeded);
    let found = newest(store, good, back).await?;
    let state = ended(&newest_run);
    match found {
        Some(found) if back > 0 || found.run == newest_run.run => Ok(found),
        Some(mut found) => {
            let note = format!(
                "the latest run of `{pipeline}`, {}, did not succeed ({state}); this is the last one \
                 that did, {}",
                newest_run.run, found.run
            );
            found.remark = Some(match found.remark {
                Some(remark) => format!("{remark}; {note}"),
                None => note,
            });
            Ok(found)
        }
        None if back == 0 => {
            let note = format!(
                "run {} of `{pipeline}` did not succeed ({state}): only stages that ended well have \
                 tables",
                newest_run.run
            );
            Ok(RunSummary { remark: Some(note), ..newest_run })
        }
        None => Err(Error::new(
            ErrorKind::Usage,
            format!("fewer than {} runs of `{pipeline}` have succeeded", back + 1),
        )
        .with_hint("`proofmill runs` lists them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_told_apart_by_their_form() {
        let read = |text: &str| text.parse::<RunReference>();
        let of = |name: &str, back| RunReference::Of { pipeline: name.parse().unwrap(), back };
        assert_eq!(read("latest").unwrap(), RunReference::Latest { back: 0 });
        assert_eq!(read("latest~2").unwrap(), RunReference::Latest { back: 2 });
        assert_eq!(read("nightly").unwrap(), of("nightly", 0));
        assert_eq!(read("nightly~1").unwrap(), of("nightly", 1));
        assert_eq!(read("nightly@good").unwrap(), of("nightly", 0));
        assert_eq!(read("20261122-0").unwrap(), RunReference::Id("20261122-0".into()));
        for text in
            ["", "~1", "latest~", "latest~x", "latest~-1", "Nightly", "a b", "2026/x", "a@bad"]
        {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
