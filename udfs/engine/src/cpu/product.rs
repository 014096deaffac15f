//! Products with weights, shared by threads: each takes some rows, or some outputs where rows are few.

use std::ops::Range;

use proofmill_gemm::{Buffer, Level, PANEL, Scratch};

use super::epilogue::Epilogue;
use super::matrix::{Matrix, Weights};
use super::team::{PIECES_PER_THREAD, share};
use crate::backend::{DeviceError, Write};

/// Pieces have whole tiles of rows.
const TILE_ROWS: usize = 12;

/// Scratch memory of one thread.
#[derive(Default)]
pub(super) struct Member {
    products: Scratch,
    /// Of attention.
    pub(super) floats: Buffer<f32>,
}

/// `epilogue(x W^T)`.
#[derive(Clone, Copy)]
pub(super) struct Product<'a> {
    pub(super) level: Level,
    pub(super) matrix: &'a Matrix,
    pub(super) epilogue: Epilogue<'a>,
}

impl Product<'_> {
    /// Products of numbers that it is made of.
    pub(super) fn size(self, x: &[f32]) -> usize {
        x.len().saturating_mul(self.matrix.n)
    }

    /// Writes it to `out`, on as many threads as there are `members`.
    pub(super) fn run(
        self,
        members: &mut [Member],
        x: &[f32],
        out: &mut [f32],
    ) -> Result<(), DeviceError> {
        let &Matrix { n, k, .. } = self.matrix;
        let (rows, pieces) = (x.len() / k, members.len() * PIECES_PER_THREAD);
        if let [member] = members {
            return self.part(member, x, 0..n, out);
        }
        if rows >= members.len() * TILE_ROWS {
            let size = rows.div_ceil(pieces).next_multiple_of(TILE_ROWS);
            let pieces = x.chunks(size * k).zip(out.chunks_mut(size * n));
            return share(members, pieces, |member, (x, out)| self.part(member, x, 0..n, out));
        }
        let size = n.div_ceil(pieces).next_multiple_of(PANEL);
        let columns = (0..n).step_by(size).map(|first| first..n.min(first + size));
        let mut parts: Vec<(Range<usize>, Vec<f32>)> = columns
            .map(|columns| {
                let before = |row: &[f32]| row[columns.clone()].to_vec();
                let part = match self.epilogue.write {
                    Write::Add => out.chunks_exact(n).flat_map(before).collect(),
                    Write::Store => vec![0.0; rows * columns.len()],
                };
                (columns, part)
            })
            .collect();
        share(members, parts.iter_mut(), |member, (columns, part)| {
            self.part(member, x, columns.clone(), part)
        })?;
        for (columns, part) in parts {
            for (out, part) in out.chunks_exact_mut(n).zip(part.chunks_exact(columns.len())) {
                out[columns.clone()].copy_from_slice(part);
            }
        }
        Ok(())
    }

    /// The outputs `columns` of some rows.
    fn part(
        self,
        member: &mut Member,
        x: &[f32],
        columns: Range<usize>,
        out: &mut [f32],
    ) -> Result<(), DeviceError> {
        let (level, epilogue, scratch) = (self.level, self.epilogue, &mut member.products);
        match &self.matrix.weights {
            Weights::F32(panels) => panels.multiply(level, x, columns, epilogue, out, scratch)?,
            Weights::Int8(panels) => panels.multiply(level, x, columns, epilogue, out, scratch)?,
        }
        Ok(())
    }
}
