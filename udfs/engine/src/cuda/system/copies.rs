//! Copies between the host and the GPU, through memory of the host that the GPU reads and writes by
//! itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
/// Least bytes of a buffer for what a step samples.
const LANDING: usize = 64 << 10;

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
                // finished, and nothing writes these bytes again before `read` says they were read.
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

/// Copies from the GPU that are waited for one by one, while it goes on.
#[derive(Default)]
pub(super) struct Landings {
    free: Arc<Mutex<Vec<Landing>>>,
}

/// Where one of them goes.
struct Landing {
    buffer: PinnedHostSlice<u8>,
    /// The end of the last copy to it.
    landed: CudaEvent,
}

/// A copy from the GPU that was begun. Dropped, it leaves its place to another, which comes after it on the stream.
pub struct PendingCopy {
    landing: Option<Landing>,
    bytes: usize,
    free: Arc<Mutex<Vec<Landing>>>,
}

impl Landings {
    /// Begins to copy the `bytes` at `address`, as they are when all work so far is done.
    ///
    /// The memory there must be of so many bytes and belong to `stream`.
    pub(super) fn begin(
        &mut self,
        stream: &Stream,
        address: u64,
        bytes: usize,
    ) -> Result<PendingCopy, DeviceError> {
        let mut free = unlocked(&self.free);
        let fits = free.iter().position(|landing| landing.buffer.len() >= bytes);
        let landing = fits.map(|at| Ok(free.swap_remove(at)));
        drop(free);
        let allocate = || -> Result<Landing, DriverError> {
            let buffer = pinned(stream, bytes.next_power_of_two().max(LANDING), 0)?;
            let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING;
            Ok(Landing { buffer, landed: stream.context().new_event(Some(flags))? })
        };
        let landing = landing.unwrap_or_else(allocate);
        let landing = landing.map_err(|error| failed("allocating pinned host memory", error))?;
        let mut pending =
            PendingCopy { landing: Some(landing), bytes, free: Arc::clone(&self.free) };
        pending.enqueue(stream, address).map_err(|error| failed("copying from the GPU", error))?;
        Ok(pending)
    }
}

impl PendingCopy {
    fn enqueue(&mut self, stream: &Stream, address: u64) -> Result<(), DriverError> {
        let Some(landing) = &mut self.landing else { return Ok(()) };
        let bytes = &mut landing.buffer.as_mut_slice()?[..self.bytes];
        #[expect(unsafe_code, reason = "memory is named by its address")]
        // SAFETY: the caller vouches for the address. The buffer lives until the stream is finished: it is never
        // freed before its pool is, and that goes with the last copy and the device. Nothing reads
        // these bytes before `landed` says that they are written.
        unsafe {
            result::memcpy_dtoh_async(bytes, address, stream.stream().cu_stream())?;
        }
        landing.landed.record(stream.stream())
    }

    /// Waits for it, and copies what came to `to`, which is as long.
    pub(super) fn end(mut self, to: &mut [u8]) -> Result<(), DeviceError> {
        let Some(landing) = &mut self.landing else { return Ok(()) };
        let bytes = self.bytes;
        let mut copy = || -> Result<(), DriverError> {
            landing.landed.synchronize()?;
            let length = to.len().min(bytes);
            to[..length].copy_from_slice(&landing.buffer.as_mut_slice()?[..length]);
            Ok(())
        };
        copy().map_err(|error| failed("computing and copying from the GPU", error))
    }
}

impl Drop for PendingCopy {
    fn drop(&mut self) {
        unlocked(&self.free).extend(self.landing.take());
    }
}

fn unlocked(free: &Mutex<Vec<Landing>>) -> MutexGuard<'_, Vec<Landing>> {
    // A panic cannot leave the list half changed.
    free.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of the host that the GPU reads and writes by itself.
fn pinned(stream: &Stream, bytes: usize, flags: u32) -> Result<PinnedHostSlice<u8>, DriverError> {
    #[expect(unsafe_code, reason = "memory as the driver gives it")]
    // SAFETY: it is filled before anybody reads it.
    let mut pinned = unsafe { stream.context().alloc_pinned_with_flags::<u8>(bytes, flags) }?;
    pinned.as_mut_slice()?.fill(0);
    Ok(pinned)
}
