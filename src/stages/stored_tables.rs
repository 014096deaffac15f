//! What of the store a pipeline reads that is not its own: memories, tables and texts of past runs. Fetched once,
//! before stages are prepared.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::memory::Memories;
use proofmill_base::ids::{RunId, StageName};
use proofmill_store::Artifact;

/// A table that a `read` names: the run as it is written, and the stage.
pub type StoredTableName = (String, String);

/// A table of a past run.
#[derive(Clone, Debug)]
pub struct StoredTable {
    /// The run that was meant.
    pub run: RunId,
    pub artifact: Arc<Artifact>,
    /// The columns of its error rows, if they are meant and not its rows.
    pub errors: Option<SchemaRef>,
}

/// The tables of past runs that a pipeline names; or why there is none, and what to do.
pub type StoredTables = BTreeMap<StoredTableName, Result<StoredTable, (String, Option<String>)>>;

/// The texts of a past run, by the paths under which it read them.
pub type KeptTexts = BTreeMap<String, Vec<u8>>;

/// Tables of past runs in whose place nothing is read from outside, by the stages that read it.
pub type PinnedTables = BTreeMap<StageName, Arc<Artifact>>;

/// What a pipeline is prepared with.
#[derive(Clone, Debug, Default)]
pub struct FromStore {
    pub memories: Memories,
    pub tables: StoredTables,
    /// The texts of a past run, in whose place none is read from disk; code of programs apart.
    pub texts: Option<KeptTexts>,
    /// Empty where every stage reads what it names.
    pub pinned: PinnedTables,
}
