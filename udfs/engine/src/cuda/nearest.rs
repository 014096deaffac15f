//! The nearest of many vectors by inner product.

use zerocopy::IntoBytes;

use super::device::{Gpu, StagingBuffer};
use super::driver::{Driver, Launch, Role};
use super::kernel::Kernel;
use crate::backend::{DeviceError, check};

/// Most vectors that can be requested at once.
const COUNT_MAX: usize = 128;
/// Queries that are searched for together.
const TOGETHER: usize = 64;
/// Queries of a block.
const QUERIES: usize = 32;
/// Vectors of a tile.
const VECTORS: usize = 128;
/// Blocks per processor: enough that one loads while another computes.
const BLOCKS: usize = 2;
/// Threads of a block.
const THREADS: usize = 256;

/// Vectors on a device, to be searched exactly.
pub struct Vectors<D: Driver> {
    memory: D::Memory,
    count: usize,
    width: usize,
    queries: StagingBuffer<D::Memory>,
    lists: StagingBuffer<D::Memory>,
    nearest: StagingBuffer<D::Memory>,
}

impl<D: Driver> Vectors<D> {
    /// Keeps `rows`, vectors of `width` numbers one after the other.
    ///
    /// # Errors
    /// If the device is out of memory, or `rows` are no whole vectors.
    pub fn new(gpu: &Gpu<D>, rows: &[f32], width: usize) -> Result<Self, DeviceError> {
        whole(rows, width)?;
        let memory = gpu.driver().alloc(Role::Weights, size_of_val(rows))?;
        gpu.driver().upload(rows.as_bytes(), &memory, 0)?;
        let count = rows.len() / width;
        check::expect(u32::try_from(count).is_ok(), || {
            format!("{count} vectors are too many; search them in parts")
        })?;
        let (queries, lists, nearest) = Default::default();
        Ok(Self { memory, count, width, queries, lists, nearest })
    }

    /// For each of `queries`, as wide as the vectors and one after the other: the numbers of the
    /// `count` (up to 128) vectors with the largest inner products, and these, largest first. The
    /// smaller number goes first where they are the same; what is NaN is never near. Fewer if there
    /// are no more.
    ///
    /// # Errors
    /// If `queries` are no whole vectors, `count` is above 128, or the device fails.
    pub fn nearest(
        &mut self,
        gpu: &mut Gpu<D>,
        queries: &[f32],
        count: usize,
    ) -> Result<Vec<Vec<(u32, f32)>>, DeviceError> {
        whole(queries, self.width)?;
        check::expect(count <= COUNT_MAX, || {
            format!("{count} nearest vectors were asked for; {COUNT_MAX} is the most")
        })?;
        let mut all = Vec::with_capacity(queries.len() / self.width);
        for queries in queries.chunks(TOGETHER * self.width) {
            if count == 0 || self.count == 0 {
                all.resize(all.len() + queries.len() / self.width, Vec::new());
                continue;
            }
            let keys = self.keys(gpu, queries, count)?;
            all.extend(
                keys.chunks(count).map(|keys| keys.iter().map_while(|&key| found(key)).collect()),
            );
        }
        Ok(all)
    }

    /// The keys of a few queries, `count` each, greatest first.
    fn keys(
        &mut self,
        gpu: &mut Gpu<D>,
        queries: &[f32],
        count: usize,
    ) -> Result<Vec<u64>, DeviceError> {
        let query_count = queries.len() / self.width;
        let tiles = self.count.div_ceil(VECTORS);
        let tiles_of_block = tiles.div_ceil(BLOCKS * gpu.driver().processors());
        let blocks = tiles.div_ceil(tiles_of_block);
        let queries = self.queries.replace(gpu, queries)?;
        let lists = self.lists.room(gpu, query_count * blocks * count * size_of::<u64>())?;
        let nearest = self.nearest.room(gpu, query_count * count * size_of::<u64>())?;
        gpu.launch(
            Launch::new(Kernel::NearestBlock, [blocks, query_count.div_ceil(QUERIES), 1], THREADS)
                .shared(QUERIES * count * size_of::<u64>())
                .at(queries)
                .u32(query_count)
                .at(&self.memory)
                .u32(self.count)
                .u32(self.width)
                .u32(count)
                .u32(tiles_of_block)
                .at(lists),
        );
        gpu.launch(
            Launch::new(Kernel::NearestMerge, [query_count, 1, 1], THREADS)
                .at(lists)
                .u32(blocks * count)
                .u32(count)
                .at(nearest),
        );
        gpu.numbers(nearest, 0, query_count * count)
    }
}

/// Fails unless `numbers` are whole vectors.
fn whole(numbers: &[f32], width: usize) -> Result<(), DeviceError> {
    check::expect(width > 0 && numbers.len().is_multiple_of(width), || {
        format!("expected whole vectors of {width} numbers, found {} numbers", numbers.len())
    })
}

/// The vector and the score of a key as `nearest.cu` makes it; none if there was no vector.
fn found(key: u64) -> Option<(u32, f32)> {
    let (rising, vector) = ((key >> 32) as u32, !(key as u32));
    let bits = if rising >> 31 == 1 { rising ^ (1 << 31) } else { !rising };
    (key != 0).then(|| (vector, f32::from_bits(bits)))
}
