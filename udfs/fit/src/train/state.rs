//! A fit that was stopped: one safetensors file with everything that the next step needs, and its
//! counters as JSON in the file's header, behind a line with the digest of it all. It replaces the one
//! before it in one move.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use proofmill_base::digest::Hasher;
use proofmill_engine::checkpoint::{seal, unseal};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors, serialize};
use serde::{Deserialize, Serialize};

use crate::data::batch::{Example, Logged};
use crate::error::FitError;
use crate::model::origin::Origin;
use crate::model::weights::{Plan, Weights};
use crate::train::optimizer::Moments;
use crate::train::progress::Look;
use proofmill_settings::fit::Training;

/// The key of the counters in the header.
const COUNTERS: &str = "state";
/// Another layout or another arithmetic has another number.
const FORMAT: u32 = 3;

/// Where a fit stands between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Steps that were made. All numbers of chance follow from it and the seed.
    pub step: u32,
    pub weights: Weights,
    pub moments: Moments,
    pub best: Option<Best>,
    /// Evaluations since the best.
    pub stale: u32,
    /// All evaluations so far.
    pub looks: Vec<Look>,
}

/// The weights that are best on the dev pairs so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    pub step: u32,
    pub loss: f64,
    /// The part of the pairs that is answered right, if that is the judge.
    pub exact_match: Option<f64>,
    pub weights: Weights,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counters {
    format: u32,
    fit: String,
    step: u32,
    stale: u32,
    best: Option<BestCounters>,
    looks: Vec<Look>,
}

/// The loss is kept as the bits of a 64-bit float, as decimals may not come back.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BestCounters {
    step: u32,
    loss_bits: u64,
    exact_match_bits: Option<u64>,
}

impl State {
    /// Before the first step.
    pub fn new(weights: Weights) -> Self {
        let moments = Moments::new(&weights);
        Self { step: 0, moments, weights, best: None, stale: 0, looks: Vec::new() }
    }

    /// Reads a file if there is one; `fit` is the digest of what is fitted.
    pub fn read(file: &Path, fit: &str, plan: &Plan) -> Result<Option<Self>, FitError> {
        let refuse = |why: String| FitError::State { file: file.to_owned(), why };
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(refuse(error.to_string())),
        };
        let bytes = unseal(&bytes).ok_or_else(|| refuse("the file is damaged".to_owned()))?;
        let (_, header) =
            SafeTensors::read_metadata(bytes).map_err(|error| refuse(error.to_string()))?;
        let counters = header.metadata().as_ref().and_then(|it| it.get(COUNTERS));
        let counters =
            counters.ok_or_else(|| refuse("this is not the state of a fit".to_owned()))?;
        let counters: Counters =
            serde_json::from_str(counters).map_err(|error| refuse(error.to_string()))?;
        if counters.format != FORMAT || counters.fit != fit {
            return Err(FitError::OtherState { file: file.to_owned() });
        }
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| refuse(error.to_string()))?;
        let take = |part: &str| -> Result<Weights, FitError> {
            let one = |(number, parameter): (usize, &crate::model::weights::Parameter)| {
                let name = name(part, number);
                let tensor = tensors.tensor(&name).map_err(|error| refuse(error.to_string()))?;
                if tensor.dtype() != Dtype::F32 || tensor.shape() != [parameter.count()] {
                    return Err(refuse(format!("tensor `{name}` has another type or size")));
                }
                let (values, _) = tensor.data().as_chunks::<4>();
                Ok(values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
            };
            plan.parameters.iter().enumerate().map(one).collect()
        };
        let best = match counters.best {
            None => None,
            Some(BestCounters { step, loss_bits, exact_match_bits }) => Some(Best {
                step,
                loss: f64::from_bits(loss_bits),
                exact_match: exact_match_bits.map(f64::from_bits),
                weights: take("best")?,
            }),
        };
        Ok(Some(Self {
            step: counters.step,
            weights: take("weights")?,
            moments: Moments { first: take("first")?, second: take("second")? },
            best,
            stale: counters.stale,
            looks: counters.looks,
        }))
    }

    /// Writes the file.
    pub fn write(&self, file: &Path, fit: &str) -> Result<(), FitError> {
        let best = self.best.as_ref();
        let counters = Counters {
            format: FORMAT,
            fit: fit.to_owned(),
            step: self.step,
            stale: self.stale,
            best: best.map(|it| BestCounters {
                step: it.step,
                loss_bits: it.loss.to_bits(),
                exact_match_bits: it.exact_match.map(f64::to_bits),
            }),
            looks: self.looks.clone(),
        };
        let refuse = |why: String| FitError::State { file: file.to_owned(), why };
        let counters =
            serde_json::to_string(&counters).map_err(|error| refuse(error.to_string()))?;
        let parts = [
            ("weights", Some(&self.weights)),
            ("first", Some(&self.moments.first)),
            ("second", Some(&self.moments.second)),
            ("best", best.map(|it| &it.weights)),
        ];
        let tensors: Vec<(String, usize, Vec<u8>)> = parts
            .into_iter()
            .filter_map(|(part, weights)| Some((part, weights?)))
            .flat_map(|(part, weights)| {
                weights.iter().enumerate().map(move |(number, values)| {
                    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                    (name(part, number), values.len(), bytes)
                })
            })
            .collect();
        let views = tensors
            .iter()
            .map(|(name, count, bytes)| {
                TensorView::new(Dtype::F32, vec![*count], bytes).map(|view| (name.as_str(), view))
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| refuse(error.to_string()))?;
        let header = [(COUNTERS.to_owned(), counters)].into();
        let bytes = serialize(views, Some(header)).map_err(|error| refuse(error.to_string()))?;
        replace(file, &seal(&bytes))
            .map_err(|source| FitError::File { file: file.to_owned(), source })
    }
}

fn name(part: &str, number: usize) -> String {
    format!("{part}.{number}")
}

/// Writes beside the file, and moves it there when all of it is on the disk.
fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".partial");
    let beside = PathBuf::from(beside);
    // What a fit that was killed left; and nothing is written through a link of that name.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut open = OpenOptions::new().write(true).create_new(true).open(&beside)?;
    open.write_all(bytes)?;
    open.sync_all()?;
    drop(open);
    fs::rename(&beside, file)
}

/// The digest of all that decides the bytes of a fit.
pub fn digest(
    settings: &Training,
    origin: &Origin,
    train: &[Example],
    dev: &[Example],
) -> Result<String, FitError> {
    let mut hasher = Hasher::default();
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    part(&serde_json::to_vec(settings)?);
    part(serde_json::Value::Object(origin.config.clone()).to_string().as_bytes());
    for (name, bytes) in &origin.files {
        part(name.as_bytes());
        part(bytes);
    }
    for values in &origin.weights {
        part(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
    }
    for examples in [train, dev] {
        part(&(examples.len() as u64).to_le_bytes());
        for example in examples {
            for ids in [&example.input, &example.output] {
                part(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>());
            }
            part(&example.weight.to_le_bytes());
            if example.passages.len() > 1 {
                let lengths = example.passages.iter().flat_map(|it| (*it as u64).to_le_bytes());
                part(&lengths.collect::<Vec<u8>>());
            }
            if let Some(Logged { reward, logprob }) = example.logged {
                part(&reward.to_le_bytes());
                part(&logprob.map(f32::to_le_bytes).unwrap_or_default());
            }
        }
    }
    Ok(hasher.finish().to_string())
}
