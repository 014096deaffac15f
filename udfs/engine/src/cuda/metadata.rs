//! Attention metadata on the device.

use std::cell::Cell;
use std::cmp::Reverse;

use super::device::{Gpu, StagingBuffer};
use super::driver::{Driver, Launch, Memory};
use super::kernel::Kernel;
use super::memory::bucket;
use crate::backend::{
    AttentionMetadata, BLOCK_SLOTS, BlockRef, CacheShape, DeviceError, Segment, check,
};

/// Where a list is filled up.
const NO_SEGMENT: u32 = u32::MAX;
/// Rows of a unit of work for attention.
const UNIT_ROWS: usize = 64;
/// Most (row, head) pairs of a segment and head of keys that make one tile, see `attend.cu`.
const SHARED_TILE: usize = 16;
/// Thread blocks that share the blocks of a segment when slots are written.
const EXPAND_PARTS: usize = 4;
/// Threads of such a thread block.
const EXPAND_THREADS: usize = 256;

/// A [`AttentionMetadata`] on the device: lists of `u32`, each filled up to a bucket, and one slot per key,
/// which the device writes itself.
#[derive(Debug)]
pub struct GpuMetadata<M> {
    /// The same as the host knows it.
    pub(super) host: AttentionMetadata,
    numbers: Vec<u32>,
    order: Vec<u32>,
    lists: StagingBuffer<M>,
    slots: StagingBuffer<M>,
    addresses: Addresses,
    checked: Cell<Option<(AttentionQuery, Work)>>,
}

/// Where the lists are.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Addresses {
    /// `[segments][4]`: first row, rows, first key in `slots`, keys; filled up with zeros. In order of
    /// work: those with few rows first, among those the ones with many keys.
    pub(super) sorted: u64,
    /// `[segments][2]`: first row, rows, in the order of the batch; filled up with zeros.
    segments: u64,
    /// `[units][2]`: segment in order of work and first row in it of up to [`UNIT_ROWS`] rows, those
    /// of segments with many rows first.
    pub(super) units: u64,
    /// `[rows]`: the segment of each row, in order of work.
    pub(super) row_segments: u64,
    /// `[keys]`: where each key of each segment lies.
    pub(super) slots: u64,
}

/// What attention needs to know about a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AttentionQuery {
    /// Rows of the tensor.
    pub(super) rows: usize,
    pub(super) shape: CacheShape,
    /// Whether the rows must be the last of the keys.
    pub(super) last: bool,
    /// Heads that share a head of keys.
    pub(super) group: usize,
}

/// How much there is to do for a head of keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Segments that make one tile; they stand at the beginning of [`Addresses::sorted`].
    pub(super) few: usize,
    /// Units of the other segments; they stand at the beginning of [`Addresses::units`].
    pub(super) units: usize,
}

impl<M> Default for GpuMetadata<M> {
    fn default() -> Self {
        Self {
            host: AttentionMetadata::default(),
            numbers: Vec::new(),
            order: Vec::new(),
            lists: StagingBuffer::default(),
            slots: StagingBuffer::default(),
            addresses: Addresses::default(),
            checked: Cell::new(None),
        }
    }
}

