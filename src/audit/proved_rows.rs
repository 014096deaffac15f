//! Rows of a table with their paths to its root: all of them, or those of an item.

use std::collections::BTreeSet;
use std::io::{self, Write};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use futures::TryStreamExt;
use proofmill_base::digest::{Digest, hex};
use proofmill_base::error::{Error, ErrorKind, Result};
use proofmill_base::merkle::FullTree;
use proofmill_catalog::lineage::ITEM_IDS;
use proofmill_store::{Artifact, RowLeaves, Store, Stored, for_each_row, stream_part};
use serde::Serialize;

/// The column that identifies a fact.
const FACT_ID: &str = "fact_id";
/// Columns of an item's rows that name facts.
const FACT_IDS: [&str; 2] = [FACT_ID, "forced_fact_id"];

/// A row of a table, a line of its file.
#[derive(Serialize)]
struct ProvedRow<'a> {
    row: usize,
    leaf: Digest,
    path: Vec<Digest>,
    /// Its canonical bytes, as hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    cbor: Option<&'a str>,
}

/// Which rows of a table are proved.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    All,
    /// Those of an item, and the facts that these name, which are collected.
    Item {
        id: &'a str,
        facts: &'a BTreeSet<String>,
    },
}

/// The rows of a table that were wanted.
#[derive(Debug)]
pub(crate) struct ProvedRows {
    tree: FullTree,
    /// Each with its canonical bytes, if these are part of the proof.
    chosen: Vec<(usize, Option<String>)>,
    /// Facts that they name.
    pub facts: BTreeSet<String>,
}

impl ProvedRows {
    /// Reads a table, and chooses. With `with_text`, the rows themselves are part of the proof.
    ///
    /// # Errors
    ///
    /// If the table cannot be read, or has too many rows.
    pub async fn read(
        store: &Store,
        table: &Stored<Artifact>,
        wanted: Wanted<'_>,
        with_text: bool,
    ) -> Result<Self> {
        let record = &table.record;
        let (mut leaves, mut chosen, mut facts) =
            (RowLeaves::default(), Vec::new(), BTreeSet::new());
        let mut at = 0;
        for part in &record.parts {
            let (_, mut batches) = stream_part(store, part).await?;
            while let Some(batch) = batches.try_next().await? {
                leaves.push(&batch, 1);
                let fits = chosen_rows(&batch, wanted, &mut facts);
                let mut row = 0;
                for_each_row(&batch, |bytes| {
                    if fits.as_ref().is_none_or(|fits| fits.contains(&row)) {
                        chosen.push((at + row, with_text.then(|| hex(bytes))));
                    }
                    row += 1;
                });
                at += row;
            }
        }
        let leaves = leaves.finish().ok_or_else(|| {
            let (stage, rows) = (&record.stage, record.rows);
            let message = format!("`{stage}` has {rows} rows, too many for a proof of each");
            Error::new(ErrorKind::Resources, message)
        })?;
        Ok(Self { tree: FullTree::of(leaves), chosen, facts })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.chosen.len()
    }

    /// Writes one line for each.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for (row, cbor) in &self.chosen {
            let (leaf, path) = (self.tree.leaf(*row), self.tree.inclusion(*row));
            let line = ProvedRow { row: *row, leaf, path, cbor: cbor.as_deref() };
            serde_json::to_writer(&mut *out, &line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// Whether a table may have rows of an item, or facts.
pub(crate) fn has_items(record: &Artifact) -> bool {
    let has = |name: &str| record.schema.iter().any(|column| column.name == name);
    ITEM_IDS.into_iter().chain([FACT_ID]).any(has)
}

/// The wanted rows of a batch, and the facts that they name; `None` for all.
fn chosen_rows(
    batch: &RecordBatch,
    wanted: Wanted<'_>,
    facts: &mut BTreeSet<String>,
) -> Option<BTreeSet<usize>> {
    let Wanted::Item { id, facts: named } = wanted else { return None };
    let mut chosen = BTreeSet::new();
    let mut is_of_items = false;
    for column in ITEM_IDS {
        is_of_items |= batch.column_by_name(column).is_some();
        for_each_text(batch, column, |row, text| {
            if text == id {
                chosen.insert(row);
            }
        });
    }
    match is_of_items {
        true => FACT_IDS.into_iter().for_each(|column| {
            for_each_text(batch, column, |row, text| {
                if chosen.contains(&row) {
                    facts.insert(text.to_owned());
                }
            });
        }),
        false => for_each_text(batch, FACT_ID, |row, text| {
            if named.contains(text) {
                chosen.insert(row);
            }
        }),
    }
    Some(chosen)
}

/// The values of a column as texts, where they are not NULL; none if there is no such column.
fn for_each_text(batch: &RecordBatch, column: &str, mut take: impl FnMut(usize, &str)) {
    let texts = batch.column_by_name(column).and_then(|it| cast(it, &DataType::Utf8).ok());
    let Some(texts) = texts else { return };
    let texts = texts.as_string::<i32>();
    let there = (0..texts.len()).filter(|row| texts.is_valid(*row));
    there.for_each(|row| take(row, texts.value(row)));
}
