//! `proofmill work`: answers requests of runs elsewhere; and `proofmill workers`, who does.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::cli::environment::Environment;
use crate::cli::stop::on_signals;
use crate::cli::work::args::{WorkArgs, WorkersArgs};
use crate::host::worker::WorkOptions;
use crate::report::units::{count, plural};
use crate::views::workers::WorkersView;
use proofmill_base::error::{Error, ErrorKind, Result};

/// Answers requests until a signal, an order or idleness ends it.
pub async fn work(args: &WorkArgs, environment: &Environment) -> Result<()> {
    if args.models.is_empty() && args.urls.is_empty() {
        let message = "a worker needs a model that it may be";
        return Err(Error::new(ErrorKind::Usage, message).with_hint(
            "`--model NAME=FOLDER` for a model in a folder, `--url ADDRESS` for an endpoint",
        ));
    }
    let store = environment.host.store().await?;
    let stop = CancellationToken::new();
    let watch = on_signals(stop.clone(), || {})?;
    let options = WorkOptions {
        models: args.models.iter().cloned().collect(),
        urls: args.urls.clone(),
        until_idle: args.until_idle.map(Duration::from_secs),
    };
    let output = &environment.output;
    let remark = |text: String| output.remark(text);
    let done = environment.host.work(options, &store, stop, &remark).await;
    watch.abort();
    let done = done?;
    if output.json {
        return output.json(&done);
    }
    let answered = plural(done.answered as usize, "request");
    output.remark(format!("{answered} answered, {} without an answer", count(done.refused)));
    Ok(())
}

/// Lists the workers of a store.
pub async fn workers(_: &WorkersArgs, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    environment.output.view(&WorkersView::of(&store).await?)
}
