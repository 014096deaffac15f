//! The tensors of one or several safetensors files, found by name. Headers are checked in full when
//! the files are opened; numbers are not touched before a tensor is requested.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::SafeTensors;
use safetensors::tensor::Metadata;

use super::config::read_json;
use super::near::nearest;
use super::open_file::Mapped;
use super::{Dtype, LoadError, OpenFile, StoredTensor};

/// The longest header that is read; that of the largest models has a few megabytes.
const LONGEST_HEADER: u64 = 100_000_000;
/// The length of the header's length.
const LENGTH_BYTES: usize = 8;

/// All tensors of a checkpoint.
#[derive(Debug)]
pub struct Tensors {
    /// The one file, or the index of all.
    source: PathBuf,
    files: Vec<Arc<OpenFile>>,
    tensors: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    file: usize,
    bytes: Arc<Mapped>,
    range: Range<usize>,
    dtype: safetensors::Dtype,
    shape: Vec<usize>,
}

impl Tensors {
    pub fn open(file: &Path) -> Result<Self, LoadError> {
        let held = Arc::new(OpenFile::open(file)?);
        let tensors = read_header(&held, 0)?;
        Ok(Self { source: file.to_owned(), files: vec![held], tensors })
    }

    /// Opens the files that an index names. The index must name every tensor in the file that has it.
    pub fn open_index(index: &Path) -> Result<Self, LoadError> {
        let places = read_places(index)?;
        let refuse = |tensor: &str, why: String| LoadError::Index {
            index: index.to_owned(),
            tensor: tensor.to_owned(),
            why,
        };
        let mut names: Vec<&str> = places.values().map(String::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let folder = index.parent().unwrap_or(Path::new(""));
        let mut files = Vec::new();
        let mut tensors = BTreeMap::<String, Entry>::new();
        for name in names {
            let file = folder.join(name);
            let tensor = || places.iter().find(|(_, place)| *place == name).map_or("", |at| at.0);
            if Path::new(name).components().count() != 1 || !file.is_file() {
                let why = format!("is said to be in `{name}`, but there is no such file");
                return Err(refuse(tensor(), why));
            }
            let held = Arc::new(OpenFile::open(&file)?);
            for (tensor, entry) in read_header(&held, files.len())? {
                match places.get(&tensor) {
                    None => {
                        return Err(refuse(&tensor, format!("is in `{name}`, not in the index")));
                    }
                    Some(place) if place != name => {
                        let why = format!("is said to be in `{place}`, but is in `{name}` too");
                        return Err(refuse(&tensor, why));
                    }
                    Some(_) => tensors.insert(tensor, entry),
                };
            }
            files.push(held);
        }
        match places.iter().find(|(tensor, _)| !tensors.contains_key(*tensor)) {
            Some((tensor, place)) => {
                Err(refuse(tensor, format!("is said to be in `{place}`, but is not")))
            }
            None => Ok(Self { source: index.to_owned(), files, tensors }),
        }
    }

    /// The files, in order of their names.
    pub fn files(&self) -> &[Arc<OpenFile>] {
        &self.files
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Names and shapes, in order of the names.
    pub fn shapes(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.tensors.iter().map(|(name, entry)| (name.as_str(), entry.shape.as_slice()))
    }

    /// The tensor of this name, which must have this shape.
    pub fn get(&self, name: &str, shape: &[usize]) -> Result<StoredTensor, LoadError> {
        let entry = self.tensors.get(name).ok_or_else(|| LoadError::Missing {
            file: self.source.clone(),
            tensor: name.to_owned(),
            near: nearest(name, self.tensors.keys().map(String::as_str)).map(str::to_owned),
        })?;
        let file = || self.files[entry.file].path().to_owned();
        if entry.shape != shape {
            return Err(LoadError::Shape {
                file: file(),
                tensor: name.to_owned(),
                expected: shape.to_owned(),
                found: entry.shape.clone(),
            });
        }
        let dtype = match entry.dtype {
            safetensors::Dtype::F32 => Dtype::F32,
            safetensors::Dtype::F16 => Dtype::F16,
            safetensors::Dtype::BF16 => Dtype::Bf16,
            other => {
                return Err(LoadError::Dtype {
                    file: file(),
                    tensor: name.to_owned(),
                    found: other.to_string(),
                });
            }
        };
        StoredTensor::new(entry.bytes.clone(), entry.range.clone(), dtype, entry.shape.clone())
            .ok_or_else(|| LoadError::Header {
                file: file(),
                why: format!("tensor `{name}` lies outside the file"),
            })
    }
}

/// Which file has which tensor, by an index.
fn read_places(index: &Path) -> Result<BTreeMap<String, String>, LoadError> {
    let refuse = |why: &str| LoadError::Json { file: index.to_owned(), why: why.to_owned() };
    let (json, _) = read_json(index)?;
    let map = json
        .get("weight_map")
        .and_then(|map| map.as_object())
        .ok_or_else(|| refuse("expected an object `weight_map` from tensors to files"))?;
    map.iter()
        .map(|(tensor, file)| Some((tensor.clone(), file.as_str()?.to_owned())))
        .collect::<Option<_>>()
        .ok_or_else(|| refuse("`weight_map` has a value that is not the name of a file"))
}

/// Maps a file and reads where its tensors lie.
fn read_header(held: &OpenFile, number: usize) -> Result<BTreeMap<String, Entry>, LoadError> {
    let file = held.path();
    let map = Mapped::new(held.file())
        .map_err(|source| LoadError::Read { file: file.to_owned(), source })?;
    let map = Arc::new(map);
    let (start, metadata) = parse((*map).as_ref()).map_err(|broken| match broken {
        Broken::Short { expected, found } => {
            LoadError::Truncated { file: file.to_owned(), expected, found }
        }
        Broken::Header(why) => LoadError::Header { file: file.to_owned(), why },
    })?;
    let entries = metadata.tensors().into_iter().map(|(name, info)| {
        let range = start + info.data_offsets.0..start + info.data_offsets.1;
        let shape = info.shape.clone();
        (name, Entry { file: number, bytes: map.clone(), range, dtype: info.dtype, shape })
    });
    Ok(entries.collect())
}

/// What can be wrong with the bytes of a file.
#[derive(Debug)]
enum Broken {
    Short { expected: u64, found: u64 },
    Header(String),
}

/// Where the numbers begin, and the tensors by name.
fn parse(bytes: &[u8]) -> Result<(usize, Metadata), Broken> {
    let found = bytes.len() as u64;
    let Some(length) = bytes.first_chunk::<LENGTH_BYTES>() else {
        return Err(Broken::Short { expected: LENGTH_BYTES as u64, found });
    };
    let length = u64::from_le_bytes(*length);
    if length > LONGEST_HEADER {
        return Err(Broken::Header(format!(
            "its header is said to have {length} bytes, and {LONGEST_HEADER} is the most"
        )));
    }
    let start = length + LENGTH_BYTES as u64;
    let Some(header) = bytes.get(LENGTH_BYTES..start as usize) else {
        return Err(Broken::Short { expected: start, found });
    };
    // Parsed alone first: only this shows how much of a file that is cut short is missing.
    let metadata: Metadata =
        serde_json::from_slice(header).map_err(|error| Broken::Header(error.to_string()))?;
    let expected = start.saturating_add(metadata.data_len() as u64);
    if expected > found {
        return Err(Broken::Short { expected, found });
    }
    let (_, metadata) =
        SafeTensors::read_metadata(bytes).map_err(|error| Broken::Header(error.to_string()))?;
    Ok((start as usize, metadata))
}

/// Opens what a folder has: one file, or an index of several.
pub fn open_weights(folder: &Path, architecture: &str) -> Result<Tensors, LoadError> {
    let single = folder.join("model.safetensors");
    let index = folder.join("model.safetensors.index.json");
    if single.is_file() {
        return Tensors::open(&single);
    }
    if index.is_file() {
        return Tensors::open_index(&index);
    }
    let pickles = ["pytorch_model.bin", "pytorch_model.bin.index.json"].map(|it| folder.join(it));
    match pickles.into_iter().find(|file| file.is_file()) {
        Some(file) => Err(LoadError::Pickle { file, architecture: architecture.to_owned() }),
        None => Err(LoadError::Absent {
            file: single,
            remedy: "a model's folder holds its weights there, or in several files beside \
                     model.safetensors.index.json",
        }),
    }
}
