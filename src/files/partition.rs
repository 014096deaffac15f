//! Pieces of a source that can be read independently.

use std::ops::Range;

/// A run of whole files, or of row groups of Parquet files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    pub(super) pieces: Vec<Piece>,
}

/// The smallest piece: a text file, or row groups of a Parquet file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Number of the file.
    pub(super) file: usize,
    /// Row groups, for Parquet.
    pub(super) groups: Range<usize>,
    /// Records of the file before the piece.
    pub(super) records_before: u64,
    /// Its size in the file.
    pub(super) bytes: u64,
}

impl Partition {
    /// The bytes of the files that it covers, for progress.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

/// Packs `pieces`, in order, into at most `count` partitions of about the same size.
pub(super) fn pack(pieces: Vec<Piece>, count: usize) -> Vec<Partition> {
    let count = count.max(1);
    let total: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    let full = total.div_ceil(count as u64).max(1);
    let mut partitions: Vec<Partition> = Vec::new();
    for piece in pieces {
        let ready = partitions.len() == count;
        match partitions.last_mut() {
            Some(last) if ready || last.bytes() < full => last.add(piece),
            _ => partitions.push(Partition { pieces: vec![piece] }),
        }
    }
    partitions
}

impl Partition {
    /// Adds the next piece; neighbouring row groups become one.
    fn add(&mut self, piece: Piece) {
        match self.pieces.last_mut() {
            Some(last) if last.file == piece.file => {
                last.groups.end = piece.groups.end;
                last.bytes += piece.bytes;
            }
            _ => self.pieces.push(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(file: usize, groups: Range<usize>, bytes: u64) -> Piece {
        Piece { file, groups, records_before: 0, bytes }
    }

    #[test]
    fn pieces_stay_in_order_and_are_balanced() {
        let pieces = [5, 1, 1, 1, 4].into_iter().enumerate();
        let pieces: Vec<_> = pieces.map(|(file, bytes)| piece(file, 0..0, bytes)).collect();
        for count in 0..8 {
            let partitions = pack(pieces.clone(), count);
            assert!(partitions.len() <= count.max(1));
            let flat: Vec<_> = partitions.iter().flat_map(|part| part.pieces.clone()).collect();
            assert_eq!(flat, pieces);
        }
        let sizes: Vec<_> = pack(pieces, 3).iter().map(Partition::bytes).collect();
        assert_eq!(sizes, [5, 7]);
    }

    #[test]
    fn every_piece_can_stand_alone() {
        let pieces = vec![piece(0, 0..1, 3), piece(0, 1..2, 3), piece(1, 0..1, 9)];
        assert_eq!(pack(pieces.clone(), usize::MAX).len(), 3);
        let two = pack(pieces, 2);
        assert_eq!(two[0].pieces, [piece(0, 0..2, 6), piece(1, 0..1, 9)]);
    }
}
