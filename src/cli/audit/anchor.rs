//! `proofmill audit anchor`

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;

use crate::cli::audit::args::{AnchorArgs, StampArgs};
use crate::cli::audit::key::verifier;
use crate::cli::environment::Environment;
use crate::views::audit::AnchorView;
use proofmill_audit::checkpoint::{Anchor, Checkpoint, Compared};
use proofmill_audit::timestamp::{Stamp, TimestampError};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_catalog::audit::log::AuditLog;

/// The longest file that may be an anchor, a timestamp or a certificate, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Writes an anchor, or compares the log with one.
pub async fn anchor(args: &AnchorArgs, environment: &Environment) -> Result<()> {
    match (&args.out, &args.check) {
        (Some(out), _) => write(out, environment).await,
        (None, Some(file)) => check(file, args, environment).await,
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

async fn check(file: &Path, args: &AnchorArgs, environment: &Environment) -> Result<()> {
    let anchor = anchor_in(file)?;
    let key = args.key.as_deref().map(verifier).transpose()?;
    let stamp = stamp_of(&anchor, &args.stamp)?;
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
            let view = AnchorView::of(&anchor, Some(entries.len() as u64));
            return environment.output.view(&view.stamped(stamp.map(|stamp| stamp.time)));
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

/// The timestamp of an anchor, if one was given.
///
/// # Errors
///
/// If a file cannot be read, or the authority did not attest this anchor.
pub fn stamp_of(anchor: &Anchor, args: &StampArgs) -> Result<Option<Stamp>> {
    let (Some(response), Some(authority)) = (&args.tsa_response, &args.tsa_authority) else {
        return Ok(None);
    };
    let stamp = Stamp::verified(read(response)?, anchor.text.as_bytes(), &read(authority)?);
    stamp.map(Some).map_err(|error| {
        let shown = match &error {
            TimestampError::NoAuthority => authority.display(),
            _ => response.display(),
        };
        Error::new(ErrorKind::Stage, format!("`{shown}`: {error}"))
    })
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
    let text =
        String::from_utf8(read(path)?).map_err(|_| usage(format!("`{shown}` is not text")))?;
    text.parse().map_err(|error| usage(format!("`{shown}` is not an anchor: {error}")))
}

/// The bytes of a small file.
fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .and_then(|read| match read as u64 > FILE_BYTES_MAX {
            true => Err(std::io::Error::other("it is longer than 1 MiB")),
            false => Ok(bytes),
        });
    read.map_err(|error| {
        Error::new(ErrorKind::Usage, format!("`{}` cannot be read: {error}", path.display()))
    })
}
