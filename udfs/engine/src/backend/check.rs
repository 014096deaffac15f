//! Whether what an operation is told fits together. A mistake here is one of the caller, and ends
//! as an error of the device instead of a panic.

use super::{BLOCK_SLOTS, CacheShape, DeviceError, How, Layout, Picks};

/// Fails with `what` unless `holds`.
pub(crate) fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), DeviceError> {
    if holds { Ok(()) } else { Err(DeviceError::Failed(what())) }
}

/// Every number of `list` is below `end`.
pub(crate) fn below(list: &[u32], end: usize, what: &str) -> Result<(), DeviceError> {
    match list.iter().find(|&&number| number as usize >= end) {
        None => Ok(()),
        Some(number) => {
            Err(DeviceError::Failed(format!("there are {end} {what}, but not number {number}")))
        }
    }
}

/// Rows of a tensor have `wanted` numbers.
pub(crate) fn width(own: usize, wanted: usize) -> Result<(), DeviceError> {
    expect(own == wanted, || format!("a tensor is {own} wide instead of {wanted}"))
}

/// A tensor has room for `rows` rows.
pub(crate) fn room(capacity: usize, rows: usize) -> Result<(), DeviceError> {
    expect(rows <= capacity, || format!("{rows} rows do not fit a tensor with room for {capacity}"))
}

/// A vector has `wanted` numbers.
pub(crate) fn len(own: usize, wanted: usize) -> Result<(), DeviceError> {
    expect(own == wanted, || format!("a vector has {own} numbers instead of {wanted}"))
}

/// The list of `what` has an entry for each row.
pub(crate) fn one_per_row(len: usize, rows: usize, what: &str) -> Result<(), DeviceError> {
    expect(len == rows, || format!("there are {rows} rows but {len} {what}"))
}

/// The segments cover the rows, each with at least one.
pub(crate) fn segments(layout: &Layout, rows: usize) -> Result<(), DeviceError> {
    let mut next = 0;
    for segment in &layout.segments {
        let fits = segment.first_row == next && segment.rows > 0;
        expect(fits, || format!("row {next} is followed by the segment {segment:?}"))?;
        next += segment.rows;
    }
    expect(next as usize == rows, || format!("the layout is of {next} rows instead of {rows}"))
}

/// The segments cover the rows, and their keys are in the cache.
pub(crate) fn keys(
    layout: &Layout,
    rows: usize,
    shape: CacheShape,
    last: bool,
) -> Result<(), DeviceError> {
    segments(layout, rows)?;
    for segment in &layout.segments {
        let wrong = || format!("the keys of {segment:?} do not fit its blocks");
        let (first, count) = (segment.first_block as usize, segment.blocks as usize);
        let blocks = layout.blocks.get(first..first + count);
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

/// There is a pick per row, and tokens are in the vocabulary.
pub(crate) fn picks(picks: &Picks, rows: usize, vocabulary: usize) -> Result<(), DeviceError> {
    one_per_row(picks.picks.len(), rows, "picks")?;
    below(&picks.tokens, vocabulary, "tokens")?;
    let held = |first: u32, count: u32| first as usize + count as usize <= picks.tokens.len();
    for pick in &picks.picks {
        let fits = match pick.how {
            How::Greedy => true,
            How::Sample { temperature, .. } => temperature > 0.0,
            How::Top { count } => count > 0,
            How::Given { token } => (token as usize) < vocabulary,
            How::Among { first, tokens, count } => held(first, tokens) && tokens > 0 && count > 0,
        };
        let listed = pick.banned == 0 || held(pick.first_banned, pick.banned);
        expect(fits && listed, || {
            format!("{pick:?} does not fit {vocabulary} tokens and its lists")
        })?;
    }
    Ok(())
}
