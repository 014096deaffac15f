//! Copies between the host and the GPU, through memory of the host that the GPU reads and writes by
//! itself.

use cudarc::driver::sys::{CU_MEMHOSTALLOC_WRITECOMBINED, CUevent_flags};
use cudarc::driver::{CudaEvent, DriverError, PinnedHostSlice, result};

use super::failure::failed;
use super::ring::Ring;
use super::stream::Stream;
use crate::backend::DeviceError;

/// Buffers for uploads: one is read by the GPU while another is written.
const BUFFERS: usize = 4;
/// Bytes of a buffer.
const BUFFER: usize = 8 << 20;

/// Copies to the GPU. They return when the bytes are in a buffer.
pub(super) struct Uploads {
    ring: Ring,
    buffers: Vec<Buffer>,
}

struct Buffer {
    /// Not cached by the processor, so only ever written.
    bytes: PinnedHostSlice<u8>,
    /// The end of the last copy out of it when it was last left.
    read: CudaEvent,
}

impl Uploads {
    /// No copies yet.
    pub(super) fn new(stream: &Stream) -> Result<Self, DeviceError> {
        let buffer = || {
            let bytes = pinned(stream, BUFFER, CU_MEMHOSTALLOC_WRITECOMBINED)?;
            let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING;
            Ok(Buffer { bytes, read: stream.context().new_event(Some(flags))? })
        };
        let buffers: Result<_, DriverError> = (0..BUFFERS).map(|_| buffer()).collect();
        let buffers = buffers.map_err(|error| failed("allocating pinned host memory", error))?;
        Ok(Self { ring: Ring::new(BUFFERS, BUFFER), buffers })
    }

    /// Copies `from` to `address`, after the work so far.
    ///
    /// The memory there must be of `from.len()` bytes and belong to `stream`.
    pub(super) fn copy(
        &mut self,
        stream: &Stream,
        mut from: &[u8],
        mut address: u64,
    ) -> Result<(), DeviceError> {
        while !from.is_empty() {
            let place = self.ring.place(from.len());
            let (now, later) = from.split_at(place.bytes);
            let mut copy = || -> Result<(), DriverError> {
                if let Some(left) = place.left {
                    self.buffers[left].read.record(stream.stream())?;
                    self.buffers[place.buffer].read.synchronize()?;
                }
                let bytes = self.buffers[place.buffer].bytes.as_mut_slice()?;
                let bytes = &mut bytes[place.offset..][..now.len()];
                bytes.copy_from_slice(now);
                #[expect(unsafe_code, reason = "memory is named by its address")]
                // SAFETY: the caller vouches for the address. The buffer lives until the stream is
                // finished, and nobody writes these bytes again before `read` says they were read.
                unsafe {
                    result::memcpy_htod_async(address, bytes, stream.stream().cu_stream())
                }
            };
            copy().map_err(|error| failed("copying to the GPU", error))?;
            address += now.len() as u64;
            from = later;
        }
        Ok(())
    }
}

/// Copies from the GPU.
pub(super) struct Downloads {
    buffer: PinnedHostSlice<u8>,
}

impl Downloads {
    /// No copies yet.
    pub(super) fn new(stream: &Stream) -> Result<Self, DeviceError> {
        // Without flags the processor caches it: what cannot be cached is read slowly.
        let buffer = pinned(stream, BUFFER, 0);
        Ok(Self { buffer: buffer.map_err(|error| failed("allocating pinned host memory", error))? })
    }

    /// Copies what is at `address` when all work so far is done.
    ///
    /// The memory there must be of `to.len()` bytes and belong to `stream`.
    pub(super) fn copy(
        &mut self,
        stream: &Stream,
        mut address: u64,
        to: &mut [u8],
    ) -> Result<(), DeviceError> {
        for piece in to.chunks_mut(BUFFER) {
            let mut copy = || -> Result<(), DriverError> {
                let bytes = &mut self.buffer.as_mut_slice()?[..piece.len()];
                #[expect(unsafe_code, reason = "memory is named by its address")]
                // SAFETY: the caller vouches for the address. The stream is waited for before
                // anybody touches the buffer.
                let begun = unsafe {
                    result::memcpy_dtoh_async(bytes, address, stream.stream().cu_stream())
                };
                begun.and_then(|()| stream.stream().synchronize())?;
                piece.copy_from_slice(bytes);
                Ok(())
            };
            copy().map_err(|error| failed("computing and copying from the GPU", error))?;
            address += piece.len() as u64;
        }
        Ok(())
    }
}

/// Memory of the host that the GPU reads and writes by itself.
fn pinned(stream: &Stream, bytes: usize, flags: u32) -> Result<PinnedHostSlice<u8>, DriverError> {
    #[expect(unsafe_code, reason = "memory as the driver gives it")]
    // SAFETY: it is filled before anybody reads it.
    let mut pinned = unsafe { stream.context().alloc_pinned_with_flags::<u8>(bytes, flags) }?;
    pinned.as_mut_slice()?.fill(0);
    Ok(pinned)
}
