//! Roots of tables whose records have none: of more rows than are hashed while a table is written, or of older programs.
//! They are computed on request, once, and entered into the audit log.

use futures::TryStreamExt;
use proofmill_base::digest::Digest;
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::merkle::{Tree, leaf_hash};
use proofmill_catalog::audit::entry::AuditEvent;
use proofmill_catalog::audit::log::{AuditLog, StoredAuditEntry};
use proofmill_store::{Artifact, Store, Stored, for_each_row, stream_part, writer_name};

/// The root of a table: of its record, of an entry of the log, or computed now and entered into the log.
///
/// # Errors
///
/// If the table cannot be read, or the log cannot be written.
pub async fn root(store: &Store, table: &Stored<Artifact>) -> Result<Digest> {
    if let Some(root) = table.record.rows_root {
        return Ok(root);
    }
    let log = AuditLog::of(store);
    if let Some(root) = log.all().await?.iter().find_map(|stored| entered(stored, table.sha256)) {
        return Ok(root);
    }
    let root = computed(store, &table.record).await?;
    let event = AuditEvent::RowsRoot { artifact: table.sha256, rows: table.record.rows, root };
    log.append(&writer_name(store), |_| Some(event.clone())).await?;
    Ok(root)
}

/// The root that an entry names for the table whose record has this digest.
pub fn entered(stored: &StoredAuditEntry, record: Digest) -> Option<Digest> {
    match &stored.entry.event {
        AuditEvent::RowsRoot { artifact, root, .. } if *artifact == record => Some(*root),
        _ => None,
    }
}

async fn computed(store: &Store, record: &Artifact) -> Result<Digest> {
    let mut tree = Tree::default();
    for part in &record.parts {
        let (_, mut batches) = stream_part(store, part).await?;
        while let Some(batch) = batches.try_next().await? {
            for_each_row(&batch, |row| tree.push(leaf_hash(row))).ok_or_else(|| {
                let message = format!("`{}` has a column without canonical bytes", record.stage);
                Error::new(ErrorKind::Usage, message)
            })?;
        }
    }
    Ok(tree.root())
}
