//! The CUDA stream of a GPU, with the context it belongs to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::result::{self, device, mem_pool};
use cudarc::driver::sys::{CUdevice_attribute, CUmemPool_attribute, CUresult};
use cudarc::driver::{CudaContext, CudaStream, DriverError};

use super::failure::{failed, no_room};
use crate::backend::DeviceError;

/// A context and its stream. What is done on the stream is done in order; memory lives at least as
/// long as the stream it was taken from.
pub(super) struct Stream {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    /// Whether memory can be taken and given back in the order of the stream.
    ordered: bool,
    /// Held while the stream is recorded: memory that another thread gives back meanwhile waits.
    recording: Mutex<()>,
}

impl Stream {
    /// A stream on GPU `index`, bound to this thread.
    pub(super) fn open(index: usize) -> Result<Self, DeviceError> {
        let open = || -> Result<Self, DriverError> {
            let context = CudaContext::new(index)?;
            #[expect(unsafe_code, reason = "the bindings' own bookkeeping would break recording")]
            // SAFETY: no slice of the bindings is ever made; the order is kept by the one stream.
            unsafe {
                context.disable_event_tracking();
            }
            let stream = context.new_stream()?;
            let ordered = context.has_async_alloc();
            let stream = Self { context, stream, ordered, recording: Mutex::new(()) };
            if ordered {
                stream.keep_memory()?;
            }
            Ok(stream)
        };
        open().map_err(|error| failed("opening the GPU", error))
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    pub(super) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Whether memory can be taken and given back in the order of the stream.
    pub(super) fn ordered(&self) -> bool {
        self.ordered
    }

    /// Makes the context this thread's. Everything else expects that.
    pub(super) fn bind(&self) -> Result<(), DeviceError> {
        self.context.bind_to_thread().map_err(|error| failed("binding the CUDA context", error))
    }

    /// The same for giving something back, where an earlier failure is no reason not to.
    pub(super) fn bind_anyway(&self) {
        // The first call may do nothing but tell of a failure of long ago.
        let bound = self.context.bind_to_thread().or_else(|_| self.context.bind_to_thread());
        self.context.record_err(bound);
    }

    /// Keeps others from changing the stream until dropped.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        // The lock guards no data that a panic could leave half done.
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all is done.
    pub(super) fn finish(&self) -> Result<(), DeviceError> {
        self.stream.synchronize().map_err(|error| failed("computing", error))
    }

    /// Bytes of free memory of the GPU.
    pub(super) fn free_bytes(&self) -> Result<usize, DeviceError> {
        self.bind()?;
        let (free, _) =
            result::mem_get_info().map_err(|error| failed("querying free memory", error))?;
        Ok(free)
    }

    /// An attribute of the GPU.
    pub(super) fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32, DeviceError> {
        self.context
            .attribute(attribute)
            .map_err(|error| failed("querying an attribute of the GPU", error))
    }

    /// `bytes` zeros that live until they are given to [`Stream::give_back`].
    pub(super) fn take(&self, bytes: usize) -> Result<u64, DeviceError> {
        #[expect(unsafe_code, reason = "memory as the driver gives it")]
        // SAFETY: nothing reads it before the zeros below are written.
        let take = || unsafe { result::malloc_sync(bytes) };
        let address = match take() {
            // What was given back in order is kept for the next such piece; let go of that first.
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) if self.ordered => {
                self.finish()?;
                self.trim().map_err(|error| failed("freeing device memory", error))?;
                take()
            }
            taken => taken,
        };
        let address = address.map_err(|error| no_room(bytes, "allocating device memory", error))?;
        self.zero(address, bytes)?;
        Ok(address)
    }

    /// `bytes` zeros, taken in the order of the stream.
    pub(super) fn take_in_order(&self, bytes: usize) -> Result<u64, DeviceError> {
        #[expect(unsafe_code, reason = "memory as the driver gives it")]
        // SAFETY: the stream lives; nothing reads the memory before the zeros below are written.
        let taken = unsafe { result::malloc_async(self.stream.cu_stream(), bytes) };
        let address = taken.map_err(|error| no_room(bytes, "allocating device memory", error))?;
        self.zero(address, bytes)?;
        Ok(address)
    }

    fn zero(&self, address: u64, bytes: usize) -> Result<(), DeviceError> {
        #[expect(unsafe_code, reason = "memory is named by its address")]
        // SAFETY: the address was just given for as many bytes.
        let zeroed = unsafe { result::memset_d8_async(address, 0, bytes, self.stream.cu_stream()) };
        zeroed.map_err(|error| failed("clearing memory", error))
    }

    /// Gives back what [`Stream::take`] gave, when all work so far is done.
    pub(super) fn give_back(&self, address: u64) {
        self.bind_anyway();
        let _guard = self.lock();
        self.context.record_err(self.stream.synchronize());
        #[expect(unsafe_code, reason = "memory is named by its address")]
        // SAFETY: the caller owns it and nothing that uses it is under way.
        self.context.record_err(unsafe { result::free_sync(address) });
    }

    /// Gives back what [`Stream::take_in_order`] gave, after the work so far.
    pub(super) fn give_back_in_order(&self, address: u64) {
        self.bind_anyway();
        let _guard = self.lock();
        #[expect(unsafe_code, reason = "memory is named by its address")]
        // SAFETY: the caller owns it and nothing that uses it will be put on the stream.
        let given = unsafe { result::free_async(address, self.stream.cu_stream()) };
        self.context.record_err(given);
    }

    /// Lets the pool keep what is given back in order, instead of returning it at every wait.
    fn keep_memory(&self) -> Result<(), DriverError> {
        let mut all = u64::MAX;
        let threshold = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        #[expect(unsafe_code, reason = "the bindings never set it")]
        // SAFETY: the device is this context's, and the attribute is an integer of 64 bits.
        unsafe {
            let pool = device::get_mem_pool(self.context.cu_device())?;
            mem_pool::set_attribute(pool, threshold, (&raw mut all).cast())
        }
    }

    /// Gives back what the pool keeps unused.
    fn trim(&self) -> Result<(), DriverError> {
        #[expect(unsafe_code, reason = "the bindings have no safe form of it")]
        // SAFETY: the device is this context's.
        unsafe {
            let pool = device::get_mem_pool(self.context.cu_device())?;
            mem_pool::trim_to(pool, 0)
        }
    }
}
