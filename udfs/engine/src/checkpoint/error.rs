//! Why a folder cannot be loaded. Every message names the file, what stands there, what was expected
//! and, where it is not plain, what to do.

use std::io;
use std::path::PathBuf;

use crate::request::DeviceError;

/// What to do about a folder without `tokenizer.json`.
pub(super) const NO_TOKENIZER: &str = "write it once with transformers: \
     AutoTokenizer.from_pretrained(folder).save_pretrained(folder)";

/// A model's folder is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be read.
    #[error("{}: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },
    /// A file is missing that every model needs.
    #[error("{}: not found; {remedy}", file.display())]
    Absent { file: PathBuf, remedy: &'static str },
    /// A file is no JSON, or not of the form that is needed.
    #[error("{}: {why}", file.display())]
    Json { file: PathBuf, why: String },
    /// A setting has a value that is wrong or not supported.
    #[error("{}: `{key}` is {found}, expected {expected}", file.display())]
    Value {
        file: PathBuf,
        key: String,
        /// What stands there, as JSON; `absent` if nothing does.
        found: String,
        expected: String,
    },
    /// A file of weights has fewer bytes than its header says.
    #[error(
        "{}: cut short: expected {expected} bytes, found {found}; {DOWNLOAD}",
        file.display()
    )]
    Truncated {
        file: PathBuf,
        /// Bytes that the header promises.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// The header of a file of weights is broken.
    #[error("{}: not a valid safetensors file: {why}", file.display())]
    Header { file: PathBuf, why: String },
    /// The only weights are a pickle.
    #[error(
        "{}: a pickle can run code when it is read; {}",
        file.display(),
        converted(architecture)
    )]
    Pickle {
        file: PathBuf,
        /// The class that can read it.
        architecture: String,
    },
    /// A tensor is missing.
    #[error(
        "{}: no tensor `{tensor}`{}",
        file.display(),
        near.as_ref().map(|near| format!("; {}", nearest(near))).unwrap_or_default()
    )]
    Missing {
        /// The file, or the index of files.
        file: PathBuf,
        tensor: String,
        /// A tensor with a similar name.
        near: Option<String>,
    },
    /// A tensor has another shape than the configuration asks for.
    #[error(
        "{}: tensor `{tensor}` has shape {found:?}, expected {expected:?} by config.json",
        file.display()
    )]
    Shape { file: PathBuf, tensor: String, expected: Vec<usize>, found: Vec<usize> },
    /// A tensor has numbers of a type that is not read.
    #[error("{}: tensor `{tensor}` is {found}, expected F32, F16 or BF16", file.display())]
    Dtype {
        file: PathBuf,
        tensor: String,
        /// Its type, as safetensors calls it.
        found: String,
    },
    /// The index of shards and the shards disagree.
    #[error("{}: tensor `{tensor}`: {why}", index.display())]
    Index { index: PathBuf, tensor: String, why: String },
    /// No family knows this model.
    #[error(
        "{}: {found} is not supported; {SUPPORTED}",
        file.display()
    )]
    Architecture {
        /// `config.json`.
        file: PathBuf,
        /// The architecture, or the model type.
        found: String,
    },
    /// The tokenizer cannot be used.
    #[error("{}: {why}", file.display())]
    Tokenizer {
        /// `tokenizer.json`.
        file: PathBuf,
        why: String,
    },
    /// A file is not what was digested.
    #[error(
        "{}: changed after the model's identity was taken; {RUN_AGAIN}",
        file.display()
    )]
    Changed { file: PathBuf },
    /// A file changed although its time did not.
    #[error(
        "{}: expected sha256 {expected}, found {found}: the file changed but its size and times did \
         not; {CHECK_DISK}",
        file.display()
    )]
    Digest { file: PathBuf, expected: String, found: String },
    /// The device could not take the weights.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl LoadError {
    /// What to do about it, which also ends the message.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Absent { remedy, .. } => Some((*remedy).to_owned()),
            Self::Truncated { .. } => Some(DOWNLOAD.to_owned()),
            Self::Pickle { architecture, .. } => Some(converted(architecture)),
            Self::Missing { near, .. } => near.as_ref().map(|near| nearest(near)),
            Self::Architecture { .. } => Some(SUPPORTED.to_owned()),
            Self::Changed { .. } => Some(RUN_AGAIN.to_owned()),
            Self::Digest { .. } => Some(CHECK_DISK.to_owned()),
            Self::Read { .. }
            | Self::Json { .. }
            | Self::Value { .. }
            | Self::Header { .. }
            | Self::Shape { .. }
            | Self::Dtype { .. }
            | Self::Index { .. }
            | Self::Tokenizer { .. }
            | Self::Device(_) => None,
        }
    }

    /// The message without what to do.
    pub fn problem(&self) -> String {
        let message = self.to_string();
        let end = self.help().map(|help| format!("; {help}")).unwrap_or_default();
        message.strip_suffix(end.as_str()).unwrap_or(&message).to_owned()
    }
}

const DOWNLOAD: &str = "download it again";
const SUPPORTED: &str = "supported are T5, BART, BERT, DPR, RoBERTa, OPT, GPT-2, Llama, Mistral, Qwen2 and \
                         Qwen3";
const RUN_AGAIN: &str =
    "what it answers since then is not kept; run again when nobody writes to the folder";
const CHECK_DISK: &str = "check the disk";

fn converted(architecture: &str) -> String {
    format!(
        "convert it once with transformers: {architecture}.from_pretrained(folder).save_pretrained(folder)"
    )
}

fn nearest(name: &str) -> String {
    format!("the nearest name is `{name}`")
}
