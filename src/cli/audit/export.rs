//! `proofmill audit export`

use std::fs::OpenOptions;
use std::io::Write as _;

use crate::cli::audit::args::{ExportArgs, ExportedAs};
use crate::cli::environment::Environment;
use crate::host::post::Post;
use crate::report::units::plural;
use proofmill_audit::exports::exported_run::ExportedRun;
use proofmill_audit::exports::formats::{self, ExportFormat};
use proofmill_base::error::{Error, ErrorKind, Result};

/// The environment variable with the token of an endpoint for OpenLineage.
const TOKEN: &str = "PROOFMILL_OPENLINEAGE_KEY";

/// Writes a run in the format of another tool.
pub async fn export(args: &ExportArgs, environment: &Environment) -> Result<()> {
    let host = &environment.host;
    let output = &environment.output;
    let format = match args.format {
        ExportedAs::InToto => ExportFormat::InToto,
        ExportedAs::Slsa => ExportFormat::Slsa,
        ExportedAs::Openlineage => ExportFormat::OpenLineage,
    };
    if args.to.is_some() && format != ExportFormat::OpenLineage {
        return Err(Error::new(
            ErrorKind::Usage,
            "only events of OpenLineage are sent to an endpoint",
        )
        .with_hint("give `--as openlineage`, or `--out FILE`"));
    }
    let post = args.to.as_deref().map(|url| Post::to(url, host.variable(TOKEN))).transpose()?;
    let signer = host.signer()?;
    let store = host.store_to_read().await?;
    let run = environment.run(&store, Some(&args.run)).await?;
    let run = ExportedRun::load(&store, run, env!("CARGO_PKG_VERSION")).await?;
    let text = formats::export(&run, format, signer.as_ref())?;
    if signer.is_none() && format != ExportFormat::OpenLineage {
        output.remark("the statement is not signed: PROOFMILL_SIGN_KEY names no key");
    }
    if let Some(post) = post {
        let events: Vec<&str> = text.lines().collect();
        for event in &events {
            post.send((*event).to_owned()).await?;
        }
        output.remark(format!("{} sent", plural(events.len(), "event")));
        return Ok(());
    }
    let Some(out) = &args.out else { return output.data(text) };
    let file = OpenOptions::new().write(true).create_new(true).open(out);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| {
        Error::new(ErrorKind::Usage, format!("`{}` cannot be written: {error}", out.display()))
            .with_hint("name a file that does not exist")
    })
}
