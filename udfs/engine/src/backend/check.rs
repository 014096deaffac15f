//! Checks of the arguments of operations. A violation is a bug of the caller, and ends as an error
//! of the device instead of a panic.

use super::{
    Attend, AttentionMetadata, BLOCK_SLOTS, CacheShape, DeviceError, Input, KvWrite, Linear,
    LoadWeights, SamplingMetadata, SamplingMethod,
};

/// Fails with the message `what` unless `holds`.
pub(crate) fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), DeviceError> {
    if holds { Ok(()) } else { Err(DeviceError::Failed(what())) }
}

/// Every number of `list` is below `end`.
pub(crate) fn below(list: &[u32], end: usize, what: &str) -> Result<(), DeviceError> {
    match list.iter().find(|&&number| number as usize >= end) {
        None => Ok(()),
        Some(number) => {
            Err(DeviceError::Failed(format!("expected {what} below {end}, found {number}")))
        }
    }
}

/// Rows of a tensor have `wanted` numbers.
pub(crate) fn width(own: usize, wanted: usize) -> Result<(), DeviceError> {
    expect(own == wanted, || format!("expected a tensor of width {wanted}, found {own}"))
}

/// A tensor has capacity for `rows` rows.
pub(crate) fn room(capacity: usize, rows: usize) -> Result<(), DeviceError> {
    expect(rows <= capacity, || {
        format!("expected at most {capacity} rows in a tensor, found {rows}")
    })
}

/// A vector has `wanted` numbers.
pub(crate) fn len(own: usize, wanted: usize) -> Result<(), DeviceError> {
    expect(own == wanted, || format!("expected a vector of {wanted} numbers, found {own}"))
}

/// The list of `what` has an entry for each row.
pub(crate) fn one_per_row(len: usize, rows: usize, what: &str) -> Result<(), DeviceError> {
    expect(len == rows, || format!("expected {rows} {what}, one per row, found {len}"))
}

/// The blocks of a matrix have the same number of inputs: that number.
pub(crate) fn inputs(
    blocks: impl IntoIterator<Item = usize>,
    matrix: &dyn std::fmt::Debug,
) -> Result<usize, DeviceError> {
    let mut blocks = blocks.into_iter();
    let first = blocks.next().unwrap_or(0);
    expect(first > 0 && blocks.all(|inputs| inputs == first), || {
        format!("the blocks of a matrix must have the same number of inputs, above 0: {matrix:?}")
    })?;
    Ok(first)
}

/// A matrix of `outputs` by `inputs` is the one that `linear` says it has.
pub(crate) fn linear<B: LoadWeights>(
    linear: &Linear<B>,
    (outputs, inputs): (usize, usize),
) -> Result<(), DeviceError> {
    expect((linear.outputs, linear.inputs) == (outputs, inputs), || {
        let (wanted, of) = (linear.outputs, linear.inputs);
        format!("expected a matrix of {wanted} by {of}, found {outputs} by {inputs}")
    })
}

/// Rows and width of a table of embeddings.
#[derive(Clone, Copy)]
pub(crate) struct TableSize {
    pub rows: usize,
    pub width: usize,
}

/// Tokens and positions are in their tables, which are as wide as the rows; `positions` come with the row
/// that position 0 has.
pub(crate) fn embedding(
    rows: &Input,
    width: usize,
    tokens: TableSize,
    positions: Option<(TableSize, u32)>,
) -> Result<(), DeviceError> {
    let wide = |table: TableSize, what: &str| {
        expect(table.width == width, || {
            format!("expected {what} embeddings as wide as the rows, found {}", table.width)
        })
    };
    wide(tokens, "token")?;
    below(&rows.tokens, tokens.rows, "tokens")?;
    let Some((table, first)) = positions else { return Ok(()) };
    wide(table, "position")?;
    one_per_row(rows.positions.len(), rows.tokens.len(), "positions")?;
    below(&rows.positions, table.rows.saturating_sub(first as usize), "positions")
}

/// Rows that go on with sampled tokens are rows, and of their tokens there are `sampled`.
pub(crate) fn sampled_rows(rows: &Input, sampled: usize) -> Result<(), DeviceError> {
    for it in &rows.sampled {
        let fits = (it.row as usize) < rows.tokens.len() && (it.from as usize) < sampled;
        expect(fits, || {
            format!("{it:?} does not fit {} rows and {sampled} sampled tokens", rows.tokens.len())
        })?;
    }
    Ok(())
}

