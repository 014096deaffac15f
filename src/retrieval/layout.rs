//! The folder of an index: tantivy's schema in it, and the names that do not depend on chance.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tantivy::schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};

use crate::error::SearchError;

/// The meta file, written last: a folder without it is not an index.
pub const META_FILE: &str = "bm25.json";

/// tantivy's own meta file.
const TANTIVY_META_FILE: &str = "meta.json";

/// Stem of the segment's files. tantivy draws a random one; a fixed one keeps equal entries equal
/// bytes.
const SEGMENT: &str = "00000000000000000000000000000001";

/// The same, as tantivy's meta file spells it.
const SEGMENT_IN_META: &str = "00000000-0000-0000-0000-000000000001";

/// The fields of the tantivy schema.
#[derive(Clone)]
pub(super) struct Fields {
    pub schema: Schema,
    /// Terms with frequencies; no positions, no rounded lengths.
    pub text: Field,
    /// Number of terms of the entry, exact.
    pub length: Field,
    /// Insertion order, to verify that document ids are ordinals.
    pub ordinal: Field,
}

/// Name under which the builder registers its tokenizer; readers never need it.
pub(super) const TOKENIZER: &str = "joined_terms";
/// Column of exact lengths.
pub(super) const LENGTH: &str = "length";
/// Column of insertion ordinals.
pub(super) const ORDINAL: &str = "ordinal";

impl Fields {
    pub fn new() -> Self {
        let mut builder = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(TOKENIZER)
            .set_fieldnorms(false)
            .set_index_option(IndexRecordOption::WithFreqs);
        let text =
            builder.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
        let length = builder.add_u64_field(LENGTH, FAST);
        let ordinal = builder.add_u64_field(ORDINAL, FAST);
        Self { schema: builder.build(), text, length, ordinal }
    }
}

/// Gives the only segment its fixed name and removes whatever else tantivy left in the folder.
/// `segment` is the segment's random name, absent if there are no entries.
pub(super) fn settle(dir: &Path, segment: Option<&str>) -> Result<(), SearchError> {
    for file in fs::read_dir(dir).map_err(SearchError::io("list", dir))? {
        let path = file.map_err(SearchError::io("list", dir))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name == TANTIVY_META_FILE {
            continue;
        }
        match (name.split_once('.'), segment) {
            (Some((stem, extension)), Some(segment)) if stem == segment => {
                fs::rename(&path, dir.join(format!("{SEGMENT}.{extension}")))
                    .map_err(SearchError::io("rename", &path))?;
            }
            _ => fs::remove_file(&path).map_err(SearchError::io("remove", &path))?,
        }
    }
    settle_meta(dir)
}

/// Replaces the random name and the operation count in tantivy's meta file.
fn settle_meta(dir: &Path) -> Result<(), SearchError> {
    let path = dir.join(TANTIVY_META_FILE);
    let text = fs::read_to_string(&path).map_err(SearchError::io("read", &path))?;
    let broken = |error: serde_json::Error| SearchError::io("rewrite", &path)(error.into());
    let mut meta: Value = serde_json::from_str(&text).map_err(broken)?;
    if let Some(id) = meta.pointer_mut("/segments/0/segment_id") {
        *id = Value::from(SEGMENT_IN_META);
    }
    if let Some(opstamp) = meta.get_mut("opstamp") {
        *opstamp = Value::from(0);
    }
    let mut text = serde_json::to_string_pretty(&meta).map_err(broken)?;
    text.push('\n');
    fs::write(&path, text).map_err(SearchError::io("write", &path))
}

/// Total size of the files in the folder.
pub(super) fn bytes(dir: &Path) -> Result<u64, SearchError> {
    let mut bytes = 0;
    for file in fs::read_dir(dir).map_err(SearchError::io("list", dir))? {
        let file = file.map_err(SearchError::io("list", dir))?;
        bytes += file.metadata().map_err(SearchError::io("measure", file.path()))?.len();
    }
    Ok(bytes)
}