impl<M: Memory> GpuMetadata<M> {
    /// Brings `from` to the device.
    pub(super) fn bring<D: Driver<Memory = M>>(
        &mut self,
        gpu: &mut Gpu<D>,
        from: &AttentionMetadata,
    ) -> Result<(), DeviceError> {
        self.host.segments.clone_from(&from.segments);
        self.host.blocks.clone_from(&from.blocks);
        self.checked.set(None);

        let segment = |id: u32| &from.segments[id as usize];
        let order = &mut self.order;
        order.clear();
        order.extend(0..from.segments.len() as u32);
        order.sort_unstable_by_key(|&id| (segment(id).rows, Reverse(segment(id).keys), id));

        let numbers = &mut self.numbers;
        numbers.clear();
        let room = bucket(order.len());
        let mut keys = 0;
        for segment in order.iter().map(|&id| segment(id)) {
            let own: u32 = blocks_of(from, segment).iter().map(used).sum();
            numbers.extend([segment.first_row, segment.rows, keys, own]);
            keys += own;
        }
        numbers.resize(4 * room, 0);

        let spans = numbers.len();
        let mut blocks = 0;
        for (place, &id) in order.iter().enumerate() {
            let count = blocks_of(from, segment(id)).len() as u32;
            numbers.extend([numbers[4 * place + 2], blocks, count]);
            blocks += count;
        }
        numbers.resize(spans + 3 * room, 0);

        let segments = numbers.len();
        numbers.extend(from.segments.iter().flat_map(|segment| [segment.first_row, segment.rows]));
        numbers.resize(segments + 2 * room, 0);

        let units = numbers.len();
        for (place, &id) in order.iter().enumerate().rev() {
            // Later rows read more keys.
            let firsts = (0..units_of(segment(id)) as u32).rev();
            numbers.extend(firsts.flat_map(|unit| [place as u32, unit * UNIT_ROWS as u32]));
        }
        let count = (numbers.len() - units) / 2;
        numbers.resize(units + 2 * bucket(count), NO_SEGMENT);

        let row_segments = numbers.len();
        let count: usize = from.segments.iter().map(|segment| segment.rows as usize).sum();
        numbers.resize(row_segments + bucket(count), NO_SEGMENT);
        for (place, &id) in order.iter().enumerate() {
            let first = row_segments + segment(id).first_row as usize;
            let own = numbers.get_mut(first..first + segment(id).rows as usize);
            own.unwrap_or_default().fill(place as u32);
        }

        let blocks = numbers.len();
        for &id in &*order {
            let mut first = 0;
            for block in blocks_of(from, segment(id)) {
                numbers.extend([block.block, used(block), first]);
                first += used(block);
            }
        }

        let start = self.lists.replace(gpu, numbers)?.address();
        let slots = self.slots.room(gpu, keys as usize * size_of::<u32>())?.address();
        let at = |begin: usize| start + (begin * size_of::<u32>()) as u64;
        self.addresses = Addresses {
            sorted: start,
            segments: at(segments),
            units: at(units),
            row_segments: at(row_segments),
            slots,
        };
        gpu.launch(
            Launch::new(Kernel::Expand, [room, EXPAND_PARTS, 1], EXPAND_THREADS)
                .cell(at(spans))
                .cell(at(blocks))
                .cell(slots),
        );
        Ok(())
    }

    /// Where the first row and the number of rows of each segment are: pairs of `u32`, filled up
    /// with zeros to `bucket(segments)`.
    pub(super) fn segments(&self) -> u64 {
        self.addresses.segments
    }

    /// Where all lists are.
    pub(super) fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// How much attention has to do, and that it fits the cache. The last answer is cached: all
    /// layers of a step ask the same.
    pub(super) fn work(&self, query: AttentionQuery) -> Result<Work, DeviceError> {
        if let Some((before, work)) = self.checked.get()
            && before == query
        {
            return Ok(work);
        }
        check::keys(&self.host, query.rows, query.shape, query.last)?;
        let is_few = |segment: &&Segment| segment.rows as usize * query.group <= SHARED_TILE;
        let segments = self.host.segments.iter();
        let few = segments.clone().filter(is_few).count();
        let units = segments.filter(|segment| !is_few(segment)).map(units_of).sum();
        let work = Work { few, units };
        self.checked.set(Some((query, work)));
        Ok(work)
    }
}

/// None if the metadata do not have them, which is an error when they are read.
fn blocks_of<'a>(metadata: &'a AttentionMetadata, segment: &Segment) -> &'a [BlockRef] {
    let first = segment.first_block as usize;
    metadata.blocks.get(first..first + segment.blocks as usize).unwrap_or(&[])
}

/// As many slots as a block has at most: more are an error when they are read.
fn used(block: &BlockRef) -> u32 {
    block.used.min(BLOCK_SLOTS as u32)
}

fn units_of(segment: &Segment) -> usize {
    (segment.rows as usize).div_ceil(UNIT_ROWS)
}