/// Keys and values of `rows` fit layer `layer` of a cache, and their positions the rotations. How many numbers a
/// rotation has: those of its cosines and of its sines.
pub(crate) fn write_kv<B: LoadWeights>(
    kv_write: &KvWrite<'_, B>,
    rows: &Input,
    count: usize,
    (shape, layer): (CacheShape, usize),
) -> Result<Option<usize>, DeviceError> {
    let &KvWrite { kv_heads, head_dim, rope, .. } = kv_write;
    let fits = (kv_heads, head_dim) == (shape.kv_heads, shape.head_dim) && layer < shape.layers;
    expect(fits, || format!("layer {layer}, {kv_heads} heads of {head_dim} do not fit {shape:?}"))?;
    one_per_row(rows.slots.len(), count, "slots")?;
    below(&rows.slots, shape.blocks * BLOCK_SLOTS, "slots")?;
    let Some(rope) = rope else { return Ok(None) };
    one_per_row(rows.positions.len(), count, "positions")?;
    below(&rows.positions, rope.positions, "positions")?;
    expect(head_dim.is_multiple_of(2), || {
        format!("expected an even head_dim for RoPE, found {head_dim}")
    })?;
    Ok(Some(rope.positions * head_dim / 2))
}

/// Queries of rows of `width` fit layer `layer` of a cache.
pub(crate) fn attend<B: LoadWeights>(
    attend: &Attend<'_, B>,
    width: usize,
    (shape, layer): (CacheShape, usize),
) -> Result<(), DeviceError> {
    let &Attend { heads, kv_heads, head_dim, .. } = attend;
    let fits = (kv_heads, head_dim) == (shape.kv_heads, shape.head_dim)
        && layer < shape.layers
        && kv_heads > 0
        && heads.is_multiple_of(kv_heads)
        && width >= heads * head_dim;
    expect(fits, || {
        format!(
            "layer {layer}, {heads} query heads and {kv_heads} key heads of {head_dim} do not fit \
             {shape:?} and rows {width} wide"
        )
    })
}

/// The segments cover the rows, each with at least one.
pub(crate) fn segments(metadata: &AttentionMetadata, rows: usize) -> Result<(), DeviceError> {
    let mut next = 0;
    for segment in &metadata.segments {
        let fits = segment.first_row == next && segment.rows > 0;
        expect(fits, || {
            format!("expected a segment that begins at row {next}, found {segment:?}")
        })?;
        next += segment.rows;
    }
    expect(next as usize == rows, || {
        format!("expected attention metadata of {rows} rows, found {next}")
    })
}

/// The segments cover the rows, and their keys are in the cache.
pub(crate) fn keys(
    metadata: &AttentionMetadata,
    rows: usize,
    shape: CacheShape,
    last: bool,
) -> Result<(), DeviceError> {
    segments(metadata, rows)?;
    for segment in &metadata.segments {
        let wrong = || format!("the keys of {segment:?} do not fit its blocks");
        let (first, count) = (segment.first_block as usize, segment.blocks as usize);
        let blocks = metadata.blocks.get(first..first + count);
        let blocks = blocks.ok_or_else(|| DeviceError::Failed(wrong()))?;
        let mut keys = 0;
        for block in blocks {
            let fits = (block.block as usize) < shape.blocks
                && (1..=BLOCK_SLOTS).contains(&(block.used as usize));
            expect(fits, || format!("there is no {block:?} in {:?}", shape))?;
            keys += block.used;
        }
        expect(keys == segment.keys && keys > 0, wrong)?;
        expect(!last || segment.rows <= keys, || {
            format!("the rows of {segment:?} cannot be the last of its keys")
        })?;
    }
    Ok(())
}

/// Each row has its sampling method, and tokens are in the vocabulary.
pub(crate) fn sampling(
    sampling: &SamplingMetadata,
    rows: usize,
    vocabulary: usize,
) -> Result<(), DeviceError> {
    one_per_row(sampling.rows.len(), rows, "rows to sample")?;
    below(&sampling.tokens, vocabulary, "tokens")?;
    let held = |first: u32, count: u32| first as usize + count as usize <= sampling.tokens.len();
    for row in &sampling.rows {
        let fits = match row.method {
            SamplingMethod::Greedy => true,
            SamplingMethod::Sample { temperature, .. } => temperature > 0.0,
            SamplingMethod::TopK { count } => count > 0,
            SamplingMethod::Score { token } => (token as usize) < vocabulary,
            SamplingMethod::Choices { first, tokens, count } => {
                held(first, tokens) && tokens > 0 && count > 0
            }
        };
        let listed = row.banned == 0 || held(row.first_banned, row.banned);
        let mask = row.first_mask as usize + row.mask_words as usize;
        expect(fits && listed && mask <= sampling.masks.len(), || {
            format!("{row:?} does not fit {vocabulary} tokens and its lists")
        })?;
    }
    Ok(())
}
