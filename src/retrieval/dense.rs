//! Postings of a frequent term as bits, so that asking "does this entry have it?" is one load.
//!
//! MaxScore asks the lists of frequent terms about single entries. A `seek` there unpacks a block
//! of 128 postings for nearly every question; two bits per entry answer it at once. Only an entry
//! that has the term more than once still needs the postings.

/// How often an entry has a term, as far as two bits tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occurs {
    /// Not at all.
    Never,
    Once,
    /// At least twice.
    Repeatedly,
}

/// Two bits per entry.
pub(super) struct Dense {
    words: Vec<u64>,
}

impl Dense {
    /// Bits for `documents` entries, none of which has the term yet.
    pub fn new(documents: u32) -> Self {
        Self { words: vec![0; (documents as usize).div_ceil(32)] }
    }

    /// Memory for `documents` entries.
    pub fn bytes(documents: u32) -> usize {
        (documents as usize).div_ceil(32) * 8
    }

    /// Notes that `doc` has the term `f` times, `f > 0`.
    pub fn set(&mut self, doc: u32, f: u32) {
        self.words[doc as usize / 32] |= u64::from(f.min(2)) << (doc % 32 * 2);
    }

    /// How often `doc` has the term.
    pub fn occurs(&self, doc: u32) -> Occurs {
        match self.words[doc as usize / 32] >> (doc % 32 * 2) & 3 {
            0 => Occurs::Never,
            1 => Occurs::Once,
            _ => Occurs::Repeatedly,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_do_not_disturb_each_other() {
        let mut dense = Dense::new(70);
        for (doc, f) in [(0, 1), (1, 2), (31, 9), (32, 1), (69, 3)] {
            dense.set(doc, f);
        }
        let found: Vec<u32> = (0..70).filter(|&doc| dense.occurs(doc) != Occurs::Never).collect();
        assert_eq!(found, [0, 1, 31, 32, 69]);
        assert_eq!(dense.occurs(32), Occurs::Once);
        assert_eq!(dense.occurs(31), Occurs::Repeatedly);
        assert_eq!(Dense::bytes(70), 24);
    }
}
