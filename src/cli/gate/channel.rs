//! `proofmill channel`

use crate::cli::environment::Environment;
use crate::cli::gate::args::{ChannelAction, ChannelArgs, ChannelListArgs, PinArgs};
use crate::host::judging::refuse_trial;
use crate::views::channels::ChannelsView;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::audit::channels::{self, Pin};
use proofmill_store::writer_name;

/// Lists channels, or pins the baseline.
pub async fn channel(args: &ChannelArgs, environment: &Environment) -> Result<()> {
    match &args.action {
        ChannelAction::List(args) => list(args, environment).await,
        ChannelAction::Pin(args) => pin(args, environment).await,
    }
}

async fn list(args: &ChannelListArgs, environment: &Environment) -> Result<()> {
    let store = environment.host.store_to_read().await?;
    let pipeline = &args.pipeline;
    let found = channels::moves(&store, pipeline).await?;
    environment.output.view(&ChannelsView::of(pipeline.clone(), &found))
}

async fn pin(args: &PinArgs, environment: &Environment) -> Result<()> {
    let usage = |message: String| Error::new(ErrorKind::Usage, message);
    for (name, text) in [("owner", &args.owner), ("reason", &args.reason)] {
        if text.trim().is_empty() {
            return Err(usage(format!("`--{name}` is empty")));
        }
    }
    let store = environment.host.store_to_read().await?;
    let run = environment.run(&store, Some(&args.run)).await?;
    if !run.is_good() {
        let message = format!("run {} did not succeed: nothing can be compared with it", run.run);
        return Err(usage(message).with_hint("`proofmill runs` lists those that did"));
    }
    refuse_trial(&run)?;
    let pipeline = run.pipeline.parse().map_err(|error| usage(format!("{error}")))?;
    let (owner, reason) = (args.owner.clone(), args.reason.clone());
    let pin = Pin { pipeline, run: run.run, owner, reason };
    channels::pin(&store, &writer_name(&store), &pin).await?;
    environment
        .output
        .remark(format!("`{}@baseline` is run {} from now on", pin.pipeline, pin.run));
    Ok(())
}
