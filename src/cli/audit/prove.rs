//! `proofmill audit prove`

use crate::cli::audit::anchor::{anchor_in, stamp_of};
use crate::cli::audit::args::ProveArgs;
use crate::cli::environment::Environment;
use crate::views::audit::BundleView;
use proofmill_audit::prove::{self, Request};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::ids::StageName;
use proofmill_base::suggest;
use proofmill_store::read_manifest;

/// Writes the proof of a number.
pub async fn prove(args: &ProveArgs, environment: &Environment) -> Result<()> {
    let signer = environment.host.signer()?;
    let store = environment.host.store_to_read().await?;
    let run = environment.run(&store, Some(&args.run)).await?;
    let usage = |message: String| Error::new(ErrorKind::Usage, message);
    let manifest = read_manifest(&store, &run.run).await?.ok_or_else(|| {
        usage(format!("run {} is not published", run.run))
            .with_hint("only the numbers of runs that succeeded can be proved")
    })?;
    let names = || manifest.record.stages.iter().map(|it| it.stage.as_str());
    // A stage of a group has a dot in its name.
    let (stage, metric) = match names().any(|name| name == args.metric) {
        true => (args.metric.as_str(), None),
        false => match args.metric.rsplit_once('.') {
            Some((stage, metric)) => (stage, Some(metric.to_owned())),
            None => (args.metric.as_str(), None),
        },
    };
    let stage: StageName = stage.parse().map_err(|_| {
        let error = usage(format!("run {} has no stage `{stage}`", run.run));
        suggest::help(stage, names()).into_iter().fold(error, Error::with_hint)
    })?;
    let anchor = args.anchor.as_deref().map(anchor_in).transpose()?;
    let stamp = match &anchor {
        Some(anchor) => stamp_of(anchor, &args.stamp)?,
        None => None,
    };
    let request = Request {
        stage,
        metric,
        item: args.item.clone(),
        with_text: args.with_text,
        signer,
        anchor,
        stamp,
        manifest,
    };
    let bundle = prove::write(&store, &request, &args.out).await?;
    environment.output.remark(format!(
        "`python3 {0}/verify.py --bundle {0}` checks the folder, with `--key` for the signature",
        args.out.display()
    ));
    environment.output.view(&BundleView(bundle))
}
