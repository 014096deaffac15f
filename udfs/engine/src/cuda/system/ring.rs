//! Which bytes of a few buffers the next copy to the device goes through, so that none is written
//! before the device has read what it held.

/// Copies begin at multiples of so many bytes.
const ALIGN: usize = 64;

/// Buffers of equal size, used in turn from the beginning of each to its end.
#[derive(Debug)]
pub(super) struct Ring {
    buffers: usize,
    bytes: usize,
    current: usize,
    used: usize,
}

/// Where some bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RingSlot {
    pub(super) buffer: usize,
    pub(super) offset: usize,
    /// How many; the others have a place of their own.
    pub(super) bytes: usize,
    /// The buffer that was left for this one, where it begins anew. The device may still read the
    /// copies that were made of either: the end of the former's is to be noted, the end of the
    /// latter's, noted when that was left, to be waited for.
    pub(super) left: Option<usize>,
}

impl Ring {
    /// At least two buffers, so that one is read while another is written.
    pub(super) fn new(buffers: usize, bytes: usize) -> Self {
        Self { buffers, bytes, current: 0, used: 0 }
    }

    /// A place for the first of `wanted` bytes, as many as a buffer holds.
    pub(super) fn place(&mut self, wanted: usize) -> RingSlot {
        let bytes = wanted.min(self.bytes);
        let mut left = None;
        if self.bytes - self.used < bytes {
            left = Some(self.current);
            self.current = (self.current + 1) % self.buffers;
            self.used = 0;
        }
        let place = RingSlot { buffer: self.current, offset: self.used, bytes, left };
        self.used = (self.used + bytes).next_multiple_of(ALIGN).min(self.bytes);
        place
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A device that reads copies as late as it may: when somebody waits for them.
    #[derive(Default)]
    struct Lazy {
        memory: Vec<u8>,
        pending: Vec<RingSlot>,
        noted: [usize; 3],
        done: usize,
    }

    impl Lazy {
        fn read(&mut self, buffers: &[Vec<u8>], until: usize) {
            for place in &self.pending[self.done.min(until)..until] {
                let end = place.offset + place.bytes;
                self.memory.extend(&buffers[place.buffer][place.offset..end]);
            }
            self.done = self.done.max(until);
        }
    }

    proptest! {
        #[test]
        fn the_device_reads_what_was_written(uploads in prop::collection::vec(0_usize..900, 1..80)) {
            let mut ring = Ring::new(3, 256);
            let mut buffers = vec![vec![0_u8; 256]; 3];
            let (mut lazy, mut all) = (Lazy::default(), Vec::<u8>::new());
            for (number, upload) in uploads.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..upload).map(|i| (i * 7 + number * 31) as u8).collect();
                all.extend(&bytes);
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let place = ring.place(rest.len());
                    prop_assert!(place.bytes > 0 && place.offset + place.bytes <= 256);
                    if let Some(left) = place.left {
                        lazy.noted[left] = lazy.pending.len();
                        let until = lazy.noted[place.buffer];
                        lazy.read(&buffers, until);
                    }
                    let (now, later) = rest.split_at(place.bytes);
                    buffers[place.buffer][place.offset..][..now.len()].copy_from_slice(now);
                    lazy.pending.push(place);
                    rest = later;
                }
            }
            let until = lazy.pending.len();
            lazy.read(&buffers, until);
            prop_assert_eq!(lazy.memory, all);
        }
    }

    #[test]
    fn small_copies_share_a_buffer() {
        let mut ring = Ring::new(2, 256);
        let places = [10, 100, 100, 1].map(|bytes| ring.place(bytes));
        assert_eq!(
            places.map(|place| (place.buffer, place.offset)),
            [(0, 0), (0, 64), (1, 0), (1, 128)]
        );
        assert_eq!(places.map(|place| place.left), [None, None, Some(0), None]);
    }
}
