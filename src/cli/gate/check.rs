//! `proofmill gate --check`

use std::path::Path;

use crate::cli::environment::Environment;
use crate::gate::verdict::GateVerdict;
use crate::views::verdict::VerdictView;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::audit::channels::last_verdict;
use proofmill_store::{SourceRef, read_source};

/// Bytes of a verdict, at most.
const BYTES_MAX: u64 = 16 << 20;

/// Derives a verdict again from its evidence: that of a file, or the last one about a run.
pub async fn check(wanted: &str, environment: &Environment) -> Result<()> {
    let path = Path::new(wanted);
    let (bytes, stored) = match path.exists() || wanted.ends_with(".json") {
        true => (of_file(path)?, None),
        false => of_run(wanted, environment).await?,
    };
    let verdict = GateVerdict::checked(&bytes).map_err(|error| {
        let message = format!("`{wanted}`: {}", error.message);
        Error { kind: ErrorKind::Stage, message, ..error }
    })?;
    environment
        .output
        .view(&VerdictView::of(verdict, stored.map(|it| (it, Default::default()))))?;
    environment.output.remark(
        "the evidence entails the verdict; that the runs gave this evidence, `gate` over them and `audit verify` say",
    );
    Ok(())
}

fn of_file(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let usage = |message: String| Error::new(ErrorKind::Usage, message);
    match std::fs::metadata(path) {
        // A device may have no end, and a pipe may never begin.
        Ok(found) if !found.is_file() => {
            return Err(usage(format!("`{shown}` is no verdict: it is not a regular file")));
        }
        Ok(found) if found.len() > BYTES_MAX => {
            return Err(usage(format!("`{shown}` is no verdict: it is larger than 16 MiB")));
        }
        _ => {}
    }
    std::fs::read(path).map_err(|error| usage(format!("`{shown}` cannot be read: {error}")))
}

async fn of_run(wanted: &str, environment: &Environment) -> Result<(Vec<u8>, Option<SourceRef>)> {
    let store = environment.host.store_to_read().await?;
    let run = environment.run(&store, Some(wanted)).await?;
    let judged = last_verdict(&store, &run).await?;
    let run = run.run;
    let judged = judged.ok_or_else(|| {
        Error::new(ErrorKind::Usage, format!("no gate has judged run {run}"))
            .with_hint("name a verdict that `gate --out` wrote, or a run: `proofmill audit log` lists verdicts")
    })?;
    let bytes = read_source(&store, &judged.verdict).await.map_err(|error| {
        let hint = format!(
            "restore it from a backup, or delete it and judge run {run} again: `proofmill gate --file FILE`"
        );
        Error::from(error).with_hint(hint)
    })?;
    Ok((bytes.to_vec(), Some(judged.verdict)))
}
