//! Looking up many keys at once: indexes first, then a few range reads of the blocks that matter.

use std::ops::Range;
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use parquet::arrow::arrow_reader::RowSelection;

use crate::LedgerError;
use crate::entry::Answer;
use crate::error::Result;
use crate::index::Candidate;
use crate::index_cache::IndexCache;
use crate::record::Forgotten;
use crate::rows::answers_of;
use crate::segment_reader::{Columns, OpenSegment};
use crate::state::State;
use proofmill_base::digest::Digest;
use proofmill_store::{Store, StoreError};

/// Segments whose indexes one step looks at, and which it opens at the same time.
const SEGMENTS_AT_ONCE: usize = 16;
/// Range reads under way at a time.
const READS_AT_ONCE: usize = 8;
/// Bytes between two blocks that are read along rather than requested separately.
const GAP_BYTES_MAX: u64 = 256 << 10;
/// Bytes of one read, unless one block alone has more.
const READ_BYTES_MAX: u64 = 4 << 20;

/// One range of a segment with the blocks that are wanted of it.
struct Read {
    /// Number of the segment within its step.
    rank: usize,
    segment: Arc<OpenSegment>,
    range: Range<u64>,
    candidates: Vec<Candidate>,
    /// What of its rows counts no more.
    forgotten: Arc<[Forgotten]>,
}

/// The answers to `keys` that are in segments; the keys are sorted and each is there once.
pub(crate) async fn look_up(
    store: &Store,
    cache: &IndexCache,
    state: &State,
    keys: &[Digest],
) -> Result<Vec<Option<Arc<Answer>>>> {
    let mut found: Vec<Option<Arc<Answer>>> = vec![None; keys.len()];
    let mut open: Vec<usize> = (0..keys.len()).collect();
    for step in state.live.chunks(SEGMENTS_AT_ONCE) {
        if open.is_empty() {
            break;
        }
        let wanted: Arc<[Digest]> = open.iter().map(|number| keys[*number]).collect();
        let opening: Vec<_> = step.iter().map(|segment| cache.open(store, segment)).collect();
        let opened: Vec<Arc<OpenSegment>> =
            stream::iter(opening).buffered(READS_AT_ONCE).try_collect().await?;
        let mut reads = Vec::new();
        for (rank, segment) in opened.into_iter().enumerate() {
            let forgotten = state.concerning(step[rank].past);
            reads.extend(plan(rank, &segment, segment.index.find(&wanted), forgotten));
        }
        let reads: Vec<_> = reads.into_iter().map(|read| run(store, read, &wanted)).collect();
        let mut hits: Vec<Hit> = stream::iter(reads)
            .buffer_unordered(READS_AT_ONCE)
            .try_collect::<Vec<Vec<Hit>>>()
            .await?
            .into_iter()
            .flatten()
            .collect();
        // Of several answers, the one in the earliest segment counts.
        hits.sort_unstable_by_key(|hit| (hit.key, hit.rank));
        hits.dedup_by_key(|hit| hit.key);
        for hit in hits {
            found[open[hit.key]] = Some(hit.answer);
        }
        open.retain(|number| found[*number].is_none());
    }
    Ok(found)
}

/// The reads for the candidates in one segment, neighbouring blocks together.
fn plan(
    rank: usize,
    segment: &Arc<OpenSegment>,
    candidates: Vec<Candidate>,
    forgotten: &[Forgotten],
) -> Vec<Read> {
    let mut reads: Vec<Read> = Vec::new();
    if candidates.is_empty() {
        return reads;
    }
    let forgotten: Arc<[Forgotten]> = forgotten.into();
    for candidate in candidates {
        let Some(block) = segment.index.blocks().get(candidate.block) else { continue };
        let range = block.answers();
        match reads.last_mut() {
            Some(read)
                if range.start <= read.range.end.saturating_add(GAP_BYTES_MAX)
                    && range.end - read.range.start <= READ_BYTES_MAX =>
            {
                read.range.end = read.range.end.max(range.end);
                read.candidates.push(candidate);
            }
            // The same block again, although it alone is larger than a read.
            Some(read) if range.end <= read.range.end => read.candidates.push(candidate),
            _ => {
                let (segment, candidates) = (segment.clone(), vec![candidate]);
                let forgotten = Arc::clone(&forgotten);
                reads.push(Read { rank, segment, range, candidates, forgotten });
            }
        }
    }
    reads
}

/// An answer that was found.
struct Hit {
    /// Number of the key in the requested list.
    key: usize,
    rank: usize,
    answer: Arc<Answer>,
}

async fn run(store: &Store, read: Read, wanted: &Arc<[Digest]>) -> Result<Vec<Hit>> {
    let mut blocks: Vec<usize> = read.candidates.iter().map(|at| at.block).collect();
    blocks.dedup();
    let expected = read.segment.digests(Columns::Answers, blocks);
    let bytes = read.segment.read(store, read.range.clone(), &expected).await?;
    let wanted = wanted.clone();
    let decode = move || {
        let by_block = read.candidates.chunk_by(|a, b| a.block == b.block);
        by_block.map(|candidates| decode(&read, candidates, bytes.clone(), &wanted)).collect()
    };
    let hits: Result<Vec<Vec<Hit>>> =
        tokio::task::spawn_blocking(decode).await.map_err(StoreError::from)?;
    Ok(hits?.into_iter().flatten().collect())
}

/// The answers among the candidates of one block.
fn decode(
    read: &Read,
    candidates: &[Candidate],
    bytes: bytes::Bytes,
    wanted: &[Digest],
) -> Result<Vec<Hit>> {
    let Some(block) = candidates.first().map(|candidate| candidate.block) else {
        return Ok(Vec::new());
    };
    let malformed = |reason: String| {
        let key = read.segment.segment.key.to_string();
        LedgerError::Segment { key, reason }
    };
    let mut rows: Vec<usize> = candidates.iter().map(|candidate| candidate.row).collect();
    rows.dedup();
    let total = read.segment.index.blocks()[block].rows as usize;
    let selection =
        RowSelection::from_consecutive_ranges(rows.iter().map(|row| *row..row + 1), total);
    let at = (read.range.start, bytes);
    let batch = read.segment.decode(block, Columns::Answers, Some(selection), at)?;
    let answers = batch.map_or(Ok(Vec::new()), |batch| answers_of(&batch)).map_err(malformed)?;
    if answers.len() != rows.len() {
        return Err(malformed(format!("block {block} has other rows than its index")));
    }
    let answers: Vec<Arc<Answer>> = answers.into_iter().map(Arc::new).collect();
    let hit = |candidate: &Candidate| {
        let answer = &answers[rows.binary_search(&candidate.row).ok()?];
        let (key, rank) = (candidate.key, read.rank);
        let covers = |it: &Forgotten| it.forget.what.covers(&answer.key, &answer.origin.model);
        let counts = answer.key == wanted[key] && !read.forgotten.iter().any(covers);
        counts.then(|| Hit { key, rank, answer: answer.clone() })
    };
    Ok(candidates.iter().filter_map(hit).collect())
}
