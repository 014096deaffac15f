//! The records that the kernels of `pick.cu` read: how each row is sampled, and where its results go.

use std::ops::Range;

use super::super::memory::bucket;
use crate::backend::{DeviceError, RowSampling, SamplingMetadata, SamplingMethod, is_allowed};

/// 32-bit words of a record.
pub(super) const RECORD: usize = 12;
/// Cells that every row has: its log-sum-exp and its likeliest token.
pub(super) const OWN_CELLS: usize = 2;

/// The kind of a record, as the kernels number it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RecordKind {
    #[default]
    Nothing = 0,
    Stats = 1,
    Top = 2,
    Sample = 3,
}

/// `PickRow` of `pick.cu`.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    kind: RecordKind,
    banned: [u32; 2],
    wanted: [u32; 2],
    first_result: u32,
    count: u32,
    temperature: f32,
    share: f32,
    noise: u64,
    /// Where the mask begins among the lists, plus one; 0 where there is none.
    mask: u32,
}

impl Record {
    fn words(self) -> [u32; RECORD] {
        let [first_banned, banned] = self.banned;
        let [first_wanted, wanted] = self.wanted;
        [
            self.kind as u32,
            first_banned,
            banned,
            first_wanted,
            wanted,
            self.first_result,
            self.count,
            self.temperature.to_bits(),
            self.share.to_bits(),
            self.noise as u32,
            (self.noise >> 32) as u32,
            self.mask,
        ]
    }
}

/// The records of some rows.
#[derive(Debug, Default)]
pub(super) struct SamplerRecords {
    /// A record for each row, filled up to those that are launched with empty ones, then lists of tokens.
    pub(super) words: Vec<u32>,
    /// Where the lists begin in `words`.
    pub(super) lists: usize,
    /// The cells of each row's results, beside its own, from the first row's on.
    pub(super) results: Vec<Range<usize>>,
    pub(super) cells: usize,
    /// Whether a row needs top-k.
    pub(super) top: bool,
    /// Whether a row needs a sample.
    pub(super) sample: bool,
}

impl SamplerRecords {
    /// The records of `all`, for launches of up to `at_once` rows, each of which counts its cells from its own
    /// first row's on.
    pub(super) fn new(
        all: &SamplingMetadata,
        at_once: usize,
        vocabulary: usize,
    ) -> Result<Self, DeviceError> {
        let last = all.rows.len() % at_once;
        let launched = all.rows.len() - last + bucket(last);
        let mut requested = Self { cells: OWN_CELLS * launched, ..Self::default() };
        let mut tokens = all.tokens.clone();
        for (index, row) in all.rows.iter().enumerate() {
            let first_result = requested.cells - OWN_CELLS * (index - index % at_once);
            let first_result =
                u32::try_from(first_result).map_err(|_| too_many(requested.cells))?;
            let banned = [row.first_banned, row.banned];
            let mask =
                all.mask(row).map_or(Ok(0), |mask| whole_mask(&mut tokens, mask, vocabulary))?;
            let mut record =
                Record { kind: RecordKind::Stats, banned, first_result, mask, ..Record::default() };
            let cells = match row.method {
                SamplingMethod::Greedy => 0,
                SamplingMethod::Score { token } => {
                    record.wanted = wanted(&mut tokens, &[token])?;
                    1
                }
                SamplingMethod::Choices { first, tokens: count, .. } => {
                    let mut candidates = candidates(list(all, first, count), banned_of(all, row));
                    if let Some(mask) = all.mask(row) {
                        candidates.retain(|token| is_allowed(mask, *token));
                    }
                    record.wanted = wanted(&mut tokens, &candidates)?;
                    candidates.len()
                }
                SamplingMethod::TopK { count } => {
                    requested.top = true;
                    record.kind = RecordKind::Top;
                    record.count = count.min(vocabulary as u32);
                    record.count as usize
                }
                SamplingMethod::Sample { temperature, top_k, top_p, rng } => {
                    requested.sample = true;
                    record.kind = RecordKind::Sample;
                    record.count = top_k;
                    record.temperature = temperature;
                    record.share = top_p;
                    record.noise = rng.state();
                    1
                }
            };
            requested.results.push(requested.cells..requested.cells + cells);
            requested.cells += cells;
            requested.words.extend(record.words());
        }
        requested.words.resize(launched * RECORD, 0);
        requested.lists = requested.words.len();
        requested.words.extend(tokens);
        Ok(requested)
    }
}

/// Part of the lists of tokens that rows point to.
fn list(all: &SamplingMetadata, first: u32, count: u32) -> &[u32] {
    &all.tokens[first as usize..][..count as usize]
}

/// The tokens that may not be chosen.
fn banned_of<'a>(all: &'a SamplingMetadata, row: &RowSampling) -> &'a [u32] {
    if row.banned == 0 { &[] } else { list(all, row.first_banned, row.banned) }
}

/// Tokens that can be chosen, each once.
fn candidates(tokens: &[u32], banned: &[u32]) -> Vec<u32> {
    let mut banned = banned.to_vec();
    banned.sort_unstable();
    let mut tokens = tokens.to_vec();
    tokens.sort_unstable();
    tokens.dedup();
    tokens.retain(|token| banned.binary_search(token).is_err());
    tokens
}

/// Adds a mask with a bit for each token of the vocabulary: where it begins, plus one.
fn whole_mask(tokens: &mut Vec<u32>, mask: &[u32], vocabulary: usize) -> Result<u32, DeviceError> {
    let words = vocabulary.div_ceil(u32::BITS as usize);
    let [first, _] = wanted(tokens, &mask[..mask.len().min(words)])?;
    tokens.resize(first as usize + words, 0);
    first.checked_add(1).ok_or_else(|| too_many(tokens.len()))
}

/// Adds a list of tokens: where it begins and how many there are.
fn wanted(tokens: &mut Vec<u32>, more: &[u32]) -> Result<[u32; 2], DeviceError> {
    let place = [tokens.len(), more.len()].map(u32::try_from);
    tokens.extend_from_slice(more);
    match place {
        [Ok(first), Ok(count)] => Ok([first, count]),
        _ => Err(too_many(tokens.len())),
    }
}

fn too_many(numbers: usize) -> DeviceError {
    DeviceError::OutOfMemory { bytes: numbers.saturating_mul(size_of::<u64>()) }
}
