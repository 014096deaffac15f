//! Settings of `index`: a memory made searchable.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::StageRef;
use proofmill_settings::search::{Analyzer, IndexBy, Variant};

/// Builds an index over a memory of facts. As a table it lists its entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// Table of the memory.
    pub from: StageRef,
    /// What entries and queries are compared by.
    #[serde(default, skip_serializing_if = "IndexKind::is_default")]
    pub kind: IndexKind,
    /// What makes an entry, and its text (TeachMe, appendix A).
    #[serde(default)]
    pub by: IndexBy,
    /// Column of the fact.
    #[serde(default = "fact_column")]
    pub fact: String,
    /// Column of the question that the fact belongs to; required by all values of `by` but `fact`.
    pub question: Option<String>,
    /// Column that identifies a row of the memory. With it, each row with a fact is an entry, equal texts
    /// included, and the row's value is the entry's `fact_id`. `row_id` when absent beside `keep`; without
    /// both, rows with the same text share an entry.
    pub id: Option<String>,
    /// Other columns of the memory that every entry keeps; `retrieve` gives them with each neighbour.
    #[serde(default)]
    pub keep: Vec<String>,
    /// For `dense`, the column of the entry's vector; `vector` when absent.
    pub vector: Option<String>,
    /// For `bm25`: formula of the score.
    #[serde(default)]
    pub variant: Variant,
    /// For `bm25`: term frequency saturation; the variant's own when absent.
    #[schemars(range(min = 0.0))]
    pub k1: Option<f64>,
    /// For `bm25`: length normalisation; the variant's own when absent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub b: Option<f64>,
    /// For `bm25l`, `bm25+` and `rank_bm25l`: the least that a term adds; the variant's own when absent.
    #[schemars(range(min = 0.0))]
    pub delta: Option<f64>,
    /// For `bm25`: how texts become terms.
    #[serde(default)]
    pub analyzer: Analyzer,
}

fn fact_column() -> String {
    "fact".to_owned()
}

impl Index {
    /// The column that identifies a row, if each row is an entry of its own.
    pub fn row_column(&self) -> Option<&str> {
        let default = (!self.keep.is_empty()).then_some("row_id");
        self.id.as_deref().or(default)
    }
}

/// Kinds of index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IndexKind {
    /// BM25 over words.
    #[default]
    Bm25,
    /// Exact maximum inner product over vectors.
    Dense,
}

impl IndexKind {
    /// The name in the pipeline file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bm25 => "bm25",
            Self::Dense => "dense",
        }
    }

    /// True for what an index is unless its settings say otherwise: fingerprints of those made
    /// before there was a choice stay.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
