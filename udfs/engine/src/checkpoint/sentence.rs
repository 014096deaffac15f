//! Folders of sentence-transformers: where the transformer lies, how its rows become a vector, and
//! how long a text may be.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::LoadError;
use super::config::{Config, read_json};
use super::open_file::Files;

/// How the rows of a text become its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorSettings {
    /// Which rows.
    pub mode: VectorMode,
    /// Whether the vector is divided by its Euclidean length.
    pub normalize: bool,
}

/// Which rows of a text make its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VectorMode {
    /// The mean of all rows, special tokens included.
    Mean,
    /// The first row.
    First,
    /// The last row.
    Last,
    /// The first row through BERT's pooler: a matrix and tanh.
    Pooler,
}

/// What the files of sentence-transformers say.
#[derive(Clone, Debug, Default)]
pub(super) struct Sentence {
    /// The transformer's folder, relative.
    pub transformer: PathBuf,
    pub vector: Option<VectorSettings>,
    /// Most tokens of a text, special ones included.
    pub max_tokens: Option<usize>,
    /// The files that were read, by their names in the folder.
    pub files: Files,
}

impl Sentence {
    /// Reads `modules.json` and what it points to; the default where there is none.
    pub fn read(folder: &Path) -> Result<Self, LoadError> {
        let name = PathBuf::from("modules.json");
        let file = folder.join(&name);
        if !file.is_file() {
            return Ok(Self::default());
        }
        let (listed, held) = read_json(&file)?;
        let mut found = Self { files: vec![(text(&name), held)], ..Self::default() };
        let (mut mode, mut normalize) = (None, false);
        for (kind, path) in modules(&file, &listed)? {
            match kind.as_str() {
                "Transformer" => found.transformer = path,
                "Pooling" => {
                    let name = path.join("config.json");
                    let settings = Config::read(&folder.join(&name))?;
                    mode = Some(pooling(&settings)?);
                    found.files.push((text(&name), Arc::clone(settings.held())));
                }
                "Normalize" => normalize = true,
                _ => {
                    let why = format!(
                        "module `{kind}` is not supported; supported are Transformer, Pooling and \
                         Normalize"
                    );
                    return Err(LoadError::Json { file, why });
                }
            }
        }
        found.vector = mode.map(|mode| VectorSettings { mode, normalize });
        let name = found.transformer.join("sentence_bert_config.json");
        if let Some(settings) = Config::read_if_there(&folder.join(&name))? {
            settings.only("do_lower_case", false)?;
            found.max_tokens = settings.size_if_there("max_seq_length")?;
            found.files.push((text(&name), Arc::clone(settings.held())));
        }
        let name = PathBuf::from("config_sentence_transformers.json");
        if let Some(settings) = Config::read_if_there(&folder.join(&name))? {
            if settings.has("default_prompt_name") {
                let expected = "null: no prompt is added by itself; write it into the text";
                return Err(settings.refuse("default_prompt_name", expected));
            }
            found.files.push((text(&name), Arc::clone(settings.held())));
        }
        Ok(found)
    }
}

fn text(name: &Path) -> String {
    name.to_string_lossy().into_owned()
}

/// Kind and folder of each module, in order.
fn modules(file: &Path, json: &Value) -> Result<Vec<(String, PathBuf)>, LoadError> {
    let refuse = || LoadError::Json {
        file: file.to_owned(),
        why: "expected a list of modules, each with a `type` and a `path` inside the folder"
            .to_owned(),
    };
    let module = |module: &Value| {
        let kind = module.get("type")?.as_str()?.rsplit('.').next()?.to_owned();
        let path = PathBuf::from(module.get("path")?.as_str()?);
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        inside.then_some((kind, path))
    };
    json.as_array().and_then(|list| list.iter().map(module).collect()).ok_or_else(refuse)
}

/// The one mode that is switched on.
fn pooling(config: &Config) -> Result<VectorMode, LoadError> {
    let named = |name: &str| match name {
        "mean" | "mean_tokens" => Some(VectorMode::Mean),
        "cls" | "cls_token" => Some(VectorMode::First),
        "lasttoken" => Some(VectorMode::Last),
        _ => None,
    };
    const KNOWN: &str = "one of mean, cls and lasttoken";
    if config.has("pooling_mode") {
        let mode = config.text("pooling_mode")?.and_then(named);
        return mode.ok_or_else(|| config.refuse("pooling_mode", KNOWN));
    }
    let mut modes = Vec::new();
    for name in [
        "cls_token",
        "mean_tokens",
        "lasttoken",
        "max_tokens",
        "mean_sqrt_len_tokens",
        "weightedmean_tokens",
    ] {
        let key = format!("pooling_mode_{name}");
        if config.flag_or(&key, false)? {
            let refuse = || config.refuse(&key, "false: supported are mean, cls and lasttoken");
            modes.push(named(name).ok_or_else(refuse)?);
        }
    }
    match modes[..] {
        [mode] => Ok(mode),
        _ => {
            Err(config.refuse("pooling_mode", format!("{KNOWN}, or just one pooling_mode_* true")))
        }
    }
}
