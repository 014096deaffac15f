//! `proofmill schedule run`: the daemon, which looks at all schedules again and again.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use crate::cli::display::Display;
use crate::cli::environment::Environment;
use crate::cli::schedule::args::DaemonArgs;
use crate::cli::schedule::look::named_or_all;
use crate::cli::schedule::tick::Scheduler;
use crate::cli::stop::on_signals;
use crate::views::schedule::Ticked;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::PipelineName;
use proofmill_store::Store;

/// Time between two looks at the schedules of the store: an instant is late by no more than this.
const LOOK: Duration = Duration::from_secs(10);

/// Starts what is due until a signal ends it.
pub async fn run(args: &DaemonArgs, environment: &Environment) -> Result<()> {
    let store = environment.host.store().await?;
    named_or_all(&store, &args.names).await?;
    let stop = CancellationToken::new();
    // Several runs at a time are lines, not one display that is drawn again.
    let display = match environment.is_logged {
        true => Display::Logged,
        false => Display::lines(environment),
    };
    let watch = on_signals(stop.clone(), || {})?;
    environment
        .output
        .remark("looking at the schedules of the store; Ctrl-C ends it, and leaves runs to resume");
    let mut looks = FuturesUnordered::new();
    let mut busy: HashSet<PipelineName> = HashSet::new();
    let clock = environment.host.clock();
    loop {
        if !stop.is_cancelled() {
            // A store that does not answer now may do so at the next look.
            match named_or_all(&store, &args.names).await {
                Ok(names) => {
                    for name in names.into_iter().filter(|name| busy.insert(name.clone())) {
                        looks.push(look(environment, &store, name, &stop, &display));
                    }
                }
                Err(error) => {
                    environment.output.remark(format!("the schedules cannot be read: {error}"))
                }
            }
        }
        let pause = clock.sleep(LOOK);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                Some((name, ticked)) = looks.next(), if !looks.is_empty() => {
                    let ran = say(environment, &name, ticked);
                    busy.remove(&name);
                    if ran {
                        break;
                    }
                }
                () = &mut pause => break,
                () = stop.cancelled(), if looks.is_empty() => {
                    watch.abort();
                    return Err(Error::new(ErrorKind::Interrupted, "the daemon was stopped"));
                }
            }
        }
    }
}

async fn look(
    environment: &Environment,
    store: &Store,
    name: PipelineName,
    stop: &CancellationToken,
    display: &Display,
) -> (PipelineName, Result<Ticked>) {
    let scheduler = Scheduler { environment, store, name: &name, stop, display };
    let ticked = Box::pin(scheduler.tick()).await;
    (name, ticked)
}

/// Says what a look came to; whether a run ended, so that another may be due.
fn say(environment: &Environment, name: &PipelineName, ticked: Result<Ticked>) -> bool {
    let remark = |text: String| environment.output.remark(format!("schedule `{name}`: {text}"));
    match ticked {
        Ok(Ticked::Nothing | Ticked::Busy { .. }) => false,
        Ok(Ticked::Ran { fired, how, verdict }) => {
            let verdict = verdict.map(|verdict| format!(", gate: {}", verdict.word()));
            remark(format!("run {} {}{}", fired.run, how.word(), verdict.unwrap_or_default()));
            true
        }
        Ok(Ticked::Left { run }) => {
            remark(format!("run {run} is left for the next process to resume"));
            false
        }
        Err(error) => {
            remark(error.to_string());
            false
        }
    }
}
