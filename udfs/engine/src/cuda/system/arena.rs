//! Memory for pieces of one role: a few large slabs, each cut from its beginning to its end and given
//! back when its last piece is.

use std::sync::{Arc, Weak};

use crate::backend::DeviceError;

/// Pieces begin at multiples of so many bytes.
const ALIGN: usize = 256;
/// Bytes of a slab, unless a piece is larger or there is not that much.
const SLAB: usize = 256 << 20;

/// The slabs of a role that still have room. They are kept alive by their pieces alone.
pub(super) struct Arena<S> {
    open: Vec<Open<S>>,
}

struct Open<S> {
    slab: Weak<S>,
    used: usize,
    bytes: usize,
}

impl<S> Default for Arena<S> {
    fn default() -> Self {
        Self { open: Vec::new() }
    }
}

impl<S> Arena<S> {
    /// Room for `bytes`: a slab and where in it they begin. `make` makes a slab of a size.
    pub(super) fn take(
        &mut self,
        bytes: usize,
        make: impl Fn(usize) -> Result<S, DeviceError>,
    ) -> Result<(Arc<S>, usize), DeviceError> {
        let too_many = DeviceError::OutOfMemory { bytes };
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGN).ok_or(too_many)?;
        self.open.retain(|open| open.slab.strong_count() > 0);
        for open in self.open.iter_mut().filter(|open| open.bytes - open.used >= bytes) {
            if let Some(slab) = open.slab.upgrade() {
                let offset = open.used;
                open.used += bytes;
                return Ok((slab, offset));
            }
        }
        let room = bytes.max(SLAB);
        let (slab, room) = match make(room) {
            Err(DeviceError::OutOfMemory { .. }) if room > bytes => (make(bytes)?, bytes),
            made => (made?, room),
        };
        let slab = Arc::new(slab);
        if room > bytes {
            let slab = Arc::downgrade(&slab);
            self.open.push(Open { slab, used: bytes, bytes: room });
        }
        Ok((slab, 0))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    /// A device with so many bytes; a slab gives back its own when dropped.
    struct Slab {
        id: usize,
        bytes: usize,
        free: Rc<Cell<usize>>,
    }

    impl Drop for Slab {
        fn drop(&mut self) {
            self.free.set(self.free.get() + self.bytes);
        }
    }

    struct Fake {
        free: Rc<Cell<usize>>,
        made: RefCell<Vec<usize>>,
    }

    impl Fake {
        fn new(bytes: usize) -> Self {
            Self { free: Rc::new(Cell::new(bytes)), made: RefCell::default() }
        }

        fn make(&self, bytes: usize) -> Result<Slab, DeviceError> {
            let left = self.free.get().checked_sub(bytes);
            self.free.set(left.ok_or(DeviceError::OutOfMemory { bytes })?);
            self.made.borrow_mut().push(bytes);
            Ok(Slab { id: self.made.borrow().len() - 1, bytes, free: Rc::clone(&self.free) })
        }
    }

    #[test]
    fn small_pieces_share_a_slab_and_a_large_one_has_its_own() {
        let (fake, mut arena) = (Fake::new(1 << 40), Arena::default());
        let mut take = |bytes| arena.take(bytes, |bytes| fake.make(bytes)).unwrap();
        let (first, large, second) = (take(1), take(SLAB + 1), take(0));
        assert_eq!([first.0.id, large.0.id, second.0.id], [0, 1, 0]);
        assert_eq!([first.1, large.1, second.1], [0, 0, ALIGN]);
        assert_eq!(*fake.made.borrow(), [SLAB, SLAB + ALIGN]);
    }

    #[test]
    fn where_no_slab_fits_a_piece_may() {
        let (fake, mut arena) = (Fake::new(1000), Arena::default());
        let (slab, _) = arena.take(500, |bytes| fake.make(bytes)).unwrap();
        assert_eq!(slab.bytes, 512);
        let error = arena.take(500, |bytes| fake.make(bytes)).err();
        assert_eq!(error, Some(DeviceError::OutOfMemory { bytes: 512 }));
        drop(slab);
        assert!(arena.take(500, |bytes| fake.make(bytes)).is_ok());
    }

    #[test]
    fn too_many_bytes_are_refused() {
        let fake = Fake::new(1 << 40);
        let error = Arena::default().take(usize::MAX, |bytes| fake.make(bytes)).err();
        assert_eq!(error, Some(DeviceError::OutOfMemory { bytes: usize::MAX }));
    }

    proptest! {
        /// Some pieces are taken, some given back: living ones never overlap, all begin where they
        /// may and lie in their slab, and when all are gone so are the slabs.
        #[test]
        fn pieces_do_not_overlap(
            steps in prop::collection::vec((1_usize..SLAB * 3 / 2, any::<prop::sample::Index>(), any::<bool>()), 1..60)
        ) {
            let (fake, mut arena) = (Fake::new(1 << 50), Arena::default());
            let mut alive: Vec<(Arc<Slab>, usize, usize)> = Vec::new();
            for (bytes, which, back) in steps {
                if back && !alive.is_empty() {
                    alive.swap_remove(which.index(alive.len()));
                    continue;
                }
                let (slab, at) = arena.take(bytes, |bytes| fake.make(bytes)).unwrap();
                prop_assert!(at % ALIGN == 0 && at + bytes <= slab.bytes);
                for (other, start, length) in &alive {
                    prop_assert!(other.id != slab.id || at >= start + length || at + bytes <= *start);
                }
                alive.push((slab, at, bytes));
            }
            alive.clear();
            prop_assert_eq!(fake.free.get(), 1 << 50);
        }
    }
}
