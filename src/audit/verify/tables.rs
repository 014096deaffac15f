//! Tables row by row: their number, their columns, and the root over them.

use std::collections::{BTreeMap, HashMap};

use futures::TryStreamExt;
use proofmill_base::digest::Digest;
use proofmill_base::ids::Fingerprint;
use proofmill_base::merkle::Tree;
use proofmill_store::{
    Artifact, RowLeaves, Store, StoreError, artifact_key, find_exact, stream_part,
};

use crate::finding::{Fault, Finding};
use crate::verify::scope::{Collected, Phase, Scope, Step, Watcher};

/// Decodes the tables whose objects have no finding, and compares them with their records.
pub(super) async fn examine(
    store: &Store,
    scope: &Scope,
    tables: &BTreeMap<Digest, Fingerprint>,
    roots: &HashMap<Digest, Digest>,
    watcher: &dyn Watcher,
    found: &mut Collected,
) -> Result<(), StoreError> {
    let all = tables.len() as u64;
    for (done, (sha256, fingerprint)) in (0..).zip(tables) {
        watcher.step(Step { phase: Phase::Tables, done, all, bytes: (0, 0) });
        // A record that is gone since is a finding already.
        let Ok(stored) = find_exact(store, fingerprint, *sha256).await else { continue };
        let record = &stored.record;
        if record.parts.iter().any(|part| found.known.contains(part.key.as_str())) {
            continue;
        }
        if scope.journal.as_ref().is_some_and(|journal| journal.has_rows(*sha256)) {
            found.examined.rows += record.rows;
            continue;
        }
        let expected = record.rows_root.or(roots.get(sha256).copied());
        let key = artifact_key(fingerprint);
        let table = found.take(&key, read(store, record, expected.is_some()).await, &[])?;
        let Some(Read { rows, root, columns }) = table else { continue };
        found.examined.rows += rows;
        let before = found.findings.len();
        let mut wrong = |detail: String| {
            found.add(Finding::new(key.as_str(), Fault::WrongTable, detail));
        };
        if rows != record.rows {
            wrong(format!("`{}` has {rows} rows, its record says {}", record.stage, record.rows));
        }
        if let Some(columns) = columns {
            wrong(format!("`{}` has {columns}", record.stage));
        }
        if let (Some(expected), Some(root)) = (expected, root)
            && expected != root
        {
            wrong(format!(
                "the rows of `{}` have the root {root}, its record says {expected}",
                record.stage
            ));
        }
        if let (Some(journal), true) = (&scope.journal, before == found.findings.len()) {
            journal.add_rows(*sha256);
        }
    }
    Ok(())
}

struct Read {
    rows: u64,
    /// The root, if it was wanted.
    root: Option<Digest>,
    /// What is wrong with the columns, if something is.
    columns: Option<String>,
}

async fn read(store: &Store, record: &Artifact, with_root: bool) -> Result<Read, StoreError> {
    let expected = record.arrow_schema();
    let (mut rows, mut tree, mut columns) = (0, Tree::default(), None);
    for part in &record.parts {
        let (schema, mut batches) = stream_part(store, part).await?;
        if let Some(expected) = &expected
            && schema.fields() != expected.fields()
        {
            columns = Some(format!("other columns in `{}` than in its record", part.key));
        }
        while let Some(batch) = batches.try_next().await? {
            rows += batch.num_rows() as u64;
            if with_root {
                let mut leaves = RowLeaves::default();
                leaves.push(&batch, 1);
                tree.extend(leaves.finish().into_iter().flatten());
            }
        }
    }
    Ok(Read { rows, root: with_root.then(|| tree.root()), columns })
}
