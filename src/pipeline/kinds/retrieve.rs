//! Settings of `retrieve`: queries x memory -> ranked rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kinds::index::IndexKind;
use crate::settings::StageRef;
use proofmill_settings::search::Analyzer;

/// Ranks the entries of a memory for every row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retrieve {
    /// Table of the queries.
    pub from: StageRef,
    /// Column of the query's text; for a dense index, of its vector.
    pub query: String,
    /// Column that identifies a query and becomes `query_id`.
    #[serde(default = "row_id_column")]
    pub id: String,
    /// An `index` stage; or, with `index`, a table with a column `fact`, and `vector` for `dense`.
    pub memory: StageRef,
    /// Builds an index over the table `memory` on the fly, with the defaults of the kind `index`.
    pub index: Option<IndexKind>,
    /// With `index: bm25`: how texts become terms.
    #[serde(default, skip_serializing_if = "Analyzer::is_default")]
    pub analyzer: Analyzer,
    /// Columns of the memory's rows that the neighbours keep: some that an `index` stage keeps, all of
    /// those when absent; or, with `index`, columns of the table, whose rows `row_id` identifies.
    #[serde(default)]
    pub keep: Vec<String>,
    /// Maximum number of rows for one query.
    #[schemars(range(min = 1, max = 100_000))]
    pub top_k: u32,
}

fn row_id_column() -> String {
    "row_id".to_owned()
}
