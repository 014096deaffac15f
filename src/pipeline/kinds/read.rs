//! Settings of `read`: a table from files, or from the store.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Reads files into a table, or the table of a past run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["path"]}, {"required": ["run"]}]))]
pub struct Read {
    /// A file, a folder, a glob such as `data/*.jsonl`, or a list of these, relative to the
    /// working directory. Files are read in the order of their names.
    pub path: Option<Paths>,
    /// A past run of the same store, as `show --run` takes it: a prefix of its id, `latest`, `PIPELINE`,
    /// `PIPELINE~1`. It is resolved when the pipeline is loaded; the fingerprint covers the table, not the name.
    pub run: Option<StoredName>,
    /// With `run`: the stage whose table is read, or `STAGE__errors`.
    pub stage: Option<StoredName>,
    /// Format of the files; inferred from their names when absent.
    pub format: Option<Format>,
    /// Compression of the files; inferred from their names when absent.
    pub compression: Option<Compression>,
    /// Character encoding, by its WHATWG label. UTF-8 when absent.
    pub encoding: Option<String>,
    /// The columns: name to path of the field, or to its path and type. All top-level fields when
    /// absent.
    pub columns: Option<IndexMap<String, Column>>,
    /// For `json`: path of the list of records inside the document.
    pub records: Option<String>,
    /// For `csv`: the character between fields. A comma when absent.
    #[schemars(length(min = 1, max = 1))]
    pub delimiter: Option<String>,
    /// For `csv` and `tsv`: whether the first line names the columns. It does when absent;
    /// otherwise they are called `column_1`, `column_2`, ….
    pub header: Option<bool>,
    /// Maximum number of rows, the first by `row_id`: a sample that does not depend on the order of records. All
    /// when absent; `--limit` sets one for every `read` of the file.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

/// A name that leads to a stored table. The table counts for a fingerprint, not what leads to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct StoredName(#[schemars(length(min = 1))] pub String);

/// One path or several.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Paths {
    /// A single path.
    One(#[schemars(length(min = 1))] String),
    /// Several paths.
    Many(#[schemars(length(min = 1))] Vec<String>),
}

/// As what it holds, under a name by which [`crate::settings::read`] knows it.
impl Serialize for Paths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(path) => serializer.serialize_newtype_struct("Paths", path),
            Self::Many(paths) => serializer.serialize_newtype_struct("Paths", paths),
        }
    }
}

impl Paths {
    /// All paths, in order.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Many(paths) => paths,
        }
    }
}

/// File format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One JSON object per line.
    Jsonl,
    /// One JSON document: a list of objects, or an object that holds one under `records`.
    Json,
    /// Comma-separated values with quoting.
    Csv,
    /// Tab-separated values without quoting.
    Tsv,
    /// Apache Parquet.
    Parquet,
    /// Plain lines; one column `line`.
    Lines,
}

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// No compression.
    None,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// Where a column comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Column {
    /// Path of the field: names joined by `.`, list positions in `[…]`.
    Path(String),
    /// Path and type.
    Typed(TypedColumn),
}

/// A column with its type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedColumn {
    /// Path of the field; the column's name when absent.
    pub path: Option<String>,
    /// Type of the column; inferred from the data when absent.
    #[serde(rename = "type")]
    pub kind: Option<ColumnType>,
}

/// Types a column can be declared as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// Text.
    String,
    /// 64-bit whole number.
    Integer,
    /// 64-bit floating-point number.
    Number,
    /// True or false.
    Boolean,
}
