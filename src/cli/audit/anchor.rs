//! `proofmill audit anchor`

use std::io::Write as _;
use std::path::Path;

use crate::cli::audit::args::AnchorArgs;
use crate::cli::audit::key::verifier;
use crate::cli::environment::Environment;
use crate::views::audit::AnchorView;
use proofmill_audit::checkpoint::{Anchor, Checkpoint, Compared};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::audit::log::AuditLog;

/// The longest file that may be an anchor, in bytes.
const ANCHOR_BYTES_MAX: u64 = 1 << 20;

/// Writes an anchor, or compares the log with one.
pub async fn anchor(args: &AnchorArgs, environment: &Environment) -> Result<()> {
    match (&args.out, &args.check) {
        (Some(out), _) => write(out, environment).await,
        (None, Some(file)) => check(file, args.key.as_deref(), environment).await,
        (None, None) => Ok(()),
    }
}

async fn write(out: &Path, environment: &Environment) -> Result<()> {
    let signer = environment.host.signer()?;
    let store = environment.host.store_to_read().await?;
    let head = AuditLog::of(&store).head().await?;
    let anchor = Anchor::new(Checkpoint::at(&store, head.as_ref()), signer.as_ref());
    let shown = out.display();
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).open(out);
    let written = file.and_then(|mut file| file.write_all(anchor.text.as_bytes()));
    written.map_err(|error| {
        Error::new(ErrorKind::Usage, format!("`{shown}` cannot be written: {error}"))
            .with_hint("an anchor is never overwritten: name another file")
    })?;
    if !anchor.is_signed() {
        environment.output.remark(
            "the anchor is unsigned: keep it where those who can write to the store cannot change it, or set PROOFMILL_SIGN_KEY",
        );
    }
    environment.output.view(&AnchorView::of(&anchor, None))
}

async fn check(file: &Path, key: Option<&str>, environment: &Environment) -> Result<()> {
    let anchor = anchor_in(file)?;
    let key = key.map(verifier).transpose()?;
    if let Some(key) = &key {
        anchor.verify(key).map_err(|error| {
            Error::new(ErrorKind::Stage, format!("`{}`: {error}", file.display()))
                .with_hint("another key signed it, or it was changed")
        })?;
    } else if anchor.is_signed() {
        environment
            .output
            .remark("the signature was not checked: give the verifier key with `--key`");
    }
    let store = environment.host.store_to_read().await?;
    let entries = AuditLog::of(&store).all().await?;
    let size = anchor.checkpoint.size;
    let wrong = match anchor.compare(store.format(), &entries) {
        Compared::Continued => {
            return environment.output.view(&AnchorView::of(&anchor, Some(entries.len() as u64)));
        }
        Compared::OtherLog => {
            format!("the anchor is of the log `{}`, not of this store's", anchor.checkpoint.origin)
        }
        Compared::Shorter => format!(
            "the anchor names {size} entries of the audit log, which has {}: entries were cut off",
            entries.len()
        ),
        Compared::Rewritten => format!(
            "the first {size} entries of the audit log are not those of the anchor: the log is a fork"
        ),
    };
    Err(Error::new(ErrorKind::Stage, wrong)
        .with_hint("`proofmill audit verify --all --anchor FILE` reports what rests on it"))
}

/// The anchor in a file.
///
/// # Errors
///
/// If it cannot be read, or is none.
pub fn anchor_in(path: &Path) -> Result<Anchor> {
    let usage = |message: String| {
        Error::new(ErrorKind::Usage, message)
            .with_hint("`proofmill audit anchor --out FILE` writes one")
    };
    let shown = path.display();
    let size = std::fs::metadata(path).map(|meta| meta.len());
    let text = size.and_then(|size| match size > ANCHOR_BYTES_MAX {
        true => Err(std::io::Error::other("it is longer than 1 MiB")),
        false => std::fs::read_to_string(path),
    });
    let text = text.map_err(|error| usage(format!("`{shown}` cannot be read: {error}")))?;
    text.parse().map_err(|error| usage(format!("`{shown}` is not an anchor: {error}")))
}
