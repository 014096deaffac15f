//! Inner products of a few queries with a few entries at a time.
//!
//! Lanes run over entries, not over dimensions: each score is one sum, in 32 bits, over the
//! dimensions in their order, a product and an addition rounded on their own. So a score depends on
//! its two vectors only, and is the same on every machine; the compiler still gets loops of fixed
//! length over neighbours, which it turns into vector instructions.

/// Entries that are scored at the same time.
pub(super) const LANES: usize = 16;

/// Queries that are scored at the same time. Two of them times 16 lanes fill half of the 16
/// registers of 128 bits that every x86-64 has; with more, sums spill to memory.
pub(super) const QUERIES: usize = 2;

/// For each dimension, the numbers of [`LANES`] entries.
pub(super) type Panel = [[f32; LANES]];

/// For each dimension, the numbers of [`QUERIES`] queries.
pub(super) type Bundle = [[f32; QUERIES]];

/// The inner product of every query with every entry.
pub(super) fn products(bundle: &Bundle, panel: &Panel) -> [[f32; LANES]; QUERIES] {
    let mut sums = [[0.0; LANES]; QUERIES];
    for (queries, entries) in bundle.iter().zip(panel) {
        for (sums, query) in sums.iter_mut().zip(queries) {
            for (sum, entry) in sums.iter_mut().zip(entries) {
                *sum += query * entry;
            }
        }
    }
    sums
}
